"""Models of one operator on int8 activations, for every builtin operator that TFLM registers."""

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from ai_edge_litert import schema_py_generated as schema

from tflm_zo.converters.model import Buffer, Model, Operator, Tensor
from tflm_zo.converters.model.schema import DTYPES, TensorType

from .graph_builder import GraphBuilder

T = schema.TensorType
_SCALE = 1 / 16
_DTYPES = {T.INT8: np.int8, T.INT32: np.int32, T.INT64: np.int64, T.BOOL: np.bool_, T.FLOAT32: np.float32}


class _Specimen:
    """Builds one operator: activations are int8 inputs, everything else is constant."""

    def __init__(self, code: str) -> None:
        self.g = GraphBuilder(1)
        self.code = code

    def x(self, *shape: int, scale: float = _SCALE, zero_point: int = -128) -> int:
        """Adds an input; with this zero point its real values are not negative, as RSQRT and others require."""
        return self.g.input("x", shape, scale, zero_point).index

    def c(
        self, values: Any, dtype: int = T.INT32, scales: Sequence[float] = (), axis: int = 0, zero_point: int = 0
    ) -> int:
        array = np.asarray(values, _DTYPES[dtype])
        data, points = array.tobytes(), [zero_point] * len(scales)
        return self.g.tensor("c", array.shape, dtype, data=data, scales=scales, axis=axis, zero_points=points)

    def y(self, *shape: int, dtype: int = T.INT8, scale: float = _SCALE, zero_point: int = -128) -> int:
        if dtype != T.INT8:
            return self.g.tensor("y", shape, dtype)
        return self.g.value("y", shape, scale, zero_point, 1.0).index

    def state(self, *shape: int, dtype: int = T.INT8, scale: float = _SCALE, zero_point: int = 0) -> int:
        index = self.g.tensor("state", shape, dtype, scales=[scale], zero_points=[zero_point])
        self.g.tensors[index].isVariable = True
        return index

    def build(self, inputs: Sequence[int], outputs: Sequence[int], options: str = "", **fields: Any) -> bytes:
        self.g.operator(self.code, inputs, outputs, options, **fields)
        return self.g.build(outputs)


def _unary(options: str = "", **fields: Any) -> Callable[[_Specimen], bytes]:
    return lambda s: s.build([s.x(1, 8)], [s.y(1, 8)], options, **fields)


def _binary(options: str = "", dtype: int = T.INT8) -> Callable[[_Specimen], bytes]:
    return lambda s: s.build([s.x(1, 8), s.x(1, 8)], [s.y(1, 8, dtype=dtype)], options)


def _reduce(s: _Specimen) -> bytes:
    return s.build([s.x(1, 4, 4, 2), s.c([1, 2])], [s.y(1, 2)], "Reducer")


def _pool(s: _Specimen) -> bytes:
    window = {"strideH": 2, "strideW": 2, "filterHeight": 2, "filterWidth": 2}
    return s.build([s.x(1, 4, 4, 2)], [s.y(1, 2, 2, 2)], "Pool2D", **window)


def _logical(options: str, count: int) -> Callable[[_Specimen], bytes]:
    """Builds an operator on truth values, from comparisons of int8 values."""

    def build(s: _Specimen) -> bytes:
        operands = [s.c([[True, False] * 4], T.BOOL) for _ in range(count)]
        return s.build(operands, [s.y(1, 8, dtype=T.BOOL)], options)

    return build


def _fixed(scale: float, zero_point: int) -> Callable[[_Specimen], bytes]:
    """Builds an operator whose output has the quantization that it demands."""
    return lambda s: s.build([s.x(1, 8)], [s.y(1, 8, scale=scale, zero_point=zero_point)])


def _conv(s: _Specimen) -> bytes:
    w = s.c(np.arange(-18, 18).reshape(2, 3, 3, 2), T.INT8, [0.01, 0.02])
    b = s.c([5, -5], T.INT32, [0.01 * _SCALE, 0.02 * _SCALE])
    return s.build([s.x(1, 4, 4, 2), w, b], [s.y(1, 4, 4, 2)], "Conv2D", strideH=1, strideW=1)


def _depthwise(s: _Specimen) -> bytes:
    w = s.c(np.arange(-9, 9).reshape(1, 3, 3, 2), T.INT8, [0.01, 0.02], 3)
    b = s.c([5, -5], T.INT32, [0.01 * _SCALE, 0.02 * _SCALE])
    options = {"strideH": 1, "strideW": 1, "depthMultiplier": 1}
    return s.build([s.x(1, 4, 4, 2), w, b], [s.y(1, 4, 4, 2)], "DepthwiseConv2D", **options)


