# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""The memory that training needs, by TFLM's count and by the papers' equations."""

from __future__ import annotations

from ..converters import Model

__all__ = ["backpropagation_bytes"]


def backpropagation_bytes(model: Model) -> int:
    """int8 bytes that full backpropagation needs for one sample.

    Parameters and their gradients, activations and their errors (ElasticZO, the equation of M_Full-BP):

        sum over trainable layers (|theta| + |g|) + sum over layers (|a| + |e|)

    Each counts one byte, biases included; batch norm is folded into the layer before it, as it is in the
    model, and a RESHAPE is a view of its input.

    Args:
        model: a plain int8 model at batch 1.
    """
    graph = model.subgraphs[0]
    kinds = ("CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED")
    filters = {
        id(t): t
        for op in graph.operators
        for t in op.inputs[1:]
        if t is not None and t.is_constant and op.code.name in kinds
    }
    parameters = sum(t.size for t in filters.values())
    activations = sum(t.size for op in graph.operators if op.code.name != "RESHAPE" for t in op.outputs)
    return 2 * parameters + 2 * activations
