# SPDX-License-Identifier: Apache-2.0
"""Operators that TFLM runs on int8 tensors, as tests/converters/test_operators.py finds them in its wheel."""

from __future__ import annotations

from typing import Final

from .errors import ConversionError
from .model import Operator
from .model.schema import BuiltinOperator as B

#: Operators whose activations are int8 and that carry no state from one invoke to the next. Zeroth-order
#: training needs nothing of them but that they run in TFLM; LiteRT lacks some (ADD_N, CUMSUM, ZEROS_LIKE).
#: Value: smallest and largest number of inputs.
INT8_KERNELS: Final[dict[int, tuple[int, int]]] = {
    B.ABS: (1, 1),
    B.ADD: (2, 2),
    B.ADD_N: (2, 1 << 16),
    B.AVERAGE_POOL_2D: (1, 1),
    B.BATCH_MATMUL: (2, 2),
    B.BATCH_TO_SPACE_ND: (3, 3),
    B.BROADCAST_TO: (2, 2),
    B.CONCATENATION: (1, 1 << 16),
    B.CONV_2D: (2, 3),
    B.CUMSUM: (2, 2),
    B.DEPTHWISE_CONV_2D: (2, 3),
    B.DEPTH_TO_SPACE: (1, 1),
    B.DIV: (2, 2),
    B.DYNAMIC_UPDATE_SLICE: (3, 3),
    B.ELU: (1, 1),
    B.EMBEDDING_LOOKUP: (2, 2),
    B.EXPAND_DIMS: (2, 2),
    B.FILL: (2, 2),
    B.FULLY_CONNECTED: (2, 3),
    B.GATHER: (2, 2),
    B.GATHER_ND: (2, 2),
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
    B.REDUCE_MIN: (2, 2),
    B.RELU: (1, 1),
    B.RELU6: (1, 1),
    B.RESHAPE: (1, 2),
    B.RESIZE_BILINEAR: (2, 2),
    B.RESIZE_NEAREST_NEIGHBOR: (2, 2),
    B.REVERSE_V2: (2, 2),
    B.RSQRT: (1, 1),
    B.SELECT_V2: (3, 3),
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
    B.ZEROS_LIKE: (1, 1),
}

#: Operators at the edges of the int8 part.
CONVERSIONS: Final[dict[int, tuple[int, int]]] = {B.QUANTIZE: (1, 1), B.DEQUANTIZE: (1, 1)}

#: Operators that give integers or truth values, to which no int8 quantization belongs.
INTEGER_KERNELS: Final[dict[int, tuple[int, int]]] = {
    B.ARG_MAX: (2, 2),
    B.ARG_MIN: (2, 2),
    B.BROADCAST_ARGS: (2, 2),
    B.CAST: (1, 1),
    B.EQUAL: (2, 2),
    B.GREATER: (2, 2),
    B.GREATER_EQUAL: (2, 2),
    B.LESS: (2, 2),
    B.LESS_EQUAL: (2, 2),
    B.LOGICAL_AND: (2, 2),
    B.LOGICAL_NOT: (1, 1),
    B.LOGICAL_OR: (2, 2),
    B.NOT_EQUAL: (2, 2),
    B.REDUCE_ALL: (2, 2),
    B.SHAPE: (1, 1),
}

#: Every operator that a model may have.
ARITY: Final = INT8_KERNELS | CONVERSIONS | INTEGER_KERNELS

#: Operators with a filter that can be trained.
FILTER_OPERATORS: Final = (B.CONV_2D, B.DEPTHWISE_CONV_2D, B.FULLY_CONNECTED)

CONTROL_FLOW: Final = (B.IF, B.WHILE, B.CALL)

#: Operators that carry a state from one invoke to the next, as streaming models do.
STATEFUL: Final = (
    B.ASSIGN_VARIABLE,
    B.CALL_ONCE,
    B.READ_VARIABLE,
    B.SVDF,
    B.UNIDIRECTIONAL_SEQUENCE_LSTM,
    B.VAR_HANDLE,
)


def check_arity(op: Operator) -> None:
    """Raises ConversionError where a supported operator lacks inputs or outputs."""
    low, high = ARITY[op.builtin]
    if not low <= len(op.inputs) <= high or any(t is None for t in op.inputs[:low]) or not op.outputs:
        raise ConversionError(
            f"{op.label}: takes {low} to {high} inputs and gives at least one output; the file is damaged"
        )
