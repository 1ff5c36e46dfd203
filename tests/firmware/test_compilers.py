"""Generated folders by every compiler, at every level, under flags that users have: no warning.

tests/device/test_runs.py runs such builds. The C++ sources are compiled against the headers that stand
in for TFLM's there; tests/tflm_checkout/test_firmware_warnings.py has TFLM's own.
"""

import shutil
import subprocess
from functools import cache
from pathlib import Path

import pytest

from cortex_m.emulator import ARM as CORTEX_M
from cortex_m.emulator import CORES, missing
from helpers.firmware_folders import run, write
from tflm_zo.firmware.op_pack import of_model

ARM = "arm-none-eabi-"
TESTS = Path(__file__).parents[1]
STRICT = ("-Wall", "-Wextra", "-Wshadow", "-Wconversion", "-pedantic", "-Werror")
#: The compilers of this machine.
HOST = {
    str(Path(path).resolve()): name
    for name in ("gcc-12", "gcc-13", "gcc-14", "gcc-15", "clang", "gcc")
    if (path := shutil.which(name)) is not None
}
#: Cores whose loops differ.
LOOPS = ("cortex-m0plus", "cortex-m3", "cortex-m4", "cortex-m55", "rv32imc")
WITHOUT_EXTENSIONS = ("-U__ARM_FEATURE_MVE", "-U__ARM_FEATURE_SIMD32")
WITHOUT_EXTENSIONS += ("-D__ARM_FEATURE_MVE=0", "-D__ARM_FEATURE_SIMD32=0")
ABI = ("-funsigned-char", "-fshort-enums")
#: Levels of optimization, each with other possible flags.
FLAGS = (("-O0",), ("-Os", *ABI), ("-O2",), ("-O3", "-flto", *ABI))

#: The definitions of Arduino.h, after the headers that it includes itself.
ARDUINO_H = """
#pragma once
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#undef abs
#define min(a, b) ((a) < (b) ? (a) : (b))
#define max(a, b) ((a) > (b) ? (a) : (b))
#define abs(x) ((x) > 0 ? (x) : -(x))
#define round(x) ((x) >= 0 ? (long)((x) + 0.5) : (long)((x) - 0.5))
#define constrain(amt, low, high) ((amt) < (low) ? (low) : ((amt) > (high) ? (high) : (amt)))
#define radians(deg) ((deg)*DEG_TO_RAD)
#define degrees(rad) ((rad)*RAD_TO_DEG)
#define sq(x) ((x) * (x))
#define bit(b) (1UL << (b))
#define lowByte(w) ((uint8_t)((w)&0xff))
#define highByte(w) ((uint8_t)((w) >> 8))
#define bitRead(value, bit) (((value) >> (bit)) & 0x01)
#define bitSet(value, bit) ((value) |= (1UL << (bit)))
#define bitClear(value, bit) ((value) &= ~(1UL << (bit)))
#define bitWrite(value, bit, bitvalue) ((bitvalue) ? bitSet(value, bit) : bitClear(value, bit))
#define interrupts() ((void)0)
#define noInterrupts() ((void)0)
#define clockCyclesToMicroseconds(a) ((a) / 16L)
#define F(string_literal) (string_literal)
#define PSTR(s) (s)
#define PROGMEM
"""
ARDUINO_H += "".join(
    f"#define {name} {value}\n"
    for value, name in enumerate(
        "LOW HIGH INPUT OUTPUT INPUT_PULLUP CHANGE FALLING RISING DEFAULT INTERNAL EXTERNAL SERIAL DISPLAY "
        "LSBFIRST MSBFIRST PI HALF_PI TWO_PI EULER DEG_TO_RAD RAD_TO_DEG NOT_A_PIN NOT_A_PORT NOT_ON_TIMER "
        "LED_BUILTIN SDA SCL SS MOSI MISO SCK USBCON A0 A1 A2 A3 A4 A5 A6 A7 D0 D1 D2 D3 D4 D5 D6 D7 "
        "B0 B1 B00 B01 B10 B11 B000 B001 B010 B011 B100 B101 B110 B111".split()
    )
)


