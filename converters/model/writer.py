"""Writes objects as a .tflite file; indices are made nowhere else."""

from __future__ import annotations

import copy
from typing import Any, Final

import flatbuffers
import numpy as np

from ..errors import ConversionError
from .archive import with_archive
from .graph import Buffer, Operator, OperatorCode, Quantization, Subgraph, Tensor
from .model import Model, Signature
from .schema import FILE_IDENTIFIER, SCHEMA_VERSION, raw_text, schema

#: Alignment that the schema asks for (force_align), and that the kernels of TFLM and XNNPACK rely on.
BUFFER_ALIGNMENT: Final = 16

# The one-byte field that older readers look at holds this for operators beyond its range.
_PLACEHOLDER_CODE: Final = 127


class _AlignedBuffer:
    """Packs a buffer's data aligned: the generated code drops force_align, and copies byte by byte."""

    def __init__(self, data: bytes) -> None:
        self.data = data

    def Pack(self, builder: Any) -> Any:  # noqa: N802 (the generated objects' name)
        vector = None
        if self.data:
            builder.StartVector(1, len(self.data), BUFFER_ALIGNMENT)
            builder.head -= len(self.data)
            builder.Bytes[builder.head : builder.head + len(self.data)] = self.data
            vector = builder.EndVector()
        schema.BufferStart(builder)
        if vector is not None:
            schema.BufferAddData(builder, vector)
        return schema.BufferEnd(builder)


def write_model(model: Model) -> bytes:
    """Returns a model as the bytes of a .tflite file, see ``Model.to_bytes``."""
    raw = _Writer(model).model()
    size = sum(len(b.data) for b in raw.buffers)
    if size > 2**31 - 1:
        raise ConversionError("the model would be larger than 2 GB, which is not supported")
    # Large enough to begin with: growing copies everything that was written.
    builder = flatbuffers.Builder(size + size // 8 + 4096)
    builder.Finish(raw.Pack(builder), FILE_IDENTIFIER)
    return with_archive(bytes(builder.Output()), model.archive)


class _Writer:
    """Numbers objects in the order in which the file lists them."""

    def __init__(self, source: Model) -> None:
        self.source = source
        self.buffers: dict[Buffer, int] = {}
        self.codes: dict[tuple[int, int, str | None], int] = {}
        self.subgraphs = {g: i for i, g in enumerate(source.subgraphs)}
        self.tensors: dict[Subgraph, dict[Tensor, int]] = {}

    def model(self) -> Any:
        source = self.source
        for buffer in source.buffers:
            self._buffer(buffer)
        if not source.buffers or source.buffers[0].data:
            raise ConversionError("buffer 0 of a model must be empty")
        for code in source.operator_codes:
            self._code(code)
        raw = schema.ModelT()
        raw.version = SCHEMA_VERSION
        raw.description = None if source.description is None else raw_text(source.description, b"")
        raw.subgraphs = [self._subgraph(g) for g in source.subgraphs]
        if source.signatures is not None:
            raw.signatureDefs = [self._signature(s) for s in source.signatures]
        if source.metadata is not None:
            raw.metadata = []
            for entry in source.metadata:
                item = schema.MetadataT()
                item.name = raw_text(entry.name)
                item.buffer = self._buffer(entry.buffer)
                raw.metadata.append(item)
        if source.metadata_buffers is not None:
            raw.metadataBuffer = np.array([self._buffer(b) for b in source.metadata_buffers], np.int32)
        raw.operatorCodes = [self._raw_code(*key) for key in self.codes]
        raw.buffers = [_AlignedBuffer(b.data) for b in self.buffers]
        return raw

    def _buffer(self, buffer: Buffer) -> int:
        return self.buffers.setdefault(buffer, len(self.buffers))

    def _code(self, code: OperatorCode) -> int:
        return self.codes.setdefault((code.builtin, code.version, code.custom), len(self.codes))

    @staticmethod
    def _raw_code(builtin: int, version: int, custom: str | None) -> Any:
        raw = schema.OperatorCodeT()
        raw.builtinCode = builtin
        raw.deprecatedBuiltinCode = min(_PLACEHOLDER_CODE, builtin)
        raw.version = version
        raw.customCode = None if custom is None else raw_text(custom, b"")
        return raw

    def _subgraph(self, graph: Subgraph) -> Any:
        numbers = {t: i for i, t in enumerate(graph.all_tensors())}
        self.tensors[graph] = numbers

        def indices(tensors: list[Tensor] | list[Tensor | None]) -> Any:
            return np.array([-1 if t is None else numbers[t] for t in tensors], np.int32)

        raw = copy.copy(graph.raw)
        raw.name = raw_text(graph.name, graph.raw.name)
        raw.tensors = [self._tensor(t) for t in numbers]
        raw.inputs = indices(graph.inputs)
        raw.outputs = indices(graph.outputs)
        raw.operators = []
        for op in graph.operators:
            item = self._operator(op)
            item.inputs = indices(op.inputs)
            item.outputs = indices(op.outputs)
            item.intermediates = None if op.intermediates is None else indices(op.intermediates)
            raw.operators.append(item)
        return raw

    def _operator(self, op: Operator) -> Any:
        raw = copy.copy(op.raw)
        raw.opcodeIndex = self._code(op.code)
        raw.customOptions = None if op.custom_options is None else np.frombuffer(op.custom_options, np.uint8)
        return raw

    def _tensor(self, tensor: Tensor) -> Any:
        raw = copy.copy(tensor.raw)
        raw.name = raw_text(tensor.name, tensor.raw.name)
        # No shape at all is how some converters write a scalar.
        absent = not tensor.shape and tensor.raw.shape is None
        raw.shape = None if absent else np.array(tensor.shape, np.int32)
        raw.type = tensor.type
        raw.buffer = self._buffer(tensor.buffer)
        raw.isVariable = tensor.is_variable
        raw.shapeSignature = None if tensor.shape_signature is None else np.array(tensor.shape_signature, np.int32)
        raw.quantization = self._quantization(tensor.quantization)
        return raw

    @staticmethod
    def _quantization(quantization: Quantization | None) -> Any:
        if quantization is None:
            return None
        raw = copy.copy(quantization.raw)
        if len(quantization.scales) or raw.scale is not None:
            raw.scale = np.asarray(quantization.scales, np.float32)
        if len(quantization.zero_points) or raw.zeroPoint is not None:
            raw.zeroPoint = np.asarray(quantization.zero_points, np.int64)
        raw.quantizedDimension = quantization.axis
        return raw

    def _signature(self, signature: Signature) -> Any:
        raw = schema.SignatureDefT()
        raw.signatureKey = raw_text(signature.key)
        raw.subgraphIndex = self.subgraphs[signature.subgraph]
        numbers = self.tensors[signature.subgraph]
        raw.inputs = [self._map(name, numbers[t]) for name, t in signature.inputs]
        raw.outputs = [self._map(name, numbers[t]) for name, t in signature.outputs]
        return raw

    @staticmethod
    def _map(name: str, index: int) -> Any:
        raw = schema.TensorMapT()
        raw.name = raw_text(name)
        raw.tensorIndex = index
        return raw
