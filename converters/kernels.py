"""Operators that TFLM runs on int8 and int16 tensors: inputs that its kernels take, and costs.

`test_operators.py` and `test_kernels.py` of tests/converters compare the tables with TFLM's wheel. Its kernels check
inputs in their Prepare, in their Eval, or not at all: then they end the process or give other values than LiteRT's.
"""

from __future__ import annotations

import math
from typing import Final, NamedTuple

from .errors import ConversionError
from .model import Operator, Tensor
from .model.schema import BuiltinOperator as B
from .model.schema import TensorType as T

_MANY: Final = 1 << 16
_INT8: Final = (T.INT8,)
_LEVELS: Final = (T.INT8, T.INT16)
_LEVEL_SUMS: Final = (*_LEVELS, T.INT32)
_INDEX: Final = (T.INT32,)
_BIAS: Final = (T.INT32, T.INT64)
_BOOL: Final = (T.BOOL,)
_SUMS: Final = (T.INT8, T.INT32)
_MOVED: Final = (T.INT8, T.INT32, T.BOOL)
_ORDERED: Final = (T.INT8, T.INT32, T.INT64)
_ANY: Final = (T.INT8, T.INT32, T.INT64, T.BOOL)


class Kernel(NamedTuple):
    """Constraints of TFLM's kernel of an operator. *Data* are all inputs that are not in `others`."""

    low: int = 1  #: smallest number of inputs.
    high: int = 1  #: largest number of inputs.
    data: tuple[int, ...] = _INT8  #: element types, of which all data have one.
    gives: tuple[int, ...] | None = None  #: element types of the outputs, or None for that of the data.
    #: types of inputs that are no data (shapes, axes, conditions), by their numbers.
    others: dict[int, tuple[int, ...]] = {}  # noqa: RUF012
    constants: tuple[int, ...] = ()  #: numbers of inputs that have to be in the file.
    #: smallest and largest number of dimensions of the data and (but for FILL) of the outputs.
    ranks: tuple[int, int] = (0, 6)
    #: which tensors have to have one scale and zero point: "" for none, "data", or "all" for these and the outputs.
    equal: str = ""
    #: scale and zero point that an int8 output has to have; an int16 output has 1/256 of the one
    #: and 256 times the other, and, of int16 data, 1/32768 and 0.
    fixed: tuple[float, int] | None = None
    optional: tuple[int, ...] = ()  #: numbers of inputs that may be absent.
    #: "same" for outputs of the data's shape, "broadcast" for the shape to which all inputs are broadcast, "size" for
    #: outputs with as many values.
    shape: str = ""

    @property
    def has_int16(self) -> bool:
        """True if an input or output may be INT16."""
        return any(T.INT16 in types for types in (self.data, self.gives or (), *self.others.values()))


#: Inputs of UNIDIRECTIONAL_SEQUENCE_LSTM that TFLM's kernel does not take: of peepholes, a projection and layer norms.
LSTM_VARIANTS: Final = (*range(9, 12), *range(16, 18), *range(20, 24))

_UNARY: Final = Kernel(shape="same")
_BINARY: Final = Kernel(2, 2, _SUMS, shape="broadcast")
_POOL: Final = Kernel(data=_LEVELS, ranks=(4, 4), equal="all")
_BLOCKS: Final = Kernel(3, 3, others={1: _INDEX, 2: _INDEX}, constants=(1, 2), ranks=(3, 4), equal="all")
_REDUCE: Final = Kernel(2, 2, others={1: _INDEX}, constants=(1,))
_RESIZE: Final = _REDUCE._replace(ranks=(4, 4))
_COMPARE: Final = Kernel(2, 2, _ORDERED, _BOOL, shape="broadcast")
_LOGICAL: Final = Kernel(2, 2, _BOOL, shape="broadcast")

