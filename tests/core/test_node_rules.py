# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""Rules of a step from node evidence, and the choice of channels, against oracle.node_rules."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers.dense_updates import ONE, dense
from helpers.nodes import NodeRule, route_nodes, update_from_nodes
from helpers.oracle import node_rules as oracle
from helpers.oracle import nodes
from helpers.oracle.bits import pseudo_stochastic
from helpers.oracle.node_draws import layers, native, outputs_of, rows_of, stored
from tflm_zo.core import NativeError, NodeForm, NodeLayer, NodeState, Status

LIMIT = 125


# (mantissa, exponent): of steps from nothing to the clip, for gradients of any size.
gains = st.tuples(st.integers(2**31, 2**32 - 1), st.integers(-70, 0))


def random_evidence(layer, samples, queries, bits, rng):
    """Arguments of an update, and e before clamping with its shift."""
    if queries:
        differences = rng.integers(-(2**bits), 2**bits + 1, (queries, samples)).astype(np.int32)
        seeds = rng.integers(0, 2**32, queries, dtype=np.uint32)
        evidence = {"differences": differences, "seeds": seeds}
        known = nodes.errors(layer, differences.astype(np.int64), [int(s) for s in seeds], None, samples)
    else:
        largest = 2 ** min(bits, 15)
        shape = (samples, layer.positions, layer.outputs[2])
        errors = rng.integers(-largest, largest, shape).astype(np.int16)
        evidence, exponents = {"errors": errors}, None
        if rng.integers(0, 2):
            errors[rng.random(samples) < 0.2] = 0
            exponents = rng.integers(-20, 21, samples).astype(np.int8)
            evidence["exponents"] = exponents
        powers = None if exponents is None else exponents.tolist()
        known = nodes.errors(layer, None, [], errors, samples, powers)
    return evidence, *known


def clipped_between(case, weights, fraction, bounds):
    """Asserts that the updated channels' weights are those after steps between two ends, which leave no room
    where they are equal; returns how many weights each end clips.
    """
    before, before_fraction, multiplier, seed, stream, channels = case
    scale = oracle.times(multiplier, channels)
    ends = []
    for steps in bounds:
        if fraction is not None:
            ends.append(oracle.apply_16(before[channels], before_fraction[channels], scale(steps), LIMIT))
        else:
            ends.append(
                oracle.apply_8(before[channels], scale(steps), LIMIT, seed, stream, channels, len(before))
            )
    whole = weights.astype(np.int64) * (1 if fraction is None else 256)
    after = (whole + (0 if fraction is None else fraction))[channels]
    assert (after >= ends[0][0]).all()
    assert (after <= ends[1][0]).all()
    return np.array([ends[0][1], ends[1][1]])


def clipped_biases_between(case, biases, bounds):
    """The same of biases."""
    before, multiplier, seed, stream, channels = case
    scale = oracle.times(multiplier, channels)
    ends = []
    for steps in bounds:
        moves = oracle.bias_steps(scale(steps)[:, 0], seed, stream, channels, len(before))
        ends.append(oracle.move_biases(before[channels].astype(np.int64), moves))
    assert (biases[channels] >= ends[0][0]).all()
    assert (biases[channels] <= ends[1][0]).all()
    return np.array([ends[0][1], ends[1][1]])


