"""Node perturbation: routes, perturbed nodes and updates of any geometry against oracle.nodes."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers.nodes import perturb_nodes, route_nodes, update_from_nodes
from helpers.oracle import nodes as oracle
from helpers.oracle.node_draws import layers, native, outputs_of
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


def test_the_estimate_is_the_gradient():
    """Averages many queries of a linear layer with a quadratic loss per sample: the step is along the gradient."""
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
