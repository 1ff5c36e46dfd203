"""A Zephyr module: a library that Kconfig switches on, and the example as an application."""

from __future__ import annotations

from .project import Layout, Project


def zephyr(project: Project) -> Layout:
    """The folder goes into ``EXTRA_ZEPHYR_MODULES``."""
    folder = f"samples/{project.name}"
    example = {
        f"{folder}/src/main.cc": project.example(),
        **{f"{folder}/src/{path}": text for path, text in project.samples.items()},
        f"{folder}/CMakeLists.txt": project.fill("zephyr/sample_CMakeLists.txt.in"),
        f"{folder}/prj.conf": project.fill("zephyr/prj.conf.in"),
    }
    glue = {
        "zephyr/module.yml": project.fill("zephyr/module.yml.in"),
        "Kconfig": project.fill("zephyr/Kconfig.in"),
        "CMakeLists.txt": project.fill("zephyr/CMakeLists.txt.in"),
        "README.md": project.readme("zephyr/use.md.in", example=f"{folder}/src/"),
    }
    return Layout({**project.sources, **example, **glue}, frozenset(example))
