# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""Every algorithm that has a name, trained on an emulated Cortex-M4: the desktop's log and weights."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from cortex_m.emulator import CORES, run
from helpers.models import lenet5
from tflm_checkout.firmware_build import LIBRARIES, build_firmware
from tflm_checkout.test_firmware import log_of, samples
from tflm_zo import inject, load_model
from tflm_zo.firmware import generate_firmware
from tflm_zo.training import Trainer, algorithm, inject_settings
from tflm_zo.training.algorithms import ALGORITHMS

STEPS, SAMPLES = 6, 40
LIBRARY = next(library for library in LIBRARIES if library.name == "cortex-m4-cmsis_nn")


@pytest.mark.parametrize("name", ALGORITHMS)
def test_the_run_is_the_desktops(name: str, tmp_path: Path) -> None:
    if reason := LIBRARY.why_not():
        pytest.skip(reason)
    data = samples(28)
    settings = dataclasses.replace(algorithm(name), batch_size=4, seed=5)
    zo = load_model(inject(lenet5(), inject_settings(settings, batch=2)).to_bytes())

    trainer = Trainer(zo, settings, runtime="tflm")
    log = tmp_path / "run.zolog"
    history = trainer.fit(data.inputs[0], data.labels, steps=STEPS, log=log, keep="last")
    trainer.runtime.invoke(trainer.runtime.command(loss=False, checksum=True))
    checksum = trainer.runtime.status().checksum

    folder = tmp_path / "firmware"
    made = generate_firmware(zo, settings, steps=STEPS, samples=SAMPLES, name="lenet5", data=data)
    made.write(folder)
    program = build_firmware(LIBRARY, folder, tmp_path / "build")
    lines = run(CORES[LIBRARY.core], program, timeout=600).splitlines()
    losses = [int(line.split()[3]) for line in lines if line.startswith("step ")]
    assert losses == [round(v * 65536) for v in history.steps]
    assert log_of(lines) == log.read_bytes()
    assert f"checksum {checksum:08x}" in lines
