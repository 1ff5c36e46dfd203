"""One optimization step: the 8-bit and the 16-bit update."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers import core
from helpers.examples import examples
from helpers.oracle import weights as oracle
from helpers.oracle.draws import EXAMPLES, Step, native, steps
from helpers.oracle.stream import Dist
from tflm_zo.core import NativeError, Rademacher, Status

RADEMACHER = Rademacher(1)


def random_queries(rng, count, largest):
    coefficients = rng.integers(-largest, largest + 1, count)
    return [(int(s), int(c)) for s, c in zip(rng.integers(0, 2**32, count), coefficients, strict=True)]


def run(step: Step, weights, fraction):
    return core.update(weights, fraction, *step.shape, native(step.dist), step.queries, restore=step.restore)


def assert_same(weights, fraction, expected_weights, expected_fraction):
    assert np.array_equal(weights, expected_weights)
    assert fraction is None or np.array_equal(fraction, expected_fraction)


def check(step: Step) -> None:
    """Compares an update with the oracle's."""
    weights, fraction = step.arrays()
    *expected, clipped = oracle.update(weights, fraction, *step.shape, step.dist, step.queries, step.restore)
    assert run(step, weights, fraction) == clipped
    assert_same(weights, fraction, *expected)


@settings(max_examples=examples(400))
@given(steps() | steps(max_queries=32))
def test_is_the_oracles(step):
    check(step)


@pytest.mark.parametrize("limit", [1, 125, 126, 127])
@pytest.mark.parametrize("k", [-2, -1, 1])
@pytest.mark.parametrize("twice", [False, True])
def test_a_step_along_what_is_restored(limit, k, twice):
    """Does both in one pass, unless restored weights wrap; restores once if two queries have the direction."""
    queries = random_queries(np.random.default_rng(limit), 3, 2**18)
    if twice:
        queries[2] = queries[1]
    step = Step(Dist(0, 2), 2000, 1, 1, None, False, 3, limit, queries, [(queries[1][0], k)])
    check(step)


@given(steps(restore=False), st.sampled_from([-1, 1]))
def test_restoring_the_last_query(step, k):
    """Restores by restore_k, which is short for one term: the last query's direction."""
    weights, fraction = step.arrays()
    two_weights, two_fraction = step.arrays()
    own = (*step.shape, native(step.dist), step.queries)
    saturated = core.update(weights, fraction, *own, k)
    step.restore = [(step.queries[-1][0], k)]
    assert run(step, two_weights, two_fraction) == saturated
    assert_same(weights, fraction, two_weights, two_fraction)


@pytest.mark.parametrize("lsb", [0.001, 0.3, 0.5, 0.999, 2.25, -0.3, -1.75])
def test_stochastic_rounding_is_unbiased(lsb):
    """Compares the mean step with the exact one, for weights that go up and for weights that go down."""
    n, coefficient = 1_000_000, round(lsb * 65536)
    exact = coefficient / 65536
    z = core.direction(RADEMACHER, 11, 4, n)
    weights = np.zeros(n, np.int8)
    core.update(weights, None, None, 1, 1, 4, 125, RADEMACHER, [(11, coefficient)])
    part = exact - np.floor(exact)
    for sign in (-1, 1):
        moves = weights[z == sign].astype(float) * sign
        bound = 5 * (part * (1 - part) / moves.size) ** 0.5 + 1e-12
        assert abs(moves.mean() - exact) < bound
        assert np.isin(moves, [np.floor(exact), np.ceil(exact)]).all()


