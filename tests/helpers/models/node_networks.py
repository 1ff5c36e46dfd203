"""Networks whose layers can carry nodes."""

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np

from helpers.models import GraphBuilder
from helpers.models.graph_builder import Activation, Padding, Value

Pair = tuple[int, int]


# --- graphs -------------------------------------------------------------------------------------------------


def sizes(x: Value, kernel: Pair, stride: Pair, dilation: Pair, padding: int) -> Pair:
    """Computes outputs of a window by TFLite's definition."""
    if padding == Padding.SAME:
        found = [-(-n // s) for n, s in zip(x.shape[1:3], stride, strict=True)]
    else:
        spans = [(k - 1) * d + 1 for k, d in zip(kernel, dilation, strict=True)]
        found = [(n - e) // s + 1 for n, e, s in zip(x.shape[1:3], spans, stride, strict=True)]
    return found[0], found[1]


def conv(
    g: GraphBuilder,
    x: Value,
    name: str,
    channels: int = 4,
    kernel: Pair = (3, 3),
    stride: Pair = (1, 1),
    dilation: Pair = (1, 1),
    padding: int = Padding.SAME,
    activation: int = Activation.RELU,
    rms: float = 1.0,
) -> Value:
    """Makes a convolution with sides of their own, whose outputs have about this rms."""
    x = dataclasses.replace(x, rms=x.rms / rms)
    fan_in = kernel[0] * kernel[1] * x.shape[3]
    inputs, _ = g.weighted(x, name, [channels, *kernel, x.shape[3]], 0, fan_in, True, True)
    shape = [x.shape[0], *sizes(x, kernel, stride, dilation, padding), channels]
    y = g.value(name, shape, 6 * rms / 255, int(g.rng.integers(-100, -20)), rms)
    options = {"padding": padding, "fusedActivationFunction": activation}
    options |= dict(zip(("strideH", "strideW"), stride, strict=True))
    options |= dict(zip(("dilationHFactor", "dilationWFactor"), dilation, strict=True))
    g.operator("CONV_2D", inputs, [y.index], "Conv2D", **options)
    return y


def pool(
    g: GraphBuilder,
    x: Value,
    name: str,
    window: Pair,
    stride: Pair,
    padding: int = Padding.SAME,
    activation: int = Activation.NONE,
    average: bool = False,
) -> Value:
    shape = [x.shape[0], *sizes(x, window, stride, (1, 1), padding), x.shape[3]]
    y = g.value(name, shape, x.scale, x.zero_point, x.rms)
    options = {"padding": padding, "fusedActivationFunction": activation}
    options |= dict(zip(("filterHeight", "filterWidth", "strideH", "strideW"), window + stride, strict=True))
    code = "AVERAGE_POOL_2D" if average else "MAX_POOL_2D"
    g.operator(code, [x.index], [y.index], "Pool2D", **options)
    return y


def head(g: GraphBuilder, x: Value, softmax: bool = True) -> bytes:
    x = g.dense(x, "fc", 3, Activation.NONE)
    return g.build([g.softmax(x, "softmax") if softmax else x])


def convolution(**options: Any) -> Callable[[], bytes]:
    def build() -> bytes:
        g = GraphBuilder(21)
        return head(g, conv(g, g.input("image", [1, 11, 8, 3]), "conv", **options))

    return build


def pooled(
    window: Pair, stride: Pair, padding: int = Padding.SAME, activation: int = Activation.RELU
) -> Callable[[], bytes]:
    def build() -> bytes:
        g = GraphBuilder(22)
        image = g.input("image", [1, 11, 10, 2])
        x = conv(g, image, "conv", padding=Padding.VALID, activation=activation, rms=4.0)
        return head(g, pool(g, x, "pool", window, stride, padding))

    return build


def global_mean(operator: bool, keep: bool = False) -> bytes:
    g = GraphBuilder(23)
    x = conv(g, g.input("image", [1, 9, 7, 2]), "conv", stride=(2, 1))
    if operator:
        return head(g, g.mean(x, "mean", [1, 2], keep))
    return head(g, pool(g, x, "mean", (5, 7), (5, 7), Padding.VALID, average=True))


def sequence(merged: bool = False) -> bytes:
    """Builds a dense layer on every one of five positions, or on five samples into which they are merged."""
    g = GraphBuilder(28)
    x = g.input("sequence", [1, 5, 8])
    if merged:
        x = g.reshape(x, "merge", [5, 8])
    inputs, rms = g.weighted(x, "token", [6, 8], 0, 8, True, True)
    y = g.value("token", [*x.shape[:-1], 6], 6 * rms / 255, -20, rms)
    options = {"keepNumDims": not merged, "fusedActivationFunction": Activation.RELU}
    g.operator("FULLY_CONNECTED", inputs, [y.index], "FullyConnected", **options)
    return head(g, g.reshape(y, "flatten", [1, 30]))


def mixer(channels: int = 8) -> bytes:
    """Builds a network that adds its own input to the outputs of a layer along time, on [6, channels]."""
    g = GraphBuilder(29)
    x = g.input("sequence", [1, 6, channels])
    y = transpose(g, x, "across")
    inputs, rms = g.weighted(y, "token", [6, 6], 0, 6, True, True)
    z = g.value("token", y.shape, 6 * rms / 255, -20, rms)
    options = {"keepNumDims": True, "fusedActivationFunction": Activation.RELU}
    g.operator("FULLY_CONNECTED", inputs, [z.index], "FullyConnected", **options)
    x = g.add(x, transpose(g, z, "back"), "add", Activation.NONE)
    return head(g, g.mean(x, "mean", [1]))


def transpose(g: GraphBuilder, x: Value, name: str) -> Value:
    """Transposes time and channels of [batch, time, channels]."""
    y = g.value(name, [x.shape[0], x.shape[2], x.shape[1]], x.scale, x.zero_point, x.rms)
    g.operator("TRANSPOSE", [x.index, g.int32(f"{name}/order", [0, 2, 1])], [y.index], "Transpose")
    return y


def other_operators() -> bytes:
    """Builds a tensor with three readers, MUL, SUB, RELU6, QUANTIZE, CONCATENATION, PAD, MAX_POOL, MEAN."""
    g = GraphBuilder(21)
    x = g.input("image", [1, 8, 8, 2])
    x = g.conv(x, "stem", 6)
    factors = g.tensor("factors", [6], 9, data=bytes([5, 90, 30, 127, 64, 200]), scales=[1 / 64], zero_points=[3])
    a = g.value("scaled", x.shape, x.scale, x.zero_point, x.rms)
    g.operator("MUL", [x.index, factors], [a.index], "Mul", fusedActivationFunction=Activation.NONE)
    b = g.conv(a, "branch", 6, activation=Activation.NONE)
    c = g.value("difference", x.shape, 2 * b.scale, -100, b.rms)
    g.operator("SUB", [b.index, x.index], [c.index], "Sub", fusedActivationFunction=Activation.NONE)
    d = g.value("rectified", c.shape, c.scale, -100, c.rms)
    g.operator("RELU6", [c.index], [d.index])
    e = g.value("same scale", x.shape, d.scale, d.zero_point, d.rms)
    g.operator("QUANTIZE", [x.index], [e.index], "Quantize")
    f = g.concat([d, e], "channels", 3)
    h = g.value("padded", [1, 10, 11, 12], f.scale, f.zero_point, f.rms)
    sizes = g.tensor("sizes", [4, 2], 2, data=np.array([[0, 0], [1, 1], [2, 1], [0, 0]], np.int32).tobytes())
    g.operator("PAD", [f.index, sizes], [h.index], "Pad")
    i = g.depthwise(h, "depthwise", stride=2, padding=Padding.VALID, activation=Activation.RELU6, multiplier=2)
    j = g.value("pooled", [1, 4, 5, 24], i.scale, i.zero_point, i.rms)
    window = {"strideH": 1, "strideW": 1, "filterHeight": 3, "filterWidth": 2}
    g.operator("MAX_POOL_2D", [i.index], [j.index], "Pool2D", padding=Padding.SAME, **window)
    k = g.add(j, j, "doubled", Activation.NONE)
    x = g.mean(k, "mean", [1, 2])
    return g.build([g.softmax(g.dense(x, "fc", 5, Activation.NONE), "softmax")])


def parts() -> bytes:
    """Builds a tensor that SPLIT, SPLIT_V, UNPACK, SLICE and STRIDED_SLICE part, and PACK and CONCATENATION join."""
    g = GraphBuilder(22)
    x = g.conv(g.input("image", [1, 6, 5, 2]), "stem", 8)

    def part(name: str, of: Value, shape: list[int]) -> Value:
        return g.value(name, shape, of.scale, of.zero_point, of.rms)

    halves = [part(f"half{i}", x, [1, 6, 5, 4]) for i in range(2)]
    axis = g.int32("axis", [3])
    g.operator("SPLIT", [axis, x.index], [v.index for v in halves], "Split", numSplits=2)
    a = g.conv(halves[0], "first", 6, activation=Activation.NONE)
    rows = [part(f"rows{i}", halves[1], [1, n, 5, 4]) for i, n in enumerate((1, 3, 2))]
    sizes, height = g.int32("sizes", [1, 3, 2]), g.int32("height", 1)
    inputs = [halves[1].index, sizes, height]
    g.operator("SPLIT_V", inputs, [v.index for v in rows], "SplitV", numSplits=3)
    b = g.conv(rows[1], "second", 6, activation=Activation.NONE)
    window = part("window", a, [1, 3, 4, 6])
    begin, size = g.int32("begin", [0, 2, 1, 0]), g.int32("size", [-1, 3, 4, -1])
    g.operator("SLICE", [a.index, begin, size], [window.index], "Slice")
    columns = [part(f"column{i}", b, [1, 3, 6]) for i in range(5)]
    g.operator("UNPACK", [b.index], [v.index for v in columns], "Unpack", num=5, axis=2)
    packed = part("packed", b, [1, 3, 4, 6])
    chosen = [columns[i].index for i in (3, 0, 3, 1)]
    g.operator("PACK", chosen, [packed.index], "Pack", valuesCount=4, axis=2)
    sum_of = g.add(window, packed, "sum", Activation.RELU)
    ends = [g.int32(f"strided{i}", n) for i, n in enumerate(([0, 1, 0, 2], [1, 3, -1, 4], [1, 1, 1, 1]))]
    strided = part("strided", sum_of, [1, 2, 3, 4])
    g.operator("STRIDED_SLICE", [sum_of.index, *ends], [strided.index], "StridedSlice", beginMask=4, endMask=8)
    y = g.concat([g.flatten(strided, "flat"), g.flatten(sum_of, "whole")], "both", 1)
    return g.build([g.softmax(g.dense(y, "fc", 5, Activation.NONE), "softmax")])


def attention() -> bytes:
    """Builds products and sums of activations, of channels and maps, functions of single values, a maximum."""
    g = GraphBuilder(23)
    x = g.conv(g.input("image", [1, 6, 5, 2]), "stem", 8)
    gate = g.dense(g.mean(x, "squeezed", [1, 2]), "squeeze", 4)
    gate = g.dense(gate, "excite", 8, Activation.NONE)
    gate = g.reshape(g.logistic(gate, "gate"), "gate of channels", [1, 1, 1, 8])

    def product(a: Value, b: Value, name: str, scale: float, code: str = "MUL") -> Value:
        y = g.value(name, a.shape, scale, -20, 40 * scale)
        options = {"MUL": "Mul", "SUB": "Sub", "ADD": "Add"}[code]
        g.operator(code, [a.index, b.index], [y.index], options, fusedActivationFunction=Activation.NONE)
        return y

    y = product(x, gate, "excited", x.scale / 2)
    largest = g.value("largest", [1, 6, 5, 1], y.scale, y.zero_point, y.rms)
    g.operator("REDUCE_MAX", [y.index, g.int32("axes", [3])], [largest.index], "Reducer", keepDims=True)
    bent = g.value("bent", largest.shape, 1 / 128, 0, 0.5)
    g.operator("TANH", [largest.index], [bent.index])
    y = product(y, bent, "by a map", y.scale)
    y = product(y, bent, "less a map", y.scale, "SUB")
    y = product(y, y, "squared", 60 * y.scale**2)
    y = g.conv(y, "behind", 6, activation=Activation.NONE)
    soft = g.value("soft", y.shape, 2 * y.scale, -80, y.rms)
    g.operator("HARD_SWISH", [y.index], [soft.index])
    channels = g.dense(g.mean(soft, "means", [1, 2]), "of channels", 6, Activation.NONE)
    channels = g.reshape(channels, "channels", [1, 1, 1, 6])
    y = product(soft, channels, "with channels", 2 * soft.scale, "ADD")
    return g.build([g.softmax(g.dense(g.mean(y, "mean", [1, 2]), "fc", 5, Activation.NONE), "softmax")])


def places(seed: int = 40) -> bytes:
    """Builds three convolutions and a SOFTMAX of 3 classes at each of 4 x 4 places, as FOMO has it."""
    g = GraphBuilder(seed)
    x = g.conv(g.input("image", [1, 8, 8, 1]), "conv0", 4, stride=2)
    x = g.conv(x, "conv1", 6)
    return g.build([g.softmax(g.conv(x, "conv2", 3, (1, 1), activation=Activation.NONE), "softmax")])
