"""Networks of int8 weights and int16 activations, TFLite's 16x8 mode."""

import dataclasses

import numpy as np

from .graph_builder import Activation, GraphBuilder, Padding, Value

#: Numbers of labels that a network has.
LABELS = 4


def random_network(seed: int, *, channels: int = 3, side: int = 6, softmax: bool = True) -> bytes:
    """Builds a random chain of convolutions, depthwise convolutions, poolings and residual blocks before a dense layer
    or two.
    """
    g, drawn = GraphBuilder(seed, bits=16), np.random.default_rng(seed)
    x = g.input("x", [1, side, side, channels])
    for i in range(int(drawn.integers(1, 4))):
        x = _block(g, drawn, x, f"block{i}")
    x = g.mean(x, "mean", [1, 2]) if drawn.random() < 0.3 else g.flatten(x, "flat")
    if drawn.random() < 0.5:
        x = g.dense(x, "hidden", int(drawn.integers(3, 12)), per_channel=False)
    y = g.dense(x, "fc", LABELS, Activation.NONE, bias=bool(drawn.random() < 0.7), per_channel=False)
    return g.build([g.softmax(y, "softmax") if softmax else y])


def _block(g: GraphBuilder, drawn: np.random.Generator, x: Value, name: str) -> Value:
    kind = drawn.choice(["conv", "depthwise", "residual", "pool"])
    kernel = (int(drawn.integers(1, 4)), int(drawn.integers(1, 4)))
    stride = int(drawn.integers(1, 3)) if x.shape[1] > 2 else 1
    activation = int(drawn.choice([Activation.NONE, Activation.RELU, Activation.RELU6]))
    given = {"padding": Padding.SAME, "activation": activation, "per_channel": bool(drawn.random() < 0.7)}
    if kind == "conv":
        return g.conv(x, name, int(drawn.integers(1, 9)), kernel, stride, **given)
    if kind == "depthwise":
        return g.depthwise(x, name, kernel, stride, multiplier=int(drawn.integers(1, 3)), **given)
    if kind == "residual":
        y = g.conv(x, f"{name}/conv", x.shape[3], kernel, **given | {"activation": Activation.NONE})
        return g.add(x, y, name, activation)
    size = 2 if x.shape[1] > 2 else 1
    return g.pool(g.conv(x, f"{name}/conv", 4, kernel, **given), name, size, average=bool(drawn.random() < 0.5))


def of_many_operators() -> bytes:
    """Builds a network with each operator that takes int16, but for those of `random_network`."""
    g = GraphBuilder(3, bits=16)

    def then(code: str, y: Value, *inputs: int, options: str = "", **fields: float) -> Value:
        g.operator(code, inputs, [y.index], options, **fields)
        return y

    x = g.conv(g.input("x", [1, 6, 6, 3]), "conv", 4, activation=Activation.NONE)
    x = then("LEAKY_RELU", g.value("leaky", x.shape, 1 / 32, 0, 1.0), x.index, options="LeakyRelu", alpha=0.1)
    squashed = then("TANH", g.value("tanh", x.shape, 1 / 128, 0, 0.5), x.index)
    gate = then("LOGISTIC", g.value("gate", x.shape, 1 / 128, 0, 0.5), x.index)
    x = then("MUL", g.value("mul", x.shape, 1 / 64, 0, 0.5), squashed.index, gate.index, options="Mul")
    x = then("SUB", g.value("sub", x.shape, 1 / 64, 0, 0.5), x.index, squashed.index, options="Sub")
    x = then("PAD", g.like(x, "pad", [1, 8, 8, 4]), x.index, g.int32("pads", [[0, 0], [1, 1], [1, 1], [0, 0]]))
    x = then("TRANSPOSE", g.like(x, "turned", [1, 4, 8, 8]), x.index, g.int32("order", [0, 3, 1, 2]))
    x = then("EXPAND_DIMS", g.like(x, "wide", [1, 1, 4, 8, 8]), x.index, g.int32("axis", 1), options="ExpandDims")
    x = then("SQUEEZE", g.like(x, "narrow", [1, 4, 8, 8]), x.index, options="Squeeze", squeezeDims=[1])
    other = then("RELU", g.value("relu", x.shape, 1 / 64, 0, 0.5), x.index)
    x = g.requantize(x, "requantized", 1 / 64, 0)
    x = g.concat([x, other], "concat", 3)
    x = dataclasses.replace(g.mean(x, "mean", [2]), rms=0.05)  # fills the range of the logits
    y = g.dense(x, "fc", LABELS, Activation.NONE, per_channel=False)
    return g.build([g.softmax(y, "softmax")])