@settings(max_examples=300)
@given(
    layers(),
    st.integers(0, 2**32 - 1),
    st.integers(1, 4),
    st.integers(0, 3),
    st.sampled_from(list(NodeRule)),
    st.booleans(),
    st.booleans(),
    st.booleans(),
    st.sampled_from([1, 1000, ONE, 8 * ONE, 2**31 - 1]),
    st.sampled_from([1, 100, 4 * ONE, 2**24]),
    st.integers(1, 26),
    gains,
    st.sampled_from(["weights", "biases", "all"]),
    st.data(),
)
def test_is_the_oracles(
    layer,
    seed,
    samples,
    queries,
    rule,
    remembers,
    fractions,
    multipliers,
    rate,
    clip,
    size,
    gain,
    parameters,
    data,
):
    rng = np.random.default_rng(seed)
    count = layer.outputs[2]
    rows, bits = data.draw(st.integers(0, count)), data.draw(st.integers(1, 7))
    shape = (count, layer.kernel[0] * layer.kernel[1] * layer.depth)
    weights = rng.integers(-LIMIT, LIMIT + 1, shape).astype(np.int8)
    fraction = None
    if fractions and rule is not NodeRule.BITS:
        fraction = rng.integers(-128, 128, shape).astype(np.int8)
        fraction[np.abs(weights) == LIMIT] = 0
    multiplier = rng.integers(0, 2**31, count, dtype=np.int32) if multipliers else None
    state = NodeState(2**31 + 7, int(rng.integers(-40, 60))) if remembers else NodeState()
    known = (state.mantissa, state.exponent)

    inputs = rng.integers(-128, 128, (samples, *layer.inputs)).astype(np.int8)
    outputs = outputs_of(layer, samples, rng)
    evidence, e, shift = random_evidence(layer, samples, queries, size, rng)
    gradient = nodes.gradient(layer, e, inputs.astype(np.int64), outputs.astype(np.int64)).reshape(shape)
    channels = oracle.updated(oracle.sums_of_errors(layer, np.abs(e), outputs), rows)
    # A bias is a weight whose input is 32; it comes last of its channel.
    of_biases = 32 * np.array(oracle.sums_of_errors(layer, e, outputs), np.int64)[:, None]
    row = 0 if parameters == "biases" else shape[1]
    parts = {"weights": [gradient], "biases": [of_biases], "all": [gradient, of_biases]}[parameters]
    g = [int(v) for v in np.concatenate(parts, axis=1)[channels].ravel()]
    biases = rng.integers(-(2**31), 2**31, count).astype(np.int32)
    biases[rng.random(count) < 0.5] //= 2**16
    before_biases = biases.copy()
    before = weights.astype(np.int64)
    before_fraction = None if fraction is None else fraction.astype(np.int64)
    memory = stored(layer, weights)
    fraction_memory = None if fraction is None else stored(layer, fraction)

    clipped = update_from_nodes(
        native(layer),
        state,
        memory,
        fraction_memory,
        multiplier,
        3,
        LIMIT,
        inputs,
        route_nodes(native(layer), outputs),
        rate=rate,
        clip=clip,
        seed=77,
        rule=rule,
        gain=gain[0] * 2.0 ** gain[1],
        bits=bits,
        rows=rows,
        biases=None if parameters == "weights" else biases,
        alone=parameters == "biases",
        **evidence,
    )

    weights = rows_of(layer, memory)
    if parameters == "weights":
        assert np.array_equal(biases, before_biases)
    if parameters == "biases":
        assert np.array_equal(weights, before)
    fraction = None if fraction_memory is None else rows_of(layer, fraction_memory)
    others = [c for c in range(count) if c not in channels]
    assert np.array_equal(weights[others], before[others])
    assert fraction is None or np.array_equal(fraction[others], before_fraction[others])
    if rule is NodeRule.RMS:
        now = nodes.mean_square(np.array(g), shift)
        mean = known[0] * 2.0 ** known[1] if remembers else now
        assert np.isclose(state.mantissa * 2.0**state.exponent, mean + (now - mean) / 32, rtol=1e-7)
    else:
        assert (state.mantissa, state.exponent) == known

    assert np.array_equal(biases[others], before_biases[others])
    if rule is NodeRule.BITS:
        size = max(0, max(abs(v) for v in g).bit_length() - bits)
        moves = -np.array([pseudo_stochastic(v, size) for v in g]).reshape(len(channels), -1)
        moved = before[channels] + (moves[:, :row] if row else 0)
        saturated = int((np.abs(moved) > LIMIT).sum())
        assert np.array_equal(weights[channels], np.clip(moved, -LIMIT, LIMIT))
        if parameters != "weights":
            own = oracle.move_biases(before_biases[channels].astype(np.int64), 32 * moves[:, -1])
            assert np.array_equal(biases[channels], own[0])
            saturated += own[1]
        assert clipped == saturated
        return
    if rule is NodeRule.FIXED:
        ends = oracle.fixed(g, shift, gain, rate, clip)
        assert ends[0] == ends[1]
    elif rule is NodeRule.RMS:
        ends = oracle.rms(g, shift, mean, rate, clip)
    else:
        ends = oracle.standardized(g, rate, clip)
    if ends is None:
        assert np.array_equal(weights, before) and np.array_equal(biases, before_biases)
        assert fraction is None or np.array_equal(fraction, before_fraction)
        assert clipped == 0
        return
    bounds = [np.array(v, np.int64).reshape(len(channels), -1) for v in ends]
    expected = np.zeros(2, int)
    if parameters != "biases":
        case = (before, before_fraction, multiplier, 77, 3, channels)
        expected += clipped_between(case, weights, fraction, [steps[:, :row] for steps in bounds])
    if parameters != "weights":
        of_biases = (before_biases, multiplier, 77, 4, channels)
        expected += clipped_biases_between(of_biases, biases, [steps[:, row:] for steps in bounds])
    if ends[0] == ends[1]:
        assert clipped == expected[0]


