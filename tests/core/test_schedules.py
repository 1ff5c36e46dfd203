"""Learning rates and the order of the samples: the parts of a step that do not depend on losses."""

import math
from collections import Counter
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers.oracle import control as oracle
from helpers.oracle.control import COSINE, LINEAR, ONE, Settings
from helpers.oracle.draws import any_settings, integers, make, seeds
from tflm_zo.core import library
from tflm_zo.core.loader import structs


def rate_of(s: Settings, step: int, decays: Any = None) -> int:
    return int(library().zo_control_rate(integers(s), step, decays))


@given(any_settings(most_steps=10**6), st.data())
def test_rates(s, data):
    s = replace(s, warmup_steps=data.draw(st.integers(0, 2 * s.steps)), batch=1, parts=1)
    s = replace(s, decay_steps=data.draw(st.integers(1, s.steps)))
    step = data.draw(st.integers(0, s.steps - 1))
    expected, actual = oracle.rate(s, step), rate_of(s, step)
    # Each of up to three truncations takes less than one; the step schedule truncates at every decay.
    slack = 3.0 + 1e-9 * expected
    if s.schedule == COSINE:
        slack += 1e-3 * (s.rate - s.final_rate)
    if s.schedule == oracle.STEP:
        slack += min(step // s.decay_steps, 2.0 / (1.0 - min(s.decay, ONE - 1) / ONE))
    assert abs(actual - expected) <= slack


@pytest.mark.parametrize("steps", [2, 3, 10, 1000])
def test_linear_exactly(steps):
    s = Settings(steps=steps, rate=7 * (steps - 1) + 3, final_rate=3, schedule=LINEAR)
    assert [rate_of(s, t) for t in range(steps)] == [7 * (steps - 1 - t) + 3 for t in range(steps)]


def test_cosine_from_end_to_end():
    s = Settings(steps=1001, rate=2**30, final_rate=2**20, schedule=COSINE)
    values = np.array([rate_of(s, t) for t in range(1001)], float)
    exact = 2**20 + (2**30 - 2**20) * (1 + np.cos(np.pi * np.arange(1001) / 1000)) / 2
    assert np.abs(values - exact).max() < 1e-3 * 2**30
    assert values[0] == 2**30 and values[-1] == 2**20 and (np.diff(values) <= 0).all()


def test_warm_up_and_steps():
    s = Settings(steps=20, rate=1000, warmup_steps=4)
    assert [rate_of(s, t) for t in range(6)] == [250, 500, 750, 1000, 1000, 1000]
    s = Settings(steps=20, rate=1024, final_rate=100, schedule=oracle.STEP, decay_steps=2)
    assert [rate_of(s, t) for t in range(10)] == [1024, 1024, 512, 512, 256, 256, 128, 128, 100, 100]
    s = Settings(steps=2**31, batch=1, rate=99, schedule=oracle.STEP, decay=ONE)
    assert rate_of(s, 2**31 - 1) == 99  # at once


def test_a_step_costs_one_decay_however_many_came_before():
    """Computes one decay a step: a run stores the state of its rate."""
    s = Settings(steps=2**31, batch=1, rate=10**9, final_rate=0, schedule=oracle.STEP, decay=65000)
    s = replace(s, decay_steps=3)
    decays = structs.zo_decays()
    for step in range(100):
        assert rate_of(s, step, decays) == rate_of(s, step) and decays.count == step // 3
    decays.rate = 10**6
    assert rate_of(s, 102, decays) == 10**6 * 65000 >> 16 and decays.count == 34
    assert rate_of(s, 50, decays) == rate_of(s, 50)  # an earlier step begins anew


def test_gradient_norm():
    s = Settings(batch=4, parts=2, queries=3, rate=10**6, gradient_norm=1001)
    assert rate_of(s, 0) == 10**6 * 24 // (24 + 1000)


# --- the order of the samples -----------------------------------------------------------------------------


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
        (5, 2**31, 7, [1585716672, 1942586238, 190131179, 12793769, 329494200, 2029778857, 456259858, 1554741222]),
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
