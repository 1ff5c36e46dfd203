"""Replaying recorded steps in one walk over the weights."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers import core
from helpers.examples import slow_but
from helpers.oracle import weights as oracle
from helpers.oracle.draws import EXAMPLES, Step, native, seeds, steps
from helpers.oracle.stream import Dist
from tflm_zo.core import QUERY_DTYPE, NativeError, Rademacher, Status, checksum, replay


def random_steps(count, queries, scale, seed=0):
    rng = np.random.default_rng(seed)
    table = np.zeros((count, queries), QUERY_DTYPE)
    table["seed"] = rng.integers(0, 2**32, table.shape)
    table["coefficient"] = rng.integers(-scale, scale + 1, table.shape)
    return table


def pairs(step):
    return [(int(s), int(c)) for s, c in step]


@pytest.mark.parametrize("queries", slow_but((1, 8), (1, 2, 3, 8, 32)))
@pytest.mark.parametrize("with_multiplier", [False, True])
@pytest.mark.parametrize("has_fraction", [False, True])
@pytest.mark.parametrize("dist", EXAMPLES)
def test_a_thousand_steps_are_a_thousand_updates(dist, has_fraction, with_multiplier, queries):
    rng = np.random.default_rng(1)
    size, limit, stream = 1024 + 77 * 4, 120, 6
    channels, inner = 4, 111
    multiplier = rng.integers(0, 2**31, channels).astype(np.int32) if with_multiplier else None
    shape = (multiplier, channels, inner, stream, limit, native(dist))
    weights = rng.integers(-limit, limit + 1, size).astype(np.int8)
    fraction = np.zeros(size, np.int8) if has_fraction else None
    weights_2, fraction_2 = weights.copy(), None if fraction is None else fraction.copy()
    # Up to a step each, shared by the queries; of a coordinate, which moves one weight, a large one.
    # A hundred steps of 32 queries have as many terms as a thousand of three.
    scale = 2**21 if dist.kind == 3 else 60_000 // queries
    table = random_steps(1000 if queries < 32 else 100, queries, scale)

    saturated = replay(weights, fraction, *shape, table)
    assert saturated == sum(core.update(weights_2, fraction_2, *shape, step) for step in table)
    assert saturated > 0
    assert np.array_equal(weights, weights_2)
    assert fraction is None or np.array_equal(fraction, fraction_2)


@given(steps(restore=False, max_queries=3), seeds, st.integers(1, 6))
def test_is_the_oracles(step: Step, seed, count):
    weights, fraction = step.arrays()
    recorded = [[((s + seed * t) % 2**32, c) for s, c in step.queries] for t in range(count)]
    expected, expected_fraction, expected_saturated = weights, fraction, 0
    for queries in recorded:
        expected, expected_fraction, clipped = oracle.update(
            expected, expected_fraction, *step.shape, step.dist, queries
        )
        expected_saturated += clipped
    saturated = replay(weights, fraction, *step.shape, native(step.dist), recorded)
    assert saturated == expected_saturated
    assert np.array_equal(weights, expected)
    assert fraction is None or np.array_equal(fraction, expected_fraction)


@pytest.mark.parametrize("size", [1, 31, 32, 33, 1023, 1024, 1025, 2080])
@pytest.mark.parametrize("largest", [200, 2**15, 2**24, 2**30])
@pytest.mark.parametrize("outside", [False, True])
def test_one_query_steps_of_any_size(size, largest, outside):
    """Covers the path of the common case: steps of no size to any, weights outside the limit."""
    rng = np.random.default_rng(size)
    limit = 100
    weights = rng.integers(-limit, limit + 1, size).astype(np.int8)
    fraction = np.where(np.abs(weights) < limit, rng.integers(-128, 128, size), 0).astype(np.int8)
    if outside:
        weights[size // 2] = 127
    table = random_steps(20, 1, largest, seed=largest)
    table["coefficient"][::5] = rng.choice([-largest, 0, 127, 128, -128, -129, largest], (4, 1))
    expected, expected_fraction, saturated = weights.copy(), fraction.copy(), 0
    for step in table:
        expected, expected_fraction, clipped = oracle.update(
            expected, expected_fraction, None, 1, 1, 9, limit, Dist(0, 1), pairs(step)
        )
        saturated += clipped
    found = replay(weights, fraction, None, 1, 1, 9, limit, Rademacher(), table)
    assert found == saturated
    assert np.array_equal(weights, expected)
    assert np.array_equal(fraction, expected_fraction)


@pytest.mark.parametrize(
    ("change", "status"), [(("coefficient", 2**31 - 1), Status.COEFFICIENT), (None, Status.QUERIES)]
)
def test_errors_in_the_last_step_leave_weights_alone(change, status):
    table = random_steps(50, 2 if change else 33, 1000)
    if change:
        table[49, 1][change[0]] = change[1]
    weights, fraction = np.arange(-60, 60).astype(np.int8), np.zeros(120, np.int8)
    before = weights.copy()
    with pytest.raises(NativeError) as error:
        replay(weights, fraction, None, 1, 1, 0, 125, Rademacher(), table)
    assert error.value.status is status
    assert np.array_equal(weights, before)
    assert not fraction.any()


@pytest.mark.parametrize("recorded", [[], [[]], np.zeros((0, 3), QUERY_DTYPE)])
def test_no_steps(recorded):
    with pytest.raises(NativeError) as error:
        replay(np.zeros(9, np.int8), None, None, 1, 1, 0, 125, Rademacher(), recorded)
    assert error.value.status is Status.ARGUMENT


def test_steps_of_different_lengths():
    with pytest.raises(ValueError, match=r"must have the same number of queries in each step\. Received: \[1, 2\]"):
        replay(np.zeros(9, np.int8), None, None, 1, 1, 0, 125, Rademacher(), [[(1, 1)], [(1, 1), (2, 2)]])


@given(st.integers(1, 3000), st.integers(0, 65535), st.booleans())
def test_checksum(size, stream, has_fraction):
    rng = np.random.default_rng(size)
    weights = rng.integers(-128, 128, size).astype(np.int8)
    fraction = rng.integers(-128, 128, size).astype(np.int8) if has_fraction else None
    assert checksum(weights, fraction, stream) == oracle.checksum(weights, fraction, stream)


RAMP = np.arange(-100, 100).astype(np.int8)


@pytest.mark.parametrize(
    ("weights", "fraction", "stream", "expected"),
    [
        (RAMP, None, 0, 0x817CF973),
        (RAMP, None, 7, 0xF9673CEC),
        (RAMP, RAMP[::-1].copy(), 7, 0x784A5205),
        (np.zeros(1, np.int8), None, 0, 0x7C8C47C8),
    ],
)
def test_checksums_never_change(weights, fraction, stream, expected):
    """A device's is compared with a desktop's of another version."""
    assert checksum(weights, fraction, stream) == expected
    assert oracle.checksum(weights, fraction, stream) == expected