# --- standardized and fixed steps -----------------------------------------------------------------------


def test_standardized_steps():
    """Mean zero and the given deviation, whatever the unit of the errors and wherever the mean."""
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


def test_no_standardized_step_of_a_constant_gradient():
    weights = np.full((2, 3), 9, np.int8)
    dense(np.full((4, 3), 50), np.full((4, 2), 700), weights, NodeRule.STANDARDIZED)
    assert (weights == 9).all()
    dense(np.full((4, 3), 50), np.array([[700, 701]] * 4), weights, NodeRule.STANDARDIZED)
    assert weights.tolist() == [[10] * 3, [8] * 3]


def test_the_largest_gradients():
    """A million weights, gradients next to 2^31: the sums that standardization takes are at their bounds."""
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
    """2^30 and a little: mean and gradient in whole units, which is their deviation's size."""
    inputs = np.full((129, 3), 127)
    inputs[128] = [-128, -127, -127]
    errors = np.full((129, 1), sign * 32767)
    errors[128] = sign
    expect_standardized(inputs, errors)


def test_fixed_steps():
    """Gain 1/4, rate 3: -3/4 of the gradient, half up, in the unit of the errors before they are shifted."""
    weights, fraction = np.zeros((1, 3), np.int8), np.zeros((1, 3), np.int8)
    arguments = {"gain": 0.25 * 256, "rate": 3 * ONE, "fraction": fraction}
    dense(np.array([[2, -2, 100]]), np.array([[1]]), weights, NodeRule.FIXED, **arguments)
    assert (weights.astype(int) * 256 + fraction).tolist() == [[-1, 2, -75]]  # -1.5 and 1.5 half up
    weights[:], fraction[:] = 0, 0
    # 1100 samples: errors are shifted by 2, which the step makes up for.
    inputs = np.zeros((1100, 3), int)
    inputs[0] = [2, -2, 100]
    errors = np.zeros((1100, 1), int)
    errors[0] = 28000
    arguments["gain"] = 0.25 * 256 / 28000
    dense(inputs, errors, weights, NodeRule.FIXED, **arguments)
    assert (weights.astype(int) * 256 + fraction).tolist() == [[-1, 2, -75]]


# --- channels -------------------------------------------------------------------------------------------


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


def test_clamped_nodes_count_for_no_channel():
    layer = NodeLayer(in_c=1, out_c=2)
    weights = np.zeros((2, 1), np.int8)
    update_from_nodes(
        layer,
        NodeState(),
        weights,
        None,
        None,
        0,
        127,
        np.ones((1, 1), np.int8),
        np.array([[255, 0]], np.uint8),
        rate=0,
        clip=1,
        seed=0,
        errors=np.array([[100, 1]], np.int16),
        rule=NodeRule.BITS,
        bits=7,
        rows=1,
    )
    assert weights.tolist() == [[0], [-1]]


