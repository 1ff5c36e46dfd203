"""Builds C programs for Cortex-M and RISC-V cores and runs them in QEMU: for tests and for benchmarks.

    core = CORES["cortex-m4"]
    program = build(core, [my_main_c, *CORE_SOURCES], folder / "program")
    print(run(core, program))

A program has a `main`, prints with printf and ends with main's result. Everything else (vectors, memory,
system calls) is in startup.c and cortex_m.ld for a Cortex-M; for RISC-V it is in picolibc and
startup_riscv.c. Cortex-M needs Debian's gcc-arm-none-eabi, libnewlib-arm-none-eabi and qemu-system-arm,
RISC-V its gcc-riscv64-unknown-elf, picolibc-riscv64-unknown-elf and qemu-system-misc (since Debian 13
qemu-system-riscv); `missing()` names missing ones.

Instructions are counted by counting.c, in programs that are run with `counting=True`.
"""

import hashlib
import shutil
import subprocess
import tempfile
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest

HERE = Path(__file__).resolve().parent
REPOSITORY = HERE.parents[1]
CORE_SOURCES = tuple(sorted((REPOSITORY / "ops" / "core").rglob("*.c")))
COUNTING_SOURCE = HERE / "counting.c"
#: The compiler's flags for start-up code.
BOOT_FLAGS = ("-Os", "-D_GNU_SOURCE")

_OBJECTS = REPOSITORY / "build" / "cortex-m"
_KIB = 1024


class EmulatorError(RuntimeError):
    """A program was not built, or did not end with status 0; the message has its output."""


@dataclass(frozen=True)
class Toolchain:
    """A compiler with its C library (`library` is a file of it) and an emulator for an instruction set's cores."""

    cores: str
    prefix: str
    emulator: str
    library: str
    package: str
    boot: Path
    ending: tuple[str, ...]

    @property
    def cxx_flags(self) -> list[str]:
        """The compiler's flags for C++: Debian 12 has no C++ headers for bare RISC-V, and the Arm compiler's fit."""
        plain = ["-std=c++17", "-fno-exceptions", "-fno-rtti", "-fno-threadsafe-statics"]
        return plain if self is ARM else [*plain, *(f"-isystem{path}" for path in _cxx_headers())]


ARM = Toolchain(
    cores="Cortex-M",
    prefix="arm-none-eabi-",
    emulator="qemu-system-arm",
    library="libc.a",
    package="libnewlib-arm-none-eabi",
    boot=HERE / "startup.c",
    ending=("-lm",),
)
RISCV = Toolchain(
    cores="RISC-V",
    prefix="riscv64-unknown-elf-",
    emulator="qemu-system-riscv32",
    library="picolibc.specs",
    package="picolibc-riscv64-unknown-elf",
    boot=HERE / "startup_riscv.c",
    # Without the C++ library that g++ would ask for.
    ending=("-nodefaultlibs", "-Wl,--start-group", "-lm", "-lc", "-lsemihost", "-lgcc", "-Wl,--end-group"),
)


@dataclass(frozen=True)
class Core:
    """A core, its compiler flags and the emulator's board; (address, bytes) of its memory."""

    name: str
    flags: tuple[str, ...]
    board: tuple[str, ...]
    clock_hz: int
    code: tuple[int, int] = (0x00000000, 1024 * _KIB)
    constants: tuple[int, int] = (0x00100000, 3072 * _KIB)
    data: tuple[int, int] = (0x20000000, 4096 * _KIB)
    toolchain: Toolchain = ARM

    @property
    def layout(self) -> list[str]:
        """The linker's flags that place a program in the board's memory."""
        if self.toolchain is RISCV:
            # By picolibc's own linker script; constants lie behind the code.
            flash = (self.code[0], self.code[1] + self.constants[1])
            places = {"flash": flash, "ram": self.data}
            sizes = [
                f"-Wl,--defsym=__{name}={at:#x},--defsym=__{name}_size={size:#x}" for name, (at, size) in places.items()
            ]
            return [*sizes, f"-Wl,--defsym=__stack_size={32 * _KIB:#x}", "--crt0=semihost"]
        memory = {"CODE": self.code, "CONSTANTS": self.constants, "DATA": self.data}
        symbols = [
            f"-Wl,--defsym={name}_{what}={value:#x}"
            for name, place in memory.items()
            for what, value in zip(("ORIGIN", "LENGTH"), place, strict=True)
        ]
        return [*symbols, "-T", str(HERE / "cortex_m.ld"), "-nostartfiles"]

    @property
    def tick_quarters(self) -> int:
        """Instructions between two ticks of the clock, times four: a whole number on every board."""
        quarters, rest = divmod(4 * 10**9, self.clock_hz)
        assert rest == 0
        return quarters


def _core(name: str, arch: str, board: Sequence[str], clock_hz: int, **memory: tuple[int, int]) -> Core:
    return Core(name, (*arch.split(), "-mthumb"), tuple(board), clock_hz, **memory)


