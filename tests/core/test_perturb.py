"""Perturbation in place, and that it can be undone exactly."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers import core
from helpers.oracle import weights as oracle
from helpers.oracle.draws import EXAMPLES, distributions, native, perturbations, sizes, streams
from tflm_zo.core import QUERY_DTYPE, NativeError, Rademacher, Status, library, make_tensor
from tflm_zo.core.loader import structs


def random_weights(size, seed=0):
    return np.random.default_rng(seed).integers(-128, 128, size).astype(np.int8)


@st.composite
def cases(draw):
    """Draws distribution, terms, size."""
    dist, size = draw(distributions), draw(sizes)
    return dist, draw(perturbations()), size


@given(cases(), streams)
def test_is_the_oracles(case, stream):
    dist, terms, size = case
    weights = random_weights(size, size)
    expected = oracle.perturb(weights, terms, dist, stream)
    core.perturb(weights, terms, native(dist), stream)
    assert np.array_equal(weights, expected)


@pytest.mark.parametrize("dist", EXAMPLES)
def test_nothing_beside_the_weights_is_touched(dist):
    for size in (*range(1, 70), 1023, 1024, 1025):
        memory = np.full(size + 128, 7, np.int8)
        core.perturb(memory[64 : 64 + size], [(5, 1), (6, -2)], native(dist), 0)
        assert (memory[:64] == 7).all() and (memory[64 + size :] == 7).all()


def test_stays_within_headroom():
    """Perturbs from ±(127 - reach) without wrapping."""
    for dist in EXAMPLES:
        edge = 127 - native(dist).reach
        for sign in (-1, 1):
            weights = np.full(5000, sign * edge, np.int8)
            core.perturb(weights, [(3, 1)], native(dist))
            assert np.abs(weights.astype(int) - sign * edge).max() <= native(dist).reach
            core.perturb(weights, [(3, -2)], native(dist))
            assert np.abs(weights.astype(int) - sign * edge).max() <= native(dist).reach


@pytest.mark.parametrize(
    ("terms", "status"),
    [
        ([], Status.ARGUMENT),
        ([(1, 0)], Status.FACTOR),
        ([(1, 1), (2, 2)], Status.FACTOR),
        ([(1, -3)], Status.FACTOR),
        ([(1, 1)] * 33, Status.QUERIES),
    ],
)
def test_errors_leave_weights_alone(terms, status):
    weights = random_weights(100)
    before = weights.copy()
    with pytest.raises(NativeError) as error:
        core.perturb(weights, terms, Rademacher(2))
    assert error.value.status is status
    assert error.value.text in str(error.value)
    assert np.array_equal(weights, before)


def test_empty_tensor():
    with pytest.raises(NativeError) as error:
        core.perturb(np.zeros(0, np.int8), [(1, 1)], Rademacher(2))
    assert error.value.status is Status.ARGUMENT


@pytest.mark.parametrize(
    "raw",
    [
        (0, 0, 0),
        (0, 0, 128),
        (0, 1, 1),
        (1, 0, 0),
        (1, 0, 128),
        (2, 0, 0),
        (2, 1, 5),
        (3, 0, 0),
        (3, 0, 128),
        (3, 1, 1),
        (4, 0, 1),
    ],
)
def test_bad_distributions(raw):
    weights = random_weights(100)
    before = weights.copy()
    tensor = make_tensor(weights, None, None, 1, 1, 0, 127)
    table = np.array([(1, 1)], QUERY_DTYPE)
    terms = structs.zo_perturb_terms(table.ctypes.data, 1)
    status = library().zo_perturb_s8(tensor, structs.zo_distribution(*raw), terms)
    assert status == Status.DISTRIBUTION
    assert np.array_equal(weights, before)


@pytest.mark.parametrize(
    ("weights", "error", "message"),
    [
        ([1, 2], TypeError, "`weights` must be a NumPy array of int8. Received: list"),
        (np.zeros(4, np.uint8), TypeError, "`weights` must have dtype int8. Received: uint8"),
        (np.zeros(8, np.int8)[::2], ValueError, "`weights` must be C-contiguous"),
        (np.broadcast_to(np.int8(1), (1,)), ValueError, "`weights` must be writable"),
    ],
)
def test_arrays(weights, error, message):
    with pytest.raises(error, match=message):
        core.perturb(weights, [(1, 1)], Rademacher(2))


@pytest.mark.parametrize(
    ("pairs", "error", "message"),
    [
        ([(2**32, 1)], ValueError, "must have seeds in 0..2"),
        ([(-1, 1)], ValueError, "must have seeds in 0..2"),
        ([(1, 2**31)], ValueError, "must have each k in"),
        ([(1.5, 1)], TypeError, "must be pairs of integers"),
        ([(1, 2, 3)], ValueError, "must be pairs"),
        ([2**70], ValueError, "must be pairs"),
    ],
)
def test_pairs(pairs, error, message):
    with pytest.raises(error, match=message):
        core.perturb(np.zeros(4, np.int8), pairs, Rademacher(2))
