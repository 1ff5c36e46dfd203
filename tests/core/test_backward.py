"""Errors on their way back through operators: every bit against oracle.backward, and against real numbers."""

import dataclasses
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers import backward
from helpers.backward import Pool
from helpers.examples import examples
from helpers.oracle import backward as oracle
from helpers.oracle.node_draws import layers, native, stored
from helpers.oracle.nodes import PLAIN, Layer
from tflm_zo.core import NativeError

seeds = st.integers(0, 2**32 - 1)
exponents = st.integers(-60, 60)
# Bits of the largest error: full 16 bits, few, none.
sizes = st.sampled_from([15, 15, 12, 3, 0])


def draw_errors(shape, bits, rng):
    """Draws errors of any size, as in networks: many are small, some are 0."""
    values = rng.normal(0, 2**bits / 3, shape) * (rng.random(shape) < 0.7)
    limit = 2**bits - 1
    return np.clip(values.round(), -limit, limit).astype(np.int16)


def expect(found, expected):
    np.testing.assert_array_equal(found[0], expected[0])
    if np.any(expected[0]):
        assert found[1] == expected[1]


def real(errors):
    return errors[0] * 2.0 ** errors[1]


@given(seeds, st.integers(-129, 127), st.integers(-128, 128))
def test_mask(seed, low, high):
    rng = np.random.default_rng(seed)
    outputs = rng.integers(-128, 128, (5, 7)).astype(np.int8)
    values = draw_errors((5, 7), 15, rng)
    found = backward.mask(outputs, low, high, values)
    np.testing.assert_array_equal(found, np.where((outputs > low) & (outputs < high), values, 0))


factors = st.tuples(st.integers(1, 4), st.integers(-30, 30))


def draw_factors(count, channels, rng):
    """Draws mantissas of as many channels as divide the count."""
    return rng.integers(-32767, 32768, math.gcd(count, channels)).astype(np.int16)


@given(seeds, sizes, exponents, factors, st.integers(1, 24))
def test_scale(seed, bits, exponent, factor, count):
    rng = np.random.default_rng(seed)
    mantissas = draw_factors(count, factor[0], rng)
    errors = draw_errors(count, bits, rng), exponent
    expect(backward.scale(mantissas, factor[1], errors), oracle.scale(mantissas, factor[1], errors))


@settings(max_examples=examples(300))
@given(seeds, sizes, sizes, exponents, st.integers(-40, 40), st.integers(1, 24))
def test_add(seed, bits, other_bits, exponent, distance, count):
    rng = np.random.default_rng(seed)
    errors = draw_errors(count, bits, rng), exponent
    sums = draw_errors(count, other_bits, rng), exponent + distance
    found = backward.add(errors, sums)
    expect(found, oracle.add(errors, sums))
    # Both roundings are at most half a unit of the result.
    exact = real(sums) + real(errors)
    assert np.abs(real(found) - exact).max() <= 2.0 ** found[1]


def test_a_sum_that_leaves_16_bits_is_halved():
    full = np.array([32767, -32767, 5], np.int16)
    values, exponent = backward.add((full, 3), (full, 3))
    assert (values.tolist(), exponent) == ([32767, -32767, 5], 4)


def test_the_slice_that_pad_leaves():
    padded = np.arange(5 * 6 * 2, dtype=np.int16).reshape(5, 6, 2)
    found = backward.slice_blocks(padded, 3, 6 * 2, (1 * 6 + 2) * 2, 3 * 2)
    np.testing.assert_array_equal(found.reshape(3, 3, 2), padded[1:4, 2:5])


@given(seeds, st.integers(1, 4), st.lists(st.integers(1, 4), min_size=1, max_size=3), st.integers(1, 4))
def test_parts_of_a_split(seed, outer, widths, inner):
    """Splits along the middle axis of [outer, axis, inner]: parts that are placed back add up to the whole."""
    rng = np.random.default_rng(seed)
    whole = rng.integers(-32767, 32768, (outer, sum(widths), inner)).astype(np.int16)
    total = np.zeros(whole.size, np.int16)
    for end, width in zip(np.cumsum(widths), widths, strict=True):
        part = np.ascontiguousarray(whole[:, end - width : end]).reshape(outer, width * inner)
        block = (outer, sum(widths) * inner, (end - width) * inner, width * inner)
        placed = backward.place_blocks(part, whole.size, *block)
        np.testing.assert_array_equal(backward.slice_blocks(placed, *block), part)
        total += placed
    np.testing.assert_array_equal(total.reshape(whole.shape), whole)


