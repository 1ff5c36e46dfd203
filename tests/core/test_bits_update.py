"""ElasticZO-INT8's update of perturbed weights."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers import core
from helpers.core import update_bits
from helpers.oracle import node_rules as oracle
from helpers.oracle.draws import distributions, native, seeds, sizes, streams
from tflm_zo.core import Coordinate, Gaussian, NativeError, Rademacher, SparseUniform, Status

# Of seed 1234 and tensor 7: directions, and their remaining elements, by hand.
SPARSE = [19, 7, -17, -22, -28, 4, -10, -3]  # within 31: 5 bits
SPARSE_UPDATES = {
    1: [1, 0, -1, -1, -2, 1, 0, 0],
    2: [2, 1, -2, -3, -4, 1, -2, 0],
    4: [10, 4, -9, -11, -14, 2, -5, -2],
    5: SPARSE,
    7: SPARSE,
}
GAUSSIAN = [16, 32, 56, 10, -42, -22, 20, -14]  # within 105: 7 bits
GAUSSIAN_UPDATES = [1, 2, 4, 0, -2, -1, 2, -1]  # 3 bits


COORDINATE = 3


@given(
    distributions.filter(lambda dist: dist.kind != COORDINATE),
    seeds,
    streams,
    sizes,
    st.sampled_from([-1, 0, 1]),
    st.integers(1, 7),
    st.integers(1, 127),
)
def test_is_the_oracles(dist, seed, stream, size, sign, bits, limit):
    weights = np.random.default_rng(size).integers(-limit, limit + 1, size).astype(np.int8)
    expected, saturated = oracle.update_bits(weights.tolist(), dist, seed, stream, sign, bits, limit)
    assert update_bits(weights, stream, limit, native(dist), seed, sign, bits) == saturated
    assert weights.tolist() == expected


def test_vectors():
    sparse, gaussian = SparseUniform(31), Gaussian(4.0)
    z = core.direction(sparse, 1234, 7, 8).tolist()
    assert z == SPARSE
    for bits, expected in SPARSE_UPDATES.items():
        weights = np.zeros(8, np.int8)
        update_bits(weights, 7, 127, sparse, 1234, 1, bits)
        assert weights.tolist() == [-v for v in expected]
    assert core.direction(gaussian, 1234, 7, 8).tolist() == GAUSSIAN
    weights = np.zeros(8, np.int8)
    update_bits(weights, 7, 127, gaussian, 1234, -1, 3)
    assert weights.tolist() == GAUSSIAN_UPDATES


def test_coordinates_are_refused():
    weights = np.ones(50, np.int8)
    with pytest.raises(NativeError) as error:
        update_bits(weights, 0, 127, Coordinate(4), 5, 1, 3)
    assert error.value.status == Status.DISTRIBUTION
    assert (weights == 1).all()


@pytest.mark.parametrize(
    ("limit", "sign", "bits", "status"),
    [
        (0, 1, 1, Status.ARGUMENT),
        (128, 1, 1, Status.ARGUMENT),
        (127, 2, 1, Status.FACTOR),
        (127, -2, 1, Status.FACTOR),
        (127, 1, 0, Status.ARGUMENT),
        (127, 0, 8, Status.ARGUMENT),
    ],
)
def test_errors_leave_weights_alone(limit, sign, bits, status):
    weights = np.arange(-50, 50).astype(np.int8)
    with pytest.raises(NativeError) as error:
        update_bits(weights, 0, limit, Rademacher(1), 1, sign, bits)
    assert error.value.status is status
    assert np.array_equal(weights, np.arange(-50, 50))


def test_empty_tensor():
    with pytest.raises(NativeError):
        update_bits(np.zeros(0, np.int8), 0, 127, Rademacher(1), 1, 1, 1)
