"""Every platform's build glue: parsed by the rules of its build system, executed if tools are here.

The C++ sources need headers of TensorFlow Lite Micro; tests/tflm_checkout/test_firmware_warnings.py compiles them. The
C sources are compiled here, from the list of the Makefile fragment, and in test_compilers.py by every compiler.
"""

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

import tflm_zo
from cortex_m.emulator import CORES
from helpers.firmware_folders import COMMAND, compiled, firmware, included, needs_cmake, run, write
from tflm_zo.firmware import PLATFORMS
from tflm_zo.firmware.op_pack import op_pack_folder

STRICT = ("-Wall", "-Wextra", "-Wshadow", "-Wconversion", "-pedantic", "-Werror")
ARM = "arm-none-eabi-"


# Names of C99 and C++, and of compilers for their own instruction sets.
STANDARD = {
    *("stdbool.h", "stddef.h", "stdint.h", "string.h", "stdio.h", "stdarg.h", "new", "cstddef", "cstdint"),
    "initializer_list",  # for a loop over a list in braces
    *("arm_acle.h", "arm_mve.h", "emmintrin.h"),
}


needs_make = pytest.mark.skipif(shutil.which("make") is None, reason="NO make: NO GLUE WAS EXECUTED")
needs_arm = pytest.mark.skipif(
    shutil.which(f"{ARM}gcc") is None, reason=f"NO {ARM}gcc: NO SOURCE WAS COMPILED FOR A CORTEX-M"
)


# --- all platforms ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("platform", PLATFORMS)
def test_same_sources_everywhere(platform: str, kind: str) -> None:
    # But for Arduino's names, the one include that its older libraries do not have, and its own header.
    def sources(of: str) -> dict[str, str]:
        files = {
            re.sub(r"\.cpp$", ".cc", path.removeprefix("src/") if of == "arduino" else path): text
            for path, text in firmware(of, kind).files.items()
            if not path.startswith(("examples/", "samples/")) and path.endswith((".h", ".c", ".cc", ".cpp"))
        }
        for own in ("small_zo_arduino.h", "small_zo.h", "main.cc", "small_zo_samples.cc"):
            files.pop(own, None)
        files["small_zo_trainer.h"] = re.sub(r"#include .*", "#include", files["small_zo_trainer.h"])
        # Structs, and with them the arena, are larger without TF_LITE_STATIC_MEMORY.
        files["small_zo_config.h"] = re.sub(r"ARENA_BYTES \d+", "ARENA_BYTES", files["small_zo_config.h"])
        return files

    every, found = sources("cmake"), sources(platform)
    if platform == "esp-idf":  # has no code for Arm; test_reachability.py compares the rest
        for own in ("small_zo_ops.c", "small_zo_ops_internal.h"):
            assert len(found.pop(own)) < len(every.pop(own))
    assert found == every


def is_switched_off(text: str, header: str, root: Path) -> bool:
    """Returns True if a header of a paper's variant is included only under a switch that is off."""
    guard = re.search(rf'#if (\w+_WITH_\w+)\n(?:#include .*\n)*?#include "{re.escape(header)}"', text)
    op_pack = "".join(path.read_text() for path in root.glob("*_zo_ops.[hc]"))
    return guard is not None and f"#define {guard[1]} 0\n" in op_pack


@pytest.mark.parametrize("platform", PLATFORMS)
def test_folder_is_self_contained(platform: str, kind: str, tmp_path: Path) -> None:
    folder = write(tmp_path / "out", platform, kind)
    root = folder / "src" if platform == "arduino" else folder
    for path in folder.rglob("*"):
        if not path.is_file():
            continue
        text = path.read_text(encoding="utf-8")
        assert "@{" not in text, path
        assert str(op_pack_folder().parent) not in text and str(tmp_path) not in text, path
        assert not re.search(r"(?<![\w.)}\w])/(home|root|tmp|usr|work|opt)/", text), path
        if path.suffix not in (".h", ".c", ".cc", ".cpp"):
            continue
        quoted, angled = included(path)
        assert set(angled) <= STANDARD | {"Arduino.h"}, path
        for name in quoted:
            # Builders of Arduino have src on the include path, and nothing else.
            found = name.startswith("tensorflow/") or (path.parent / name).is_file() or (root / name).is_file()
            assert found or is_switched_off(text, name, root), f"{path}: {name}"


@pytest.mark.parametrize("platform", PLATFORMS)
def test_readme_says_how(platform: str) -> None:
    made = firmware(platform)
    text = made.files["README.md"]
    assert COMMAND in text
    for path in re.findall(r"`((?:src/|examples/|samples/)?[\w./]*\.(?:h|cc|cpp|sha256))`", text):
        assert path in made.files or path == "TensorFlowLite.h", path
    said = {
        "cmake": "add_subdirectory(path/to/this/folder)",
        "make": "include path/to/this/folder/small_zo.mk",
        "arduino": "#include <small_zo.h>",
        "zephyr": "CONFIG_TFLM_ZO_SMALL=y",
        "esp-idf": "`components`",
    }
    assert said[platform] in text


