"""The choice of the best block of layers on an emulated Cortex-M4: the desktop's; and its failures."""

import dataclasses
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cortex_m.emulator import CORES, run
from helpers.models import MODELS, lenet5
from helpers.runs import settings_of
from tflm_checkout.firmware_build import LIBRARIES, TFLM_DIR, build_firmware, replace_main
from tflm_checkout.test_firmware import log_of, samples
from tflm_checkout.test_firmware_warnings import CXX, STATIC, WARNINGS, checked, tflm_includes, tool
from tflm_zo import inject, load_model
from tflm_zo.data import Data
from tflm_zo.firmware import BlockSearch, Firmware, generate_firmware
from tflm_zo.training import Nodes, Settings, Trainer, choose_block, inject_settings

STEPS = 8
LIBRARY = next(library for library in LIBRARIES if library.name == "cortex-m4-cmsis_nn")
RUNS: dict[str, tuple[str, dict[str, Any], BlockSearch]] = {
    # Perturbed weights in the first block, perturbed nodes in the others.
    "poor-mans-training": ("poor-mans-training", {"batch_size": 4, "learning_rate": 0.5}, BlockSearch(4, 0.5, 2)),
    # Exact gradients, passed back through a layer of the same block.
    "exact tail": ("node", {"batch_size": 8, "exact.last": 2, "snapshot_every": 3}, BlockSearch(2, 0.4, 2)),
}


@pytest.mark.parametrize("name", RUNS)
def test_choice_and_run_are_the_desktops(name: str, tmp_path: Path) -> None:
    if reason := LIBRARY.why_not():
        pytest.skip(reason)
    algorithm, given, search = RUNS[name]
    settings, data = settings_of(algorithm, given, seed=5), samples(28)
    zo = load_model(inject(lenet5(), inject_settings(settings, batch=2)).to_bytes())

    given = {"blocks": search.blocks, "held_out": search.held_out, "epochs": search.epochs}
    found = choose_block(zo, settings, data.inputs[0], data.labels, **given, runtime="tflm")
    trainer = Trainer(zo, dataclasses.replace(settings, layers=found.layers), runtime="tflm")
    log = tmp_path / "run.zolog"
    history = trainer.fit(data.inputs[0], data.labels, steps=STEPS, log=log, keep="last")
    trainer.runtime.invoke(trainer.runtime.command(loss=False, checksum=True))
    checksum = trainer.runtime.status().checksum
    assert len(set(found.scores)) > 1 and found.best > 0  # not the first one

    made = generate_firmware(zo, settings, steps=STEPS, samples=len(data), name="lenet5", data=data, search=search)
    folder = tmp_path / "firmware"
    made.write(folder)
    program = build_firmware(LIBRARY, folder, tmp_path / "build")
    lines = run(CORES[LIBRARY.core], program, timeout=600).splitlines()
    scores = [line for line in lines if line.startswith("block ")]
    assert scores == [f"block {i} score {score}" for i, score in enumerate(found.scores)]
    losses = [int(line.split()[3]) for line in lines if line.startswith("step ")]
    assert losses == [round(v * 65536) for v in history.steps]
    assert log_of(lines) == log.read_bytes()
    assert f"checksum {checksum:08x}" in lines


def small() -> Firmware:
    rng = np.random.default_rng(1)
    x = rng.integers(-128, 128, (12, 8, 8, 1)).astype(np.int8)
    data = Data([x], rng.integers(0, 4, 12).astype(np.int32))
    zo = inject(MODELS["small_cnn"](), batch=2, trainable="nodes", nodes=("*",), headroom=0, replay=False)
    settings = Settings(tasks=(Nodes(queries=2),), batch_size=4, seed=5, snapshot_every=2)
    return generate_firmware(zo, settings, steps=7, samples=12, name="small", data=data, search=BlockSearch(2, 0.25, 2))


def test_what_may_go_wrong(tmp_path: Path) -> None:
    if reason := LIBRARY.why_not():
        pytest.skip(reason)
    folder = tmp_path / "firmware"
    small().write(folder)
    replace_main(folder, Path(__file__).with_name("block_choice.cc").read_text())
    printed = run(CORES[LIBRARY.core], build_firmware(LIBRARY, folder, tmp_path / "build"))
    lines = [line for line in printed.splitlines() if line.startswith(("ok ", "FAILED "))]
    assert [line for line in lines if not line.startswith("ok ")] == []
    assert len(lines) == 24


@pytest.mark.parametrize("compiler", ["gcc", "clang"])
def test_no_warning(compiler: str, tmp_path: Path) -> None:
    if TFLM_DIR is None:
        pytest.skip("TFLM_DIR IS NOT SET: NO GENERATED C++ WAS COMPILED (tflite-micro's headers are needed)")
    for name in ("arm-none-eabi-g++", "clang++" if compiler == "clang" else "arm-none-eabi-g++"):
        if shutil.which(name) is None:
            pytest.skip(f"NO {name}: NO GENERATED C++ WAS COMPILED WITH IT")
    small().write(tmp_path / "out")
    options = ["-std=c++17", *CXX, *WARNINGS, *STATIC, "-I.", *tflm_includes(), "-fsyntax-only"]
    sources = ["main.cc", "small_zo_samples.cc", "small_zo_model.cc", "small_zo_trainer.cc"]
    checked(*tool(compiler, "cortex-m4"), *options, *sources, folder=tmp_path / "out")
