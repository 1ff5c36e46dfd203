# SPDX-License-Identifier: Apache-2.0
"""Tensors and operators become a .tflite file by nothing but the generated flatbuffers schema.

Written apart from ``tflm_zo.converters`` on purpose: the models that test the editable model must not be made
by it.
"""

from __future__ import annotations

import dataclasses
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
        self._tensors: list[schema.TensorT] = []
        self._buffers: list[bytes] = [b""]
        self._operators: list[schema.OperatorT] = []
        self._codes: list[str] = []
        self._inputs: list[int] = []
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
        """Adds a tensor and returns its index.

        ``buffer`` names an existing buffer (to share it) instead of ``data``.
        """
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
        self._tensors.append(t)
        return len(self._tensors) - 1

    def int32(self, name: str, values: Any, **more: Any) -> int:
        """Adds a constant of int32 and returns its index."""
        data = np.asarray(values, np.int32)
        return self.tensor(name, data.shape, schema.TensorType.INT32, data=data.tobytes(), **more)

    def operator(
        self, code: str, inputs: Sequence[int], outputs: Sequence[int], options: str = "", **fields: Any
    ) -> None:
        """Adds an operator; -1 in ``inputs`` is an absent optional input.

        Args:
            code: its name in the schema, "CONV_2D" for example.
            inputs: indices of tensors.
            outputs: likewise.
            options: the name of its options in the schema without "Options", "Conv2D" for example.
            **fields: options that differ from the schema's defaults.
        """
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
        self._operators.append(op)

    def build(
        self,
        outputs: Sequence[Value | int],
        *,
        signature: str | None = None,
        metadata: dict[str, bytes] | None = None,
        description: str = "tflm_zo test model",
    ) -> bytes:
        """Returns the model's bytes.

        Args:
            outputs: the graph's outputs.
            signature: key of a signature over all inputs and outputs (their names are ``in_<i>`` and
                ``out_<i>``), or None for a model without signatures.
            metadata: extra metadata entries.
        """
        indices = [o.index if isinstance(o, Value) else o for o in outputs]
        graph = schema.SubGraphT()
        graph.name = "main"
        graph.tensors = self._tensors
        graph.operators = self._operators
        graph.inputs = np.asarray(self._inputs, np.int32)
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
            entry.inputs = [self._map(f"in_{i}", t) for i, t in enumerate(self._inputs)]
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
