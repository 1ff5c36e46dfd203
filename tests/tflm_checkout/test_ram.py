"""MLPerf Tiny's VWW in the RAM of Poor Man's Training's devices, from one command, by the linker's map."""

import os
import re
import subprocess
from pathlib import Path

import numpy as np
import pytest

from cortex_m.emulator import ARM, CORES, run
from helpers.commands import result_of
from tflm_checkout.firmware_build import LIBRARIES, build_firmware
from tflm_checkout.test_firmware import log_of
from tflm_zo import load_model
from tflm_zo.data import Inputs, prepare
from tflm_zo.training import Trainer, algorithm
from tflm_zo.training.setting_texts import changed

LIBRARY = next(library for library in LIBRARIES if library.name == "cortex-m4-cmsis_nn")
VWW = Path(os.environ.get("TFLM_ZO_MODELS") or ".") / "vww_96_int8.tflite"
SAMPLES, STEPS, KIB = 8, 1, 1024
COMMON = "--algorithm poor-mans-training --set nodes.queries=2 --set weights.queries=2 --steps 1".split()
GIVEN = {"nodes.queries": 2, "weights.queries": 2}


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if not VWW.is_file():
        pytest.skip(f"TFLM_ZO_MODELS HAS NO {VWW.name}: WHETHER IT FITS WAS NOT TESTED")
    if reason := LIBRARY.why_not():
        pytest.skip(reason)
    rng = np.random.default_rng(3)
    path = tmp_path_factory.mktemp("vww") / "data.npz"
    np.savez(path, x=rng.uniform(0, 1, (SAMPLES, 96, 96, 3)).astype(np.float32), y=np.arange(SAMPLES) % 2)
    return path


def ram_of(program: Path) -> int:
    command = [f"{ARM.prefix}size", "-A", str(program)]
    listed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return sum(int(size) for size in re.findall(r"^\.(?:data|bss)\s+(\d+)", listed, re.MULTILINE))


def generated(folder: Path, *options: str) -> dict[str, object]:
    found: dict[str, object] = result_of("firmware", VWW, "-o", folder / "vww", *COMMON, *options)
    return found


def check_size(program: Path, found: dict[str, object], limit: int) -> None:
    said, stack = found["ram_bytes"], found["stack_bytes"]
    assert isinstance(said, int) and isinstance(stack, int)
    linked = ram_of(program) + stack
    assert linked <= limit
    # The printed size is that of the larger core, the M55.
    assert 0 <= said - linked <= 512


def test_some_layers_are_trained_in_256_kib(data: Path, tmp_path: Path) -> None:
    options = ["--ram", "256K", "--data", str(data), "--set", "batch-size=4", "--set", "learning-rate=0.5"]
    found = generated(tmp_path, *options)
    program = build_firmware(LIBRARY, tmp_path / "vww", tmp_path / "build")
    check_size(program, found, 256 * KIB)

    zo = load_model(tmp_path / "vww.zo.tflite")
    trains = found["trains"]
    assert isinstance(trains, dict)
    own = {**GIVEN, "batch_size": 4, "learning_rate": 0.5, "layers": tuple(trains["layers"])}
    trainer, log = Trainer(zo, changed(algorithm("poor-mans-training"), own), runtime="tflm"), tmp_path / "run.zolog"
    arrays = prepare(Inputs(zo), data)
    trainer.fit(arrays.inputs[0], arrays.labels, steps=STEPS, log=log, keep="last")
    assert log_of(run(CORES[LIBRARY.core], program, timeout=1200).splitlines()) == log.read_bytes()


def test_the_whole_network_is_trained_in_1024_kib(data: Path, tmp_path: Path) -> None:
    found = generated(tmp_path, "--ram", "1024K", "--data", str(data))
    assert found["given_up"] == ["16-bit updates (8 bits, rounded at random)"]
    program = build_firmware(LIBRARY, tmp_path / "vww", tmp_path / "build")
    check_size(program, found, 1024 * KIB)
