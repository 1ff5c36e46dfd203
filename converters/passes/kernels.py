# SPDX-License-Identifier: Apache-2.0
"""Operators that TFLM runs on int8 tensors."""

from __future__ import annotations

from typing import Final

from ..errors import ConversionError
from ..model import Operator
from ..model.schema import BuiltinOperator as B

#: Operators whose activations are int8 and that carry no state from one invoke to the next. Zeroth-order
#: training needs nothing of them but that they run. Value: smallest and largest number of inputs.
INT8_KERNELS: Final[dict[int, tuple[int, int]]] = {
    B.ABS: (1, 1),
    B.ADD: (2, 2),
    B.AVERAGE_POOL_2D: (1, 1),
    B.BATCH_MATMUL: (2, 2),
    B.BATCH_TO_SPACE_ND: (3, 3),
    B.CONCATENATION: (1, 1 << 16),
    B.CONV_2D: (2, 3),
    B.DEPTHWISE_CONV_2D: (2, 3),
    B.DEPTH_TO_SPACE: (1, 1),
    B.EXPAND_DIMS: (2, 2),
    B.FULLY_CONNECTED: (2, 3),
    B.HARD_SWISH: (1, 1),
    B.L2_NORMALIZATION: (1, 1),
    B.LEAKY_RELU: (1, 1),
    B.LOGISTIC: (1, 1),
    B.LOG_SOFTMAX: (1, 1),
    B.MAXIMUM: (2, 2),
    B.MAX_POOL_2D: (1, 1),
    B.MEAN: (2, 2),
    B.MINIMUM: (2, 2),
    B.MIRROR_PAD: (2, 2),
    B.MUL: (2, 2),
    B.PACK: (1, 1 << 16),
    B.PAD: (2, 2),
    B.PADV2: (3, 3),
    B.PRELU: (2, 2),
    B.REDUCE_MAX: (2, 2),
    B.RELU: (1, 1),
    B.RELU6: (1, 1),
    B.RESHAPE: (1, 2),
    B.RESIZE_BILINEAR: (2, 2),
    B.RESIZE_NEAREST_NEIGHBOR: (2, 2),
    B.SLICE: (3, 3),
    B.SOFTMAX: (1, 1),
    B.SPACE_TO_BATCH_ND: (3, 3),
    B.SPACE_TO_DEPTH: (1, 1),
    B.SPLIT: (2, 2),
    B.SPLIT_V: (3, 3),
    B.SQUARED_DIFFERENCE: (2, 2),
    B.SQUEEZE: (1, 1),
    B.STRIDED_SLICE: (4, 4),
    B.SUB: (2, 2),
    B.SUM: (2, 2),
    B.TANH: (1, 1),
    B.TRANSPOSE: (2, 2),
    B.TRANSPOSE_CONV: (3, 4),
    B.UNPACK: (1, 1),
}

#: Operators at the edges of the int8 part.
CONVERSIONS: Final[dict[int, tuple[int, int]]] = {B.QUANTIZE: (1, 1), B.DEQUANTIZE: (1, 1)}

#: Operators with integer results that no gradient, but also no int8 type, belongs to.
INTEGER_KERNELS: Final[dict[int, tuple[int, int]]] = {
    B.ARG_MAX: (2, 2),
    B.ARG_MIN: (2, 2),
    B.SHAPE: (1, 1),
}

#: Every operator that a model may have.
ARITY: Final = INT8_KERNELS | CONVERSIONS | INTEGER_KERNELS

#: Operators with a filter that can be trained.
FILTER_OPERATORS: Final = (B.CONV_2D, B.DEPTHWISE_CONV_2D, B.FULLY_CONNECTED)

CONTROL_FLOW: Final = (B.IF, B.WHILE, B.CALL, B.CALL_ONCE)


def check_arity(op: Operator) -> None:
    """Raises ConversionError where an operator of the tables above lacks inputs or outputs."""
    low, high = ARITY[op.builtin]
    if not low <= len(op.inputs) <= high or any(t is None for t in op.inputs[:low]) or not op.outputs:
        raise ConversionError(
            f"{op.label}: takes {low} to {high} inputs and gives at least one output; the file is damaged"
        )