#: Operators whose activations are int8, or int16 where `data` has it. Zeroth-order training needs nothing of them but
#: that they run in TFLM; LiteRT lacks some (ADD_N, CUMSUM, ZEROS_LIKE).
INT8_KERNELS: Final[dict[int, Kernel]] = {
    B.ABS: _UNARY,
    B.ADD: _BINARY._replace(data=_LEVEL_SUMS),
    B.ADD_N: Kernel(2, _MANY, equal="data", shape="same"),
    B.AVERAGE_POOL_2D: _POOL,
    B.BATCH_MATMUL: Kernel(2, 2, ranks=(2, 5)),
    B.BATCH_TO_SPACE_ND: _BLOCKS,
    B.BROADCAST_TO: Kernel(2, 2, _ANY, others={1: (T.INT32, T.INT64)}, constants=(1,), ranks=(0, 5)),
    B.CONCATENATION: Kernel(1, _MANY, (*_ANY, T.INT16), equal="all"),
    B.CONV_2D: Kernel(2, 3, _LEVELS, others={1: _INT8, 2: _BIAS}, ranks=(4, 4), optional=(2,)),
    B.CUMSUM: Kernel(2, 2, others={1: _INDEX}, shape="same"),
    # TFLM's Prepare reads a bias that is named as absent.
    B.DEPTHWISE_CONV_2D: Kernel(2, 3, _LEVELS, others={1: _INT8, 2: _BIAS}, ranks=(4, 4)),
    B.DEPTH_TO_SPACE: Kernel(ranks=(4, 4)),
    B.DIV: _BINARY._replace(data=_INT8),
    B.DYNAMIC_UPDATE_SLICE: Kernel(3, 3, _SUMS, others={2: (T.INT32, T.INT64)}),
    B.ELU: _UNARY,
    B.EMBEDDING_LOOKUP: Kernel(2, 2, others={0: _INDEX}, constants=(1,)),
    B.EXPAND_DIMS: Kernel(2, 2, _LEVELS, others={1: _INDEX}, constants=(1,), equal="all", shape="size"),
    B.FILL: Kernel(2, 2, _SUMS, others={0: (T.INT32, T.INT64)}, constants=(0,), ranks=(0, 0), equal="all"),
    B.FULLY_CONNECTED: Kernel(2, 3, _LEVELS, others={1: _INT8, 2: _BIAS}, optional=(2,)),
    B.GATHER: Kernel(2, 2, others={1: _INDEX}),
    B.GATHER_ND: Kernel(2, 2, others={1: _INDEX}),
    B.HARD_SWISH: _UNARY,
    B.L2_NORMALIZATION: Kernel(ranks=(0, 4), fixed=(1 / 128, 0), shape="same"),
    B.LEAKY_RELU: _UNARY._replace(data=_LEVELS),
    B.LOGISTIC: Kernel(data=_LEVELS, fixed=(1 / 256, -128), shape="same"),
    B.LOG_SOFTMAX: Kernel(fixed=(16 / 256, 127), shape="same"),
    B.MAXIMUM: _BINARY._replace(data=_ORDERED),
    B.MAX_POOL_2D: _POOL,
    B.MEAN: _REDUCE._replace(data=_LEVELS),
    B.MINIMUM: _BINARY._replace(data=_ORDERED),
    B.MIRROR_PAD: Kernel(2, 2, others={1: (T.INT32, T.INT64)}, constants=(1,), equal="all"),
    B.MUL: _BINARY._replace(data=_LEVEL_SUMS),
    B.PACK: Kernel(1, _MANY, _ORDERED, equal="all"),
    B.PAD: Kernel(2, 2, _LEVEL_SUMS, others={1: _INDEX}, constants=(1,), ranks=(0, 5)),
    B.PADV2: Kernel(3, 3, _SUMS, others={1: _INDEX}, constants=(1,), ranks=(0, 5), equal="all"),
    B.PRELU: Kernel(2, 2, shape="broadcast"),
    B.REDUCE_MAX: _REDUCE._replace(equal="all"),
    B.REDUCE_MIN: _REDUCE._replace(equal="all"),
    B.RELU: _UNARY._replace(data=_LEVELS),
    B.RELU6: _UNARY,
    B.RESHAPE: Kernel(1, 2, (*_ANY, T.INT16), others={1: _INDEX}, shape="size"),
    B.RESIZE_BILINEAR: _RESIZE,
    B.RESIZE_NEAREST_NEIGHBOR: _RESIZE,
    B.REVERSE_V2: Kernel(2, 2, _ANY, others={1: _INDEX}, constants=(1,), shape="same"),
    B.RSQRT: _UNARY,
    B.SELECT_V2: Kernel(3, 3, others={0: _BOOL}, shape="broadcast"),
    B.SLICE: Kernel(3, 3, _MOVED, others={1: (T.INT32, T.INT64), 2: (T.INT32, T.INT64)}, ranks=(0, 5)),
    B.SOFTMAX: Kernel(data=_LEVELS, gives=_LEVELS, ranks=(1, 6), fixed=(1 / 256, -128), shape="same"),
    B.SPACE_TO_BATCH_ND: _BLOCKS,
    B.SPACE_TO_DEPTH: Kernel(ranks=(4, 4)),
    B.SPLIT: Kernel(2, 2, _SUMS, others={0: _INDEX}, constants=(0,)),
    B.SPLIT_V: Kernel(3, 3, _SUMS, others={1: (T.INT32, T.INT64), 2: _INDEX}, constants=(1, 2)),
    B.SQUARED_DIFFERENCE: _BINARY,
    B.SQUEEZE: Kernel(data=(*_ANY, T.INT16), shape="size"),
    B.STRIDED_SLICE: Kernel(4, 4, _MOVED, others=dict.fromkeys((1, 2, 3), _INDEX), constants=(1, 2, 3), ranks=(0, 4)),
    B.SUB: _BINARY._replace(data=_LEVEL_SUMS),
    B.SUM: _REDUCE,
    # TFLM's Prepare reads a bias that is named as absent.
    B.SVDF: Kernel(5, 5, others={1: _INT8, 2: _LEVELS, 3: _INDEX, 4: _LEVELS}, ranks=(2, 2)),
    B.TANH: Kernel(data=_LEVELS, fixed=(1 / 128, 0), shape="same"),
    B.TRANSPOSE: Kernel(2, 2, _LEVELS, others={1: _INDEX}, constants=(1,), ranks=(0, 5)),
    B.TRANSPOSE_CONV: Kernel(
        3, 4, others={0: _INDEX, 1: _INT8, 3: _INDEX}, constants=(0, 1), ranks=(4, 4), optional=(3,)
    ),
    B.UNIDIRECTIONAL_SEQUENCE_LSTM: Kernel(
        24,
        24,
        others=dict.fromkeys(range(1, 9), _INT8)
        | dict.fromkeys(range(12, 16), _INDEX)
        | dict.fromkeys(LSTM_VARIANTS, (T.INT8, T.INT16, T.INT32))
        | {18: _INT8, 19: (T.INT16,)},
        ranks=(3, 3),
        optional=LSTM_VARIANTS,
    ),
    B.UNPACK: Kernel(data=_SUMS, equal="all"),
    B.ZEROS_LIKE: Kernel(data=_ORDERED, shape="same"),
}

