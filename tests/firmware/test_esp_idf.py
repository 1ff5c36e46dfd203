"""Generated folders as components of ESP-IDF, by the rules of its build system."""

import re
from pathlib import Path

import pytest

import tflm_zo
from helpers.firmware_folders import compiled, needs_cmake, run, write

yaml = pytest.importorskip("yaml", reason="PyYAML is not installed: manifests were not parsed")
# Of the manifest's reference.
ESP_KEYS = {"version", "description", "url", "repository", "documentation", "issues", "tags", "targets"}
ESP_KEYS |= {"license", "maintainers", "dependencies", "files", "examples"}
ESP_DEPENDENCY = {"version", "public", "require", "path", "override_path", "git", "rules", "matches"}
ESP_STUBS = """
cmake_minimum_required(VERSION 3.16)
project(stub NONE)
function(idf_component_register)
  cmake_parse_arguments(_ "" "" "SRCS;INCLUDE_DIRS;REQUIRES;PRIV_REQUIRES" ${ARGN})
  file(APPEND ${CMAKE_BINARY_DIR}/calls
    "${CMAKE_CURRENT_SOURCE_DIR}|${__SRCS}|${__INCLUDE_DIRS}|${__UNPARSED_ARGUMENTS}\\n")
endfunction()
add_subdirectory(out)
add_subdirectory(out/examples/small/main)
"""


def test_esp_manifests(tmp_path: Path) -> None:
    folder = write(tmp_path / "out", "esp-idf")
    manifest = yaml.safe_load((folder / "idf_component.yml").read_text())
    assert set(manifest) <= ESP_KEYS
    assert re.fullmatch(r"\d+\.\d+\.\d+", manifest["version"])
    assert manifest["version"] == tflm_zo.__version__
    dependencies = manifest["dependencies"]
    assert set(dependencies) == {"idf", "espressif/esp-tflite-micro"}
    for dependency in dependencies.values():
        assert set(dependency) <= ESP_DEPENDENCY
        assert re.fullmatch(r">=\d+(\.\d+)+", dependency["version"])
    # Our headers include TFLM's, so they are public dependencies.
    assert dependencies["espressif/esp-tflite-micro"]["public"] is True

    main = folder / "examples/small/main"
    example = yaml.safe_load((main / "idf_component.yml").read_text())
    assert set(example) == {"dependencies"} and set(example["dependencies"]) == {"small_zo"}
    path = example["dependencies"]["small_zo"]["path"]
    assert (main / path).resolve() == folder


@needs_cmake
def test_esp_cmake(kind: str, tmp_path: Path) -> None:
    folder = write(tmp_path / "out", "esp-idf", kind)
    (tmp_path / "CMakeLists.txt").write_text(ESP_STUBS)
    run("cmake", "-S", tmp_path, "-B", tmp_path / "b")
    component, main = (line.split("|") for line in (tmp_path / "b/calls").read_text().splitlines())
    assert component[0] == str(folder)
    assert sorted(component[1].split(";")) == sorted(compiled(folder))
    assert component[2:] == [".", ""]
    assert main[0] == str(folder / "examples/small/main")
    assert main[1].split(";") == ["main.cc", "small_zo_samples.cc"] and main[2:] == [".", ""]
    assert all((folder / "examples/small/main" / name).is_file() for name in main[1].split(";"))
    program = (folder / "examples/small/main/main.cc").read_text()
    assert 'extern "C" void app_main()' in program and "int main(" not in program


@needs_cmake
def test_esp_example_project(tmp_path: Path) -> None:
    folder = write(tmp_path / "out", "esp-idf")
    tools = tmp_path / "idf/tools/cmake"
    tools.mkdir(parents=True)
    (tools / "project.cmake").write_text(
        "macro(project name)\n  file(WRITE ${CMAKE_BINARY_DIR}/name ${name})\n  _project(${name} NONE)\nendmacro()\n"
    )
    command = ["cmake", "-S", folder / "examples/small", "-B", tmp_path / "b"]
    run("env", f"IDF_PATH={tmp_path}/idf", *command)
    assert (tmp_path / "b/name").read_text() == "small"
