"""A CMake project: a library target, and the example as a program."""

from __future__ import annotations

from .project import Layout, Project


def cmake(project: Project) -> Layout:
    """``add_subdirectory`` gives ``NAME_zo``, a static library; by itself the folder builds the example."""
    example = {"main.cc": project.example(), **project.samples}
    glue = {
        "CMakeLists.txt": project.fill(
            "cmake/CMakeLists.txt.in",
            example=sorted(path for path in example if path.endswith(".cc")),
        ),
        "README.md": project.readme("cmake/use.md.in"),
    }
    return Layout({**project.sources, **example, **glue}, frozenset(example))
