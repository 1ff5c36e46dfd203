# SPDX-License-Identifier: Apache-2.0
"""Networks whose layers can carry nodes."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

from helpers.models import GraphBuilder
from helpers.models.graph_builder import Activation, Padding, Value

Pair = tuple[int, int]


# --- graphs -------------------------------------------------------------------------------------------------


def sizes(x: Value, kernel: Pair, stride: Pair, dilation: Pair, padding: int) -> Pair:
    """Outputs of a window, as TFLite defines them."""
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
    """A convolution with sides of their own, whose outputs have about this rms."""
    x = dataclasses.replace(x, rms=x.rms / rms)
    fan_in = kernel[0] * kernel[1] * x.shape[3]
    inputs, _ = g._weighted(x, name, [channels, *kernel, x.shape[3]], 0, fan_in, True, True)
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
    """A dense layer on every one of five positions, or on five samples into which they are merged."""
    g = GraphBuilder(28)
    x = g.input("sequence", [1, 5, 8])
    if merged:
        x = g.reshape(x, "merge", [5, 8])
    inputs, rms = g._weighted(x, "token", [6, 8], 0, 8, True, True)
    y = g.value("token", [*x.shape[:-1], 6], 6 * rms / 255, -20, rms)
    options = {"keepNumDims": not merged, "fusedActivationFunction": Activation.RELU}
    g.operator("FULLY_CONNECTED", inputs, [y.index], "FullyConnected", **options)
    return head(g, g.reshape(y, "flatten", [1, 30]))


def mixer(channels: int = 8) -> bytes:
    """A network that adds its own input to the outputs of a layer along time, on [6, channels]: behind a cut
    at that layer, a second segment reads the input.
    """
    g = GraphBuilder(29)
    x = g.input("sequence", [1, 6, channels])
    y = transpose(g, x, "across")
    inputs, rms = g._weighted(y, "token", [6, 6], 0, 6, True, True)
    z = g.value("token", y.shape, 6 * rms / 255, -20, rms)
    options = {"keepNumDims": True, "fusedActivationFunction": Activation.RELU}
    g.operator("FULLY_CONNECTED", inputs, [z.index], "FullyConnected", **options)
    x = g.add(x, transpose(g, z, "back"), "add", Activation.NONE)
    return head(g, g.mean(x, "mean", [1]))


def transpose(g: GraphBuilder, x: Value, name: str) -> Value:
    """Exchanges time and channels of [batch, time, channels]."""
    y = g.value(name, [x.shape[0], x.shape[2], x.shape[1]], x.scale, x.zero_point, x.rms)
    g.operator("TRANSPOSE", [x.index, g.int32(f"{name}/order", [0, 2, 1])], [y.index], "Transpose")
    return y