# --- CMake --------------------------------------------------------------------------------------------------


@needs_cmake
def test_cmake_lists_every_source(kind: str, tmp_path: Path) -> None:
    # A checkout as far as the file looks at it; nothing is built.
    header = tmp_path / "tflm/tensorflow/lite/micro/micro_interpreter.h"
    header.parent.mkdir(parents=True)
    header.touch()
    (tmp_path / "lib.a").touch()
    folder = write(tmp_path / "out", "cmake", kind)
    options = [f"-DTFLM_DIR={tmp_path}/tflm", f"-DTFLM_LIBRARY={tmp_path}/lib.a"]
    run("cmake", "-S", folder, "-B", tmp_path / "b", "-DCMAKE_EXPORT_COMPILE_COMMANDS=ON", *options)
    commands = json.loads((tmp_path / "b/compile_commands.json").read_text())
    listed = {Path(c["file"]).relative_to(folder).as_posix(): c["command"] for c in commands}
    assert set(listed) == compiled(folder) | {"main.cc", "small_zo_samples.cc"}
    for path, command in listed.items():
        assert "-DTF_LITE_STATIC_MEMORY" in command and "-DTF_LITE_STRIP_ERROR_STRINGS" in command
        assert f"-I{folder}" in command, path

    command = ["cmake", "-S", folder, "-B", tmp_path / "c", "-DTFLM_DIR=/nowhere"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode != 0 and "TFLM_DIR is no checkout" in done.stderr


@needs_cmake
def test_cmake_in_a_project_and_names_that_are_cmakes_own(tmp_path: Path) -> None:
    header = tmp_path / "tflm/tensorflow/lite/micro/micro_interpreter.h"
    header.parent.mkdir(parents=True)
    header.touch()
    (tmp_path / "lib.a").touch()
    write(tmp_path / "out", "cmake")
    (tmp_path / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.18)\nproject(own C CXX)\nenable_testing()\n"
        f"set(TFLM_DIR {tmp_path}/tflm)\nadd_subdirectory(out)\n"
        "add_executable(own own.cc)\ntarget_link_libraries(own PRIVATE small_zo)\n"
    )
    (tmp_path / "own.cc").write_text(
        '#include "small_zo_config.h"\nint main() { return SMALL_ZO_STEPS == 3 ? 0 : 1; }\n'
    )
    run("cmake", "-S", tmp_path, "-B", tmp_path / "b", "-DCMAKE_EXPORT_COMPILE_COMMANDS=ON")
    files = {Path(c["file"]).name for c in json.loads((tmp_path / "b/compile_commands.json").read_text())}
    assert "own.cc" in files and "small_zo_ops.c" in files and "main.cc" not in files
    # A model that is called like a target of CMake's own.
    text = "".join(t.replace("small", "test") for p, t in firmware("cmake").files.items() if p == "CMakeLists.txt")
    (tmp_path / "out/CMakeLists.txt").write_text(text)
    for path in (tmp_path / "out").rglob("small_*"):
        path.rename(path.with_name(path.name.replace("small", "test", 1)))
    options = [f"-DTFLM_DIR={tmp_path}/tflm", f"-DTFLM_LIBRARY={tmp_path}/lib.a"]
    run("cmake", "-S", tmp_path / "out", "-B", tmp_path / "t", *options)


# --- Make ---------------------------------------------------------------------------------------------------

MAKEFILE = """
all: $(SMALL_ZO_C_OBJS)
include {folder}/small_zo.mk
all: $(SMALL_ZO_C_OBJS)
lists:
\t@printf '%s\\n' $(foreach v,{names},$(addprefix $(v)=,$($(v))))
"""


OWN_LISTS = ("C_SRCS", "CC_SRCS", "HDRS", "EXAMPLE_SRCS", "LIBRARY", "DEFINES", "C_OBJS")
LISTS = tuple(f"SMALL_ZO_{name}" for name in OWN_LISTS)


def make(tmp_path: Path, folder: Path, target: str, *settings: str) -> str:
    (tmp_path / "Makefile").write_text(MAKEFILE.format(folder=folder.name, names=" ".join(LISTS)))
    return run("make", "--no-print-directory", "-f", "Makefile", *settings, target, folder=tmp_path)


@needs_make
def test_make_lists_every_file(kind: str, tmp_path: Path) -> None:
    folder = write(tmp_path / "out", "make", kind)
    lists: dict[str, list[str]] = {name: [] for name in LISTS}
    for line in make(tmp_path, folder, "lists").splitlines():
        name, _, value = line.partition("=")
        lists[name].append(value.removeprefix("out/"))
    assert sorted(lists["SMALL_ZO_C_SRCS"] + lists["SMALL_ZO_CC_SRCS"]) == sorted(compiled(folder))
    assert all(path.endswith(".c") for path in lists["SMALL_ZO_C_SRCS"])
    assert all(path.endswith(".cc") for path in lists["SMALL_ZO_CC_SRCS"])
    headers = {p.relative_to(folder).as_posix() for p in folder.rglob("*.h")}
    assert set(lists["SMALL_ZO_HDRS"]) == headers
    assert lists["SMALL_ZO_EXAMPLE_SRCS"] == ["main.cc", "small_zo_samples.cc"]
    assert lists["SMALL_ZO_LIBRARY"] == ["build/small_zo/libsmall_zo.a"]
    assert lists["SMALL_ZO_DEFINES"] == ["-DTF_LITE_STATIC_MEMORY", "-DTF_LITE_STRIP_ERROR_STRINGS"]
    plain = make(tmp_path, folder, "lists", "TFLM_STRIP_ERROR_STRINGS=0")
    assert "STRIP" not in plain and "SMALL_ZO_DEFINES=-DTF_LITE_STATIC_MEMORY" in plain


