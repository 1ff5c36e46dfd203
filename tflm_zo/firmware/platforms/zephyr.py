"""A Zephyr module: a library that Kconfig switches on, and the example as an application."""

from __future__ import annotations

from ..source_text import fill, own
from .project import Layout, Project


def zephyr(project: Project) -> Layout:
    """The folder goes into ``EXTRA_ZEPHYR_MODULES``."""
    folder = f"samples/{project.name}"
    common = {"name": project.name, **own(project.name), "option": project.name.upper(), "command": project.command}
    example = {
        f"{folder}/src/main.cc": project.example(),
        **{f"{folder}/src/{path}": text for path, text in project.samples.items()},
        f"{folder}/CMakeLists.txt": fill("zephyr/sample_CMakeLists.txt.in", **common),
        f"{folder}/prj.conf": fill("zephyr/prj.conf.in", **common),
    }
    glue = {
        "zephyr/module.yml": fill("zephyr/module.yml.in", **common),
        "Kconfig": fill("zephyr/Kconfig.in", **common),
        "CMakeLists.txt": fill(
            "zephyr/CMakeLists.txt.in", **common, sources="\n".join(f"    {path}" for path in project.compiled())
        ),
        "README.md": project.readme("zephyr/use.md.in", example=f"{folder}/src/"),
    }
    return Layout({**project.sources, **example, **glue}, frozenset(example))