def test_sixteen_bits_lose_nothing():
    """Steps of 1/256 LSB add up exactly, and their negatives undo them."""
    rng = np.random.default_rng(0)
    weights = rng.integers(-60, 61, 2000).astype(np.int8)
    fraction = rng.integers(-128, 128, 2000).astype(np.int8)
    start = weights.astype(int) * 256 + fraction
    queries = [(seed, 256 * c) for seed, c in random_queries(rng, 50, 200)]
    total = sum(c // 256 * core.direction(RADEMACHER, s, 9, 2000).astype(int) for s, c in queries)
    for query in queries:
        assert core.update(weights, fraction, None, 1, 1, 9, 125, RADEMACHER, [query]) == 0
    assert np.array_equal(weights.astype(int) * 256 + fraction, start + total)
    for seed, c in reversed(queries):
        core.update(weights, fraction, None, 1, 1, 9, 125, RADEMACHER, [(seed, -c)])
    assert np.array_equal(weights.astype(int) * 256 + fraction, start)


@pytest.mark.parametrize("dist", EXAMPLES)
def test_coefficients_that_would_overflow_are_refused(dist):
    largest = 2**30 // dist.z_max
    weights, fraction = np.zeros(100, np.int8), np.zeros(100, np.int8)
    core.update(weights.copy(), fraction.copy(), None, 1, 1, 0, 125, native(dist), [(1, largest)])
    core.update(weights.copy(), None, None, 1, 1, 0, 125, native(dist), [(1, -largest // 2), (2, largest // 2)])
    for queries in ([(1, largest + 1)], [(1, -(2**31))], [(1, largest), (2, 1)], [(1, 2**31 - 1)] * 32):
        with pytest.raises(NativeError) as error:
            core.update(weights, fraction, None, 1, 1, 0, 125, native(dist), queries)
        assert error.value.status is Status.COEFFICIENT
    assert not weights.any()
    assert not fraction.any()


@pytest.mark.parametrize(
    ("queries", "restore_k", "limit", "status"),
    [
        ([], 0, 125, Status.ARGUMENT),
        ([(1, 1)] * 33, 0, 125, Status.QUERIES),
        ([(1, 1)], 2, 125, Status.FACTOR),
        ([(1, 1)], -3, 125, Status.FACTOR),
        ([(1, 1)], 0, 0, Status.ARGUMENT),
        ([(1, 1)], 0, 128, Status.ARGUMENT),
        ([(1, 1)], 0, -5, Status.ARGUMENT),
    ],
)
def test_errors_leave_weights_alone(queries, restore_k, limit, status):
    weights, fraction = np.arange(-50, 50).astype(np.int8), np.arange(100).astype(np.int8)
    before = weights.copy(), fraction.copy()
    with pytest.raises(NativeError) as error:
        core.update(weights, fraction, None, 1, 1, 0, limit, RADEMACHER, queries, restore_k)
    assert error.value.status is status
    assert np.array_equal(weights, before[0])
    assert np.array_equal(fraction, before[1])


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        (
            {"fraction": np.zeros(5, np.int8)},
            ValueError,
            "`fraction` must have 6 elements, like `weights`. Received: 5",
        ),
        ({"fraction": np.zeros(6, np.int16)}, TypeError, "`fraction` must have dtype int8. Received: int16"),
        ({"multiplier": np.zeros(3, np.int32)}, ValueError, "`multiplier` must have one element for each"),
        ({"multiplier": np.full(2, -1, np.int32)}, ValueError, "`multiplier` must have Q31 factors"),
        ({"multiplier": np.ones(2, np.int64)}, TypeError, "`multiplier` must have dtype int32"),
        ({"multiplier": np.ones(2, np.int32), "inner": 4}, ValueError, r"`channels \* inner` must divide"),
        ({"stream": -1}, ValueError, "`stream` must be in 0..4294967295. Received: -1"),
        ({"limit": 1.5}, TypeError, "`limit` must be an integer. Received: float"),
    ],
)
def test_arguments(changes, error, message):
    arguments = {"fraction": None, "multiplier": None, "channels": 2, "inner": 3, "stream": 0, "limit": 127}
    with pytest.raises(error, match=message):
        core.update(np.zeros(6, np.int8), **{**arguments, **changes}, distribution=RADEMACHER, queries=[(1, 1)])