def _dense(s: _Specimen) -> bytes:
    w = s.c(np.arange(-12, 12).reshape(3, 8), T.INT8, [0.01])
    return s.build([s.x(1, 8), w, -1], [s.y(1, 3)], "FullyConnected")


def _transpose_conv(s: _Specimen) -> bytes:
    w = s.c(np.arange(-9, 9).reshape(1, 3, 3, 2), T.INT8, [0.01])
    options = {"strideH": 2, "strideW": 2}
    return s.build([s.c([1, 8, 8, 1]), w, s.x(1, 4, 4, 2)], [s.y(1, 8, 8, 1)], "TransposeConv", **options)


def _svdf(s: _Specimen) -> bytes:
    feature = s.c(np.arange(-8, 8).reshape(2, 8), T.INT8, [0.01])
    time = s.c(np.arange(-4, 4).reshape(2, 4), T.INT8, [0.01])
    return s.build(
        [s.x(1, 8), feature, time, s.c([1, 2], T.INT32, [_SCALE * 0.01]), s.state(1, 8)],
        [s.y(1, 2)],
        "SVDF",
        rank=1,
        fusedActivationFunction=1,
    )


def _lstm(s: _Specimen) -> bytes:
    filters = [
        s.c((np.arange(n * 2) * (7 + k) - 9 * n).reshape(2, n) % 200 - 99, T.INT8, [0.02])
        for k, n in enumerate([3] * 4 + [2] * 4)
    ]
    biases = [s.c([k, -300 * k], T.INT32, [_SCALE * 0.02]) for k in range(4)]
    states = [s.state(1, 2, scale=1 / 128, zero_point=-5), s.state(1, 2, dtype=T.INT16, scale=2**-11)]
    inputs = [s.x(1, 4, 3), *filters, -1, -1, -1, *biases, -1, -1, *states, -1, -1, -1, -1]
    y = s.y(1, 4, 2, scale=1 / 128, zero_point=-5)
    return s.build(inputs, [y], "UnidirectionalSequenceLSTM", fusedActivationFunction=4, cellClip=10.0)


def _split(s: _Specimen) -> bytes:
    return s.build([s.c(1), s.x(1, 8)], [s.y(1, 4), s.y(1, 4)], "Split", numSplits=2)


def _split_v(s: _Specimen) -> bytes:
    return s.build([s.x(1, 8), s.c([3, 5]), s.c(1)], [s.y(1, 3), s.y(1, 5)], "SplitV", numSplits=2)


def _of(
    shape: Sequence[int],
    constants: Sequence[Any],
    output: Sequence[int],
    options: str = "",
    dtype: int = T.INT8,
    **fields: Any,
) -> Callable[[_Specimen], bytes]:
    """Builds an operator of one activation, then int32 constants."""
    return lambda s: s.build(
        [s.x(*shape), *(s.c(c) for c in constants)], [s.y(*output, dtype=dtype)], options, **fields
    )


def _option(code: str) -> str:
    """Returns the options' name of an operator."""
    return "".join(part.capitalize() for part in code.split("_"))


