"""A step from node evidence, by any rule and of any channels, against oracle.node_rules; refusals."""

from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers.examples import examples
from helpers.nodes import ONE, NodeRule, dense, route_nodes, update_from_nodes
from helpers.oracle import node_rules as oracle
from helpers.oracle import nodes
from helpers.oracle.node_draws import layers, native, outputs_of, random_evidence, stored, whole_of
from tflm_zo.core import NativeError, NodeState, Status

LIMIT = 125


# (mantissa, exponent): of steps from nothing to the clip, for gradients of any size.
gains = st.tuples(st.integers(2**31, 2**32 - 1), st.integers(-70, 0))


@dataclass(frozen=True)
class Case:
    """A layer, and which update of it is asked for."""

    layer: nodes.Layer
    rows: int
    seed: int
    samples: int
    queries: int
    rule: NodeRule
    remembers: bool
    fractions: bool
    multipliers: bool
    rate: int
    clip: int
    size: int
    gain: tuple[int, int]
    bits: int
    parameters: str
    per_error: tuple[int, int] | None


@st.composite
def cases(draw):
    layer, rule = draw(layers()), draw(st.sampled_from(list(NodeRule)))
    return Case(
        layer,
        draw(st.integers(0, layer.outputs[2])),
        draw(st.integers(0, 2**32 - 1)),
        draw(st.integers(1, 4)),
        draw(st.integers(0, 3)),
        rule,
        draw(st.booleans()),
        rule is not NodeRule.BITS and draw(st.booleans()),
        draw(st.booleans()),
        draw(st.sampled_from([1, 1000, ONE, 8 * ONE, 2**31 - 1])),
        draw(st.sampled_from([1, 100, 4 * ONE, 2**24])),
        draw(st.integers(1, 26)),
        draw(gains),
        draw(st.integers(1, 7)),
        draw(st.sampled_from(["weights", "biases", "all"])),
        draw(st.none() | gains),
    )


class Parameters:
    """Random ones of a layer, in the arrays that the core changes."""

    def __init__(self, case, rng):
        self.layer, count = case.layer, case.layer.outputs[2]
        shape = (count, case.layer.kernel[0] * case.layer.kernel[1] * case.layer.depth)
        weights = rng.integers(-LIMIT, LIMIT + 1, shape).astype(np.int8)
        fraction = rng.integers(-128, 128, shape).astype(np.int8)
        fraction[np.abs(weights) == LIMIT] = 0
        self.weights = stored(self.layer, weights)
        self.fraction = stored(self.layer, fraction) if case.fractions else None
        self.multiplier = rng.integers(0, 2**31, count, dtype=np.int32) if case.multipliers else None
        self.biases = rng.integers(-(2**31), 2**31, count).astype(np.int32)
        self.biases[rng.random(count) < 0.5] //= 2**16

    def read(self):
        """Returns weights times 256, with fractions, a row for each channel; and biases."""
        return whole_of(self.layer, self.weights, self.fraction), self.biases.astype(np.int64)


def gradient_of(case, e, inputs, outputs, channels):
    """Computes the gradient of the updated channels' parameters; a bias, of input 32, comes last of its channel."""
    gradient = nodes.gradient(case.layer, e, inputs.astype(np.int64), outputs.astype(np.int64))
    of_weights = gradient.reshape(len(gradient), -1)
    of_biases = 32 * np.array(oracle.sums_of_errors(case.layer, e, outputs), np.int64)[:, None]
    parts = {"weights": [of_weights], "biases": [of_biases], "all": [of_weights, of_biases]}[case.parameters]
    return [int(v) for v in np.concatenate(parts, axis=1)[channels].ravel()]


def ends_of(case, g, shift, mean_square):
    """Computes the least and the largest step of each parameter, which are the same if the oracle is exact."""
    if case.rule is NodeRule.BITS:
        return oracle.bits(g, case.bits)
    if case.rule is NodeRule.FIXED:
        return oracle.fixed(g, shift, case.gain, case.rate, case.clip)
    if case.rule is NodeRule.RMS:
        ends = oracle.rms(g, shift, mean_square, case.rate, case.clip)
    else:
        ends = oracle.standardized(g, case.rate, case.clip)
    return ends or ([0] * len(g), [0] * len(g))


