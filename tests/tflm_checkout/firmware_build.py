"""Builds a generated folder with CMake, as its README says, for an emulated core or this machine."""

import os
import shutil
import subprocess
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from cortex_m.emulator import BOOT_FLAGS, CORES, RISCV, Core, compile_objects, missing
from tflm_zo.firmware.op_pack import of_model

HERE = Path(__file__).parent
TFLM_DIR = os.environ.get("TFLM_DIR") or None  # `make firmware-test` sets it to nothing if none is given
#: Cores that this suite runs on, and how TFLM's Makefile calls their libraries.
ARCHITECTURES = {
    "cortex-m0plus": "cortex-m0plus",
    "cortex-m3": "cortex-m3",
    "cortex-m4": "cortex-m4+fp",
    "cortex-m7": "cortex-m7+fp",
    "cortex-m55": "cortex-m55",
    "rv32imc": "riscv32",
}
# The target's Makefile has a compiler of 2018 fetched, unless its folder is there, and takes Debian's from
# the PATH if it is told no place. Debian's has no C++ library: headers of the Arm compiler's do. With the
# target's own code model, medany, GCC reads the halves of a double so that some programs cannot be linked.
_RISCV_MAKE = (
    "mkdir -p tensorflow/lite/micro/tools/make/downloads/riscv_toolchain; "
    "make -f tensorflow/lite/micro/tools/make/Makefile TARGET=riscv32_generic TARGET_TOOLCHAIN_ROOT= "
    "RISCV_CODE_MODEL=medlow RISCV_EXTRA_CFLAGS='--specs=picolibc.specs {headers}' "
    "BUILD_TYPE=release microlite"
)


@dataclass(frozen=True)
class Library:
    """TFLM's library for a core, with CMSIS-NN's or TFLM's reference kernels, built by TFLM's own Makefile."""

    core: str
    cmsis_nn: bool
    platform: str = "cmake"

    @property
    def name(self) -> str:
        return f"{self.core}-{'cmsis_nn' if self.cmsis_nn else 'reference'}"

    @property
    def path(self) -> Path:
        if CORES[self.core].toolchain is RISCV:
            # Named after the machine that it was built on.
            return Path(TFLM_DIR or "") / "gen/riscv32_generic_x86_64_release_gcc/lib/libtensorflow-microlite.a"
        kernels = "cmsis_nn_" if self.cmsis_nn else ""
        folder = f"cortex_m_generic_{ARCHITECTURES[self.core]}_release_{kernels}gcc"
        return Path(TFLM_DIR or "") / "gen" / folder / "lib" / "libtensorflow-microlite.a"

    @property
    def make(self) -> str:
        toolchain = CORES[self.core].toolchain
        if toolchain is RISCV:
            headers = (flag for flag in toolchain.cxx_flags if flag.startswith("-isystem"))
            return _RISCV_MAKE.format(headers=" ".join(headers))
        kernels = " OPTIMIZED_KERNEL_DIR=cmsis_nn" if self.cmsis_nn else ""
        return (
            "make -f tensorflow/lite/micro/tools/make/Makefile TARGET=cortex_m_generic "
            f"TARGET_ARCH={ARCHITECTURES[self.core]}{kernels} BUILD_TYPE=release microlite"
        )

    def why_not(self) -> str | None:
        if TFLM_DIR is None:
            return "TFLM_DIR IS NOT SET: NO FIRMWARE WAS BUILT (a checkout of tflite-micro is needed)"
        if not self.path.is_file():
            return f"{self.path} IS NOT BUILT: NO FIRMWARE WAS RUN ON {self.name}; in TFLM_DIR: {self.make}"
        if shutil.which("cmake") is None:
            return "NO cmake: NO FIRMWARE WAS BUILT"
        return missing(CORES[self.core].toolchain)

    def build(self, folder: Path, build: Path) -> Path:
        return build_firmware(self, folder, build)


LIBRARIES = tuple(
    Library(core, cmsis_nn)
    for core in ARCHITECTURES
    for cmsis_nn in (False, True)
    if not (cmsis_nn and CORES[core].toolchain is RISCV)
)


def on(*chosen: str, more: Iterable[Any] = ()) -> pytest.MarkDecorator:
    """Gives a test the libraries of these names as its `library`; it is skipped with each that cannot be tested."""
    libraries = [*(known for known in LIBRARIES if known.name in chosen), *more]
    reasons = [library.why_not() for library in libraries]
    return pytest.mark.parametrize(
        "library",
        [
            pytest.param(library, id=library.name, marks=[pytest.mark.skip(reason)] if reason else [])
            for library, reason in zip(libraries, reasons, strict=True)
        ],
    )


def _run(*command: object) -> None:
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True)
    assert done.returncode == 0, f"{' '.join(map(str, command))}\n{done.stdout}\n{done.stderr}"


def model_of(folder: Path) -> str:
    (config,) = folder.glob("*_zo_config.h")
    return config.name.removesuffix("_zo_config.h")


def replace_main(folder: Path, program: str) -> None:
    """Puts a program (C++, without the model's name in its names) in the place of the example's."""
    (folder / "main.cc").write_text(of_model({"main.cc": program}, model_of(folder))["main.cc"])


def cmake_options(core: Core, *link: object) -> list[str]:
    """Returns CMake's options for a core; `link` is for the linker besides."""
    toolchain = core.toolchain
    return [
        f"-DCMAKE_TOOLCHAIN_FILE={HERE / 'emulated_core.cmake'}",
        "-DCMAKE_BUILD_TYPE=Release",
        f"-DZO_PREFIX={toolchain.prefix}",
        f"-DZO_CORE_FLAGS={' '.join(core.flags)}",
        f"-DZO_CXX_FLAGS={' '.join(toolchain.cxx_flags)}",
        f"-DZO_ENDING={' '.join(toolchain.ending)}",
        f"-DCMAKE_EXE_LINKER_FLAGS={' '.join([*core.layout, *map(str, link)])}",
    ]


def build_firmware(
    library: Library,
    folder: Path,
    build: Path,
    *options: str,
    objects: Sequence[Path] = (),
    map_file: Path | None = None,
) -> Path:
    """Builds the example of a generated CMake folder in `build`. Returns the ELF file."""
    core: Core = CORES[library.core]
    (boot,) = compile_objects(core, [core.toolchain.boot], build, BOOT_FLAGS)
    link = [boot, *objects, *([] if map_file is None else [f"-Wl,-Map={map_file}"])]
    _run(
        *("cmake", "-S", folder, "-B", build, *cmake_options(core, *link)),
        f"-DTFLM_DIR={TFLM_DIR}",
        f"-DTFLM_LIBRARY={library.path}",
        *options,
    )
    _run("cmake", "--build", build)
    return build / model_of(folder)