_BUILDERS: dict[str, Callable[[_Specimen], bytes]] = {
    "ARG_MAX": _of([1, 8], [1], [1], "ArgMax", T.INT32, outputType=T.INT32),
    "ARG_MIN": _of([1, 8], [1], [1], "ArgMin", T.INT32, outputType=T.INT32),
    "BATCH_MATMUL": lambda s: s.build([s.x(1, 2, 3), s.x(1, 3, 4)], [s.y(1, 2, 4)], "BatchMatMul"),
    "BATCH_TO_SPACE_ND": _of([4, 2, 2, 1], [[2, 2], [[0, 0], [0, 0]]], [1, 4, 4, 1], "BatchToSpaceND"),
    "BROADCAST_ARGS": lambda s: s.build([s.c([1, 8]), s.c([4, 8])], [s.y(2, dtype=T.INT32)]),
    "BROADCAST_TO": _of([1, 8], [[2, 8]], [2, 8], "BroadcastTo"),
    "CAST": lambda s: s.build([s.x(1, 8)], [s.y(1, 8, dtype=T.INT32)], "Cast", inDataType=T.INT8, outDataType=T.INT32),
    "CONCATENATION": lambda s: s.build([s.x(1, 8), s.x(1, 8)], [s.y(1, 16)], "Concatenation", axis=1),
    "CONV_2D": _conv,
    "CUMSUM": _of([1, 8], [1], [1, 8], "Cumsum"),
    "DEPTH_TO_SPACE": _of([1, 2, 2, 4], [], [1, 4, 4, 1], "DepthToSpace", blockSize=2),
    "DEPTHWISE_CONV_2D": _depthwise,
    "DEQUANTIZE": lambda s: s.build([s.x(1, 8)], [s.y(1, 8, dtype=T.FLOAT32)], "Dequantize"),
    "DYNAMIC_UPDATE_SLICE": lambda s: s.build([s.x(1, 8), s.x(1, 2), s.c([0, 3])], [s.y(1, 8)], "DynamicUpdateSlice"),
    "EMBEDDING_LOOKUP": lambda s: s.build(
        [s.c([1]), s.c(np.arange(-8, 8).reshape(2, 8), T.INT8, [_SCALE])], [s.y(1, 8)]
    ),
    "EXP": _unary("Exp"),
    "EXPAND_DIMS": _of([1, 8], [1], [1, 1, 8], "ExpandDims"),
    "FILL": lambda s: s.build([s.c([1, 8]), s.x()], [s.y(1, 8)], "Fill"),
    "FULLY_CONNECTED": _dense,
    "GATHER": _of([1, 8], [[3, 1]], [1, 2], "Gather", axis=1),
    "GATHER_ND": _of([1, 8], [[[0, 3]]], [1], "GatherNd"),
    "HARD_SWISH": _unary("HardSwish"),
    "L2_NORMALIZATION": _fixed(1 / 128, 0),
    "LEAKY_RELU": _unary("LeakyRelu", alpha=0.1),
    "LOGICAL_AND": _logical("LogicalAnd", 2),
    "LOGICAL_NOT": _logical("LogicalNot", 1),
    "LOGICAL_OR": _logical("LogicalOr", 2),
    "LOGISTIC": _fixed(1 / 256, -128),
    "LOG_SOFTMAX": _fixed(16 / 256, 127),
    "MIRROR_PAD": _of([1, 8], [[[0, 0], [2, 2]]], [1, 12], "MirrorPad"),
    "NEG": _fixed(_SCALE, 0),
    "PACK": lambda s: s.build([s.x(1, 8), s.x(1, 8)], [s.y(1, 2, 8)], "Pack", valuesCount=2, axis=1),
    "PAD": _of([1, 8], [[[0, 0], [2, 2]]], [1, 12], "Pad"),
    "PADV2": lambda s: s.build(
        [s.x(1, 8), s.c([[0, 0], [2, 2]]), s.c(3, T.INT8, [_SCALE], zero_point=-128)], [s.y(1, 12)], "PadV2"
    ),
    "PRELU": lambda s: s.build([s.x(1, 2, 2, 8), s.c([[[3] * 8]], T.INT8, [0.1])], [s.y(1, 2, 2, 8)]),
    "QUANTIZE": lambda s: s.build([s.x(1, 8)], [s.y(1, 8, scale=1 / 8)], "Quantize"),
    "REDUCE_ALL": lambda s: s.build([s.c([[True, False] * 4], T.BOOL), s.c([1])], [s.y(1, dtype=T.BOOL)], "Reducer"),
    "RESHAPE": _of([1, 8], [[1, 2, 4]], [1, 2, 4], "Reshape", newShape=[1, 2, 4]),
    "RESIZE_BILINEAR": _of([1, 2, 2, 2], [[4, 4]], [1, 4, 4, 2], "ResizeBilinear"),
    "RESIZE_NEAREST_NEIGHBOR": _of([1, 2, 2, 2], [[4, 4]], [1, 4, 4, 2], "ResizeNearestNeighbor"),
    "REVERSE_V2": _of([1, 8], [[1]], [1, 8], "ReverseV2"),
    "SELECT_V2": lambda s: s.build([s.c([[True, False] * 4], T.BOOL), s.x(1, 8), s.x(1, 8)], [s.y(1, 8)], "SelectV2"),
    "SHAPE": _of([1, 8], [], [2], "Shape", T.INT32, outType=T.INT32),
    "SLICE": _of([1, 8], [[0, 2], [1, 3]], [1, 3], "Slice"),
    "SOFTMAX": lambda s: s.build([s.x(1, 8)], [s.y(1, 8, scale=1 / 256)], "Softmax", beta=1.0),
    "SPACE_TO_BATCH_ND": _of([1, 4, 4, 1], [[2, 2], [[0, 0], [0, 0]]], [4, 2, 2, 1], "SpaceToBatchND"),
    "SPACE_TO_DEPTH": _of([1, 4, 4, 1], [], [1, 2, 2, 4], "SpaceToDepth", blockSize=2),
    "SPLIT": _split,
    "SPLIT_V": _split_v,
    "SQUARE": _unary("Square"),
    "SQUEEZE": _of([1, 1, 8], [], [1, 8], "Squeeze", squeezeDims=[1]),
    "STRIDED_SLICE": _of([1, 8], [[0, 1], [1, 7], [1, 2]], [1, 3], "StridedSlice"),
    "SUM": lambda s: s.build([s.x(1, 4, 4, 2), s.c([1, 2])], [s.y(1, 2, scale=1.0)], "Reducer"),
    "SVDF": _svdf,
    "TANH": _fixed(1 / 128, 0),
    "UNIDIRECTIONAL_SEQUENCE_LSTM": _lstm,
    "TRANSPOSE": _of([1, 2, 4], [[0, 2, 1]], [1, 4, 2], "Transpose"),
    "TRANSPOSE_CONV": _transpose_conv,
    "UNPACK": lambda s: s.build([s.x(1, 2, 4)], [s.y(1, 4), s.y(1, 4)], "Unpack", num=2, axis=1),
    "ZEROS_LIKE": _unary("ZerosLike"),
    **dict.fromkeys("ABS CEIL COS ELU FLOOR LOG RELU RELU6 ROUND RSQRT SIN SQRT".split(), _unary()),
    **{code: _binary(_option(code)) for code in "ADD ADD_N DIV FLOOR_DIV FLOOR_MOD MUL SQUARED_DIFFERENCE SUB".split()},
    **dict.fromkeys(("MAXIMUM", "MINIMUM"), _binary("MaximumMinimum")),
    **{
        code: _binary(_option(code), T.BOOL) for code in "EQUAL GREATER GREATER_EQUAL LESS LESS_EQUAL NOT_EQUAL".split()
    },
    **dict.fromkeys(("AVERAGE_POOL_2D", "L2_POOL_2D", "MAX_POOL_2D"), _pool),
    **dict.fromkeys(("MEAN", "REDUCE_MAX", "REDUCE_MIN"), _reduce),
}

