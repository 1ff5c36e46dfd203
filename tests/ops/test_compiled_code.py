"""The compiled C core: integers only, no state, no calls but memcpy, memmove and memset.

The proof on the host is the compiler's own: with -mgeneral-regs-only, GCC refuses any floating-point
arithmetic. For Cortex-M, object files are searched for floating-point instructions and library calls.
"""

import platform
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from cortex_m.emulator import each

ROOT = Path(__file__).resolve().parents[2]
SOURCES = sorted((ROOT / "ops" / "core").rglob("*.c"))
STRICT = [f"-I{ROOT}", "-std=c99", "-pedantic", "-Wall", "-Wextra", "-Wshadow", "-Wconversion", "-Werror"]
ARM = "arm-none-eabi-"

needs_gcc = pytest.mark.skipif(shutil.which("gcc") is None, reason="NO GCC: the C core was not inspected")
needs_arm = pytest.mark.skipif(
    shutil.which(ARM + "gcc") is None, reason=f"NO {ARM}gcc: what the C core compiles to for Cortex-M was not inspected"
)

CORES = {
    "cortex-m0plus": ["-mcpu=cortex-m0plus", "-mthumb"],
    "cortex-m3": ["-mcpu=cortex-m3", "-mthumb"],
    "cortex-m4": ["-mcpu=cortex-m4", "-mthumb", "-mfloat-abi=hard", "-mfpu=fpv4-sp-d16"],
    "cortex-m7": ["-mcpu=cortex-m7", "-mthumb", "-mfloat-abi=hard", "-mfpu=fpv5-d16"],
    "cortex-m33": ["-mcpu=cortex-m33", "-mthumb", "-mfloat-abi=hard", "-mfpu=fpv5-sp-d16"],
    "cortex-m55": ["-mcpu=cortex-m55", "-mthumb", "-mfloat-abi=soft"],
    "cortex-m55-mve": ["-mcpu=cortex-m55", "-mthumb", "-mfloat-abi=hard"],
}

# Clang has no board support of its own: it takes newlib's headers, and the architecture from the target.
CLANG_TARGETS = {
    "cortex-m0plus": "thumbv6m-none-eabi",
    "cortex-m3": "thumbv7m-none-eabi",
    "cortex-m4": "thumbv7em-none-eabi",
    "cortex-m7": "thumbv7em-none-eabi",
    "cortex-m33": "thumbv8m.main-none-eabi",
    "cortex-m55": "thumbv8.1m.main-none-eabi",
    "cortex-m55-mve": "thumbv8.1m.main-none-eabi",
}
NEWLIB = [folder for folder in ("/usr/include/newlib", "/usr/lib/arm-none-eabi/include") if Path(folder).is_dir()]
needs_clang = pytest.mark.skipif(
    shutil.which("clang") is None or not NEWLIB,
    reason="NO CLANG OR NO newlib: that clang compiles the C core for Cortex-M was not checked",
)

# The compiler's own integer helpers: division and, on the smallest core, 64-bit arithmetic.
INTEGER_HELPERS = re.compile(
    r"__aeabi_(u?idiv(mod)?|u?ldivmod|lmul|llsl|llsr|lasr|u?lcmp|mem(cpy|set|clr)[48]?)"
    r"|__gnu_thumb1_case_\w+"
)


# Mnemonics of the floating-point extension, and of the vector extension, begin with v. Without vectors
# nothing may use the registers that they share; with them, nothing may be of a floating-point type.
ANY_EXTENSION = re.compile(r"^\s*[0-9a-f]+:\s+(v\w\S*)", re.MULTILINE)
FLOATING = re.compile(r"^\s*[0-9a-f]+:\s+(v\w+\.\S*f(?:16|32|64)\S*|vcvt\S*|vrint\S*|vsqrt\S*)", re.MULTILINE)


def disassemble(core, *objects):
    # The disassembler does not find out about vectors by itself.
    machine = ["-m", "armv8.1-m.main"] if core.endswith("-mve") else []
    return run(ARM + "objdump", "-d", "--no-show-raw-insn", *machine, *objects)


def floating_point(core, code):
    return (FLOATING if core.endswith("-mve") else ANY_EXTENSION).findall(code)


def run(*command):
    result = subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=300)
    assert result.returncode == 0, f"{' '.join(map(str, command))}\n{result.stdout}{result.stderr}"
    return result.stdout


def compile_core(compiler, folder, *flags):
    objects = []
    for source in SOURCES:
        target = folder / (source.stem + ".o")
        run(compiler, *STRICT, *flags, "-c", source, "-o", target)
        objects.append(target)
    return objects


def symbols(nm, objects):
    lines = run(nm, "-A", *objects).splitlines()
    return {tuple(line.rsplit(maxsplit=2)[-2:]) for line in lines}


def foreign(nm, objects):
    every = symbols(nm, objects)
    defined = {name for kind, name in every if kind != "U"}
    return {name for kind, name in every if kind == "U"} - defined


