"""Weights of 16 bits: perturbed, updated, and in FULLY_CONNECTED."""

import ctypes
import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers import core
from helpers.oracle import int16 as oracle
from helpers.oracle import weights as plain
from helpers.oracle.draws import Step, distributions, masks, native, perturbations, seeds, steps, streams
from helpers.oracle.stream import Dist
from tflm_zo.core import Gaussian, NativeError, Rademacher, Status, library
from tflm_zo.core.loader import structs

small = st.one_of(st.integers(1, 200), st.sampled_from([1023, 1025]))


@st.composite
def cases(draw):
    """Draws distribution, terms and their momentum, size, mask, limit."""
    dist, size = draw(distributions), draw(small)
    return dist, *draw(perturbations(dist)), size, draw(masks(size)), draw(st.integers(0, 127))


def random_pair(size, seed=0):
    rng = np.random.default_rng(seed)
    return tuple(rng.integers(-128, 128, size).astype(np.int8) for _ in range(2))


@given(cases(), streams)
def test_perturbation_is_the_oracles(case, stream):
    dist, terms, momentum, size, mask, limit = case
    weights, fraction = random_pair(size, size)
    expected = oracle.perturb(weights, fraction, terms, dist, stream, momentum, mask, limit)
    core.perturb(weights, terms, native(dist), stream, momentum=momentum, mask=mask, fraction=fraction, limit=limit)
    assert np.array_equal(weights, expected[0]) and np.array_equal(fraction, expected[1])


@given(st.integers(1, 4800), seeds, st.sampled_from([-1, 1]), st.integers(0, 2))
def test_no_allowed_perturbation_wraps(mu, seed, sign, spare):
    """Perturbs from the limit of every headroom that a Gaussian fits, also if its reach was rounded down."""
    distribution = native(Dist(2, mu))
    room = distribution.reach + spare
    limit = 127 - room
    weights, fraction = np.full(600, sign * limit, np.int8), np.zeros(600, np.int8)
    for k in (1, -2):
        core.perturb(weights, [(seed, k)], distribution, fraction=fraction, limit=limit)
        moved = 256 * (weights.astype(int) - sign * limit) + fraction
        assert np.abs(moved).max() <= 256 * room
    assert np.abs(weights).max() <= 127


@pytest.mark.parametrize("std", [0.1, 0.25, 0.5])
def test_deviation_of_small_perturbations(std):
    """Keeps the deviation of perturbations that whole LSB would round to nothing or too much."""
    weights, fraction = np.zeros(100_000, np.int8), np.zeros(100_000, np.int8)
    distribution = Gaussian(std)
    core.perturb(weights, [(5, 1)], distribution, fraction=fraction, limit=120)
    moved = weights + fraction / 256
    assert np.std(moved) == pytest.approx(distribution.mu / (3.5 / 127 * 4096), rel=0.02)
    assert np.unique(moved).size > 50


@given(steps(max_queries=3))
def test_update_undoes_a_perturbation_of_16_bits(step: Step):
    """Compares with the oracles' perturbation and then their update."""
    weights, fraction = step.arrays()
    if fraction is None:
        fraction = np.zeros_like(weights)
    if step.restore:
        restored = oracle.perturb(
            weights, fraction, step.restore, step.dist, step.stream, step.momentum, step.mask, step.limit
        )
    else:
        restored = weights, fraction
    expected = plain.update(*restored, *step.shape, step.dist, step.queries, mask=step.mask)
    arguments = {"restore": step.restore, "momentum": step.momentum, "mask": step.mask, "int16": True}
    clipped = core.update(weights, fraction, *step.shape, native(step.dist), step.queries, **arguments)
    assert np.array_equal(weights, expected[0]) and np.array_equal(fraction, expected[1])
    assert clipped == expected[2]


def test_errors_leave_weights_alone():
    weights, fraction = random_pair(100)
    before = weights.copy(), fraction.copy()
    for limit in (-1, 128):
        with pytest.raises(NativeError) as error:
            core.perturb(weights, [(1, 1)], Gaussian(1.0), fraction=fraction, limit=limit)
        assert error.value.status is Status.ARGUMENT
    with pytest.raises(NativeError) as error:
        core.update(weights, None, None, 1, 1, 0, 120, Rademacher(1), [(1, 9)], int16=True)
    assert error.value.status is Status.ARGUMENT
    assert np.array_equal(weights, before[0]) and np.array_equal(fraction, before[1])


# --- FULLY_CONNECTED ----------------------------------------------------------------------------------------


def fully_connected(x, weights, fraction, bias, multipliers, in_zero, out_zero, low, high):
    table = b"".join(struct.pack("<ib", *m) for m in multipliers)
    layer = structs.zo_int16_fully_connected(
        *weights.shape,
        weights.ctypes.data,
        fraction.ctypes.data,
        None if bias is None else bias.ctypes.data,
        ctypes.cast(ctypes.c_char_p(table), ctypes.c_void_p),
        len(multipliers),
        in_zero,
        out_zero,
        low,
        high,
    )
    y = np.empty(len(weights), np.int8)
    library().zo_int16_fully_connected_s8(layer, x.ctypes.data, y.ctypes.data)
    return y


@st.composite
def layers(draw):
    """Draws any layer: edge values of everything, multipliers that spread the sums over the outputs."""
    units, depth = draw(st.integers(1, 6)), draw(st.integers(1, 70))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    edge = draw(st.booleans())

    def values(*shape):
        return (rng.choice([-128, 127], shape) if edge else rng.integers(-128, 128, shape)).astype(np.int8)

    bias = rng.integers(-(2**20), 2**20, units).astype(np.int32) if draw(st.booleans()) else None
    count = draw(st.sampled_from([1, units]))
    shift = st.one_of(st.integers(-14, -4), st.integers(-31, 6))
    value = st.one_of(st.integers(2**30, 2**31 - 1), st.sampled_from([0, 2**30, 2**31 - 1]))
    multipliers = [(draw(value), draw(shift)) for _ in range(count)]
    zeros = draw(st.integers(-128, 127)), draw(st.integers(-128, 127))
    low = draw(st.integers(-128, 127))
    high = draw(st.integers(low, 127))
    low, high = draw(st.sampled_from([(-128, 127), (low, high)]))
    return values(depth), values(units, depth), values(units, depth), bias, multipliers, *zeros, low, high


@given(layers())
def test_fully_connected_is_the_oracles(case):
    x, weights, fraction, bias, multipliers, *rest = case
    each = multipliers * (len(weights) // len(multipliers))
    expected = oracle.fully_connected(x[None], weights, fraction, bias, each, *rest)[0]
    assert np.array_equal(fully_connected(*case), expected)


def test_sums_of_the_largest_layer():
    """Sums 65,536 inputs with the largest of all values: nothing overflows."""
    depth = 65536
    for w, x, zero in ((-128, -128, 127), (127, -128, 127), (-128, 127, -128)):
        args = (np.full(depth, x, np.int8), np.full((1, depth), w, np.int8), np.full((1, depth), w, np.int8))
        total = depth * 257 * w * (x - zero)
        y = fully_connected(*args, None, [(2**30, -24)], zero, 0, -128, 127)
        assert y[0] == np.clip(oracle.requantize(total, 2**30, -24), -128, 127)
