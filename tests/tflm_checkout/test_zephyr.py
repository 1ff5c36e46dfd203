"""A generated folder's module and sample, built by Zephyr itself and run on an emulated board, against the
same run on this machine.

`ZEPHYR_BASE` is Zephyr's tree, in a shell in which its own samples can be built, with its Python packages on the PATH.
If it is in no west workspace, `ZEPHYR_MODULES` names the folders of its modules, of which it needs cmsis. TFLM is that
of `TFLM_DIR`, with the library that its own Makefile has built for a Cortex-M4 with CMSIS-NN's kernels, so a workspace
is to be without the module tflite-micro. Without `ZEPHYR_TOOLCHAIN_VARIANT`, Debian's compiler is taken.
"""

import os
import shutil
import subprocess
import threading
from pathlib import Path

import pytest

from device.runs import samples
from helpers.firmware_folders import ALGORITHMS, zo_model
from tflm_checkout.firmware_build import TFLM_DIR, Library
from tflm_checkout.runs import checksum_of
from tflm_checkout.test_firmware import log_of
from tflm_zo.firmware import generate_firmware
from tflm_zo.training import Nodes, Settings, Trainer, Weights

ZEPHYR_BASE = os.environ.get("ZEPHYR_BASE")
MODULE = Path(__file__).parent / "zephyr_module"
LIBRARY = Library("cortex-m4", cmsis_nn=True)
SETTINGS = {
    "node": Settings(tasks=(Nodes(queries=2),), batch_size=4, snapshot_every=2),
    "weight": Settings(tasks=(Weights(queries=2),), batch_size=4, learning_rate=20.0),
}
STEPS = 5
#: Of the emulator, until the program has ended. Zephyr itself never does.
SECONDS = 120.0


def why_not() -> str | None:
    if not ZEPHYR_BASE or not TFLM_DIR:
        return "NO ZEPHYR_BASE OR NO TFLM_DIR: NOTHING WAS BUILT OR RUN UNDER ZEPHYR"
    if None in (shutil.which("cmake"), shutil.which("ninja")):
        return "NO cmake OR NO ninja: NOTHING WAS BUILT OR RUN UNDER ZEPHYR"
    return LIBRARY.why_not()


def environment() -> dict[str, str]:
    debian = {"ZEPHYR_TOOLCHAIN_VARIANT": "gnuarmemb", "GNUARMEMB_TOOLCHAIN_PATH": "/usr"}
    return (debian if "ZEPHYR_TOOLCHAIN_VARIANT" not in os.environ else {}) | dict(os.environ)


def configure(sample: Path, build: Path) -> list[str]:
    """Returns the command that calls Zephyr's CMake."""
    command = ["cmake", "-GNinja", "-S", str(sample), "-B", str(build), "-DBOARD=mps2/an386"]
    if "ZEPHYR_TOOLCHAIN_VARIANT" not in os.environ:
        # Debian's C library has locks of its own, which nothing here needs, and does not say that it has Zephyr's.
        command += [f"-DEXTRA_{language}FLAGS=-D_RETARGETABLE_LOCKING=1" for language in ("C", "CXX")]
    # The library's calls have floating-point arguments in registers.
    command += ["-DCONFIG_FPU=y", "-DCONFIG_FP_HARDABI=y"]
    return [*command, f"-DTFLM_DIR={Path(TFLM_DIR or '').resolve()}", f"-DTFLM_LIBRARY={LIBRARY.path}"]


def run(command: list[str]) -> None:
    done = subprocess.run(command, env=environment(), capture_output=True, text=True, timeout=3600)
    assert done.returncode == 0, f"{done.stdout[-6000:]}{done.stderr[-6000:]}"


def printed(program: Path) -> list[str]:
    command = ["qemu-system-arm", "-M", "mps2-an386", "-nographic", "-kernel", str(program)]
    with subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, errors="replace"
    ) as emulator:
        limit = threading.Timer(SECONDS, emulator.kill)
        limit.start()
        lines = list[str]()
        assert emulator.stdout is not None
        for line in emulator.stdout:
            lines.append(line.strip())
            if line.startswith("checksum"):
                break
        limit.cancel()
        emulator.kill()
    return lines


@pytest.fixture(scope="module")
def workplace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if reason := why_not():
        pytest.skip(reason)
    return tmp_path_factory.mktemp("zephyr")


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_the_sample_trains_as_the_desktop_does(algorithm: str, workplace: Path, tmp_path: Path) -> None:
    zo, data, settings = zo_model(algorithm), samples(), SETTINGS[algorithm]
    trainer = Trainer(zo, settings, runtime="tflm")
    log = tmp_path / "run.zolog"
    history = trainer.fit(data.inputs[0], data.labels, steps=STEPS, log=log, keep="last")

    folder, build = workplace / "firmware", workplace / "build"
    made = generate_firmware(zo, settings, steps=STEPS, samples=len(data), name="small", data=data, platform="zephyr")
    shutil.rmtree(folder, ignore_errors=True)
    made.write(folder)
    cmake = folder / "samples/small/CMakeLists.txt"
    ours = "list(APPEND EXTRA_ZEPHYR_MODULES "
    assert ours in cmake.read_text()
    cmake.write_text(cmake.read_text().replace(ours, f"{ours}{MODULE} "))
    run(configure(cmake.parent, build))
    run(["cmake", "--build", str(build)])
    lines = printed(build / "zephyr/zephyr.elf")
    assert any(line.startswith("*** Booting Zephyr OS") for line in lines), lines
    losses = [int(line.split()[3]) for line in lines if line.startswith("step ")]
    assert losses == [round(v * 65536) for v in history.steps]
    assert log_of(lines) == log.read_bytes()
    assert lines[-1] == f"checksum {checksum_of(trainer):08x}"