#: Operators without an int8 kernel in LiteRT, whose first invoke fails.
NOT_IN_LITERT = ("ADD_N", "CUMSUM", "ZEROS_LIKE")

#: Operators whose int8 kernel in LiteRT is an optimized one alone.
NOT_IN_REFERENCE = ("ELU",)

#: Other registrations of TFLM: subgraphs, resources, states.
WITHOUT_SPECIMEN = (
    "ASSIGN_VARIABLE",
    "CALL_ONCE",
    "IF",
    "READ_VARIABLE",
    "VAR_HANDLE",
    "WHILE",
)

SINGLE_OPERATORS: dict[str, bytes] = {code: build(_Specimen(code)) for code, build in _BUILDERS.items()}


_TYPES = ("INT8", "INT16", "INT32", "INT64", "UINT8", "BOOL", "FLOAT32")
_SCALES = (2, 1 + 2**-20, 1e-6, 1e-3, 1e3, 1e6)
_OPTIONS: dict[type, tuple[Any, ...]] = {bool: (False, True), int: (0, 1, 2, 3), float: (0.0, -1.0, 2.0)}
# Options that say the output's shape, which would contradict the file's.
_SHAPING = re.compile(
    "stride|padding|beginMask|endMask|shrinkAxisMask|blockSize|axis|filter[HW]|dilation|depthMul|keep|num|adj|mode"
)
# Inputs that have a number, a row or a shape for each dimension, their entries of a new dimension in front,
# and the options and inputs that count dimensions.
_ROWS: dict[str, tuple[tuple[int, int], ...]] = {
    "BROADCAST_TO": ((1, 1),),
    "DYNAMIC_UPDATE_SLICE": ((2, 0),),
    "MIRROR_PAD": ((1, 0),),
    "PAD": ((1, 0),),
    "PADV2": ((1, 0),),
    "RESHAPE": ((1, 1),),
    "SLICE": ((1, 0), (2, 1)),
    "STRIDED_SLICE": ((1, 0), (2, 1), (3, 1)),
}
_AXES = {"SPLIT": 0, "SPLIT_V": 2} | dict.fromkeys(
    ("ARG_MAX", "ARG_MIN", "CUMSUM", "EXPAND_DIMS", "MEAN", "REDUCE_MAX", "REDUCE_MIN", "REVERSE_V2", "SUM"), 1
)
_WITHOUT_RANKS = ("FILL", "GATHER_ND")


