# SPDX-License-Identifier: Apache-2.0
"""A CMake project: a library target, and the example as a program."""

from __future__ import annotations

from ..source_text import fill
from .project import Project


def cmake(project: Project) -> dict[str, str]:
    """``add_subdirectory`` gives ``NAME_zo``, a static library; by itself the folder builds the example."""
    return {
        **project.sources,
        **project.example,
        "CMakeLists.txt": fill(
            "cmake/CMakeLists.txt.in",
            name=project.name,
            command=project.command,
            sources="\n".join(f"  {path}" for path in project.compiled()),
            example="\n".join(f"    {path}" for path in project.compiled_example()),
            definitions="\n".join(f"  {name}={value}" for name, value in project.definitions.items()),
        ),
        "README.md": fill("cmake/README.md.in", name=project.name, command=project.command),
    }
