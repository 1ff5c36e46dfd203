# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""Steps that are put together of differences that several runs have measured."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers.oracle.control import Settings
from helpers.oracle.draws import any_settings, make
from tflm_zo.core import Control, NativeError


def finish(control: Control, losses: list[np.ndarray]) -> None:
    """Does one step with the losses of its invokes."""
    for own in losses:
        control.next()
        report = control.report(own)
    assert report is not None


@given(any_settings(), st.integers(0, 2**32), st.integers(1, 5))
def test_the_mean_of_several_runs_is_one_run_on_all_their_samples(s, seed, clients):
    # Sharpness-aware runs differ in what is uphill for them, and the gradient norm depends on the minibatch.
    s = replace(s, sharpness=False, gradient_norm=0)
    rng = np.random.default_rng(seed)
    others, deciding = [make(s) for _ in range(clients)], make(s)
    pooled = make(replace(s, parts=clients * s.parts))
    for step in range(s.steps):
        # Of each evaluation, client, part and sample.
        losses = rng.integers(0, 2**20, (s.evaluations, clients, s.parts, s.batch)).astype(np.int32)
        before = deciding.struct.mean_square
        for client, control in enumerate(others):
            control.resume(step, before)
            finish(control, list(losses[:, client].reshape(-1, s.batch)))
            control.withdraw(before)
            assert control.step == step
        n = clients * s.minibatch
        sums = np.sum([control.differences for control in others], axis=0).tolist()
        d = np.array([(2 * abs(v) + n) // (2 * n) * (1 if v > 0 else -1) for v in sums], np.int64)
        report = deciding.decide(d, 7)
        assert (report.step, report.loss, deciding.mean_loss) == (step, 7 / 65536, 7)
        finish(pooled, list(losses.reshape(-1, s.batch)))
        assert pooled.coefficients == deciding.coefficients
        assert pooled.struct.mean_square == deciding.struct.mean_square
    with pytest.raises(NativeError):
        deciding.decide(d, 0)


@pytest.mark.parametrize("value", [2**30 + 1, -(2**30) - 1, 2**62])
def test_what_is_out_of_range_changes_nothing(value):
    control = make(Settings(steps=2))
    before = bytes(control.struct)
    with pytest.raises(NativeError):
        control.decide(np.full(control.settings.queries, value, np.int64), 0)
    assert bytes(control.struct) == before