class Change(NamedTuple):
    """A change: its kind, its tensor ("inputs" or "outputs" and its number) or option, and the new value."""

    what: str
    where: str = ""
    number: int = 0
    value: Any = None


def changes(op: Operator) -> Iterator[Change]:
    """Yields the changes that an operator can have."""
    for where in ("inputs", "outputs"):
        for i, tensor in enumerate(getattr(op, where)):
            if tensor is None:
                continue
            if tensor.quantization is not None and len(tensor.quantization.scales) == 1:
                yield from (Change("scale", where, i, factor) for factor in _SCALES)
                points = (-128, -127, 0, 1, 127)
                yield from (Change("zero_point", where, i, p) for p in points)
            yield from (Change("type", where, i, name) for name in _TYPES)
            if where == "inputs":
                yield Change("absent", where, i)
                yield Change("computed" if tensor.is_constant else "constant", where, i)
    if op.code.name not in _WITHOUT_RANKS:
        yield from (Change("rank", "", 0, more) for more in range(1, 5))
    for name, value in vars(op.options).items() if op.options is not None else ():
        new = () if _SHAPING.match(name) else _OPTIONS.get(type(value), ())
        yield from (Change("option", name, 0, other) for other in new if other != value)
    if op.options is not None:
        yield Change("no options")


def apply(model: Model, change: Change) -> None:
    """Changes the first operator of a model."""
    graph = model.subgraphs[0]
    op = graph.operators[0]
    if change.what == "rank":
        _add_dimensions(op, change.value)
    elif change.what == "option":
        setattr(op.options, change.where, change.value)
    elif change.what == "no options":
        op.raw.builtinOptions, op.raw.builtinOptionsType = None, 0
    elif change.what == "absent":
        op.inputs[change.number] = None
    else:
        tensor = getattr(op, change.where)[change.number]
        if change.what == "scale":
            tensor.quantization.scales = (tensor.quantization.scales * change.value).astype(np.float32)
        elif change.what == "zero_point":
            tensor.quantization.zero_points = np.array([change.value])
        elif change.what == "type":
            values = tensor.numpy() if tensor.is_constant else None
            tensor.type = getattr(TensorType, change.value)
            if values is not None:
                tensor.set_data(values.astype(DTYPES[tensor.type]))
        elif change.what == "computed":
            tensor.buffer = Buffer()
            graph.inputs.append(tensor)
        else:
            tensor.set_data(np.zeros(tensor.shape, DTYPES[tensor.type]))
            graph.inputs = [t for t in graph.inputs if t is not tensor]


def _add_dimensions(op: Operator, more: int) -> None:
    """Puts dimensions of size 1 in front of all activations, and tells the operator's numbers of them."""
    name = op.code.name
    for tensor in dict.fromkeys([*op.inputs, *op.outputs]):
        if tensor is not None and tensor.type == TensorType.INT8 and not tensor.is_constant:
            tensor.shape = (1,) * more + tensor.shape
    for i, value in _ROWS.get(name, ()):
        rows = _input(op, i).numpy()
        front = np.full((more, *rows.shape[1:]), value, rows.dtype)
        _set(_input(op, i), np.concatenate([front, rows]))
    if name in _AXES:
        axes = _input(op, _AXES[name])
        axes.set_data((axes.numpy() + more).astype(axes.numpy().dtype))
    if name == "TRANSPOSE":
        _set(_input(op, 1), np.concatenate([np.arange(more), _input(op, 1).numpy() + more]).astype(np.int32))
    if name in ("GATHER", "CONCATENATION", "PACK", "UNPACK"):
        op.options.axis += more
    if name == "SQUEEZE":
        op.options.squeezeDims = np.array([1 + more], np.int32)
    if name == "SHAPE":
        op.outputs[0].shape = (op.outputs[0].shape[0] + more,)
    if name == "RESHAPE":
        op.options.newShape = np.array(op.outputs[0].shape, np.int32)


def _input(op: Operator, index: int) -> Tensor:
    tensor = op.inputs[index]
    assert tensor is not None
    return tensor


def _set(tensor: Tensor, values: np.ndarray) -> None:
    tensor.shape = values.shape
    tensor.set_data(np.ascontiguousarray(values))
