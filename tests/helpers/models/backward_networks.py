# SPDX-License-Identifier: Apache-2.0
"""A network through which errors come back by the operators that the networks of ``MODELS`` lack."""

from __future__ import annotations

import numpy as np

from .graph_builder import Activation, GraphBuilder, Padding

__all__ = ["other_operators"]


def other_operators() -> bytes:
    """A tensor with three readers, MUL by factors of channels, SUB, a separate RELU6, QUANTIZE,
    CONCATENATION, PAD, MAX_POOL with overlaps, MEAN, a sum of a tensor with itself.
    """
    g = GraphBuilder(21)
    x = g.input("image", [1, 8, 8, 2])
    x = g.conv(x, "stem", 6)
    factors = g.tensor(
        "factors", [6], 9, data=bytes([5, 90, 30, 127, 64, 200]), scales=[1 / 64], zero_points=[3]
    )
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
    i = g.depthwise(
        h, "depthwise", stride=2, padding=Padding.VALID, activation=Activation.RELU6, multiplier=2
    )
    j = g.value("pooled", [1, 4, 5, 24], i.scale, i.zero_point, i.rms)
    window = {"strideH": 1, "strideW": 1, "filterHeight": 3, "filterWidth": 2}
    g.operator("MAX_POOL_2D", [i.index], [j.index], "Pool2D", padding=Padding.SAME, **window)
    k = g.add(j, j, "doubled", Activation.NONE)
    x = g.mean(k, "mean", [1, 2])
    return g.build([g.softmax(g.dense(x, "fc", 5, Activation.NONE), "softmax")])