@pytest.mark.slow
@needs_make
@needs_arm
def test_make_builds_the_c_sources(tmp_path: Path) -> None:
    folder = write(tmp_path / "out", "make")
    core = CORES["cortex-m4"]
    tools = [f"CC={ARM}gcc", f"CXX={ARM}g++", f"AR={ARM}ar", f"TARGET_FLAGS={' '.join(core.flags)}"]
    tools += [f"CFLAGS={' '.join(STRICT)}", "SMALL_ZO_BUILD_DIR=b"]
    said = make(tmp_path, folder, "all", *tools)
    objects = {p.relative_to(tmp_path / "b").with_suffix(".c").as_posix() for p in tmp_path.rglob("b/**/*.o")}
    assert objects == {path for path in compiled(folder) if path.endswith(".c")}
    assert said.count(" -c ") == len(objects) and said.count(" -std=c99 ") == len(objects)
    assert " -c " not in make(tmp_path, folder, "all", *tools)
    # A changed header rebuilds its includers.
    header = folder / "small_zo_ops.h"
    header.write_text(header.read_text() + "\n")
    again = make(tmp_path, folder, "all", *tools)
    assert "small_zo_ops.c" in again


# --- Arduino ------------------------------------------------------------------------------------------------

# Of the library specification, revision 2.2.
ARDUINO_REQUIRED = {"name", "version", "author", "maintainer", "sentence", "paragraph", "category", "url"}
ARDUINO_REQUIRED |= {"architectures"}
ARDUINO_OPTIONAL = {"depends", "dot_a_linkage", "includes", "precompiled", "ldflags"}
ARDUINO_CATEGORIES = {
    *("Display", "Communication", "Signal Input/Output", "Sensors", "Device Control", "Timing"),
    *("Data Storage", "Data Processing", "Other"),
}


def test_arduino_library_properties(tmp_path: Path) -> None:
    folder = write(tmp_path / "out", "arduino")
    lines = (folder / "library.properties").read_text(encoding="utf-8").splitlines()
    pairs = [line.split("=", 1) for line in lines]
    assert all(len(pair) == 2 and pair[1] == pair[1].strip() != "" for pair in pairs)
    found = dict(map(tuple, pairs))
    assert len(found) == len(pairs)
    assert set(found) >= ARDUINO_REQUIRED and set(found) - ARDUINO_REQUIRED <= ARDUINO_OPTIONAL
    name = found["name"]
    assert re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9 _.-]{0,62}", name) and re.search("[A-Za-z]", name)
    assert not name.lower().startswith("arduino") and "small" in name
    assert re.fullmatch(r"\d+\.\d+\.\d+", found["version"]) and found["version"] == tflm_zo.__version__
    assert found["category"] in ARDUINO_CATEGORIES
    assert found["architectures"] == "*"
    assert found["url"].startswith("https://")
    assert found["depends"] == "Arduino_TensorFlowLite"
    dependency, own = found["includes"].split(",")
    assert dependency == "TensorFlowLite.h" and (folder / "src" / own).is_file()
    # With the longest possible name, the folder and the library have names of 63 characters at most.
    assert len("tflm_zo_") + 48 <= 63


def test_arduino_layout(kind: str, tmp_path: Path) -> None:
    folder = write(tmp_path / "out", "arduino", kind)
    # Everything below src is compiled; .cc is no suffix to all builders.
    assert {p.suffix for p in (folder / "src").rglob("*") if p.is_file()} == {".c", ".cpp", ".h"}
    assert compiled(folder) == compiled(folder, below="src") != set()
    sketch = folder / "examples/small/small.ino"
    assert {p.name for p in sketch.parent.iterdir()} == {*("small.ino", "zo_train.cpp", "small_zo_samples.cpp")}
    text = sketch.read_text()
    assert re.findall(r"^#include <(.+)>", text, re.M) == ["TensorFlowLite.h", "small_zo.h"]
    assert "void setup() {" in text and "void loop()" in text
    train = (sketch.parent / "zo_train.cpp").read_text()
    assert "printf(" not in train.replace("vsnprintf(", "") and "bool ZoTrain()" in train
    # No macro can be given to an Arduino build: the headers have them.
    types = "".join((folder / f"src/small_zo_ops{of}").read_text() for of in (".h", "_internal.h", ".c"))
    assert re.findall(r"#define SMALL_ZO_MAX_QUERIES (\d+)", types) == [{"node": "32", "weight": "1"}[kind]]
