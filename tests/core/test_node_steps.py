"""Steps that are known beforehand: of every rule, at its bounds, and of the channels that it moves."""

import numpy as np
import pytest

from helpers.nodes import ONE, NodeRule, dense, update_from_nodes
from helpers.oracle import node_rules as oracle
from helpers.oracle.node_rules import pseudo_stochastic
from tflm_zo.core import NodeLayer, NodeState


def test_standardized_steps():
    """Checks for mean zero and the given deviation, for every unit of the errors and every mean."""
    rng = np.random.default_rng(0)
    inputs = rng.integers(0, 100, (6, 40))
    errors = rng.integers(0, 9, (6, 8))  # both positive: the gradient's mean is far from zero
    gradient = errors.T @ inputs
    exact = -(gradient - gradient.mean()) / gradient.std()
    for unit in (1, 100, 3000):
        weights, fraction = np.zeros((8, 40), np.int8), np.zeros((8, 40), np.int8)
        dense(inputs, errors * unit, weights, NodeRule.STANDARDIZED, fraction=fraction, rate=5 * ONE)
        moved = weights + fraction / 256
        # A unit of 3000 is shifted: its gradient is rounded.
        assert np.abs(moved - 5 * exact).max() < (0.003 if unit < 3000 else 0.03)


def test_the_largest_gradients():
    """Takes a million weights, gradients next to 2^31: the sums of standardization are at their bounds."""
    samples, in_c, out_c = 258, 4096, 256
    largest = (2**31 - 1) // (samples * 255)
    inputs = np.full((samples, in_c), 127)
    errors = np.tile(np.where(np.arange(out_c) < 64, -largest, largest), (samples, 1))
    weights, fraction = np.zeros((out_c, in_c), np.int8), np.zeros((out_c, in_c), np.int8)
    dense(inputs, errors, weights, NodeRule.STANDARDIZED, fraction=fraction, zero_point=-128)
    # A quarter at -1, the others at +1: mean 1/2, deviation root 3/4.
    moved = weights + fraction / 256
    assert np.abs(moved[:64] - 1.5 / 0.75**0.5).max() < 1 / 256
    assert np.abs(moved[64:] + 0.5 / 0.75**0.5).max() < 1 / 256
    ends = oracle.standardized([-v * 258 * 255 for v in (largest, -largest, -largest, -largest)], ONE, 2**24)
    assert ends is not None  # the same moments
    assert (moved[0, 0] * 256, moved[64, 0] * 256) == tuple((s + 128) // 256 for s in ends[0][:2])

    bits = np.zeros((out_c, in_c), np.int8)
    dense(inputs, errors, bits, NodeRule.BITS, zero_point=-128, bits=1)
    g = largest * 258 * 255
    assert (bits[64:] == -pseudo_stochastic(g, g.bit_length() - 1)).all()
    assert (bits[:64] == pseudo_stochastic(g, g.bit_length() - 1)).all()


def expect_standardized(inputs, errors):
    """Steps from errors that are not shifted, against the oracle's."""
    weights, fraction = np.zeros((1, inputs.shape[1]), np.int8), np.zeros((1, inputs.shape[1]), np.int8)
    dense(inputs, errors, weights, NodeRule.STANDARDIZED, fraction=fraction, zero_point=-128)
    g = errors[:, 0].astype(object) @ (inputs + 128).astype(object)
    ends = oracle.standardized([int(v) for v in g], ONE, 2**24)
    assert ends is not None
    low, high = ([(s + 128) // 256 for s in end] for end in ends)
    moved = (weights[0].astype(int) * 256 + fraction[0]).tolist()
    assert all(a <= m <= b for a, m, b in zip(low, moved, high, strict=True))


@pytest.mark.parametrize("seed", range(8))
def test_moments_of_many_large_gradients(seed):
    """Sums far beyond 32 bits, their squares beyond 64."""
    rng = np.random.default_rng(seed)
    expect_standardized(rng.integers(-128, 128, (1, 4096)), np.array([[-32767 + 100 * seed]]))


@pytest.mark.parametrize("sign", [-1, 1])
def test_a_large_mean_of_gradients_that_hardly_differ(sign):
    """Takes gradients of 2^30 and a little: mean and gradient in whole units, which is their deviation's size."""
    inputs = np.full((129, 3), 127)
    inputs[128] = [-128, -127, -127]
    errors = np.full((129, 1), sign * 32767)
    errors[128] = sign
    expect_standardized(inputs, errors)


@pytest.mark.parametrize("first", [0, 1])
def test_the_shift_begins_at_the_largest_exponent(first):
    """800 positions leave errors 13 bits, into which the sample of the smaller exponent is shifted."""
    layer = NodeLayer(in_c=1, out_c=1, in_h=20, in_w=20, out_h=20, out_w=20)
    weights, fraction = np.zeros(1, np.int8), np.zeros(1, np.int8)
    inputs, errors = np.zeros((2, 400), np.int8), np.zeros((2, 400), np.int16)
    errors[first], errors[1 - first], inputs[1 - first] = 32767, 5001, 1
    given = {"errors": errors, "exponents": np.roll(np.array([0, 3], np.int8), first)}
    update_from_nodes(
        layer, NodeState(), weights, fraction, None, 0, 127, inputs, None, rate=ONE, clip=2**24, seed=0,
        rule=NodeRule.FIXED, gain=0.25, **given,
    )  # fmt: skip
    assert 256 * int(weights[0]) + int(fraction[0]) == round(-400 * 5001 * 8 * 0.25 / 256)


# --- rounded to a few bits --------------------------------------------------------------------------------


def rounded_by_the_core(width, bits):
    """Updates of `bits` bits of the gradients 0..2^width - 1: two samples give its low and its high byte."""
    values = np.arange(2**width)
    inputs = np.stack([values % 256 - 128, values // 256 - 128])
    weights = np.ones((1, values.size), np.int8)  # from 1, no update of -128 to 128 leaves the limit
    assert dense(inputs, np.array([[1], [256]]), weights, NodeRule.BITS, zero_point=-128, bits=bits) == 0
    return values, 1 - weights[0].astype(int)


@pytest.mark.parametrize("width", [2, 5, 8, 9, 16])
@pytest.mark.parametrize("bits", [1, 4, 7])
def test_every_rounding(width, bits):
    values, rounded = rounded_by_the_core(width, bits)
    shift = max(0, width - bits)
    assert rounded.tolist() == [pseudo_stochastic(int(v), shift) for v in values]
    assert np.abs(rounded - values / 2**shift).max() < 1


@pytest.mark.parametrize("shift", range(1, 16))
def test_bias_of_the_rounding(shift):
    """Compares the mean over all low bits with the header, by exact counting."""
    values, rounded = rounded_by_the_core(shift + 1, 1)
    doubled = rounded * 2**shift - values
    if shift % 2 == 1:
        expected = 1 / 2 ** (shift + 1)
    else:
        expected = -(2 ** (shift // 2) - 1) / 2 ** (shift + 1)
    assert doubled.mean() / 2**shift == expected
    assert -1 / 8 <= expected <= 1 / 4
    assert shift < 5 or abs(expected) < 1 / 16


def test_rounding_is_odd_and_saturates():
    """-G gives the negative update; the largest gradient may round up to 2^bits, which leaves the limit."""
    inputs = np.array([[-128, -100, 127, 3]])
    up, down = np.zeros((1, 4), np.int8), np.zeros((1, 4), np.int8)
    for weights, error in ((up, 1), (down, -1)):
        assert dense(inputs, np.array([[error]]), weights, NodeRule.BITS, zero_point=1, bits=7) == 0
    assert np.array_equal(up, -down)
    assert up.tolist() == [[65, 51, -63, -1]]  # gradients -129, -101, 126 and 2, a shift of 1
    edge = np.array([[-120, 120]], np.int8)
    assert dense(np.array([[127, 100]]), np.array([[1]]), edge, NodeRule.BITS, zero_point=-128, bits=7) == 1
    assert edge.tolist() == [[-127, 6]]  # gradients 255 and 228: updates 128 and 114


# --- channels ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rule", list(NodeRule))
@pytest.mark.parametrize(
    ("errors", "rows", "expected"),
    [
        ([[3, -9, 1, 9, 2]], 1, {1}),
        ([[3, -9, 1, 9, 2]], 2, {1, 3}),
        ([[3, -9, 1, 9, 2]], 3, {0, 1, 3}),
        ([[5, 5, 5, 5, 5]], 3, {0, 1, 2}),
        ([[1, 5, 5, 5, 9]], 3, {1, 2, 4}),
        ([[7, 4, 0, 0, 0], [-7, 4, 3, 0, 9]], 2, {0, 4}),  # 14, 8, 3, 0, 9: the signs do not cancel
        ([[1, 2, 3, 4, 5]], 5, {0, 1, 2, 3, 4}),
        ([[1, 2, 3, 4, 5]], 0, {0, 1, 2, 3, 4}),
    ],
)
def test_channels_of_the_largest_errors(rule, errors, rows, expected):
    errors = np.array(errors)
    inputs = np.array([[100, 0, -100, 50], [-90, 100, 30, 1]])[: len(errors)]
    weights = np.zeros((5, 4), np.int8)
    dense(inputs, errors, weights, rule, rate=20 * ONE, rows=rows, bits=7, gain=float(ONE))
    assert {int(c) for c in np.flatnonzero(weights.any(1))} == expected


def test_scratch_memory():
    """Needs one filter channel, and a value for each channel."""
    assert NodeLayer(in_c=5, out_c=7, k_h=3, k_w=2, in_h=3, in_w=2).scratch_values == 3 * 2 * 5 + 7


def test_channels_of_equal_errors_that_read_different_inputs():
    """Shares a gradient between channels of a dense layer, and not of a depthwise one."""
    layer = NodeLayer(in_c=3, out_c=3, depthwise=True)
    weights = np.zeros(3, np.int8)
    given = {"errors": np.full((1, 3), 1024, np.int16), "rule": NodeRule.FIXED, "gain": 64.0}
    inputs = np.array([[10, -20, 30]], np.int8)
    update_from_nodes(
        layer, NodeState(), weights, None, None, 0, 127, inputs, None, rate=ONE, clip=2**24, seed=0, **given
    )
    assert weights.tolist() == [-10, 20, -30]
