"""Tensors and operators become a .tflite file by the flatbuffers schema, apart from ``tflm_zo.converters``."""

import dataclasses
import math
from collections.abc import Sequence
from typing import Any

import flatbuffers
import numpy as np
from ai_edge_litert import schema_py_generated as schema

_VERSIONS = {
    "CONV_2D": 3,
    "DEPTHWISE_CONV_2D": 3,
    "FULLY_CONNECTED": 4,
    "AVERAGE_POOL_2D": 2,
    "MAX_POOL_2D": 2,
    "SOFTMAX": 2,
    "LOGISTIC": 2,
    "ADD": 2,
    "MUL": 2,
    "CONCATENATION": 2,
    "PAD": 2,
    "MEAN": 2,
    "DEQUANTIZE": 2,
    "BROADCAST_TO": 2,
}


class _AlignedBufferT(schema.BufferT):
    """A buffer whose data starts at a multiple of 16 bytes, as TFLM and XNNPACK expect."""

    def Pack(self, builder: flatbuffers.Builder) -> int:  # noqa: N802
        data = None
        if self.data is not None and len(self.data):
            raw = bytes(self.data)
            builder.StartVector(1, len(raw), 16)
            builder.head -= len(raw)
            builder.Bytes[builder.head : builder.head + len(raw)] = raw
            data = builder.EndVector()
        schema.BufferStart(builder)
        if data is not None:
            schema.BufferAddData(builder, data)
        return int(schema.BufferEnd(builder))


@dataclasses.dataclass(frozen=True)
class Value:
    """A tensor of the graph: its index, shape, quantization and the rms of its real values."""

    index: int
    shape: tuple[int, ...]
    scale: float
    zero_point: int
    rms: float


class GraphFile:
    """Collects tensors and operators of one subgraph; ``build`` returns the bytes of the model."""

    def __init__(self) -> None:
        self.tensors: list[schema.TensorT] = []
        self._buffers: list[bytes] = [b""]
        self.operators: list[schema.OperatorT] = []
        self._codes: list[str] = []
        self.inputs: list[int] = []
        self._names: dict[str, int] = {}

    def _unique(self, name: str) -> str:
        count = self._names.get(name, 0)
        self._names[name] = count + 1
        return name if count == 0 else f"{name}_{count}"

    def buffer(self, data: bytes) -> int:
        """Adds a buffer and returns its index; empty data is buffer 0."""
        if not data:
            return 0
        self._buffers.append(data)
        return len(self._buffers) - 1

    def tensor(
        self,
        name: str,
        shape: Sequence[int],
        dtype: int,
        *,
        data: bytes = b"",
        buffer: int | None = None,
        scales: Sequence[float] = (),
        zero_points: Sequence[int] | None = None,
        axis: int = 0,
    ) -> int:
        """Adds a tensor and returns its index. ``buffer`` names an existing buffer instead of ``data``."""
        t = schema.TensorT()
        t.name = self._unique(name)
        t.shape = np.asarray(shape, np.int32)
        t.type = dtype
        t.buffer = self.buffer(data) if buffer is None else buffer
        t.hasRank = True
        if len(scales):
            q = schema.QuantizationParametersT()
            q.scale = np.asarray(scales, np.float32)
            points = [0] * len(scales) if zero_points is None else zero_points
            q.zeroPoint = np.asarray(points, np.int64)
            q.quantizedDimension = axis
            t.quantization = q
        self.tensors.append(t)
        return len(self.tensors) - 1

    def int32(self, name: str, values: Any, **more: Any) -> int:
        """Adds a constant of int32 and returns its index."""
        data = np.asarray(values, np.int32)
        return self.tensor(name, data.shape, schema.TensorType.INT32, data=data.tobytes(), **more)

    def operator(
        self, code: str, inputs: Sequence[int], outputs: Sequence[int], options: str = "", **fields: Any
    ) -> None:
        """Adds an operator by names of the schema, "CONV_2D" and "Conv2D"; -1 is an absent input."""
        if code not in self._codes:
            self._codes.append(code)
        op = schema.OperatorT()
        op.opcodeIndex = self._codes.index(code)
        op.inputs = np.asarray(inputs, np.int32)
        op.outputs = np.asarray(outputs, np.int32)
        if options:
            op.builtinOptionsType = getattr(schema.BuiltinOptions, f"{options}Options")
            op.builtinOptions = getattr(schema, f"{options}OptionsT")()
            for name, value in fields.items():
                assert hasattr(op.builtinOptions, name), name
                setattr(op.builtinOptions, name, value)
        self.operators.append(op)

    def build(
        self,
        outputs: Sequence[Value | int],
        *,
        signature: str | None = None,
        metadata: dict[str, bytes] | None = None,
        description: str = "tflm_zo test model",
    ) -> bytes:
        """Returns the model's bytes; `signature`: key of one over all inputs ``in_<i>``, and outputs, ``out_<i>``."""
        indices = [o.index if isinstance(o, Value) else o for o in outputs]
        graph = schema.SubGraphT()
        graph.name = "main"
        graph.tensors = self.tensors
        graph.operators = self.operators
        graph.inputs = np.asarray(self.inputs, np.int32)
        graph.outputs = np.asarray(indices, np.int32)

        model = schema.ModelT()
        model.version = 3
        model.description = description
        model.subgraphs = [graph]
        model.operatorCodes = []
        for code in self._codes:
            c = schema.OperatorCodeT()
            c.builtinCode = getattr(schema.BuiltinOperator, code)
            c.deprecatedBuiltinCode = min(127, c.builtinCode)
            c.version = _VERSIONS.get(code, 1)
            model.operatorCodes.append(c)
        if metadata:
            model.metadata = []
            for name, data in metadata.items():
                entry = schema.MetadataT()
                entry.name = name
                entry.buffer = self.buffer(data)
                model.metadata.append(entry)
        if signature is not None:
            entry = schema.SignatureDefT()
            entry.signatureKey = signature
            entry.subgraphIndex = 0
            entry.inputs = [self._map(f"in_{i}", t) for i, t in enumerate(self.inputs)]
            entry.outputs = [self._map(f"out_{i}", t) for i, t in enumerate(indices)]
            model.signatureDefs = [entry]
        model.buffers = []
        for data in self._buffers:
            b = _AlignedBufferT()
            b.data = data or None
            model.buffers.append(b)

        builder = flatbuffers.Builder(1024)
        builder.Finish(model.Pack(builder), b"TFL3")
        return bytes(builder.Output())

    @staticmethod
    def _map(name: str, index: int) -> schema.TensorMapT:
        entry = schema.TensorMapT()
        entry.name = name
        entry.tensorIndex = index
        return entry