@given(seeds, sizes, exponents, st.integers(-30, 30), st.integers(1, 24))
def test_levels(seed, bits, exponent, factor, count):
    rng = np.random.default_rng(seed)
    mantissas = rng.integers(-32767, 32768, 256).astype(np.int16)
    values = rng.integers(-128, 128, count).astype(np.int8)
    errors = draw_errors(count, bits, rng), exponent
    expect(backward.levels(mantissas, factor, values, errors), oracle.levels(mantissas, factor, values, errors))


#: Shapes of the factor whose errors are asked for and of the other one, both spread over [3, 4, 5].
SPREAD = [(3, 4, 5), (1, 1, 5), (1, 4, 5), (3, 4, 1), (3, 1, 1), (1, 4, 1), (1, 1, 1)]


@given(
    seeds,
    sizes,
    exponents,
    st.tuples(st.integers(-32767, 32767), st.integers(-30, 30)),
    st.sampled_from(SPREAD),
    st.sampled_from([*SPREAD, None]),
)
def test_product(seed, bits, exponent, factor, own, other):
    """Multiplies two tensors, both broadcast by NumPy; without another one it is a sum."""
    rng, whole = np.random.default_rng(seed), (3, 4, 5)
    zero_point = int(rng.integers(-128, 128))
    values = None if other is None else rng.integers(-128, 128, other).astype(np.int8)
    real = np.ones(whole, int) if values is None else np.broadcast_to(values.astype(int) - zero_point, whole)
    numbers = np.broadcast_to(np.arange(math.prod(own)).reshape(own), whole)
    jacobian = real.ravel()[:, None] * (numbers.ravel()[:, None] == np.arange(math.prod(own)))
    fields = {"zero_point": zero_point}
    for name, shape in (("", own), ("other_", other or (1, 1, 1))):
        last = max((i for i in range(3) if shape[i] > 1), default=-1)
        fields |= {f"{name}repeat": math.prod(whole[last + 1 :]), f"{name}length": math.prod(shape)}
    errors = draw_errors(whole, bits, rng), exponent
    read = None if values is None else values.ravel()
    found = backward.product(fields, factor, read, errors)
    expect(found, oracle.product(jacobian, factor[0], factor[1], errors))


@pytest.mark.parametrize(
    "changed", [{"repeat": 0}, {"length": 7}, {"other_length": 0}, {"other_repeat": 60}, {"zero_point": 128}]
)
def test_sizes_of_a_product_that_do_not_fit(changed):
    fields = {"repeat": 5, "length": 12, "other_repeat": 1, "other_length": 5, "zero_point": 0} | changed
    other = np.zeros(fields["other_length"], np.int8)
    with pytest.raises(NativeError, match="ARGUMENT|argument"):
        backward.product(fields, (1, 0), other, (np.zeros(60, np.int16), 0))


# --- pooling ------------------------------------------------------------------------------------------------