#: Operators with a state, which is a variable: the numbers of the inputs that are states.
STATES: Final[dict[int, tuple[int, ...]]] = {
    B.SVDF: (4,),
    B.UNIDIRECTIONAL_SEQUENCE_LSTM: (18, 19),
}

#: Operators at the edges of the int8 part, whose types `CONVERTED` has.
CONVERSIONS: Final[dict[int, Kernel]] = {B.QUANTIZE: Kernel(shape="same"), B.DEQUANTIZE: Kernel(shape="same")}

#: Operators that may be in float behind a DEQUANTIZE, where nothing but an output depends on them.
FLOAT_EDGES: Final = (B.LOGISTIC, B.LOG_SOFTMAX, B.SOFTMAX)

#: Types that conversions make of other types.
CONVERTED: Final[dict[int, tuple[tuple[int, int], ...]]] = {
    B.QUANTIZE: ((T.FLOAT32, T.INT8), (T.INT8, T.INT8), (T.INT8, T.UINT8), (T.UINT8, T.INT8), (T.INT32, T.INT8))
    + ((T.INT16, T.INT8), (T.INT16, T.INT16), (T.INT16, T.INT32), (T.INT8, T.INT16), (T.FLOAT32, T.INT16)),
    B.DEQUANTIZE: ((T.INT8, T.FLOAT32), (T.INT16, T.FLOAT32), (T.UINT8, T.FLOAT32)),
}

#: Operators that give integers or truth values, to which no int8 quantization belongs.
INTEGER_KERNELS: Final[dict[int, Kernel]] = {
    B.ARG_MAX: _REDUCE._replace(gives=_INDEX),
    B.ARG_MIN: _REDUCE._replace(gives=_INDEX),
    B.BROADCAST_ARGS: Kernel(2, 2, (T.INT32, T.INT64)),
    B.CAST: Kernel(data=_MOVED, gives=_MOVED, shape="same"),
    B.EQUAL: _COMPARE._replace(data=_ANY),
    B.GREATER: _COMPARE,
    B.GREATER_EQUAL: _COMPARE,
    B.LESS: _COMPARE,
    B.LESS_EQUAL: _COMPARE,
    B.LOGICAL_AND: _LOGICAL,
    B.LOGICAL_NOT: Kernel(data=_BOOL, shape="same"),
    B.LOGICAL_OR: _LOGICAL,
    B.NOT_EQUAL: _COMPARE._replace(data=_ANY),
    B.REDUCE_ALL: _REDUCE._replace(data=_BOOL),
    B.SHAPE: Kernel(data=_ANY, gives=_INDEX),
}

#: Every operator that a model may have.
KERNELS: Final = INT8_KERNELS | CONVERSIONS | INTEGER_KERNELS

#: Layers: operators with one filter that can be trained.
FILTER_OPERATORS: Final = (B.CONV_2D, B.DEPTHWISE_CONV_2D, B.FULLY_CONNECTED)

#: Operators of a ZO model that compute others with trained weights, see `recurrent.py`.
OWN_KINDS: Final = {"TFLM_ZO_SVDF": B.SVDF, "TFLM_ZO_LSTM": B.UNIDIRECTIONAL_SEQUENCE_LSTM}

