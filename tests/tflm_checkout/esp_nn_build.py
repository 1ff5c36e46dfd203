"""Builds a generated component of ESP-IDF with ESP-NN's kernels, as an ESP32-C3 has them, for RV32IMC.

ESP_TFLITE_MICRO_DIR and ESP_NN_DIR are checkouts of espressif/esp-tflite-micro and espressif/esp-nn. ESP-IDF
itself is not needed: esp_idf/CMakeLists.txt stands in for it.
"""

import fcntl
import hashlib
import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from cortex_m.emulator import BOOT_FLAGS, CORES, REPOSITORY, compile_objects, missing
from tflm_checkout.firmware_build import cmake_options

PROJECT = Path(__file__).parent / "esp_idf"


def _run(*command: object) -> None:
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True)
    assert done.returncode == 0, f"{' '.join(map(str, command))}\n{done.stdout[-8000:]}\n{done.stderr}"


@dataclass(frozen=True)
class EspNnLibrary:
    """TFLM's and ESP-NN's libraries; the attributes and methods of `firmware_build.Library`."""

    core: str = "rv32imc"
    name: str = "rv32imc-esp_nn"
    platform: str = "esp-idf"

    @property
    def _checkouts(self) -> dict[str, Path]:
        names = ("ESP_NN_DIR", "ESP_TFLITE_MICRO_DIR")
        return {name: Path(os.environ.get(name) or "none").resolve() for name in names}

    def why_not(self) -> str | None:
        for name, checkout in self._checkouts.items():
            if not (checkout / "CMakeLists.txt").is_file():
                return f"{name} NAMES NO CHECKOUT: NO FIRMWARE WAS RUN WITH ESP-NN"
        if shutil.which("cmake") is None:
            return "NO cmake: NO FIRMWARE WAS BUILT"
        return missing(CORES[self.core].toolchain)

    def _options(self, *link: object) -> list[str]:
        checkouts = [f"-D{name}={checkout}" for name, checkout in self._checkouts.items()]
        return [*cmake_options(CORES[self.core], *link), *checkouts]

    def _built(self) -> list[Path]:
        named = hashlib.sha256(repr(self._checkouts).encode()).hexdigest()[:16]
        build = REPOSITORY / "build" / f"esp-nn-{named}"
        build.mkdir(parents=True, exist_ok=True)
        with (build / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            _run("cmake", "-S", PROJECT, "-B", build, *self._options())
            _run("cmake", "--build", build)
        return [build / f"{name}/lib{name}.a" for name in ("esp-tflite-micro", "esp-nn")]

    def build(self, folder: Path, build: Path) -> Path:
        core = CORES[self.core]
        (boot,) = compile_objects(core, [core.toolchain.boot], build, BOOT_FLAGS)
        libraries = f"-DLIBRARIES={';'.join(map(str, self._built()))}"
        _run("cmake", "-S", PROJECT, "-B", build, *self._options(boot), f"-DFIRMWARE={folder}", libraries)
        _run("cmake", "--build", build)
        return build / "program"