# The board of the smallest core has 16 KiB of RAM; the emulator gives it more, so that the same programs fit
# everywhere. It is a Cortex-M0, which runs the same instruction set, ARMv6-M. The M33's board starts in the
# secure state, so its memory is named by the secure addresses. The M55's tightly coupled RAM is small, so
# constants and data lie in the SRAM behind it.
_ROOMY = ("-global", "nrf51-soc.sram-size=4194304", "-global", "nrf51-soc.flash-size=4194304")
CORES = MappingProxyType(
    {
        core.name: core
        for core in (
            _core("cortex-m0plus", "-mcpu=cortex-m0plus", ["microbit", *_ROOMY], 16_000_000),
            _core("cortex-m3", "-mcpu=cortex-m3", ["mps2-an385"], 25_000_000),
            _core("cortex-m4", "-mcpu=cortex-m4 -mfloat-abi=hard -mfpu=fpv4-sp-d16", ["mps2-an386"], 25_000_000),
            _core("cortex-m7", "-mcpu=cortex-m7 -mfloat-abi=hard -mfpu=fpv5-d16", ["mps2-an500"], 25_000_000),
            _core(
                "cortex-m33",
                "-mcpu=cortex-m33 -mfloat-abi=hard -mfpu=fpv5-sp-d16",
                ["mps2-an505"],
                20_000_000,
                code=(0x10000000, 1024 * _KIB),
                constants=(0x10100000, 3072 * _KIB),
                data=(0x38000000, 4096 * _KIB),
            ),
            _core(
                "cortex-m55",
                "-mcpu=cortex-m55 -mfloat-abi=hard",
                ["mps3-an547"],
                32_000_000,
                code=(0x00000000, 512 * _KIB),
                constants=(0x01000000, 2048 * _KIB),
                data=(0x21000000, 4096 * _KIB),
            ),
            # The core has no extensions but those in its name: an instruction of another one is a fault. Its
            # clock counts instructions.
            Core(
                "rv32imc",
                ("-march=rv32imc", "-mabi=ilp32", "--specs=picolibc.specs"),
                ("virt", "-bios", "none", "-cpu", "rv32,a=off,f=off,d=off,h=off,s=off,u=off"),
                10**9,
                code=(0x80000000, 1024 * _KIB),
                constants=(0x80100000, 3072 * _KIB),
                data=(0x80400000, 4096 * _KIB),
                toolchain=RISCV,
            ),
        )
    }
)


# The fast suite runs the M4, the M55 and RISC-V at most. The M7 and the M33 have the M4's code, with its DSP
# extension; the M0+ and the M3 have few kernels of their own: tests of them are slow ones.
_FAST = ("cortex-m4", "cortex-m55", "cortex-m55-mve", "rv32imc")


def each(names: Iterable[str], *more: Any, fast: Collection[str] = _FAST) -> list[Any]:
    """Makes a parameter of each core. Those not in `fast` are slow, and cores that cannot be emulated are skipped."""
    return [pytest.param(name, *more, marks=_marks(name, fast)) for name in names]


def _marks(name: str, fast: Collection[str]) -> list[pytest.MarkDecorator]:
    why = missing(CORES[name].toolchain) if name in CORES else None
    return [*([] if name in fast else [pytest.mark.slow]), *([pytest.mark.skip(reason=why)] if why is not None else [])]


@cache
def missing(toolchain: Toolchain = ARM) -> str | None:
    nothing = f"NOTHING WAS RUN ON AN EMULATED {toolchain.cores.upper()}"
    compiler = f"{toolchain.prefix}gcc"
    tools = [tool for tool in (compiler, toolchain.emulator) if shutil.which(tool) is None]
    if tools:
        return f"NO {' AND NO '.join(tools)}: {nothing}"
    if not Path(_output([compiler, f"-print-file-name={toolchain.library}"]).strip()).is_absolute():
        return f"NO C LIBRARY FOR {compiler} ({toolchain.package}): {nothing}"
    return None


@cache
def _cxx_headers() -> list[Path]:
    words = [f"{ARM.prefix}g++", "-E", "-Wp,-v", "-xc++", "/dev/null"]
    said = subprocess.run(words, capture_output=True, text=True, timeout=60).stderr
    paths = [Path(line.strip()).resolve() for line in said.splitlines() if line.startswith(" /")]
    return [path for path in paths if "c++" in path.parts]


def _output(command: Sequence[str | Path], timeout: float = 300) -> str:
    words = [str(word) for word in command]
    try:
        done = subprocess.run(
            words, capture_output=True, text=True, timeout=timeout, stdin=subprocess.DEVNULL, errors="replace"
        )
    except subprocess.TimeoutExpired as error:
        raise EmulatorError(f"did not end within {timeout:.0f} s: {' '.join(words)}") from error
    if done.returncode != 0:
        said = f"{done.stdout}{done.stderr}"
        raise EmulatorError(f"ended with status {done.returncode}: {' '.join(words)}\n{said}")
    return done.stdout


