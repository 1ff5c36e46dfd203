# SPDX-License-Identifier: Apache-2.0
"""Head-room in the ranges of activations."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import numpy as np

from .errors import ConversionError
from .model import Model, Subgraph, Tensor
from .model.schema import BuiltinOperator as B
from .model.schema import TensorType

# Kernels that bring their inputs to the scale of their output, whatever it is.
_REQUANTIZING: Final = (
    B.ADD, B.BATCH_MATMUL, B.CONV_2D, B.DEPTHWISE_CONV_2D, B.FULLY_CONNECTED, B.HARD_SWISH, B.LEAKY_RELU,
    B.MEAN, B.MUL, B.PRELU, B.QUANTIZE, B.RELU, B.RELU6, B.SQUARED_DIFFERENCE, B.SUB, B.SUM, B.TRANSPOSE_CONV,
)  # fmt: skip
# Kernels whose output has the one scale that they demand; they take any input.
_FIXED: Final = (B.L2_NORMALIZATION, B.LOGISTIC, B.LOG_SOFTMAX, B.SOFTMAX, B.TANH)
# Where data, filter and bias stand.
_BIASED: Final = {
    B.CONV_2D: (0, 2),
    B.DEPTHWISE_CONV_2D: (0, 2),
    B.FULLY_CONNECTED: (0, 2),
    B.TRANSPOSE_CONV: (2, 3),
}
_INT32: Final = np.iinfo(np.int32)


def widen_activations(model: Model, fraction: float) -> None:
    """Lets every activation grow by ``fraction`` of its calibrated range before it saturates.

    The scale of each int8 activation is multiplied by 1 + fraction; its zero point stays, so that both ends
    of the range move away from zero alike. Biases, whose scale is input scale * filter scale, are rounded
    anew. Tensors that a kernel wants in one scale (pooling, reshaping, concatenation) change together or not
    at all. Inputs of the model, and outputs with a fixed scale (SOFTMAX, LOGISTIC, TANH), keep theirs.

    Args:
        model: an int8 model with one subgraph, changed in place.
        fraction: at least 0; 0.25 costs a third of a bit of resolution.
    """
    if not isinstance(fraction, int | float | np.floating) or not 0 <= fraction <= 7:
        raise ConversionError(f"headroom of activations must be from 0 to 7, not {fraction!r}")
    if fraction == 0:
        return
    graph = model.subgraphs[0]
    widened = _widened(graph)
    factor = 1 + fraction
    for tensor in widened:
        assert tensor.quantization is not None
        tensor.quantization.scales = (tensor.quantization.scales * np.float32(factor)).astype(np.float32)
    for op in graph.operators:
        if op.builtin not in _BIASED:
            continue
        at_data, at_bias = _BIASED[op.builtin]
        bias = op.input(at_bias)
        if bias is None or op.input(at_data) not in widened:
            continue
        if not bias.is_constant:
            raise ConversionError(f"{op.label}: bias `{bias.name}` is not a constant")
        own = graph.own_input(op, at_bias)  # another layer's bias keeps the scale of that layer
        values = np.rint(own.numpy().astype(np.float64) / factor)
        own.set_data(np.clip(values, _INT32.min, _INT32.max).astype(np.int32))
        if own.quantization is not None:
            own.quantization.scales = (own.quantization.scales * np.float32(factor)).astype(np.float32)


def _widened(graph: Subgraph) -> set[Tensor]:
    """Returns the activations that may change: tensors that must agree change together or not at all."""
    group: dict[Tensor, Tensor] = {}

    def root(tensor: Tensor) -> Tensor:
        while group.setdefault(tensor, tensor) is not tensor:
            tensor = group[tensor]
        return tensor

    def quantized(tensors: Iterable[Tensor | None]) -> list[Tensor]:
        return [t for t in tensors if t is not None and t.type == TensorType.INT8]

    fixed = set(quantized(graph.inputs))
    produced: set[Tensor] = set()
    for op in graph.operators:
        produced.update(quantized(op.outputs))
        if op.builtin in _FIXED:
            fixed.update(quantized(op.outputs))
        elif op.builtin not in _REQUANTIZING:
            tied = quantized([*op.inputs, *op.outputs])
            fixed.update(t for t in tied if t.is_constant)
            for other in tied[1:]:
                group[root(other)] = root(tied[0])
    kept = {root(t) for t in fixed}
    return {t for t in produced if root(t) not in kept and t.quantization is not None}
