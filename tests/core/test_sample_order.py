# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""The order of the samples: every epoch a permutation, the same for the same seed."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers.oracle import control as oracle
from helpers.oracle.control import Settings
from helpers.oracle.draws import make, seeds
from tflm_zo.core import library


@given(st.integers(1, 700), seeds)
def test_every_epoch_is_a_permutation(samples, seed):
    control = make(Settings(samples=samples, run_seed=seed, batch=samples, steps=4))
    epochs = [control.samples(e * samples, samples).tolist() for e in range(4)]
    for order in epochs:
        assert sorted(order) == list(range(samples))
    if samples >= 20:
        assert len(set(map(tuple, epochs))) == 4


@given(st.one_of(st.integers(1, 100), st.integers(1, 2**32 - 1)), seeds, st.integers(0, 2**32 - 9))
def test_order_is_its_specification(samples, seed, first):
    control = make(Settings(samples=samples, run_seed=seed, batch=8))
    expected = [oracle.sample_at(seed, samples, first + i) for i in range(8)]
    assert control.samples(first, 8).tolist() == expected


@pytest.mark.parametrize(
    ("seed", "samples", "first", "expected"),
    [
        (1, 10, 0, [5, 1, 7, 9, 6, 4, 0, 8]),
        (1, 10, 10, [1, 4, 5, 6, 7, 2, 3, 8]),
        (0xDEADBEEF, 1000, 5000, [830, 453, 588, 695, 527, 414, 27, 937]),
        (
            5,
            2**31,
            7,
            [1585716672, 1942586238, 190131179, 12793769, 329494200, 2029778857, 456259858, 1554741222],
        ),
    ],
)
def test_order_never_changes(seed, samples, first, expected):
    """A resumed run, and a device's, meet the samples in the order of the run that wrote the log."""
    assert make(Settings(samples=samples, run_seed=seed, batch=8)).samples(first, 8).tolist() == expected


def test_one_sample_by_one_is_the_same():
    control = make(Settings(samples=37, batch=5, steps=100))
    one = library().zo_sample_at
    whole = make(Settings(samples=37, batch=500, steps=1)).samples(0, 500)
    assert [one(control.settings, p) for p in range(500)] == whole.tolist()


@pytest.mark.parametrize("samples", [8, 10, 64, 100])
def test_order_is_roughly_uniform(samples):
    epochs = 4000
    positions = make(Settings(samples=samples, batch=samples * epochs, steps=1)).samples(0, samples * epochs)
    table = positions.astype(int).reshape(epochs, samples)
    for place in (0, samples // 2, samples - 1):
        counts = np.bincount(table[:, place], minlength=samples)
        expected = epochs / samples
        chi2 = ((counts - expected) ** 2 / expected).sum()
        assert chi2 < samples - 1 + 6 * math.sqrt(2 * samples)
    # Neighbours are independent of each other.
    pairs = Counter(((table[:, 1:] - table[:, :-1]) % samples).reshape(-1).tolist())
    assert all(0.7 * epochs < pairs[k] < 1.3 * epochs for k in range(1, samples))


def test_runs_differ_in_order():
    orders = {tuple(make(Settings(samples=50, batch=50, run_seed=r)).samples(0, 50)) for r in range(50)}
    assert len(orders) == 50
