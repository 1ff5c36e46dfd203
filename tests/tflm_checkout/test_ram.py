"""Networks in the RAM of small devices, from two commands, by the linker's map."""

import os
import re
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cortex_m.emulator import ARM, CORES, run
from helpers.commands import result_of
from helpers.models import MODELS
from tflm_checkout.firmware_build import LIBRARIES, build_firmware
from tflm_checkout.test_firmware import log_of
from tflm_zo import load_model
from tflm_zo.converters import read_metadata
from tflm_zo.data import Inputs, prepare
from tflm_zo.training import Trainer
from tflm_zo.training.algorithms import usual_settings
from tflm_zo.training.setting_texts import changed

LIBRARY = next(library for library in LIBRARIES if library.name == "cortex-m4-cmsis_nn")
VWW = Path(os.environ.get("TFLM_ZO_MODELS") or ".") / "vww_96_int8.tflite"
SAMPLES, STEPS, KIB = 8, 2, 1024


@pytest.fixture(autouse=True)
def library() -> None:
    if reason := LIBRARY.why_not():
        pytest.skip(reason)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if not VWW.is_file():
        pytest.skip(f"TFLM_ZO_MODELS HAS NO {VWW.name}: WHETHER IT FITS WAS NOT TESTED")
    rng = np.random.default_rng(3)
    path = tmp_path_factory.mktemp("vww") / "data.npz"
    np.savez(path, x=rng.uniform(0, 1, (SAMPLES, 96, 96, 3)).astype(np.float32), y=np.arange(SAMPLES) % 2)
    return path


def ram_of(program: Path) -> int:
    command = [f"{ARM.prefix}size", "-A", str(program)]
    listed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return sum(int(size) for size in re.findall(r"^\.(?:data|bss)\s+(\d+)", listed, re.MULTILINE))


def check_size(program: Path, found: dict[str, Any], limit: int) -> None:
    linked = ram_of(program) + found["stack_bytes"]
    assert linked <= limit
    # The printed size is that of the larger core, the M55.
    larger = max(found["arena_bytes_mve"] - found["arena_bytes"], 0)
    assert -64 <= found["ram_bytes"] - larger - linked <= 512


@pytest.mark.parametrize("ram", [128, 256, 512])
def test_a_plain_model_trains_as_fits(ram: int, data: Path, tmp_path: Path) -> None:
    options = ["--data", data, "--steps", STEPS, "--set", "learning-rate=0.5"]
    found = result_of("firmware", VWW, "-o", tmp_path / "vww", "--ram", f"{ram}K", *options)
    program = build_firmware(LIBRARY, tmp_path / "vww", tmp_path / "build")
    check_size(program, found, ram * KIB)
    zo = load_model(tmp_path / "vww.zo.tflite")
    settings = changed(usual_settings(read_metadata(zo)), {"batch_size": found["batch_size"], "learning_rate": 0.5})
    trainer, log = Trainer(zo, settings, runtime="tflm"), tmp_path / "run.zolog"
    arrays = prepare(Inputs(zo), data)
    trainer.fit(arrays.inputs[0], arrays.labels, steps=STEPS, log=log, keep="last")
    assert log_of(run(CORES[LIBRARY.core], program, timeout=1200).splitlines()) == log.read_bytes()


@pytest.mark.parametrize("ram", [None, 22, 19, 15])
def test_the_run_of_train_to_the_bit(ram: int | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """train chooses among the ways that fit, by held-out samples; firmware repeats its run."""
    monkeypatch.chdir(tmp_path)
    Path("m.tflite").write_bytes(MODELS["depthwise_separable"]())
    shape = load_model("m.tflite").subgraphs[0].inputs[0].shape[1:]
    rng = np.random.default_rng(5)
    y = np.arange(60) % 3
    x = rng.normal(0, 0.3, (60, *shape)) + (y[:, None, None, None] - 1)
    np.savez("adapt.npz", x=x.astype(np.float32), y=y)
    device = [] if ram is None else ["--ram", f"{ram}K"]
    told = result_of("train", "m.tflite", "adapt.npz", "-o", "t.tflite", "--steps", 40, *device)
    assert told["choice"] is not None and told["steps"] == 40
    found = result_of("firmware", "t.zo.tflite", "-o", "fw", "--data", "adapt.npz")
    program = build_firmware(LIBRARY, tmp_path / "fw", tmp_path / "build")
    if ram is not None:
        check_size(program, found, ram * KIB)
    log = log_of(run(CORES[LIBRARY.core], program, timeout=1200).splitlines())
    if found["zo_model"] is None:
        assert log == Path("t.zolog").read_bytes()
    # A model of batch 1 has a fingerprint of its own.
    Path("device.zolog").write_bytes(log)
    result_of("replay", found["zo_model"] or "t.zo.tflite", "device.zolog", "-o", "device.tflite")
    constants = [
        [bytes(t.buffer.data) for t in load_model(path).subgraphs[0].all_tensors()]
        for path in ("t.tflite", "device.tflite")
    ]
    assert constants[0] == constants[1]
