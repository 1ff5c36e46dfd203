"""Node perturbation: routes, perturbed nodes and updates of any geometry against oracle.nodes."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers.examples import examples
from helpers.nodes import perturb_nodes, route_nodes, update_from_nodes
from helpers.oracle import nodes as oracle
from helpers.oracle.node_draws import layers, native, outputs_of, random_evidence, stored, whole_of
from tflm_zo.core import NativeError, NodeLayer, NodeState

ONE = 65536


@given(layers(), st.integers(0, 2**32 - 1))
def test_routes(layer, seed):
    outputs = outputs_of(layer, 3, np.random.default_rng(seed))
    found = route_nodes(native(layer), outputs)
    for b in range(3):
        np.testing.assert_array_equal(found[b], oracle.route(layer, outputs[b].astype(np.int64)))


@given(layers(), st.integers(0, 2**32 - 1), st.integers(-127, 127), st.integers(0, 1000))
def test_perturbed_nodes(layer, seed, k, first):
    rng = np.random.default_rng(seed)
    shape = (2, layer.positions, layer.outputs[2])
    nodes = rng.integers(-128, 128, shape).astype(np.int8)
    found = perturb_nodes(native(layer), nodes, seed, k, first)
    for b in range(2):
        expected = oracle.perturb(layer, nodes[b].astype(np.int64), seed, first + b, k)
        np.testing.assert_array_equal(found[b], expected)


def test_nodes_of_many_blocks():
    """Covers more nodes than a tile of the stream has, and channels that begin anywhere in a word."""
    layer = oracle.Layer(oracle.PLAIN, (9, 9, 1), (1, 1), (1, 1), (1, 1), (0, 0), (9, 9, 37), (9, 9))
    nodes = np.zeros((1, 81, 37), np.int8)
    found = perturb_nodes(native(layer), nodes, 5, 1, 7)
    np.testing.assert_array_equal(found[0], oracle.signs(layer, 5, 7))


def rounded(before, steps, fractions, seed):
    """Computes weights times 256, with fractions, after steps in float64, unit 2^-16 LSB."""
    if fractions:
        return np.clip(before + np.floor(steps / 256 + 0.5), -125 * 256, 125 * 256)
    r = oracle.rounding_terms(seed, 3, steps.shape[1], len(steps))
    return 256 * np.clip(before // 256 + np.floor((steps + r) / ONE), -125, 125)


@settings(max_examples=examples(150))
@given(
    layers(),
    st.integers(0, 2**32 - 1),
    st.integers(1, 5),
    st.integers(0, 3),
    st.booleans(),
    st.sampled_from([1, 1000, ONE, 8 * ONE]),
    st.sampled_from([100, 4 * ONE, 2**24]),
    st.integers(1, 26),
)
def test_update(layer, seed, samples, queries, fractions, rate, clip, bits):
    """Compares three steps: the gradient exactly, the running RMS and the step in float64, then rounding and
    clip."""
    rng = np.random.default_rng(seed)
    shape = (layer.outputs[2], *layer.kernel, layer.depth)
    weights = stored(layer, rng.integers(-125, 126, shape).astype(np.int8))
    fraction = stored(layer, rng.integers(-128, 128, shape).astype(np.int8)) if fractions else None
    c_layer, state, mean = native(layer), NodeState(), 0.0
    for t in range(3):
        inputs = rng.integers(-128, 128, (samples, *layer.inputs)).astype(np.int8)
        outputs = outputs_of(layer, samples, rng)
        evidence, e, shift = random_evidence(layer, samples, queries, bits, rng)
        g = oracle.gradient(layer, e, inputs.astype(np.int64), outputs.astype(np.int64))
        g = g.reshape(shape[0], -1)
        now = oracle.mean_square(g, shift)
        mean = now if mean == 0.0 else mean
        before = whole_of(layer, weights, fraction)
        own = (c_layer, state, weights, fraction, None, 3, 125, inputs, route_nodes(c_layer, outputs))
        clipped = update_from_nodes(*own, rate=rate, clip=clip, seed=1000 + t, **evidence)
        after = whole_of(layer, weights, fraction)
        assert np.isclose(state.mantissa * 2.0**state.exponent, mean + (now - mean) / 32, rtol=1e-7)
        if mean == 0.0:
            np.testing.assert_array_equal(before, after)
            continue
        exact = oracle.step(g, shift, mean, rate, clip)
        slack = 1 + np.abs(exact) * 1e-6
        mean += (now - mean) / 32
        assert (after >= rounded(before, exact - slack, fractions, 1000 + t)).all()
        assert (after <= rounded(before, exact + slack, fractions, 1000 + t)).all()
        if fractions:
            furthest = before + (exact + np.sign(exact) * slack) / 256
            assert clipped <= (np.abs(furthest) >= 125 * 256 - 1).sum()


def test_the_estimate_is_the_gradient():
    """Averages many queries of a linear layer with a quadratic loss per sample: the step is along the
    gradient."""
    rng = np.random.default_rng(3)
    layer = NodeLayer(in_c=12, out_c=8, input_zero_point=-7)
    samples, queries = 16, 32
    inputs = rng.integers(-128, 128, (samples, 12)).astype(np.int8)
    weights = np.zeros((8, 12), np.int8)
    fraction = np.zeros((8, 12), np.int8)
    targets = rng.normal(0, 40, (samples, 8))
    y = rng.integers(-60, 60, (samples, 8)).astype(np.int8)

    def loss(nodes):
        return ((nodes - targets) ** 2).mean(1)

    seeds = np.arange(queries, dtype=np.uint32)
    differences = np.array(
        [(loss(perturb_nodes(layer, y, int(s), 2)) - loss(perturb_nodes(layer, y, int(s), -2))) * ONE for s in seeds]
    ).astype(np.int32)
    evidence = {"differences": differences, "seeds": seeds}
    own = (layer, NodeState(), weights, fraction, None, 0, 125, inputs, None)
    update_from_nodes(*own, rate=10 * ONE, clip=2**24, seed=0, **evidence)
    moved = weights + fraction / 256
    exact = -2 * (y - targets).T @ (inputs.astype(float) + 7)
    cosine = (moved * exact).sum() / np.linalg.norm(moved) / np.linalg.norm(exact)
    assert cosine > 0.9
    assert np.isclose(np.sqrt((moved**2).mean()), 10, rtol=0.01)


BAD = {
    "no outputs": {"out_c": 0},
    "no such form": {"form": 3},
    "nodes that do not fit": {"node_h": 2, "node_w": 1},
    "window too large": {"form": 1, "node_h": 1, "node_w": 1, "pool_h": 16, "pool_w": 16},
    "nodes behind the outputs": {"form": 1, "node_h": 3, "node_w": 1, "out_h": 2},
    "zero point": {"input_zero_point": 128},
}


@pytest.mark.parametrize("change", BAD.values(), ids=BAD.keys())
def test_bad_layers(change):
    with pytest.raises(NativeError):
        NodeLayer(**{"in_c": 4, "out_c": 2, **change})


def test_bad_updates_change_nothing():
    layer = NodeLayer(in_c=4, out_c=2)
    weights = np.ones((2, 4), np.int8)
    good = {
        "inputs": np.ones((3, 4), np.int8),
        "routes": np.zeros((3, 2), np.uint8),
        "rate": ONE,
        "clip": ONE,
        "seed": 0,
        "differences": np.ones((1, 3), np.int32),
        "seeds": np.zeros(1, np.uint32),
    }
    bad = [{"differences": None}, {"clip": 0}, {"rate": 2**31}, {"weights": np.ones((2, 5), np.int8)}]
    for change in bad:
        arguments: dict[str, Any] = {**good, **change}
        state, target = NodeState(), arguments.pop("weights", weights)
        with pytest.raises(NativeError):
            update_from_nodes(layer, state, target, None, None, 0, 125, **arguments)
        assert (target == 1).all()
        assert state == NodeState()
