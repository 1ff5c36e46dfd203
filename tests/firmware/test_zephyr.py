"""Generated folders as modules of Zephyr, by the rules of its build system."""

import re
from pathlib import Path

import pytest

from helpers.firmware_folders import compiled, needs_cmake, run, write

yaml = pytest.importorskip("yaml", reason="PyYAML is not installed: manifests were not parsed")
ZEPHYR_BUILD = {"cmake": str, "kconfig": str, "depends": list, "settings": dict}
ZEPHYR_STUBS = """
cmake_minimum_required(VERSION 3.18)
project(stub NONE)
foreach(name zephyr_library zephyr_library_sources zephyr_include_directories)
  function(${name})
    file(APPEND ${CMAKE_BINARY_DIR}/calls "${CMAKE_CURRENT_FUNCTION};${ARGN}\\n")
  endfunction()
endforeach()
add_subdirectory(out)
"""


def kconfig(text: str) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for line in text.splitlines():
        if match := re.fullmatch(r"config (\w+)", line):
            found[match[1]] = own = []
        elif line.startswith("\t"):
            own.append(line.strip())
        else:
            assert not line or line.startswith("#"), line
    return found


def test_zephyr_module(tmp_path: Path) -> None:
    folder = write(tmp_path / "out", "zephyr")
    module = yaml.safe_load((folder / "zephyr/module.yml").read_text())
    assert set(module) == {"name", "build"} and module["name"] == "small_zo"
    for key, value in module["build"].items():
        assert isinstance(value, ZEPHYR_BUILD[key])
    assert (folder / module["build"]["cmake"] / "CMakeLists.txt").is_file()
    assert module["build"]["depends"] == ["tflite-micro"]
    options = kconfig((folder / module["build"]["kconfig"]).read_text())
    assert list(options) == ["TFLM_ZO_SMALL"]
    lines = options["TFLM_ZO_SMALL"]
    assert re.fullmatch(r'bool "[^"]+"', lines[0])
    assert {"depends on TENSORFLOW_LITE_MICRO", "depends on CPP", "help"} <= set(lines)
    configuration = (folder / "samples/small/prj.conf").read_text()
    assert {"CONFIG_CPP=y", "CONFIG_TENSORFLOW_LITE_MICRO=y", "CONFIG_TFLM_ZO_SMALL=y"} <= set(
        configuration.splitlines()
    )


@needs_cmake
def test_zephyr_cmake(kind: str, tmp_path: Path) -> None:
    folder = write(tmp_path / "out", "zephyr", kind)
    (tmp_path / "CMakeLists.txt").write_text(ZEPHYR_STUBS)
    run("cmake", "-S", tmp_path, "-B", tmp_path / "off")
    assert not (tmp_path / "off/calls").exists()
    run("cmake", "-S", tmp_path, "-B", tmp_path / "on", "-DCONFIG_TFLM_ZO_SMALL=y")
    calls = [line.split(";") for line in (tmp_path / "on/calls").read_text().splitlines()]
    assert [call[0] for call in calls] == ["zephyr_library", "zephyr_include_directories", "zephyr_library_sources"]
    assert calls[1][1:] == [str(folder)]
    assert sorted(calls[2][1:]) == sorted(compiled(folder))


@needs_cmake
def test_zephyr_sample(tmp_path: Path) -> None:
    folder = write(tmp_path / "out", "zephyr")
    # find_package(Zephyr) as Zephyr's own does it: a package that defines the target `app`.
    package = tmp_path / "base/share/zephyr-package/cmake"
    package.mkdir(parents=True)
    (package / "ZephyrConfig.cmake").write_text(
        "file(WRITE ${CMAKE_BINARY_DIR}/modules ${EXTRA_ZEPHYR_MODULES})\n"
        'function(target_sources)\n  file(WRITE ${CMAKE_BINARY_DIR}/sources "${ARGN}")\nendfunction()\n'
        "macro(project)\n  _project(${ARGN} NONE)\nendmacro()\n"
    )
    sample = folder / "samples/small"
    run("cmake", "-S", sample, "-B", tmp_path / "b", f"-DZephyr_DIR={package}")
    assert (tmp_path / "b/modules").read_text() == f"{sample}/../.."
    sources = (tmp_path / "b/sources").read_text().split(";")
    assert sources == ["app", "PRIVATE", "src/main.cc", "src/small_zo_samples.cc"]
    assert all((sample / path).is_file() for path in sources[2:])