def moved(case, before, multiplier, channels, steps):
    """Returns `Parameters.read` after steps of the updated channels, and the number of clipped parameters."""
    (whole, biases), clipped = (v.copy() for v in before), 0
    scale = oracle.times(None if case.rule is NodeRule.BITS else multiplier, channels)
    steps = scale(np.array(steps, np.int64).reshape(len(channels), -1))
    if case.parameters != "biases":
        own, old = steps[:, : whole.shape[1]], whole[channels]
        if case.fractions:  # `old` has the weights in it
            whole[channels], clipped = oracle.apply_16(0 * old, old, own, LIMIT)
        else:
            new, clipped = oracle.apply_8(old // 256, own, LIMIT, 77, 3, channels, len(whole))
            whole[channels] = 256 * new
    if case.parameters != "weights":
        own = oracle.bias_steps(steps[:, -1], 77, 4, channels, len(whole))
        biases[channels], more = oracle.move_biases(biases[channels], own)
        clipped += more
    return whole, biases, clipped


@settings(max_examples=examples(300))
@given(cases())
def test_is_the_oracles(case):
    layer, rng = case.layer, np.random.default_rng(case.seed)
    own = Parameters(case, rng)
    state = NodeState(2**31 + 7, int(rng.integers(-40, 60))) if case.remembers else NodeState()
    known = (state.mantissa, state.exponent)
    inputs = rng.integers(-128, 128, (case.samples, *layer.inputs)).astype(np.int8)
    outputs = outputs_of(layer, case.samples, rng)
    evidence, e, shift = random_evidence(layer, case.samples, case.queries, case.size, rng)
    channels = oracle.updated(oracle.sums_of_errors(layer, np.abs(e), outputs), case.rows)
    g = gradient_of(case, e, inputs, outputs, channels)
    before = own.read()

    clipped = update_from_nodes(
        native(layer),
        state,
        own.weights,
        own.fraction,
        own.multiplier,
        3,
        LIMIT,
        inputs,
        route_nodes(native(layer), outputs),
        rate=case.rate,
        clip=case.clip,
        seed=77,
        rule=case.rule,
        gain=case.gain[0] * 2.0 ** case.gain[1],
        bits=case.bits,
        rows=case.rows,
        biases=None if case.parameters == "weights" else own.biases,
        alone=case.parameters == "biases",
        per_error=0.0 if case.per_error is None else case.per_error[0] * 2.0 ** case.per_error[1],
        **evidence,
    )

    now = nodes.mean_square(np.array(g), shift)
    if case.per_error is not None:
        now *= case.per_error[0] * 2.0 ** case.per_error[1]
    mean = known[0] * 2.0 ** known[1] if case.remembers else now
    if case.rule is NodeRule.RMS and (now > 0 or case.per_error is None):
        assert np.isclose(state.mantissa * 2.0**state.exponent, mean + (now - mean) / 32, rtol=1e-7)
    else:
        assert (state.mantissa, state.exponent) == known
    ends = ends_of(case, g, shift, mean)
    least, most = (moved(case, before, own.multiplier, channels, steps) for steps in ends)
    for low, value, high in zip(least, own.read(), most, strict=False):
        assert (low <= value).all() and (value <= high).all()
    assert ends[0] == ends[1] or case.rule in (NodeRule.RMS, NodeRule.STANDARDIZED)
    if ends[0] == ends[1]:
        assert clipped == least[-1]


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
        (4, {}, Status.ARGUMENT),
    ],
)
def test_errors_change_nothing(rule, change, error):
    weights = np.arange(6).astype(np.int8).reshape(2, 3)
    with pytest.raises(NativeError) as caught:
        dense(np.ones((1, 3)), np.ones((1, 2)), weights, rule, **change)
    assert caught.value.status is error
    assert (weights.ravel() == np.arange(6)).all()