def assert_no_state(nm, objects):
    """Checks for no writable data, initialized or not, and nothing that runs before main."""
    assert not {(kind, name) for kind, name in symbols(nm, objects) if kind in "dDbBCsSgG"}


def assert_public_names(nm, objects):
    names = {name for kind, name in symbols(nm, objects) if kind.isupper() and kind != "U"}
    assert names
    assert {name for name in names if not name.startswith("zo_")} == set()


@pytest.mark.slow
@needs_gcc
@pytest.mark.skipif(platform.machine() not in ("x86_64", "aarch64"), reason="no such option on this machine")
@pytest.mark.parametrize("level", ["-O3", *(pytest.param(level, marks=pytest.mark.slow) for level in ("-O0", "-Os"))])
def test_host_uses_general_registers_only(tmp_path, level):
    objects = compile_core("gcc", tmp_path, level, "-mgeneral-regs-only")
    # Addresses of functions are in a table if the compiler makes programs that can lie anywhere.
    assert foreign("nm", objects) - {"_GLOBAL_OFFSET_TABLE_"} <= {"memcpy", "memmove", "memset"}
    assert_no_state("nm", objects)
    assert_public_names("nm", objects)


@pytest.mark.slow
@needs_gcc
@pytest.mark.skipif(platform.machine() != "x86_64", reason="knows the mnemonics of x86-64 only")
def test_host_as_it_ships(tmp_path):
    """Allows the host's vector instructions for integers."""
    objects = compile_core("gcc", tmp_path, "-O3", "-fPIC")
    assert foreign("nm", objects) - {"_GLOBAL_OFFSET_TABLE_"} <= {"memcpy", "memmove", "memset"}
    assert_no_state("nm", objects)
    code = run("objdump", "-d", "--no-show-raw-insn", *objects)
    floating = r"v?(?:add|sub|mul|div|sqrt|min|max|rcp|round|u?comi|cmp\w*)[sp][sd]|v?cvt\w+|f\w+"
    assert re.findall(rf"^\s*[0-9a-f]+:\s+({floating})\s", code, re.MULTILINE) == []


@needs_gcc
def test_the_host_check_would_notice(tmp_path):
    source = tmp_path / "uses_float.c"
    source.write_text("float half(float x);\nfloat half(float x) { return x / 2; }\n")
    result = subprocess.run(["gcc", "-mgeneral-regs-only", "-c", source, "-o", tmp_path / "x.o"], capture_output=True)
    assert result.returncode != 0


@pytest.mark.slow
@needs_arm
@pytest.mark.parametrize("level", ["-O2", pytest.param("-Os", marks=pytest.mark.slow)])
@pytest.mark.parametrize("core", each(CORES, fast=("cortex-m55-mve",)))
def test_cortex_m(tmp_path, core, level):
    objects = compile_core(ARM + "gcc", tmp_path, level, "-ffreestanding", *CORES[core])
    nm = ARM + "nm"
    called = foreign(nm, objects)
    assert {name for name in called if not INTEGER_HELPERS.fullmatch(name)} <= {"memcpy", "memmove", "memset"}
    assert_no_state(nm, objects)
    assert_public_names(nm, objects)
    code = disassemble(core, *objects)
    assert floating_point(core, code) == []
    if core.endswith("-mve"):  # the vectors are there
        assert re.search(r"\bvpsel\b", code)
    sizes = run(ARM + "size", "-t", *objects).splitlines()
    print(f"\n{core} {level}: {sizes[-1].split()[0]} bytes of code and tables; calls {sorted(called)}")


@needs_clang
@pytest.mark.parametrize("core", each(CLANG_TARGETS, fast=()))
def test_clang_for_cortex_m_has_no_warning(tmp_path, core):
    headers = [word for folder in NEWLIB for word in ("-isystem", folder)]
    target = [f"--target={CLANG_TARGETS[core]}", *CORES[core]]
    command = ["clang", *target, *STRICT, *headers, "-O2", "-c", *SOURCES]
    result = subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=300, cwd=tmp_path)
    assert (result.returncode, result.stderr) == (0, "")
    assert {path.stem for path in tmp_path.glob("*.o")} == {path.stem for path in SOURCES}


@needs_arm
def test_the_cortex_m_check_would_notice(tmp_path):
    source = tmp_path / "uses_float.c"
    source.write_text("float half(float x);\nfloat half(float x) { return x / 3; }\n")
    soft, hard = tmp_path / "soft.o", tmp_path / "hard.o"
    run(ARM + "gcc", *CORES["cortex-m0plus"], "-O2", "-c", source, "-o", soft)
    assert not INTEGER_HELPERS.fullmatch(foreign(ARM + "nm", [soft]).pop())
    for core in ("cortex-m4", "cortex-m55-mve"):
        run(ARM + "gcc", *CORES[core], "-O2", "-ffreestanding", "-c", source, "-o", hard)
        assert floating_point(core, disassemble(core, hard))
