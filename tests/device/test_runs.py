# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""A device's run is the desktop's: losses, log, weights, evaluation and outputs."""

from __future__ import annotations

import numpy as np
import pytest

from device.emulation import OK, Store, needs_compiler
from device.runs import EACH_RUN, SAMPLES, STEPS, WEIGHT_RUNS, desktop, device

pytestmark = needs_compiler


@pytest.mark.parametrize("name", EACH_RUN)
def test_the_run_is_the_desktops(name: str) -> None:
    expected, made, store = desktop(name), device(name), Store()

    def check_evaluation(wanted: dict[str, float]) -> None:
        status, found = made.evaluate()
        assert (status, found.samples) == (OK, SAMPLES)
        assert found.correct == round(wanted["accuracy"] * SAMPLES)
        assert abs(found.loss / SAMPLES / 65536 - wanted["loss"]) < 2e-4

    check_evaluation(expected.before)
    made.set_log(store)
    losses = []
    for step in range(STEPS):
        status, report = made.train_step()
        assert (status, report.step_done, report.step) == (OK, 1, step)
        losses.append(report.mean_loss)
    assert losses == expected.losses
    status, report = made.train_step()
    assert (status, report.step_done, made.step) == (OK, 0, STEPS)
    assert store.content(len(expected.log)) == expected.log
    assert (store.bytes[len(expected.log) :] == 0xFF).all()
    assert made.log_bytes == (len(expected.log) if name in WEIGHT_RUNS else 0)
    assert made.export_weights() == (OK, expected.states[-1].weights)
    assert made.checksum() == expected.states[-1].checksum
    check_evaluation(expected.after)
    # Weights of every step, evaluated in between: it changes no bit of the run.
    assert made.init() == OK
    for step, state in enumerate(expected.states):
        assert made.export_weights() == (OK, state.weights)
        assert made.checksum() == state.checksum
        if step < STEPS:
            assert made.evaluate(0, 1)[0] == OK
            assert made.train_step()[0] == OK
    assert len({state.checksum for state in expected.states[:-1]}) == STEPS  # every step but the last moves


@pytest.mark.parametrize("name", EACH_RUN)
def test_outputs_are_the_models(name: str) -> None:
    expected, made = desktop(name), device(name)
    for _ in range(STEPS):
        assert made.train_step()[0] == OK
    assert made.settle() == OK
    found = []
    for first in range(0, SAMPLES, 2):
        status, outputs = made.infer(first)
        assert status == OK
        found.append(outputs)
    np.testing.assert_array_equal(np.concatenate(found), expected.outputs)
