"""Factors and shifts of channels, against float64 arithmetic on the layer's own sums."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers.interpreters import inputs_of, run
from helpers.models import GraphBuilder, shared_filters
from helpers.models.graph_builder import Activation
from tflm_zo.converters import load_model
from tflm_zo.converters.rescale_channels import layers_with_filters, rescale_channels, why_fixed


def layer(kind: str, seed: int, *, bias: bool, per_channel: bool = True) -> bytes:
    """Builds a layer as a model; LiteRT's convolutions demand a bias."""
    g = GraphBuilder(seed)
    x = g.input("x", [1, 4, 4, 3] if kind != "dense" else [1, 9])
    if kind == "conv":
        y = g.conv(x, "layer", 5, activation=Activation.NONE, per_channel=per_channel)
    elif kind == "depthwise":
        y = g.depthwise(x, "layer", activation=Activation.NONE)
    else:
        y = g.dense(x, "layer", 5, Activation.NONE, bias=bias, per_channel=per_channel)
    return g.build([y])


@given(
    kind=st.sampled_from(["conv", "depthwise", "dense"]),
    bias=st.booleans(),
    per_channel=st.booleans(),
    seed=st.integers(0, 10),
    data=st.data(),
)
def test_outputs_are_the_affine_map_of_what_they_were(
    kind: str, bias: bool, per_channel: bool, seed: int, data: Any
) -> None:
    plain = layer(kind, seed, bias=bias, per_channel=per_channel)
    model = load_model(plain)
    graph = model.subgraphs[0]
    (op,) = layers_with_filters(model)
    channels = op.outputs[0].shape[-1]
    ratio, weights = st.floats(1 / 3, 3), op.inputs[1].numpy().tobytes()
    count = len(op.inputs[1].quantization.scales)
    factors = np.array(data.draw(st.lists(ratio, min_size=count, max_size=count)))
    factors = np.broadcast_to(factors, channels)
    scale, zero_point = op.outputs[0].quantization.scale, op.outputs[0].quantization.zero_point
    shifts = scale * np.array(data.draw(st.lists(st.floats(-60, 60), min_size=channels, max_size=channels)))
    assert rescale_channels(graph, op, factors, shifts).all()

    x = inputs_of(plain, seed)
    (before,), (after,) = run(plain, x), run(model.to_bytes(), x)
    levels = (before.astype(float) - zero_point) * factors + shifts / scale + zero_point
    sure = (np.abs(before.astype(int)) < 126) & (levels > -127) & (levels < 126)
    # Half an LSB of the old rounding, times the factor, and one of the new.
    assert np.all(np.abs(after - levels)[sure] <= np.broadcast_to(factors / 2 + 1, after.shape)[sure])
    assert load_model(model.to_bytes()).subgraphs[0].operators[0].inputs[1].numpy().tobytes() == weights


@pytest.mark.parametrize(("kind", "bias"), [("conv", True), ("depthwise", True), ("dense", True), ("dense", False)])
def test_a_map_that_changes_nothing_changes_no_byte(kind: str, bias: bool) -> None:
    plain = layer(kind, 1, bias=bias)
    model = load_model(plain)
    (op,) = layers_with_filters(model)
    channels = op.outputs[0].shape[-1]
    rescale_channels(model.subgraphs[0], op, np.ones(channels), np.zeros(channels))
    for now, was in zip(op.inputs, load_model(plain).subgraphs[0].operators[0].inputs, strict=True):
        if was is not None and was.is_constant:
            assert now.buffer.data == was.buffer.data
            assert np.array_equal(now.quantization.scales, was.quantization.scales)


def test_what_int32_does_not_hold_stays_as_it_was() -> None:
    model = load_model(layer("conv", 1, bias=True))
    (op,) = layers_with_filters(model)
    scales, bias = op.inputs[1].quantization.scales.copy(), op.inputs[2].numpy().copy()
    shifts = np.array([0.0, 1e9, 0.0, -1e9, 0.1])
    done = rescale_channels(model.subgraphs[0], op, np.full(5, 2.0), shifts)
    assert done.tolist() == [True, False, True, False, True]
    assert np.array_equal(op.inputs[1].quantization.scales, np.where(done, 2 * scales, scales))
    assert np.array_equal(op.inputs[2].numpy()[[0, 1, 2, 3]], bias[[0, 1, 2, 3]])
    assert np.all(op.inputs[2].numpy()[4] != bias[4])


def test_a_bias_of_two_layers_becomes_two() -> None:
    model = load_model(shared_filters(share_tensor=True))
    first, second = layers_with_filters(model)
    kept = second.inputs[2].numpy().copy()
    assert why_fixed(model.subgraphs[0], first) is None
    rescale_channels(model.subgraphs[0], first, np.ones(8), np.ones(8))
    assert np.array_equal(second.inputs[2].numpy(), kept)
    assert not np.array_equal(first.inputs[2].numpy(), kept)


def test_a_filter_of_two_layers_stays() -> None:
    g = GraphBuilder(3)
    x = g.input("x", [1, 8])
    y = g.dense(x, "a", 8, Activation.NONE)
    z = g.dense(g.requantize(y, "same", x.scale, x.zero_point), "b", 8, Activation.NONE)
    g.operators[2].inputs[1] = g.operators[0].inputs[1]
    model = load_model(g.build([g.dense(z, "fc", 3, Activation.NONE)]))
    reasons = [why_fixed(model.subgraphs[0], op) for op in layers_with_filters(model)]
    assert reasons == ["its filter belongs to something else, too"] * 2 + ["it computes the model's answer"]