@cache
def newlib() -> tuple[str, ...]:
    """Returns the C library's headers of the Arm compiler, for another one."""
    said = subprocess.run([f"{ARM}gcc", "-E", "-Wp,-v", "-xc", "/dev/null"], capture_output=True, text=True)
    paths = [Path(line.strip()).resolve() for line in said.stderr.splitlines() if line.startswith(" /")]
    return tuple(f"-isystem{path}" for path in paths if "gcc" not in path.parts)


def tool(compiler: str, core: str | None) -> list[str]:
    toolchain = CORTEX_M if core is None else CORES[core].toolchain
    if shutil.which(compiler) is None or (core is not None and missing(toolchain) is not None):
        pytest.skip(f"NO {compiler} FOR {core or 'THIS MACHINE'}: NO SOURCE WAS COMPILED WITH IT")
    if core is None:
        return [compiler]
    if compiler == "gcc":
        return [f"{toolchain.prefix}gcc", *CORES[core].flags]
    return [compiler, "--target=arm-none-eabi", *newlib(), *CORES[core].flags]


def tools() -> list[tuple[str, str | None]]:
    """Lists compilers with cores; clang has no headers for RISC-V."""
    crossed = [("gcc", core) for core in LOOPS] + [("clang", core) for core in LOOPS[:-1]]
    return [*((name, None) for name in HOST.values()), *crossed]


def compile_c(compiler: str, core: str | None, kind: str, folder: Path, *flags: str) -> None:
    write(folder / kind, "cmake", kind)
    command = [*tool(compiler, core), "-std=c99", *STRICT, *flags, "-I."]
    run(*command, "-c", "small_zo_ops.c", "-o", "ops.o", folder=folder / kind)


# The optimizer alone sees a value that has no beginning.
@pytest.mark.parametrize(
    ("compiler", "core"), [("gcc", None), pytest.param("clang", "cortex-m55", marks=pytest.mark.slow)]
)
def test_c_sources(compiler: str, core: str | None, kind: str, tmp_path: Path) -> None:
    compile_c(compiler, core, kind, tmp_path, "-O2", *ABI)


@pytest.mark.slow
@pytest.mark.parametrize("flags", FLAGS, ids=" ".join)
@pytest.mark.parametrize(("compiler", "core"), tools())
def test_c_sources_at_every_level(
    compiler: str, core: str | None, flags: tuple[str, ...], kind: str, tmp_path: Path
) -> None:
    compile_c(compiler, core, kind, tmp_path, *flags)


@pytest.mark.slow
@pytest.mark.parametrize(("compiler", "core"), [("gcc", "cortex-m55"), ("clang", "cortex-m4")])
def test_macros_that_are_0_mean_no_extension(compiler: str, core: str, kind: str, tmp_path: Path) -> None:
    # Instructions of an extension are asked for by one macro, and not by its being defined.
    compile_c(compiler, core, kind, tmp_path, "-Os", *WITHOUT_EXTENSIONS)
    symbols = run(f"{ARM}objdump", "-d", "--no-show-raw-insn", "ops.o", folder=tmp_path / kind)
    used = {line.split("\t")[1].split(".")[0] for line in symbols.splitlines() if line.count("\t") > 1}
    assert "ldr" in used
    assert not used & {"uadd8", "smlad", "sxtb16", "ssat16", "vldrb", "vldrw", "vmlaldav", "dlstp"}


@pytest.mark.skipif(shutil.which("g++") is None, reason="NO g++: ARDUINO'S MACROS WERE NOT TRIED")
def test_arduinos_macros_change_nothing(kind: str, tmp_path: Path) -> None:
    folder = write(tmp_path / "out", "arduino", kind) / "src"
    resolver = {"resolver": (TESTS / "device" / "zo_op_resolver.h").read_text()}
    (folder / "small_zo_op_resolver.h").write_text(of_model(resolver, "small")["resolver"])
    (tmp_path / "Arduino.h").write_text(ARDUINO_H)
    own = [*STRICT, "-O0", "-include", str(tmp_path / "Arduino.h"), "-I.", f"-I{TESTS / 'device' / 'tflm'}"]
    run("gcc", "-std=c99", *own, "-c", "small_zo_ops.c", folder=folder)
    run("g++", "-std=c++17", *own, "-c", "small_zo_trainer.cpp", "small_zo_model.cpp", folder=folder)
