# SPDX-License-Identifier: Apache-2.0
"""Weights and multiply-accumulates of an operator, from its shapes."""

from __future__ import annotations

import math

from .constants import FULLY_CONNECTED_16
from .model import Operator, Tensor
from .model.schema import BuiltinOperator as B

__all__ = ["filter_of", "macs"]

_FILTER_INPUT = {B.CONV_2D: 1, B.DEPTHWISE_CONV_2D: 1, B.FULLY_CONNECTED: 1, B.TRANSPOSE_CONV: 1}


def filter_of(op: Operator) -> Tensor | None:
    """The filter: a constant, or a variable in a ZO model; None where the operator has none."""
    kind = _kind(op)
    tensor = op.input(_FILTER_INPUT[kind]) if kind in _FILTER_INPUT else None
    return tensor if tensor is not None and (tensor.is_constant or tensor.is_variable) else None


def _kind(op: Operator) -> int:
    """The ``BuiltinOperator``; of an int16 layer the one that it stands for."""
    return B.FULLY_CONNECTED if op.code.name == FULLY_CONNECTED_16 else op.builtin


def macs(op: Operator) -> int:
    """Multiply-accumulates of one invoke, batch included; 0 for what does not multiply matrices. One of 16 by
    8 bits counts as one.
    """
    first, second = op.input(0), op.input(1)
    if first is None or second is None or not op.outputs:
        return 0
    kind, outputs, shape = _kind(op), op.outputs[0].size, second.shape
    if kind == B.CONV_2D:  # filter [out, height, width, in / groups]
        return outputs * math.prod(shape[1:])
    if kind == B.DEPTHWISE_CONV_2D:  # filter [1, height, width, out]
        return outputs * math.prod(shape[1:3])
    if kind == B.FULLY_CONNECTED:  # filter [out, in]
        return outputs * math.prod(shape[-1:])
    if kind == B.TRANSPOSE_CONV:  # filter [out, height, width, in]; inputs: shape, filter, activation
        activation = op.input(2)
        return 0 if activation is None else activation.size * math.prod(shape[:3])
    if kind == B.BATCH_MATMUL:
        rows, columns = (1, 1, *first.shape)[-2:]
        return outputs * (rows if op.option("adjX", False) else columns)
    return 0
