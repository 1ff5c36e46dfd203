# SPDX-License-Identifier: Apache-2.0
"""Models of one operator on int8 activations, for every builtin operator that TFLM registers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from ai_edge_litert import schema_py_generated as schema

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
        """An input; with this zero point its real values are not negative, as RSQRT and others ask for."""
        return self.g.input("x", shape, scale, zero_point).index

    def c(
        self,
        values: Any,
        dtype: int = T.INT32,
        scales: Sequence[float] = (),
        axis: int = 0,
        zero_point: int = 0,
    ) -> int:
        array = np.asarray(values, _DTYPES[dtype])
        data, points = array.tobytes(), [zero_point] * len(scales)
        return self.g.tensor("c", array.shape, dtype, data=data, scales=scales, axis=axis, zero_points=points)

    def y(self, *shape: int, dtype: int = T.INT8, scale: float = _SCALE, zero_point: int = -128) -> int:
        if dtype != T.INT8:
            return self.g.tensor("y", shape, dtype)
        return self.g.value("y", shape, scale, zero_point, 1.0).index

    def state(self, *shape: int) -> int:
        index = self.g.tensor("state", shape, T.INT8, scales=[_SCALE], zero_points=[0])
        self.g._tensors[index].isVariable = True
        return index

    def build(self, inputs: Sequence[int], outputs: Sequence[int], options: str = "", **fields: Any) -> bytes:
        made, kind = None, 0
        if options:
            made, kind = getattr(schema, f"{options}T")(), getattr(schema.BuiltinOptions, options)
            for name, value in fields.items():
                assert hasattr(made, name), name
                setattr(made, name, value)
        self.g.operator(getattr(schema.BuiltinOperator, self.code), inputs, outputs, kind, made)
        return self.g.build(outputs)


def _unary(options: str = "", **fields: Any) -> Callable[[_Specimen], bytes]:
    return lambda s: s.build([s.x(1, 8)], [s.y(1, 8)], options, **fields)


def _binary(options: str = "", dtype: int = T.INT8) -> Callable[[_Specimen], bytes]:
    return lambda s: s.build([s.x(1, 8), s.x(1, 8)], [s.y(1, 8, dtype=dtype)], options)


def _reduce(s: _Specimen) -> bytes:
    return s.build([s.x(1, 4, 4, 2), s.c([1, 2])], [s.y(1, 2)], "ReducerOptions")


def _pool(s: _Specimen) -> bytes:
    window = {"strideH": 2, "strideW": 2, "filterHeight": 2, "filterWidth": 2}
    return s.build([s.x(1, 4, 4, 2)], [s.y(1, 2, 2, 2)], "Pool2DOptions", **window)


def _logical(options: str, count: int) -> Callable[[_Specimen], bytes]:
    """On truth values, which comparisons of int8 values give."""

    def build(s: _Specimen) -> bytes:
        operands = [s.c([[True, False] * 4], T.BOOL) for _ in range(count)]
        return s.build(operands, [s.y(1, 8, dtype=T.BOOL)], options)

    return build


def _fixed(scale: float, zero_point: int) -> Callable[[_Specimen], bytes]:
    """The output has the quantization that the operator demands."""
    return lambda s: s.build([s.x(1, 8)], [s.y(1, 8, scale=scale, zero_point=zero_point)])


def _conv(s: _Specimen) -> bytes:
    w = s.c(np.arange(-18, 18).reshape(2, 3, 3, 2), T.INT8, [0.01, 0.02])
    b = s.c([5, -5], T.INT32, [0.01 * _SCALE, 0.02 * _SCALE])
    return s.build([s.x(1, 4, 4, 2), w, b], [s.y(1, 4, 4, 2)], "Conv2DOptions", strideH=1, strideW=1)


def _depthwise(s: _Specimen) -> bytes:
    w = s.c(np.arange(-9, 9).reshape(1, 3, 3, 2), T.INT8, [0.01, 0.02], 3)
    b = s.c([5, -5], T.INT32, [0.01 * _SCALE, 0.02 * _SCALE])
    options = {"strideH": 1, "strideW": 1, "depthMultiplier": 1}
    return s.build([s.x(1, 4, 4, 2), w, b], [s.y(1, 4, 4, 2)], "DepthwiseConv2DOptions", **options)


def _dense(s: _Specimen) -> bytes:
    w = s.c(np.arange(-12, 12).reshape(3, 8), T.INT8, [0.01])
    return s.build([s.x(1, 8), w, -1], [s.y(1, 3)], "FullyConnectedOptions")


def _transpose_conv(s: _Specimen) -> bytes:
    w = s.c(np.arange(-9, 9).reshape(1, 3, 3, 2), T.INT8, [0.01])
    options = {"strideH": 2, "strideW": 2}
    return s.build(
        [s.c([1, 8, 8, 1]), w, s.x(1, 4, 4, 2)], [s.y(1, 8, 8, 1)], "TransposeConvOptions", **options
    )


def _svdf(s: _Specimen) -> bytes:
    feature = s.c(np.arange(-8, 8).reshape(2, 8), T.INT8, [0.01])
    time = s.c(np.arange(-4, 4).reshape(2, 4), T.INT8, [0.01])
    return s.build(
        [s.x(1, 8), feature, time, s.c([1, 2], T.INT32, [_SCALE * 0.01]), s.state(1, 8)],
        [s.y(1, 2)],
        "SVDFOptions",
        rank=1,
        fusedActivationFunction=1,
    )


def _split(s: _Specimen) -> bytes:
    return s.build([s.c(1), s.x(1, 8)], [s.y(1, 4), s.y(1, 4)], "SplitOptions", numSplits=2)


def _split_v(s: _Specimen) -> bytes:
    return s.build([s.x(1, 8), s.c([3, 5]), s.c(1)], [s.y(1, 3), s.y(1, 5)], "SplitVOptions", numSplits=2)


def _of(
    shape: Sequence[int],
    constants: Sequence[Any],
    output: Sequence[int],
    options: str = "",
    dtype: int = T.INT8,
    **fields: Any,
) -> Callable[[_Specimen], bytes]:
    """One activation, then int32 constants."""
    return lambda s: s.build(
        [s.x(*shape), *(s.c(c) for c in constants)], [s.y(*output, dtype=dtype)], options, **fields
    )


_BUILDERS: dict[str, Callable[[_Specimen], bytes]] = {
    "ABS": _unary(),
    "ADD": _binary("AddOptions"),
    "ADD_N": _binary("AddNOptions"),
    "ARG_MAX": _of([1, 8], [1], [1], "ArgMaxOptions", T.INT32, outputType=T.INT32),
    "ARG_MIN": _of([1, 8], [1], [1], "ArgMinOptions", T.INT32, outputType=T.INT32),
    "AVERAGE_POOL_2D": _pool,
    "BATCH_MATMUL": lambda s: s.build([s.x(1, 2, 3), s.x(1, 3, 4)], [s.y(1, 2, 4)], "BatchMatMulOptions"),
    "BATCH_TO_SPACE_ND": _of([4, 2, 2, 1], [[2, 2], [[0, 0], [0, 0]]], [1, 4, 4, 1], "BatchToSpaceNDOptions"),
    "BROADCAST_ARGS": lambda s: s.build([s.c([1, 8]), s.c([4, 8])], [s.y(2, dtype=T.INT32)]),
    "BROADCAST_TO": _of([1, 8], [[2, 8]], [2, 8], "BroadcastToOptions"),
    "CAST": lambda s: s.build(
        [s.x(1, 8)], [s.y(1, 8, dtype=T.INT32)], "CastOptions", inDataType=T.INT8, outDataType=T.INT32
    ),
    "CEIL": _unary(),
    "CONCATENATION": lambda s: s.build([s.x(1, 8), s.x(1, 8)], [s.y(1, 16)], "ConcatenationOptions", axis=1),
    "CONV_2D": _conv,
    "COS": _unary(),
    "CUMSUM": _of([1, 8], [1], [1, 8], "CumsumOptions"),
    "DEPTH_TO_SPACE": _of([1, 2, 2, 4], [], [1, 4, 4, 1], "DepthToSpaceOptions", blockSize=2),
    "DEPTHWISE_CONV_2D": _depthwise,
    "DEQUANTIZE": lambda s: s.build([s.x(1, 8)], [s.y(1, 8, dtype=T.FLOAT32)], "DequantizeOptions"),
    "DIV": _binary("DivOptions"),
    "DYNAMIC_UPDATE_SLICE": lambda s: s.build(
        [s.x(1, 8), s.x(1, 2), s.c([0, 3])], [s.y(1, 8)], "DynamicUpdateSliceOptions"
    ),
    "ELU": _unary(),
    "EMBEDDING_LOOKUP": lambda s: s.build(
        [s.c([1]), s.c(np.arange(-8, 8).reshape(2, 8), T.INT8, [_SCALE])], [s.y(1, 8)]
    ),
    "EQUAL": _binary("EqualOptions", T.BOOL),
    "EXP": _unary("ExpOptions"),
    "EXPAND_DIMS": _of([1, 8], [1], [1, 1, 8], "ExpandDimsOptions"),
    "FILL": lambda s: s.build([s.c([1, 8]), s.x()], [s.y(1, 8)], "FillOptions"),
    "FLOOR": _unary(),
    "FLOOR_DIV": _binary("FloorDivOptions"),
    "FLOOR_MOD": _binary("FloorModOptions"),
    "FULLY_CONNECTED": _dense,
    "GATHER": _of([1, 8], [[3, 1]], [1, 2], "GatherOptions", axis=1),
    "GATHER_ND": _of([1, 8], [[[0, 3]]], [1], "GatherNdOptions"),
    "GREATER": _binary("GreaterOptions", T.BOOL),
    "GREATER_EQUAL": _binary("GreaterEqualOptions", T.BOOL),
    "HARD_SWISH": _unary("HardSwishOptions"),
    "L2_NORMALIZATION": _fixed(1 / 128, 0),
    "L2_POOL_2D": _pool,
    "LEAKY_RELU": _unary("LeakyReluOptions", alpha=0.1),
    "LESS": _binary("LessOptions", T.BOOL),
    "LESS_EQUAL": _binary("LessEqualOptions", T.BOOL),
    "LOG": _unary(),
    "LOGICAL_AND": _logical("LogicalAndOptions", 2),
    "LOGICAL_NOT": _logical("LogicalNotOptions", 1),
    "LOGICAL_OR": _logical("LogicalOrOptions", 2),
    "LOGISTIC": _fixed(1 / 256, -128),
    "LOG_SOFTMAX": _fixed(16 / 256, 127),
    "MAXIMUM": _binary("MaximumMinimumOptions"),
    "MAX_POOL_2D": _pool,
    "MEAN": _reduce,
    "MINIMUM": _binary("MaximumMinimumOptions"),
    "MIRROR_PAD": _of([1, 8], [[[0, 0], [2, 2]]], [1, 12], "MirrorPadOptions"),
    "MUL": _binary("MulOptions"),
    "NEG": _fixed(_SCALE, 0),
    "NOT_EQUAL": _binary("NotEqualOptions", T.BOOL),
    "PACK": lambda s: s.build([s.x(1, 8), s.x(1, 8)], [s.y(1, 2, 8)], "PackOptions", valuesCount=2, axis=1),
    "PAD": _of([1, 8], [[[0, 0], [2, 2]]], [1, 12], "PadOptions"),
    "PADV2": lambda s: s.build(
        [s.x(1, 8), s.c([[0, 0], [2, 2]]), s.c(3, T.INT8, [_SCALE], zero_point=-128)],
        [s.y(1, 12)],
        "PadV2Options",
    ),
    "PRELU": lambda s: s.build([s.x(1, 2, 2, 8), s.c([[[3] * 8]], T.INT8, [0.1])], [s.y(1, 2, 2, 8)]),
    "QUANTIZE": lambda s: s.build([s.x(1, 8)], [s.y(1, 8, scale=1 / 8)], "QuantizeOptions"),
    "REDUCE_ALL": lambda s: s.build(
        [s.c([[True, False] * 4], T.BOOL), s.c([1])], [s.y(1, dtype=T.BOOL)], "ReducerOptions"
    ),
    "REDUCE_MAX": _reduce,
    "REDUCE_MIN": _reduce,
    "RELU": _unary(),
    "RELU6": _unary(),
    "RESHAPE": _of([1, 8], [[1, 2, 4]], [1, 2, 4], "ReshapeOptions", newShape=[1, 2, 4]),
    "RESIZE_BILINEAR": _of([1, 2, 2, 2], [[4, 4]], [1, 4, 4, 2], "ResizeBilinearOptions"),
    "RESIZE_NEAREST_NEIGHBOR": _of([1, 2, 2, 2], [[4, 4]], [1, 4, 4, 2], "ResizeNearestNeighborOptions"),
    "REVERSE_V2": _of([1, 8], [[1]], [1, 8], "ReverseV2Options"),
    "ROUND": _unary(),
    "RSQRT": _unary(),
    "SELECT_V2": lambda s: s.build(
        [s.c([[True, False] * 4], T.BOOL), s.x(1, 8), s.x(1, 8)], [s.y(1, 8)], "SelectV2Options"
    ),
    "SHAPE": _of([1, 8], [], [2], "ShapeOptions", T.INT32, outType=T.INT32),
    "SIN": _unary(),
    "SLICE": _of([1, 8], [[0, 2], [1, 3]], [1, 3], "SliceOptions"),
    "SOFTMAX": lambda s: s.build([s.x(1, 8)], [s.y(1, 8, scale=1 / 256)], "SoftmaxOptions", beta=1.0),
    "SPACE_TO_BATCH_ND": _of([1, 4, 4, 1], [[2, 2], [[0, 0], [0, 0]]], [4, 2, 2, 1], "SpaceToBatchNDOptions"),
    "SPACE_TO_DEPTH": _of([1, 4, 4, 1], [], [1, 2, 2, 4], "SpaceToDepthOptions", blockSize=2),
    "SPLIT": _split,
    "SPLIT_V": _split_v,
    "SQRT": _unary(),
    "SQUARE": _unary("SquareOptions"),
    "SQUARED_DIFFERENCE": _binary("SquaredDifferenceOptions"),
    "SQUEEZE": _of([1, 1, 8], [], [1, 8], "SqueezeOptions", squeezeDims=[1]),
    "STRIDED_SLICE": _of([1, 8], [[0, 1], [1, 7], [1, 2]], [1, 3], "StridedSliceOptions"),
    "SUB": _binary("SubOptions"),
    "SUM": lambda s: s.build([s.x(1, 4, 4, 2), s.c([1, 2])], [s.y(1, 2, scale=1.0)], "ReducerOptions"),
    "SVDF": _svdf,
    "TANH": _fixed(1 / 128, 0),
    "TRANSPOSE": _of([1, 2, 4], [[0, 2, 1]], [1, 4, 2], "TransposeOptions"),
    "TRANSPOSE_CONV": _transpose_conv,
    "UNPACK": lambda s: s.build([s.x(1, 2, 4)], [s.y(1, 4), s.y(1, 4)], "UnpackOptions", num=2, axis=1),
    "ZEROS_LIKE": _unary("ZerosLikeOptions"),
}

#: What TFLM registers besides: subgraphs, resources, states.
WITHOUT_SPECIMEN = (
    "ASSIGN_VARIABLE",
    "CALL_ONCE",
    "IF",
    "READ_VARIABLE",
    "UNIDIRECTIONAL_SEQUENCE_LSTM",
    "VAR_HANDLE",
    "WHILE",
)

SINGLE_OPERATORS: dict[str, bytes] = {code: build(_Specimen(code)) for code, build in _BUILDERS.items()}
