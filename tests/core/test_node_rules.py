# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""A step from node evidence, by any rule and of any channels, against oracle.node_rules; what is refused."""

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
from tflm_zo.core import NativeError, NodeState, Status

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
