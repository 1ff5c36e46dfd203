"""Generated C++ against the headers of a real checkout, for every core and compiler: no warning.

TFLM_DIR is a checkout of tflite-micro in which its own Makefile has fetched its third-party code. The C
sources need none, and are compiled in tests/firmware/test_platforms.py.
"""

import shutil
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from cortex_m.emulator import CORES, run
from helpers.firmware_folders import ALGORITHMS, compiled, write
from tflm_checkout.firmware_build import LIBRARIES, TFLM_DIR
from tflm_zo.firmware import arena

HERE = Path(__file__).parent
ARM = "arm-none-eabi-"
WARNINGS = ("-Wall", "-Wextra", "-Wshadow", "-Wconversion", "-Werror")
CXX = ("-fno-exceptions", "-fno-rtti", "-fno-threadsafe-statics")
CLANG_TARGETS = {"Cortex-M": "arm-none-eabi", "RISC-V": "riscv32-unknown-elf"}
STATIC = ("-DTF_LITE_STATIC_MEMORY", "-DTF_LITE_STRIP_ERROR_STRINGS")

if TFLM_DIR is None:
    reason = "TFLM_DIR IS NOT SET: NO GENERATED C++ WAS COMPILED (a checkout of tflite-micro is needed)"
    pytestmark = pytest.mark.skip(reason=reason)
elif shutil.which(f"{ARM}g++") is None:
    pytestmark = pytest.mark.skip(reason=f"NO {ARM}g++: NO GENERATED C++ WAS COMPILED")


