"""The random stream: written-out vectors, agreement with the oracle, statistics."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers import core
from helpers.oracle import scalar, stream
from helpers.oracle.draws import EXAMPLES, distributions, native, seeds, sizes, streams
from helpers.oracle.stream import Dist
from tflm_zo.core import Coordinate, Gaussian, NativeError, Rademacher, SparseUniform, Status, query_seed

# (kind, mu, p_zero), seed, tensor: z of weights 0..15 and of weights 1024..1031. From the specification in
# Python integers. They never change: logs of old runs depend on them.
VECTORS = [
    ((1, 5, 64), 0, 0, [1, -1, 0, 1, 0, 2, 4, -2, 3, 0, -3, 1, -5, 0, 2, -4], [0, 4, 0, 3, -5, -4, 0, -2]),
    ((1, 5, 64), 0xDEADBEEF, 3, [0, 1, -1, 1, 4, -5, 1, 3, 0, 4, -1, -4, 0, 0, 0, -4], [-4, -3, 3, 0, 0, -1, -4, 5]),
    (
        (2, 400, 0),
        0,
        0,
        [-50, 7, 31, -60, 7, 14, 38, 8, 6, -57, -63, 16, -27, 35, 41, -28],
        [1, 44, 31, 44, 2, -46, -27, 31],
    ),
    (
        (2, 400, 0),
        0xDEADBEEF,
        3,
        [10, 25, 53, 11, -39, -52, -11, 10, 37, 36, -40, -1, -13, 10, -91, 31],
        [45, -15, -15, -18, 65, 23, 3, 18],
    ),
]

# seed, tensor: the first four words of tile 0, the first two of tile 1, the first eight rounding numbers.
WORDS = [
    (
        0,
        0,
        [0xF34E13EA, 0x175A2513, 0x2CF5F10F, 0xC85F54C5],
        [0x634E6203, 0x4EC4E504],
        [732, 21762, 52821, 56526, 3771, 55310, 45016, 48047],
    ),
    (
        0xDEADBEEF,
        3,
        [0x1D6D411C, 0x1C9DECDB, 0x81DD5758, 0x4DFE1AA3],
        [0xB0A9A864, 0x31083C76],
        [35895, 61580, 12784, 14129, 64908, 47613, 11961, 35886],
    ),
]

# The seed whose state mixes to zero for tensor 0, tile 0: the stream must not stay there.
ZERO_STATE_SEED = (0x6A09E667 - 0x9E3779B9) % 2**32


@pytest.mark.parametrize(("parameters", "seed", "tensor", "first", "second_tile"), VECTORS)
def test_vectors(parameters, seed, tensor, first, second_tile):
    z = core.direction(native(Dist(*parameters)), seed, tensor, 1032)
    assert z[:16].tolist() == first
    assert z[1024:].tolist() == second_tile


@pytest.mark.parametrize(("seed", "tensor", "first", "second_tile", "rounding"), WORDS)
def test_word_vectors(seed, tensor, first, second_tile, rounding):
    """Reads bits of the words through Rademacher signs; rounding numbers through an update that only rounds."""
    z = core.direction(Rademacher(), seed, tensor, 1024 + 64)
    bits = (z == -1).reshape(-1, 32).astype(np.uint64)
    words = (bits << np.arange(32, dtype=np.uint64)).sum(axis=1).tolist()
    assert words[:4] == first
    assert words[32:34] == second_tile

    # delta_i = 65536 - r_i - (0 or 1): the first makes every weight move, the second none.
    for index, r in enumerate(rounding):
        for delta, moved in ((65536 - r, 1), (65535 - r, 0)):
            weights = np.zeros(8, np.int8)
            coefficient = delta * int(z[index])
            core.update(weights, None, None, 1, 1, tensor, 125, Rademacher(), [(seed, coefficient)])
            assert weights[index] == moved


def test_zero_state_is_replaced():
    assert scalar.fmix(scalar.key(ZERO_STATE_SEED, 0) ^ scalar.fmix(0x6A09E667)) == 0
    z = core.direction(Rademacher(), ZERO_STATE_SEED, 0, 1024)
    assert z.tolist() == stream.direction(Dist(0, 1), ZERO_STATE_SEED, 0, 1024).tolist()
    assert z[:32].tolist() == [-1 if 0x5D1C0CDD >> j & 1 else 1 for j in range(32)]
    assert abs(int(z.sum())) < 6 * 32


@given(distributions, seeds, streams, sizes)
def test_direction_is_the_oracles(dist, seed, tensor, size):
    z = core.direction(native(dist), seed, tensor, size)
    assert z.tolist() == stream.direction(dist, seed, tensor, size).tolist()
    assert native(dist).z_max == dist.z_max
    assert native(dist).reach == dist.reach


@given(st.sampled_from(EXAMPLES[:3]), seeds, streams, st.integers(0, 4), st.integers(1, 1500))
def test_direction_from_any_tile(dist, seed, tensor, tile, count):
    whole = core.direction(native(dist), seed, tensor, tile * 1024 + count)
    part = core.direction(native(dist), seed, tensor, count, begin=tile * 1024)
    assert np.array_equal(whole[tile * 1024 :], part)


def test_coordinates():
    """Draws one weight each, any of them equally often; no part of a tensor has one of its own."""
    size, count = 37, 20_000
    z = np.array([core.direction(Coordinate(9), s, 5, size) for s in range(count)])
    assert (z.sum(axis=1) == 1).all() and set(np.unique(z)) == {0, 1}
    expected = count / size
    assert ((z.sum(axis=0) - expected) ** 2 / expected).sum() < size - 1 + 6 * (2 * size) ** 0.5
    with pytest.raises(NativeError) as error:
        core.direction(Coordinate(), 1, 0, 8, begin=1024)
    assert error.value.status is Status.ARGUMENT


def test_direction_begins_at_a_tile():
    with pytest.raises(NativeError) as error:
        core.direction(Rademacher(), 1, 0, 8, begin=32)
    assert error.value.status is Status.ARGUMENT


def test_query_seeds_differ():
    seen = {query_seed(run, step, query) for run in range(4) for step in range(250) for query in range(8)}
    assert len(seen) > 7990  # of 8000; a 32-bit hash may collide once


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ((0, 0, 0), 0xAA3E5B61),
        ((7, 3, 1), 0x7784802D),
        ((1, 1_000_000, 2047), 0x8A0ACC1C),
        ((2**32 - 1, 2**32 - 1, 2**32 - 1), 0x60EA9FA5),
    ],
)
def test_query_seeds_never_change(arguments, expected):
    """A log has coefficients alone: other seeds would make other weights of it."""
    assert query_seed(*arguments) == scalar.query_seed(*arguments) == expected


@given(seeds, seeds, seeds)
def test_query_seeds(run_seed, step, query):
    assert query_seed(run_seed, step, query) == scalar.query_seed(run_seed, step, query)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Rademacher(0), "`mu` must be in 1..127. Received: 0"),
        (lambda: Rademacher(128), "`mu` must be in 1..127"),
        (lambda: Coordinate(128), "`mu` must be in 1..127"),
        (lambda: SparseUniform(3, 1.5), "`zeros` must be in 0..1"),
        (lambda: Gaussian(0.0), "`std` must be"),
        (lambda: Gaussian(float("nan")), "`std` must be"),
        (lambda: native(Dist(0, 1, 5)), "`p_zero` must be in 0..0"),
        (lambda: native(Dist(4, 1)), "kind: no distribution has the number 4"),
    ],
)
def test_distribution_parameters(make, message):
    with pytest.raises(ValueError, match=message):
        make()


# --- statistics -------------------------------------------------------------------------------------------
# Bounds are at 6 standard deviations of the largest of all the values compared; the stream is fixed, so that
# a test which passes once passes always.

DRAWS = 10_000_000


@pytest.fixture(scope="module")
def rademacher():
    return core.direction(Rademacher(), 20260101, 5, DRAWS).astype(np.float32)


def test_rademacher_mean(rademacher):
    assert set(np.unique(rademacher)) == {-1.0, 1.0}
    assert abs(rademacher.mean(dtype=np.float64)) < 6 / DRAWS**0.5


def test_rademacher_neighbours_are_uncorrelated(rademacher):
    for lag in [*range(1, 70), 96, 128, 1023, 1024, 1025, 2048]:
        correlation = np.dot(rademacher[:-lag], rademacher[lag:]) / (DRAWS - lag)
        assert abs(correlation) < 6 / DRAWS**0.5, lag


def off_diagonal(rows):
    """Finds the largest correlation between two different rows."""
    gram = rows @ rows.T / rows.shape[1]
    np.fill_diagonal(gram, 0.0)
    return float(np.abs(gram).max())


def test_positions_in_a_tile_are_uncorrelated(rademacher):
    tiles = rademacher[: DRAWS // 1024 * 1024].reshape(-1, 1024)
    assert off_diagonal(np.ascontiguousarray(tiles.T)) < 7 / len(tiles) ** 0.5


def test_tiles_are_uncorrelated(rademacher):
    tiles = rademacher[: 2000 * 1024].reshape(2000, 1024)
    assert off_diagonal(tiles) < 7 / 1024**0.5


@pytest.mark.parametrize(
    "directions",
    [[(seed, 0) for seed in range(200)], [(77, tensor) for tensor in range(200)], [(1 << bit, 0) for bit in range(32)]],
    ids=["seeds", "tensors", "seeds that differ in one bit"],
)
def test_directions_are_uncorrelated(directions):
    rows = [core.direction(Rademacher(), seed, tensor, 50_000) for seed, tensor in directions]
    assert off_diagonal(np.stack(rows).astype(np.float32)) < 6 / 50_000**0.5


def test_sparse_uniform_frequencies():
    n = 2_000_000
    z = core.direction(SparseUniform(3, 0.25), 5, 0, n)
    # A byte in -127..127 times 7: -3..3 get 36 or 37 of 255 values each, symmetrically; -128 counts as 0.
    byte = np.arange(-127, 128)
    value, count = np.unique((byte * 7 + 128) // 256, return_counts=True)
    expected = {int(v): 0.75 * c / 256 for v, c in zip(value, count, strict=True)}
    expected[0] += 0.25 + 0.75 / 256
    assert sorted(expected) == [-3, -2, -1, 0, 1, 2, 3]
    for v, p in expected.items():
        assert expected[-v] == p
        assert abs((z == v).mean() - p) < 5 * (p * (1 - p) / n) ** 0.5, v


def test_gaussian_moments():
    n = 2_000_000
    z = core.direction(Gaussian(1.0), 5, 0, n) * (3.5 / 127)
    table = np.array(scalar.QUANTILES) * (3.5 / 127)
    assert scalar.QUANTILES[-1] == 105
    assert abs(z.mean()) < 5 / n**0.5
    assert abs(z.std() - (table**2).mean() ** 0.5) < 5 / n**0.5
    assert 0.98 < z.std() < 1.01
    assert set(np.unique(np.abs(core.direction(Gaussian(1.0), 9, 0, 100_000)))) == set(scalar.QUANTILES)