@st.composite
def pools(draw):
    """Draws any small pooling whose windows all read an input."""
    window = draw(st.tuples(st.integers(1, 4), st.integers(1, 4)))
    stride = draw(st.tuples(st.integers(1, 4), st.integers(1, 4)))
    pad = tuple(draw(st.integers(0, k - 1)) for k in window)
    inputs = draw(st.tuples(st.integers(1, 6), st.integers(1, 6), st.integers(1, 3)))
    outputs = tuple(draw(st.integers(1, (n + p - 1) // s + 1)) for n, p, s in zip(inputs, pad, stride, strict=False))
    return Pool(inputs, outputs, window, stride, pad)


@given(pools(), seeds, sizes, exponents, st.sampled_from([1, 40]))
def test_max_pool(pool, seed, bits, exponent, coarse):
    rng = np.random.default_rng(seed)
    inputs = (rng.integers(-128, 128, pool.inputs) // coarse).astype(np.int8)  # with ties
    errors = draw_errors((*pool.outputs, pool.inputs[2]), bits, rng), exponent
    expect(backward.max_pool(pool, inputs, errors), oracle.max_pool(pool, inputs, errors))


@given(pools(), seeds, sizes, exponents)
def test_average_pool(pool, seed, bits, exponent):
    rng = np.random.default_rng(seed)
    errors = draw_errors((*pool.outputs, pool.inputs[2]), bits, rng), exponent
    expect(backward.average_pool(pool, errors), oracle.average_pool(pool, errors))


def test_a_mean_of_64_positions_is_exact():
    values = np.array([[[32767, -32767, 5]]], np.int16)
    pool = Pool((8, 8, 3), (1, 1), (8, 8), (1, 1), (0, 0))
    found = backward.average_pool(pool, (values, 0))
    assert found[1] == -6
    np.testing.assert_array_equal(found[0], np.broadcast_to(values, (8, 8, 3)))


GOOD = Pool((4, 5, 2), (2, 2), (3, 3), (2, 2), (1, 1))


@pytest.mark.parametrize(
    "change",
    [
        {"pad": (3, 1)},
        {"stride": (0, 2)},
        {"outputs": (4, 2)},
        {"window": (5000, 3)},
        {"inputs": (4, 0, 2)},
        {"inputs": (4, 5, 0)},
    ],
)
def test_bad_pools(change):
    pool = dataclasses.replace(GOOD, **change)
    errors = np.zeros((*pool.outputs, pool.inputs[2]), np.int16), 0
    with pytest.raises(NativeError):
        backward.average_pool(pool, errors)
    with pytest.raises(NativeError):
        backward.max_pool(pool, np.zeros(pool.inputs, np.int8), errors)


# --- convolution --------------------------------------------------------------------------------------------


def draw_scales(channels, per_channel, rng):
    if not per_channel:
        return None
    scales = rng.integers(1, 32768, channels).astype(np.int16)
    scales[rng.integers(channels)] = 32767
    return scales


@settings(max_examples=examples(300))
@given(layers(), seeds, sizes, exponents, st.booleans(), st.sampled_from([127, 20, 0]))
def test_conv(layer, seed, bits, exponent, per_channel, largest):
    rng = np.random.default_rng(seed)
    shape = (layer.outputs[2], *layer.kernel, layer.depth)
    weights = rng.integers(-largest, largest + 1, shape).astype(np.int8)
    scales = draw_scales(shape[0], per_channel, rng)
    errors = draw_errors(layer.outputs, bits, rng), exponent
    memory = stored(layer, weights)
    assert backward.conv_norm(native(layer), memory) == oracle.conv_norm(layer, weights)
    expect(backward.conv(native(layer), memory, scales, errors), oracle.conv(layer, weights, scales, errors))


WIDE = Layer(PLAIN, (3, 3, 5), (3, 3), (1, 1), (1, 1), (1, 1), (3, 3, 200), (3, 3))


@pytest.mark.parametrize("sign", [1, -1])
def test_the_largest_sums_that_there_are(sign):
    """Sets all weights and errors to their ends: f gives up bits, and the bound is met to within its roundings."""
    weights = np.full((200, 3, 3, 5), -127, np.int8)
    errors = np.full(WIDE.outputs, sign * 32767, np.int16), 0
    found = backward.conv(native(WIDE), stored(WIDE, weights), None, errors)
    expect(found, oracle.conv(WIDE, weights, None, errors))
    middle = -sign * 1800 * 127 * 32767
    assert abs(real(found)[1, 1, 0] / middle - 1) < 1e-3
    assert 16384 <= abs(int(found[0][1, 1, 0])) <= 32767


def test_more_weights_than_sums_of_squares_hold():
    layer = Layer(PLAIN, (1, 1, 1), (1, 1), (1, 1), (1, 1), (0, 0), (1, 1, 65536), (1, 1))
    wide = dataclasses.replace(layer, inputs=(3, 1, 1), kernel=(3, 1))
    assert backward.conv_norm(native(layer), np.full(65536, -128, np.int8)) == 256 * 128
    with pytest.raises(NativeError):
        backward.conv_norm(native(wide), np.ones(3 * 65536, np.int8))


@settings(max_examples=examples(100))
@given(layers(), seeds)
def test_is_the_transposed_layer_within_the_rounding(layer, seed):
    """Compares with float64: f is off by half a unit at most, which each weight multiplies, and so is the sum."""
    rng = np.random.default_rng(seed)
    shape = (layer.outputs[2], *layer.kernel, layer.depth)
    weights = rng.integers(-127, 128, shape).astype(np.int8)
    scales = draw_scales(shape[0], True, rng)
    values = draw_errors(layer.outputs, 15, rng)
    found = backward.conv(native(layer), stored(layer, weights), scales, (values, 0))
    matrix = oracle.jacobian(layer, weights.astype(np.int64)).astype(float)
    exact = (values * (scales / 2**15)).ravel() @ matrix
    # f is in units of 2^(a - 15), with a of no more than 15 here: errors have 15 bits, and scales as well.
    bound = 2.0 ** found[1] / 2 + np.abs(matrix).sum(0) / 2
    assert (np.abs(real(found).ravel() - exact) <= bound).all()