def compile_objects(core: Core, sources: Iterable[Path], folder: Path, flags: Sequence[str] = ("-O2",)) -> list[Path]:
    """Compiles C and C++ sources to an object file each; raises EmulatorError with the compiler's messages."""
    folder.mkdir(parents=True, exist_ok=True)
    common = [*core.flags, "-ffunction-sections", "-fdata-sections", f"-I{REPOSITORY}", f"-I{HERE}", *flags]
    objects = []
    for source in sources:
        target = folder / f"{source.name}.o"
        if target in objects:
            raise EmulatorError(f"two sources are called {source.name}; compile them to two folders")
        if source.suffix == ".c":
            tool = [f"{core.toolchain.prefix}gcc", "-std=c99"]
        else:
            tool = [f"{core.toolchain.prefix}g++", *core.toolchain.cxx_flags]
        shutil.copyfile(_compiled([*tool, *common], source, core.toolchain), target)
        objects.append(target)
    return objects


@cache
def _surroundings(toolchain: Toolchain) -> bytes:
    """Returns further dependencies of an object: the compiler and all headers."""
    headers = sorted([*(REPOSITORY / "ops").rglob("*.h"), *HERE.glob("*.h")])
    known = hashlib.sha256(_output([f"{toolchain.prefix}gcc", "--version"]).encode())
    for header in headers:
        known.update(header.read_bytes())
    return known.digest()


def _compiled(command: Sequence[str], source: Path, toolchain: Toolchain) -> Path:
    """Compiles a source to an object file, once for all tests."""
    known = hashlib.sha256(repr(command).encode() + _surroundings(toolchain) + source.read_bytes())
    found = _OBJECTS / f"{source.name}-{known.hexdigest()[:32]}.o"
    if not found.is_file():
        _OBJECTS.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=_OBJECTS) as folder:
            made = Path(folder) / found.name
            _output([*command, "-c", source, "-o", made])
            made.replace(found)
    return found


def add_prefix(core: Core, objects: Sequence[Path], prefix: str) -> None:
    """Puts `prefix` before the names that the objects define, in place: two builds can then be in one program."""
    names = set()
    for line in _output([f"{core.toolchain.prefix}nm", "-g", "--defined-only", *objects]).splitlines():
        if len(fields := line.split()) == 3:
            names.add(fields[2])
    renamed = [f"--redefine-sym={name}={prefix}{name}" for name in sorted(names)]
    for target in objects:
        _output([f"{core.toolchain.prefix}objcopy", *renamed, target])


def link(core: Core, objects: Sequence[Path], program: Path, flags: Sequence[str] = ()) -> Path:
    """Links to the ELF file `program`; unused sections go. Raises EmulatorError with the linker's messages."""
    boot = compile_objects(core, [core.toolchain.boot], program.parent / f"{program.name}-boot", BOOT_FLAGS)
    tool = [f"{core.toolchain.prefix}g++", *core.flags, *core.layout, "-Wl,--gc-sections"]
    _output([*tool, *boot, *objects, *flags, *core.toolchain.ending, "-o", program])
    return program


def build(
    core: Core, sources: Iterable[Path], program: Path, flags: Sequence[str] = ("-O2",), own: Sequence[str] = ()
) -> Path:
    folder, sources = program.parent / f"{program.name}-objects", list(sources)
    rest = [source for source in sources if source not in CORE_SOURCES]
    shared = [source for source in sources if source in CORE_SOURCES]
    objects = compile_objects(core, rest, folder, [*flags, *own])
    return link(core, [*objects, *compile_objects(core, shared, folder, flags)], program)


def counting_flags(core: Core) -> list[str]:
    return [f"-DCOUNTING_TICK_QUARTERS={core.tick_quarters}u"]


def run(core: Core, program: Path, *, counting: bool = False, timeout: float = 300) -> str:
    """Runs a program to its end and returns its output; with `counting`, time passes by the instruction."""
    emulator = [core.toolchain.emulator, "-M", *core.board]
    emulator += ["-display", "none", "-monitor", "none", "-serial", "none"]
    # picolibc's characters are the console's, which is standard error but for this.
    semihosting = ["-chardev", "stdio,id=console"]
    semihosting += ["-semihosting-config", "enable=on,target=native,chardev=console"]
    time = ["-icount", "shift=0"] if counting else []
    return _output([*emulator, *semihosting, *time, "-kernel", program], timeout)


def section_sizes(core: Core, objects: Sequence[Path]) -> dict[str, int]:
    last = _output([f"{core.toolchain.prefix}size", "-t", *objects]).splitlines()[-1].split()
    return {name: int(value) for name, value in zip(("text", "data", "bss"), last, strict=False)}
