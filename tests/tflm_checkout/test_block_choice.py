# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""The choice of the best block of layers on an emulated Cortex-M4, against that of the desktop."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest

from cortex_m.emulator import CORES, run
from models import lenet5
from tflm_checkout.firmware_build import LIBRARIES, build_firmware
from tflm_checkout.test_firmware import log_of, samples
from tflm_zo import inject, load_model
from tflm_zo.firmware import BlockSearch, generate_firmware
from tflm_zo.training import NodeSettings, Trainer, algorithm, choose_block

STEPS = 8
LIBRARY = next(library for library in LIBRARIES if library.name == "cortex-m4-cmsis_nn")
RUNS: dict[str, tuple[str, dict[str, Any], BlockSearch]] = {
    # Perturbed weights in the first block, perturbed nodes in the others.
    "poor-mans-training": ("poor-mans-training", {"batch_size": 4, "rate": 0.5}, BlockSearch(4, 0.5, 2)),
    # Exact gradients, passed back through a layer of the same block.
    "exact tail": (
        "node",
        {"batch_size": 8, "head": "exact", "tail": 2, "snapshot_every": 3},
        BlockSearch(2, 0.4, 2),
    ),
}


@pytest.mark.parametrize("name", RUNS)
def test_choice_and_run_are_the_desktops(name: str, tmp_path: Path) -> None:
    if reason := LIBRARY.why_not():
        pytest.skip(reason)
    chosen, data = algorithm(RUNS[name][0]), samples(28)
    settings, search = chosen.make(seed=5, **RUNS[name][1]), RUNS[name][2]
    assert isinstance(settings, NodeSettings)
    zo = load_model(inject(lenet5(), chosen.inject_settings(RUNS[name][1], batch=2)).to_bytes())

    found = choose_block(
        zo,
        settings,
        data.inputs[0],
        data.labels,
        blocks=search.blocks,
        held_out=search.held_out,
        epochs=search.epochs,
        runtime="tflm",
    )
    trainer = Trainer(zo, dataclasses.replace(settings, only=found.layers), runtime="tflm")
    log = tmp_path / "run.zolog"
    history = trainer.fit(data.inputs[0], data.labels, steps=STEPS, log=log)
    trainer.runtime.invoke(trainer.runtime.command(loss=False, checksum=True))
    checksum = trainer.runtime.status().checksum
    assert len(set(found.scores)) > 1 and found.best > 0  # not whatever comes first

    made = generate_firmware(
        zo, settings, steps=STEPS, samples=len(data), name="lenet5", data=data, search=search
    )
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