Padding = schema.Padding
Activation = schema.ActivationFunctionType


class GraphBuilder(GraphFile):
    """Adds layers one after the other; ``build`` returns the model. `bias_axis`: the quantized dimension of biases.
    With 16 `bits` activations are int16 and biases int64.
    """

    def __init__(self, seed: int = 0, *, bias_axis: int = 0, bits: int = 8) -> None:
        super().__init__()
        self.rng = np.random.default_rng(seed)
        self.bias_axis = bias_axis
        self.bits = bits

    def value(self, name: str, shape: Sequence[int], scale: float, zero_point: int, rms: float) -> Value:
        """Adds an activation. Scale and zero point are those of int8; int16 has the same range around 0."""
        if self.bits == 16:
            scale, zero_point = scale * (2 if zero_point == -128 else 1) / 256, 0
        return self._exactly(name, shape, scale, zero_point, rms)

    def like(self, x: Value, name: str, shape: Sequence[int]) -> Value:
        """Adds an activation with scale and zero point of another one."""
        return self._exactly(name, shape, x.scale, x.zero_point, x.rms)

    def _exactly(self, name: str, shape: Sequence[int], scale: float, zero_point: int, rms: float) -> Value:
        dtype = schema.TensorType.INT16 if self.bits == 16 else schema.TensorType.INT8
        index = self.tensor(name, shape, dtype, scales=[scale], zero_points=[zero_point])
        # the file stores float32, and consumers compute with it
        return Value(index, tuple(shape), float(np.float32(scale)), zero_point, rms)

    def input(self, name: str, shape: Sequence[int], scale: float = 1 / 64, zero_point: int = 3) -> Value:
        """Adds a graph input; uniformly random int8 data has rms of about 74 LSB."""
        x = self.value(name, shape, scale, zero_point, 74 * scale)
        self.inputs.append(x.index)
        return x

    def float_input(self, name: str, shape: Sequence[int]) -> int:
        index = self.tensor(name, shape, schema.TensorType.FLOAT32)
        self.inputs.append(index)
        return index

    def _activated(self, name: str, shape: Sequence[int], rms: float, activation: int) -> Value:
        # 3 standard deviations fit; a ReLU's output only has the positive half.
        if activation == Activation.NONE:
            return self.value(name, shape, 3 * rms / 127, int(self.rng.integers(-12, 13)), rms)
        return self.value(name, shape, 3 * rms / 255, -128, rms / math.sqrt(2))

    def weights(
        self, name: str, shape: Sequence[int], *, channels_axis: int, per_channel: bool, scale: float
    ) -> tuple[int, np.ndarray, float]:
        """Adds an int8 filter whose channels differ in their largest value; returns index, scales and real rms."""
        channels = shape[channels_axis]
        peaks = np.array([(127, 125, 60)[c % 3] if c % 5 else 126 for c in range(channels)])
        q = self.rng.uniform(-1, 1, tuple(shape))
        moved = np.moveaxis(q, channels_axis, 0).reshape(channels, -1)
        moved = np.round(moved / np.abs(moved).max(axis=1, keepdims=True) * peaks[:, None])
        data = np.moveaxis(moved.reshape(channels, *np.delete(np.array(shape), channels_axis)), 0, channels_axis)
        if per_channel:
            scales = (scale * 127 / peaks).astype(np.float32)
            real = moved * scales[:, None]
        else:
            scales = np.array([scale], np.float32)
            real = moved * scales[0]
        index = self.tensor(
            name,
            shape,
            schema.TensorType.INT8,
            data=data.astype(np.int8).tobytes(),
            scales=scales.tolist(),
            axis=channels_axis if per_channel else 0,
        )
        return index, scales, float(np.sqrt(np.mean(real**2)))

    def bias(self, name: str, channels: int, scales: np.ndarray, rms: float) -> int:
        """Adds a bias of scale input * filter, of about a third of the output's rms."""
        real = self.rng.normal(0, rms / 3, channels)
        return self.bias_of(name, np.round(real / scales.astype(np.float64)), scales.tolist())

    def bias_of(self, name: str, values: np.ndarray, scales: Sequence[float]) -> int:
        """Adds a bias with these values, [channels]."""
        kind, dtype = ("INT64", np.int64) if self.bits == 16 else ("INT32", np.int32)
        data = values.astype(dtype).tobytes()
        return self.tensor(
            name, values.shape, getattr(schema.TensorType, kind), data=data, scales=scales, axis=self.bias_axis
        )

    def weighted(
        self, x: Value, name: str, shape: Sequence[int], axis: int, fan_in: int, bias: bool, per_channel: bool
    ) -> tuple[list[int], float]:
        # A filter scale for an output rms of about 1: uniform weights have an rms of 127 / sqrt(3) LSB.
        scale = 1 / (math.sqrt(fan_in) * x.rms * 127 / math.sqrt(3))
        filter_index, scales, weight_rms = self.weights(
            f"{name}/filter", shape, channels_axis=axis, per_channel=per_channel, scale=scale
        )
        rms = math.sqrt(fan_in) * x.rms * weight_rms
        bias_index = -1
        if bias:
            product = (np.float32(x.scale) * scales).astype(np.float32)
            bias_index = self.bias(f"{name}/bias", shape[axis], product, rms)
        return [x.index, filter_index, bias_index], rms

    def conv(
        self,
        x: Value,
        name: str,
        channels: int,
        kernel: tuple[int, int] = (3, 3),
        stride: int = 1,
        padding: int = Padding.SAME,
        activation: int = Activation.RELU,
        bias: bool = True,
        per_channel: bool = True,
    ) -> Value:
        shape = [channels, *kernel, x.shape[3]]
        inputs, rms = self.weighted(x, name, shape, 0, math.prod(shape[1:]), bias, per_channel)
        y = self._activated(name, [*self._window(x, kernel, stride, padding), channels], rms, activation)
        options = {"padding": padding, "strideH": stride, "strideW": stride}
        self.operator("CONV_2D", inputs, [y.index], "Conv2D", fusedActivationFunction=activation, **options)
        return y

    def depthwise(
        self,
        x: Value,
        name: str,
        kernel: tuple[int, int] = (3, 3),
        stride: int = 1,
        padding: int = Padding.SAME,
        activation: int = Activation.RELU,
        bias: bool = True,
        per_channel: bool = True,
        multiplier: int = 1,
    ) -> Value:
        shape = [1, *kernel, x.shape[3] * multiplier]
        inputs, rms = self.weighted(x, name, shape, 3, math.prod(kernel), bias, per_channel)
        y = self._activated(name, [*self._window(x, kernel, stride, padding), shape[3]], rms, activation)
        options = {"padding": padding, "strideH": stride, "strideW": stride, "depthMultiplier": multiplier}
        options["fusedActivationFunction"] = activation
        self.operator("DEPTHWISE_CONV_2D", inputs, [y.index], "DepthwiseConv2D", **options)
        return y

    @staticmethod
    def _window(x: Value, kernel: tuple[int, int], stride: int, padding: int) -> tuple[int, int, int]:
        """Computes batch, height and width of an output."""
        batch, height, width, _ = x.shape
        if padding == Padding.SAME:
            return batch, -(-height // stride), -(-width // stride)
        return batch, (height - kernel[0]) // stride + 1, (width - kernel[1]) // stride + 1

    def dense(
        self,
        x: Value,
        name: str,
        units: int,
        activation: int = Activation.RELU,
        bias: bool = True,
        per_channel: bool = True,
    ) -> Value:
        """Adds FULLY_CONNECTED; a 4-D input is flattened by the operator itself, as TFLite allows."""
        fan_in = math.prod(x.shape[1:])
        inputs, rms = self.weighted(x, name, [units, fan_in], 0, fan_in, bias, per_channel)
        y = self._activated(name, [x.shape[0], units], rms, activation)
        fused = {"fusedActivationFunction": activation}
        self.operator("FULLY_CONNECTED", inputs, [y.index], "FullyConnected", **fused)
        return y

    def pool(self, x: Value, name: str, size: int = 2, average: bool = False) -> Value:
        batch, height, width, depth = x.shape
        y = self.like(x, name, [batch, height // size, width // size, depth])
        window = dict.fromkeys(("strideH", "strideW", "filterHeight", "filterWidth"), size)
        code = "AVERAGE_POOL_2D" if average else "MAX_POOL_2D"
        self.operator(code, [x.index], [y.index], "Pool2D", padding=Padding.VALID, **window)
        return y

    def reshape(self, x: Value, name: str, shape: Sequence[int], options: bool = True) -> Value:
        """RESHAPE with its shape as a constant tensor and, if ``options``, as an option as well."""
        y = self.like(x, name, shape)
        inputs = [x.index, self.int32(f"{name}/shape", shape)]
        if options:
            self.operator("RESHAPE", inputs, [y.index], "Reshape", newShape=np.asarray(shape, np.int32))
        else:
            self.operator("RESHAPE", inputs, [y.index])
        return y

    def flatten(self, x: Value, name: str, options: bool = True) -> Value:
        return self.reshape(x, name, [x.shape[0], math.prod(x.shape[1:])], options)

    def add(self, a: Value, b: Value, name: str, activation: int = Activation.RELU) -> Value:
        y = self._activated(name, a.shape, math.hypot(a.rms, b.rms), activation)
        self.operator("ADD", [a.index, b.index], [y.index], "Add", fusedActivationFunction=activation)
        return y

    def concat(self, values: Sequence[Value], name: str, axis: int) -> Value:
        shape = list(values[0].shape)
        shape[axis] = sum(v.shape[axis] for v in values)
        # int8 CONCATENATION in TFLM wants the quantization of its inputs; the caller sees to that.
        y = self.like(values[0], name, shape)
        self.operator("CONCATENATION", [v.index for v in values], [y.index], "Concatenation", axis=axis)
        return y

    def requantize(self, x: Value, name: str, scale: float, zero_point: int) -> Value:
        y = self.value(name, x.shape, scale, zero_point, x.rms)
        self.operator("QUANTIZE", [x.index], [y.index], "Quantize")
        return y

    def quantize(self, x: int, name: str, shape: Sequence[int], scale: float = 1 / 64, zero_point: int = 3) -> Value:
        """QUANTIZE of a float graph input."""
        y = self.value(name, shape, scale, zero_point, 74 * scale)
        self.operator("QUANTIZE", [x], [y.index], "Quantize")
        return y

    def dequantize(self, x: Value, name: str) -> int:
        index = self.tensor(name, x.shape, schema.TensorType.FLOAT32)
        self.operator("DEQUANTIZE", [x.index], [index], "Dequantize")
        return index

    def softmax(self, x: Value, name: str, beta: float = 1.0) -> Value:
        y = self.value(name, x.shape, 1 / 256, -128, 0.5)
        self.operator("SOFTMAX", [x.index], [y.index], "Softmax", beta=beta)
        return y

    def logistic(self, x: Value, name: str) -> Value:
        y = self.value(name, x.shape, 1 / 256, -128, 0.5)
        self.operator("LOGISTIC", [x.index], [y.index])
        return y

    def mean(self, x: Value, name: str, axes: Sequence[int], keep_dims: bool = False) -> Value:
        """Adds MEAN over ``axes``."""
        shape = [1 if i in axes else n for i, n in enumerate(x.shape) if keep_dims or i not in axes]
        y = self.like(x, name, shape)
        inputs = [x.index, self.int32(f"{name}/axes", axes)]
        self.operator("MEAN", inputs, [y.index], "Reducer", keepDims=keep_dims)
        return y