def checked(*command: Any, folder: Path | None = None) -> str:
    done = subprocess.run([str(c) for c in command], cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, f"{' '.join(map(str, command))}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def tflm_includes() -> list[str]:
    root = Path(str(TFLM_DIR))
    downloads = root / "tensorflow/lite/micro/tools/make/downloads"
    paths = [root, *(downloads / name for name in ("flatbuffers/include", "gemmlowp", "ruy"))]
    return [f"-isystem{path}" for path in paths]


@cache
def library_includes(core: str) -> list[str]:
    """Lists headers of the C and C++ libraries of a core's GCC, for another compiler."""
    tool = [*tool_of(core), "-E", "-Wp,-v", "-xc++", "/dev/null"]
    said = subprocess.run(tool, capture_output=True, text=True).stderr
    paths = [Path(line.strip()).resolve() for line in said.splitlines() if line.startswith(" /")]
    own = [path for path in paths if path.name not in ("include-fixed",) and "gcc" not in path.parts]
    return [f"-isystem{path}" for path in own]


def tool_of(core: str) -> list[str]:
    toolchain = CORES[core].toolchain
    headers = [flag for flag in toolchain.cxx_flags if flag.startswith("-isystem")]
    return [f"{toolchain.prefix}g++", *CORES[core].flags, *headers]


def tool(compiler: str, core: str) -> list[str]:
    if compiler == "gcc":
        return tool_of(core)
    flags = [flag for flag in CORES[core].flags if not flag.startswith("--specs")]
    target = CLANG_TARGETS[CORES[core].toolchain.cores]
    return ["clang++", f"--target={target}", "-nostdinc++", *flags, *library_includes(core)]


def needs(compiler: str, core: str) -> None:
    if shutil.which(tool_of(core)[0]) is None:
        pytest.skip(f"NO {tool_of(core)[0]}: NO GENERATED C++ WAS COMPILED FOR {core}")
    if compiler == "clang" and shutil.which("clang++") is None:
        pytest.skip("NO clang++: NO GENERATED C++ WAS COMPILED WITH IT")


@pytest.mark.parametrize("core", CORES)
@pytest.mark.parametrize("compiler", ["gcc", "clang"])
def test_no_warning(compiler: str, core: str, tmp_path: Path) -> None:
    needs(compiler, core)
    seen: set[tuple[str, str]] = set()
    for algorithm in ALGORITHMS:
        folder = write(tmp_path / algorithm, "cmake", algorithm)
        sources = [path for path in compiled(folder) if path.endswith(".cc")] + ["main.cc", "small_zo_samples.cc"]
        # Sources that both kinds of run have are compiled once.
        new = {(path, (folder / path).read_text()) for path in sources} - seen
        seen |= new
        options = ["-std=c++17", *CXX, *WARNINGS, *STATIC, "-I.", *tflm_includes(), "-fsyntax-only"]
        checked(*tool(compiler, core), *options, *sorted(path for path, _ in new), folder=folder)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize("platform", ["zephyr", "esp-idf"])
def test_no_warning_in_examples_and_without_static_memory(platform: str, algorithm: str, tmp_path: Path) -> None:
    folder = write(tmp_path / "out", platform, algorithm)
    sources = sorted(path for path in compiled(folder) if path.endswith(".cc"))
    example = {"zephyr": "samples/small/src", "esp-idf": "examples/small/main"}[platform]
    sources += [f"{example}/main.cc", f"{example}/small_zo_samples.cc"]
    # Zephyr's build of TFLM has no TF_LITE_STATIC_MEMORY.
    own = STATIC if platform == "esp-idf" else ()
    options = ["-std=c++17", *CXX, *WARNINGS, *own, "-I.", *tflm_includes(), "-fsyntax-only"]
    checked(*tool("gcc", "cortex-m4"), *options, *sources, folder=folder)


ARDUINO_H = """
#pragma once
#include <stdint.h>
struct Port {
  void begin(unsigned long);
  explicit operator bool() const;
  void print(const char*);
  void println(const char*);
};
extern Port Serial;
unsigned long millis();
"""


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_no_warning_in_an_arduino_build(algorithm: str, tmp_path: Path) -> None:
    # The checkout's own headers are C++17; those of Arduino's library are older, and so are its cores'
    # compilers: C++14 is enough for ours, which test_arduino_headers_are_older sees.
    folder = write(tmp_path / "out", "arduino", algorithm)
    stubs = tmp_path / "stubs"
    stubs.mkdir()
    (stubs / "Arduino.h").write_text(ARDUINO_H)
    (stubs / "TensorFlowLite.h").touch()
    sources = sorted(path for path in compiled(folder) if path.endswith(".cpp"))
    sources += [f"examples/small/{name}" for name in ("zo_train.cpp", "small_zo_samples.cpp")]
    options = ["-std=gnu++17", *CXX, *WARNINGS, "-Isrc", f"-isystem{stubs}", *tflm_includes(), "-fsyntax-only"]
    checked(*tool("gcc", "cortex-m4"), *options, *sources, folder=folder)
    sketch = ["-include", "Arduino.h", "-xc++", "examples/small/small.ino"]
    checked(*tool("gcc", "cortex-m4"), *options, *sketch, folder=folder)


def test_structs_grow_without_static_memory(tmp_path: Path) -> None:
    # The arena's size assumes this of builds without TF_LITE_STATIC_MEMORY.
    sizes = {"static": (32, 32), "dynamic": (32 + arena._DYNAMIC_TENSOR, 32 + arena._DYNAMIC_NODE)}
    for build, (tensor, node) in sizes.items():
        source = tmp_path / f"{build}.cc"
        source.write_text(
            '#include "tensorflow/lite/micro/micro_allocator.h"\n'
            f'static_assert(sizeof(TfLiteTensor) == {tensor}, "");\n'
            f'static_assert(sizeof(tflite::NodeAndRegistration) == {node}, "");\n'
        )
        own = STATIC if build == "static" else ()
        options = ["-std=c++17", *CXX, *own, *tflm_includes(), "-fsyntax-only"]
        checked(*tool("gcc", "cortex-m4"), *options, source)


def test_arduino_headers_are_older(tmp_path: Path) -> None:
    # A library from before micro_common.h, whose registrations are called TfLiteRegistration; the parts that
    # our headers use are here, and a replacement of TFLM's interpreter.
    folder = write(tmp_path / "out", "arduino")
    common = tmp_path / "old/tensorflow/lite/c/common.h"
    common.parent.mkdir(parents=True)
    common.write_text(
        "#pragma once\nenum TfLiteStatus { kTfLiteOk, kTfLiteError };\n"
        "struct TfLiteRegistration { int builtin_code; };\n"
    )
    for header in (HERE.parent / "device/tflm/tensorflow/lite").rglob("*.h"):
        if header.name != "micro_common.h":
            target = tmp_path / "old/tensorflow/lite" / header.parent.name / header.name
            target.parent.mkdir(exist_ok=True)
            target.write_text(header.read_text().replace("micro/micro_common.h", "c/common.h"))
    (folder / "old.cpp").write_text(
        '#include "small_zo_trainer.h"\n'
        "struct Resolver {\n"
        "  TfLiteStatus AddCustom(const char*, TfLiteRegistration*) { return kTfLiteOk; }\n"
        "};\n"
        "TfLiteRegistration made = tflite::Register_SMALL_ZO_LOSS();\n"
    )
    options = ["-std=gnu++14", *CXX, *WARNINGS, "-Isrc", f"-I{tmp_path / 'old'}", "-fsyntax-only"]
    checked(*tool("gcc", "cortex-m4"), *options, "old.cpp", folder=folder)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize("name", ["cortex-m4-reference", "rv32imc-reference"])
def test_make_builds_a_program_that_trains(name: str, algorithm: str, tmp_path: Path) -> None:
    library = next(lib for lib in LIBRARIES if lib.name == name)
    if reason := library.why_not():
        pytest.skip(reason)
    core = CORES[library.core]
    write(tmp_path / "out", "make", algorithm)
    compilers, boot = core.toolchain.prefix, core.toolchain.boot
    link = [*core.layout, "-Wl,--gc-sections"]
    headers = [flag for flag in core.toolchain.cxx_flags if flag.startswith("-isystem")]
    (tmp_path / "Makefile").write_text(
        f"""
CC := {compilers}gcc
CXX := {" ".join([f"{compilers}g++", *headers])}
AR := {compilers}ar
TFLM_DIR := {TFLM_DIR}
TFLM_LIBRARY := {library.path}
TARGET_FLAGS := {" ".join(core.flags)}
SMALL_ZO_OPTIMIZE := -O1
all: program
include out/small_zo.mk
startup.o: {boot}
\t$(CC) $(TARGET_FLAGS) -std=c99 -Os -D_GNU_SOURCE -c $< -o $@
program: startup.o $(SMALL_ZO_EXAMPLE_SRCS) $(SMALL_ZO_LIBRARY) $(TFLM_LIBRARY)
\t$(CXX) $(TARGET_FLAGS) $(SMALL_ZO_CXXFLAGS) $(SMALL_ZO_DEFINES) $(SMALL_ZO_INCLUDES) \\
\t  {" ".join(link)} $^ {" ".join(core.toolchain.ending)} -o $@
"""
    )
    said = checked("make", folder=tmp_path)
    assert "warning" not in said and (tmp_path / "build/small_zo/libsmall_zo.a").is_file()
    lines = run(core, tmp_path / "program", timeout=60).splitlines()
    assert [line.split()[:2] for line in lines if line.startswith("step ")] == [
        ["step", str(step)] for step in (0, 1, 2)
    ]
    assert lines[-1].startswith("checksum ") and any(line.startswith("log 0 ") for line in lines)