def test_a_mean_counts_every_output_that_it_credits():
    """Equal errors, and 2 and 3 outputs of 9 that are not clamped."""
    layer = NodeLayer(in_c=1, out_c=2, form=NodeForm.MEAN, in_h=3, in_w=3, out_h=3, out_w=3)
    weights = np.zeros((2, 1), np.int8)
    update_from_nodes(
        layer,
        NodeState(),
        weights,
        None,
        None,
        0,
        127,
        np.ones((1, 9), np.int8),
        np.array([[0b10, 0b1, 0b111, 0]], np.uint8),
        rate=0,
        clip=1,
        seed=0,
        errors=np.array([[5, 5]], np.int16),
        rule=NodeRule.BITS,
        bits=7,
        rows=1,
    )
    assert weights.tolist() == [[0], [-15]]


def test_scratch_memory():
    """One filter channel, and a value for each channel."""
    assert NodeLayer(in_c=5, out_c=7, k_h=3, k_w=2, in_h=3, in_w=2).scratch_values == 3 * 2 * 5 + 7


# --- errors ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rule", "change", "error"),
    [
        (NodeRule.BITS, {"bits": 0}, Status.ARGUMENT),
        (NodeRule.BITS, {"bits": 8}, Status.ARGUMENT),
        (NodeRule.BITS, {"bits": 3, "fraction": np.zeros((2, 3), np.int8)}, Status.ARGUMENT),
        (NodeRule.FIXED, {}, Status.ARGUMENT),
        (NodeRule.FIXED, {"gain": 2.0**-1022}, Status.ARGUMENT),
        (NodeRule.FIXED, {"gain": 1.0, "rate": 2**31}, Status.ARGUMENT),
        (NodeRule.STANDARDIZED, {"clip": 0}, Status.ARGUMENT),
        (NodeRule.STANDARDIZED, {"clip": 2**24 + 1}, Status.ARGUMENT),
        (NodeRule.RMS, {"rows": 3}, Status.ARGUMENT),
        (NodeRule.BITS, {"bits": 3, "rows": 2**32 - 1}, Status.ARGUMENT),
        (NodeRule.FIXED, {"gain": -1.0}, "gain: expected a number, 0 or more, got -1.0"),
        (NodeRule.FIXED, {"gain": float("inf")}, "gain: expected a number, 0 or more, got inf"),
        (4, {}, "4 is not a valid NodeRule"),
    ],
)
def test_errors_change_nothing(rule, change, error):
    weights = np.arange(6).astype(np.int8).reshape(2, 3)
    with pytest.raises((NativeError, ValueError)) as caught:
        dense(np.ones((1, 3)), np.ones((1, 2)), weights, rule, **change)
    if isinstance(error, Status):
        assert isinstance(caught.value, NativeError)
        assert caught.value.status is error
    else:
        assert error in str(caught.value)
    assert (weights.ravel() == np.arange(6)).all()


def test_channels_of_equal_errors_that_read_different_inputs():
    """Of a dense layer they share their gradient, of a depthwise one they do not."""
    layer = NodeLayer(in_c=3, out_c=3, depthwise=True)
    weights = np.zeros(3, np.int8)
    given = {"errors": np.full((1, 3), 1024, np.int16), "rule": NodeRule.FIXED, "gain": 64.0}
    inputs = np.array([[10, -20, 30]], np.int8)
    update_from_nodes(
        layer, NodeState(), weights, None, None, 0, 127, inputs, None, rate=ONE, clip=2**24, seed=0, **given
    )
    assert weights.tolist() == [-10, 20, -30]


@pytest.mark.parametrize("first", [0, 1])
def test_the_shift_begins_at_the_largest_exponent(first):
    """800 positions leave errors 13 bits. The sample of the smaller exponent, which comes first or last, is
    shifted into them on its way to the larger exponent; that of the larger one keeps all of its bits."""
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
