"""An ESP-IDF component, and the example as a project."""

from __future__ import annotations

from typing import Final

from .project import Layout, Project

_ENTRY: Final = """extern "C" void app_main() { Train(); }
"""


def esp_idf(project: Project) -> Layout:
    """The folder goes into the project's ``components``."""
    folder = f"examples/{project.name}"
    program = {f"{folder}/main/main.cc": project.example(entry=_ENTRY)}
    program |= {f"{folder}/main/{path}": text for path, text in project.samples.items()}
    example = {
        **program,
        f"{folder}/CMakeLists.txt": project.fill("esp_idf/example_CMakeLists.txt.in"),
        f"{folder}/sdkconfig.defaults": project.fill("esp_idf/sdkconfig.defaults.in"),
        f"{folder}/main/CMakeLists.txt": project.fill("esp_idf/main_CMakeLists.txt.in"),
        f"{folder}/main/idf_component.yml": project.fill("esp_idf/main_idf_component.yml.in"),
    }
    glue = {
        "idf_component.yml": project.fill("esp_idf/idf_component.yml.in"),
        "CMakeLists.txt": project.fill("esp_idf/CMakeLists.txt.in"),
        "README.md": project.readme("esp_idf/use.md.in", example=f"{folder}/main/"),
    }
    return Layout({**project.sources, **example, **glue}, frozenset(example))