# The inputs of an operator that are filters; of each one, the input that it multiplies, and the bias of these sums.
_FILTERS: Final[dict[int, dict[int, tuple[int, int | None]]]] = {
    **dict.fromkeys(FILTER_OPERATORS, {1: (0, 2)}),
    B.SVDF: {1: (0, None), 2: (4, 3)},
    B.UNIDIRECTIONAL_SEQUENCE_LSTM: {i: (0, 11 + i) for i in range(1, 5)} | dict.fromkeys(range(5, 9), (18, None)),
}


def depends_on_build(op: Operator) -> bool:
    """Returns whether TFLM's builds compute an operator differently: SOFTMAX of int16, whose table they make in
    floating point, at times by a level.
    """
    read = op.input(0)
    return op.builtin == B.SOFTMAX and read is not None and read.type == T.INT16


CONTROL_FLOW: Final = (B.IF, B.WHILE, B.CALL)


def check_arity(op: Operator) -> None:
    """Raises ConversionError where a supported operator lacks inputs or outputs."""
    kernel = KERNELS[op.builtin]
    absent = [i for i, t in enumerate(op.inputs) if t is None and i not in kernel.optional]
    if not kernel.low <= len(op.inputs) <= kernel.high or absent or not op.outputs:
        raise ConversionError(
            f"{op.label}: takes {kernel.low} to {kernel.high} inputs and gives at least one output; the file is damaged"
        )


#: Operators with filters that can be trained.
WITH_FILTERS: Final = tuple(_FILTERS)


def kind_of(op: Operator) -> int:
    """Returns the builtin operator that an operator is, or stands for in a ZO model."""
    kind = op.code.builtin
    return OWN_KINDS.get(op.code.custom or "", kind) if kind == B.CUSTOM else kind


def filters_of(op: Operator) -> dict[Tensor, tuple[int, int | None]]:
    """Returns the filters of a layer, an SVDF or an LSTM; of each one, the numbers of the input that it multiplies and
    of the bias of these sums.
    """
    numbers = _FILTERS.get(kind_of(op))
    return {t: numbers[i] for i, t in enumerate(op.inputs) if i in numbers and t is not None} if numbers else {}


_FILTER_INPUT = {B.CONV_2D: 1, B.DEPTHWISE_CONV_2D: 1, B.FULLY_CONNECTED: 1, B.TRANSPOSE_CONV: 1}


def filter_of(op: Operator) -> Tensor | None:
    """Returns the filter, a constant or, in a ZO model, a variable; None where the operator has none."""
    kind = op.builtin
    tensor = op.input(_FILTER_INPUT[kind]) if kind in _FILTER_INPUT else None
    return tensor if tensor is not None and (tensor.is_constant or tensor.is_variable) else None


def weights_of(op: Operator) -> list[Tensor]:
    """Returns the filters of an operator, trainable or not; constants or, in a ZO model, variables."""
    own = filter_of(op)
    return [t for t in ([own] if own else filters_of(op)) if t.is_constant or t.is_variable]


def channel_axis(op: Operator) -> int:
    """Returns the dimension of the output channels of a layer's filter."""
    return 3 if op.builtin == B.DEPTHWISE_CONV_2D else 0


def macs(op: Operator) -> int:
    """Returns the multiply-accumulates of an invoke, batch included; 0 where no matrices are multiplied."""
    first, second = op.input(0), op.input(1)
    if first is None or second is None or not op.outputs:
        return 0
    kind, outputs, shape = kind_of(op), op.outputs[0].size, second.shape
    if kind == B.CONV_2D:  # filter [out, height, width, in / groups]
        return outputs * math.prod(shape[1:])
    if kind == B.DEPTHWISE_CONV_2D:  # filter [1, height, width, out]
        return outputs * math.prod(shape[1:3])
    if kind == B.FULLY_CONNECTED:  # filter [out, in]
        return outputs * math.prod(shape[-1:])
    if kind == B.TRANSPOSE_CONV:  # filter [out, height, width, in]; inputs: shape, filter, activation
        activation = op.input(2)
        return 0 if activation is None else activation.size * math.prod(shape[:3])
    if kind == B.SVDF:  # filters [units * rank, in] of features, [units * rank, memory] of time
        state = op.input(4)
        return first.shape[0] * second.size + (0 if state is None else state.size)
    if kind == B.UNIDIRECTIONAL_SEQUENCE_LSTM:  # 4 filters [units, in] and 4 [units, units], for each step
        return 4 * outputs * (second.shape[-1] + second.shape[0])
    if kind == B.BATCH_MATMUL:
        rows, columns = (1, 1, *first.shape)[-2:]
        return outputs * (rows if op.option("adjX", False) else columns)
    return 0
