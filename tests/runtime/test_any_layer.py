"""Layers of any shape, stride, dilation, padding and scale: TFLM's bits, with each kernel set."""

import dataclasses
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from helpers.examples import examples
from helpers.graphs import with_filters_as_inputs
from helpers.interpreters import KERNELS, require, run_plain
from helpers.models import GraphBuilder
from helpers.models.graph_builder import Activation, Padding, schema
from tflm_zo import load_model


@dataclasses.dataclass(frozen=True)
class Layer:
    """A layer with weights; `factor` is input scale times filter scale divided by output scale."""

    operator: str
    image: tuple[int, int, int, int]
    kernel: tuple[int, int]
    channels: int  # of a depthwise layer: the depth multiplier
    strides: tuple[int, int]
    dilations: tuple[int, int]
    padding: int
    activation: int
    factor: float
    uneven: bool  # channels have scales of their own, down to 2^-6 of the largest
    input_zero_point: int
    zero_point: int
    bias: int  # largest magnitude; 0: none
    seed: int
    bits: int = 8  # of activations

    @property
    def output(self) -> tuple[int, ...]:
        batch, *sides, depth = self.image
        if self.operator == "FULLY_CONNECTED":
            return (batch, self.channels)
        found = []
        for side, k, stride, dilation in zip(sides, self.kernel, self.strides, self.dilations, strict=True):
            reach = (k - 1) * dilation + 1
            found.append(-(-side // stride) if self.padding == Padding.SAME else (side - reach) // stride + 1)
        depthwise = self.operator == "DEPTHWISE_CONV_2D"
        return (batch, *found, depth * self.channels if depthwise else self.channels)


@st.composite
def any_layer(draw: st.DrawFn) -> Layer:
    operator = draw(st.sampled_from(["CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED"]))
    side, few = st.integers(1, 11), st.integers(1, 3)
    deep = st.one_of(st.integers(1, 9), st.integers(1, 80))
    image = (draw(few), draw(side), draw(side), draw(deep))
    layer = Layer(
        operator=operator,
        image=(draw(st.integers(1, 40)), 1, 1, draw(st.integers(1, 300))) if operator == "FULLY_CONNECTED" else image,
        kernel=(draw(st.integers(1, 5)), draw(st.integers(1, 5))),
        channels=draw(few if operator == "DEPTHWISE_CONV_2D" else deep),
        strides=(draw(few), draw(few)),
        dilations=(draw(few), draw(few)),
        padding=draw(st.sampled_from([Padding.SAME, Padding.VALID])),
        activation=draw(st.sampled_from([Activation.NONE, Activation.RELU, Activation.RELU6])),
        factor=2 ** draw(st.floats(-20, 1)),
        uneven=draw(st.booleans()),
        input_zero_point=draw(st.sampled_from([-128, 127, 0, 3])),
        zero_point=draw(st.sampled_from([-128, 127, 0, -5])),
        bias=draw(st.sampled_from([0, 1000, 2**24, 2**31 - 1])),
        seed=draw(st.integers(0, 2**32 - 1)),
    )
    if min(layer.output) < 1:  # the kernel does not fit into the image
        layer = dataclasses.replace(layer, padding=Padding.SAME)
    if operator == "DEPTHWISE_CONV_2D" and not layer.bias:  # TFLM's kernel reads one in any case
        layer = dataclasses.replace(layer, bias=1000)
    return layer


@st.composite
def any_int16_layer(draw: st.DrawFn) -> Layer:
    layer = dataclasses.replace(draw(any_layer()), bits=16, input_zero_point=0, zero_point=0)
    if layer.operator == "FULLY_CONNECTED":
        return layer
    return dataclasses.replace(layer, bias=max(layer.bias, 1))  # LiteRT takes no convolution without


def build(layer: Layer) -> bytes:
    g, rng = GraphBuilder(layer.seed, bits=layer.bits), np.random.default_rng(layer.seed)
    depth, outputs = layer.image[3], layer.output[-1]
    x = g.input("x", layer.image, 0.05, layer.input_zero_point)
    shape: list[int] = {
        "CONV_2D": [outputs, *layer.kernel, depth],
        "DEPTHWISE_CONV_2D": [1, *layer.kernel, outputs],
        "FULLY_CONNECTED": [outputs, depth],
    }[layer.operator]
    scales = np.full(outputs, 0.01, np.float32)
    if layer.uneven:
        scales = (0.01 * 2.0 ** rng.uniform(-6, 0, outputs)).astype(np.float32)
    filters = rng.integers(-127, 128, shape).astype(np.int8)
    axis = 3 if layer.operator == "DEPTHWISE_CONV_2D" else 0
    index = g.tensor("w", shape, schema.TensorType.INT8, data=filters.tobytes(), scales=scales.tolist(), axis=axis)
    inputs = [x.index, index, -1]
    if layer.bias:
        bias = rng.integers(-layer.bias, layer.bias, outputs, endpoint=True)
        inputs[2] = g.bias_of("b", bias, (np.float32(x.scale) * scales).astype(np.float32).tolist())
    y = g.value("y", layer.output, float(np.float32(0.05 * 0.01 / layer.factor)), layer.zero_point, 1.0)
    options: dict[str, Any] = {"fusedActivationFunction": layer.activation}
    if layer.operator != "FULLY_CONNECTED":
        options |= {"padding": layer.padding, "strideH": layer.strides[0], "strideW": layer.strides[1]}
        options |= {"dilationHFactor": layer.dilations[0], "dilationWFactor": layer.dilations[1]}
    if layer.operator == "DEPTHWISE_CONV_2D":
        options["depthMultiplier"] = layer.channels
    name = {"CONV_2D": "Conv2D", "DEPTHWISE_CONV_2D": "DepthwiseConv2D"}.get(layer.operator, "FullyConnected")
    g.operator(layer.operator, inputs, [y.index], name, **options)
    return g.build([y])


@pytest.mark.parametrize("kernels", KERNELS)
@settings(max_examples=examples(400), deadline=None, suppress_health_check=[HealthCheck.differing_executors])
@given(layer=any_layer())
def test_bits_are_tflms(kernels: str, layer: Layer) -> None:
    require("tflm")
    model, rng = build(layer), np.random.default_rng(layer.seed)
    x = rng.integers(-128, 128, layer.image).astype(np.int8)
    if layer.seed % 4 == 0:
        x = rng.choice([-128, 127], layer.image).astype(np.int8)
    (expected,) = run_plain(model, "tflm", [x])
    (found,) = run_plain(model, "litert", [x], kernels)
    np.testing.assert_array_equal(found, expected)
    changeable, filters = with_filters_as_inputs(load_model(model))
    (found,) = run_plain(changeable.to_bytes(), "litert", [x, *filters], kernels)
    np.testing.assert_array_equal(found, expected)


@settings(max_examples=examples(400), deadline=None)
@given(layer=any_int16_layer())
def test_int16_bits_are_tflms(layer: Layer) -> None:
    """LiteRT's reference convolutions, and the delegate's dense layer."""
    require("tflm")
    model, rng = build(layer), np.random.default_rng(layer.seed)
    limit = rng.choice([40, 3000, 32768])
    x = rng.integers(-limit, limit, layer.image).astype(np.int16)
    (expected,) = run_plain(model, "tflm", [x])
    changeable, filters = with_filters_as_inputs(load_model(model))
    for found in (run_plain(model, "litert", [x]), run_plain(changeable.to_bytes(), "litert", [x, *filters])):
        np.testing.assert_array_equal(found[0], expected)
