"""Reads a .tflite file into objects."""

from __future__ import annotations

import copy
import os
import struct
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final, TypeVar

import numpy as np

from ..errors import ConversionError
from .archive import archive_behind
from .graph import Buffer, Operator, OperatorCode, Quantization, Subgraph, Tensor
from .model import Metadata, Model, Signature
from .schema import (
    DTYPES,
    FILE_IDENTIFIER,
    OPERATOR_NAMES,
    SCHEMA_VERSION,
    TENSOR_TYPE_NAMES,
    BuiltinOperator,
    schema,
    text,
)
from .verifier import verify

_T = TypeVar("_T")

#: A flatbuffer's offsets are 32 bit, signed in places.
_LARGEST_FILE: Final = 2**31 - 1

# Beginnings of Keras' files, .h5 and .keras, of which the latter is an archive with this file.
_HDF5: Final = b"\x89HDF\r\n\x1a\n"
_ZIP: Final = b"PK\3\4"
_KERAS_FILE: Final = b"config.json"


def load_model(source: Model | str | os.PathLike[str] | bytes | bytearray | memoryview) -> Model:
    """Reads a .tflite model from a path or bytes; a `Model` is returned unchanged.

    Raises ConversionError if the file is no .tflite model, is damaged or truncated, is of a newer schema, or keeps data
    outside the flatbuffer (the message begins with the path, if there is one); OSError if it cannot be read.
    """
    if isinstance(source, Model):
        return source
    if isinstance(source, bytes | bytearray | memoryview):
        return _read(bytes(source))
    path = Path(source)
    try:
        return _read(path.read_bytes())
    except ConversionError as error:
        raise ConversionError(f"{path}: {error}") from error


def _read(data: bytes) -> Model:
    if len(data) > _LARGEST_FILE:
        raise ConversionError("the model is larger than 2 GB, which is not supported")
    if len(data) < 8:
        raise ConversionError("not a .tflite model: the file is too short")
    if data[:8] == _HDF5 or (data[:4] == _ZIP and _KERAS_FILE in data):
        raise ConversionError("not a .tflite model, but Keras' format; tflm-zo convert makes a full-int8 .tflite of it")
    if data[4:8] != FILE_IDENTIFIER:
        raise ConversionError(f"not a .tflite model: bytes 4 to 8 are {data[4:8]!r} instead of {FILE_IDENTIFIER!r}")
    try:
        verify(data)
        model = _Reader(schema.ModelT.InitFromPackedBuf(data, 0)).model()
        model.archive = archive_behind(data)
        return model
    except ConversionError:
        raise
    except (AttributeError, IndexError, KeyError, OverflowError, TypeError, ValueError, struct.error, MemoryError) as e:
        # Exceptions of the generated code on damaged options, of which the verifier checks only the extent.
        raise ConversionError(f"the file is damaged: {e}") from e


def _pick(items: Sequence[_T], index: int, what: str) -> _T:
    if not 0 <= index < len(items):
        raise ConversionError(f"the file is damaged: there is no {what} {index}")
    return items[index]


def _integers(values: Any) -> tuple[int, ...]:
    return () if values is None else tuple(int(v) for v in values)


def _each(function: Callable[[Any], _T], values: Any) -> list[_T] | None:
    """Reads the entries of a list, which a file may not have."""
    return None if values is None else [function(value) for value in values]


class _Reader:
    """Turns the generated object tree into ours, once."""

    def __init__(self, raw: Any) -> None:
        self.raw = raw

    def model(self) -> Model:
        raw = self.raw
        if raw.version != SCHEMA_VERSION:
            raise ConversionError(f"schema version {raw.version} is not supported, only {SCHEMA_VERSION}")
        self.buffers = [Buffer(b"" if b.data is None else bytes(b.data)) for b in raw.buffers or ()]
        if not self.buffers:
            self.buffers = [Buffer()]
        if self.buffers[0].data:
            raise ConversionError("the file is damaged: buffer 0 must be empty")
        self.codes = [self._code(c) for c in raw.operatorCodes or ()]
        self.subgraphs = [self._subgraph(g) for g in raw.subgraphs or ()]
        return Model(
            subgraphs=self.subgraphs,
            buffers=self.buffers,
            operator_codes=self.codes,
            signatures=_each(self._signature, raw.signatureDefs),
            metadata=_each(lambda m: Metadata(text(m.name), _pick(self.buffers, m.buffer, "buffer")), raw.metadata),
            metadata_buffers=_each(lambda i: _pick(self.buffers, int(i), "buffer"), raw.metadataBuffer),
            description=None if raw.description is None else text(raw.description),
        )

    def _code(self, raw: Any) -> OperatorCode:
        # Files from before 2020 have the deprecated one-byte field alone, later ones both.
        builtin = max(raw.builtinCode, raw.deprecatedBuiltinCode)
        if builtin not in OPERATOR_NAMES:
            raise ConversionError(
                f"the model uses a newer schema: operator {builtin} is unknown; update ai-edge-litert"
            )
        if builtin == BuiltinOperator.CUSTOM and not raw.customCode:
            raise ConversionError("the file is damaged: a custom operator has no name")
        return OperatorCode(builtin, raw.version, None if raw.customCode is None else text(raw.customCode))

    def _tensor(self, raw: Any) -> Tensor:
        name = text(raw.name)
        if raw.type not in TENSOR_TYPE_NAMES:
            raise ConversionError(f"the model uses a newer schema: tensor `{name}` has type {raw.type}")
        tensor = Tensor(
            name=name,
            shape=_integers(raw.shape),
            type=raw.type,
            buffer=_pick(self.buffers, raw.buffer, "buffer"),
            quantization=self._quantization(raw.quantization),
            is_variable=bool(raw.isVariable),
            shape_signature=None if raw.shapeSignature is None else _integers(raw.shapeSignature),
            raw=copy.copy(raw),
        )
        if any(n < 0 for n in tensor.shape):
            raise ConversionError(f"the file is damaged: tensor `{name}` has shape {list(tensor.shape)}")
        if tensor.is_constant and tensor.type in DTYPES and raw.sparsity is None:
            needed = tensor.size * np.dtype(DTYPES[tensor.type]).itemsize
            if needed != len(tensor.buffer.data):
                raise ConversionError(
                    f"the file is damaged: tensor `{name}` needs {needed} bytes of data and has "
                    f"{len(tensor.buffer.data)}"
                )
        return tensor

    @staticmethod
    def _quantization(raw: Any) -> Quantization | None:
        if raw is None:
            return None
        return Quantization(
            scales=np.array([] if raw.scale is None else raw.scale, np.float32),
            zero_points=np.array([] if raw.zeroPoint is None else raw.zeroPoint, np.int64),
            axis=raw.quantizedDimension,
            raw=copy.copy(raw),
        )

    def _subgraph(self, raw: Any) -> Subgraph:
        tensors = [self._tensor(t) for t in raw.tensors or ()]

        def pick(index: int) -> Tensor:
            return _pick(tensors, index, "tensor")

        def optional(index: int) -> Tensor | None:
            return None if index == -1 else pick(index)

        operators = [
            Operator(
                code=_pick(self.codes, op.opcodeIndex, "operator code"),
                inputs=[optional(i) for i in _integers(op.inputs)],
                outputs=[pick(i) for i in _integers(op.outputs)],
                intermediates=_each(lambda i: optional(int(i)), op.intermediates),
                custom_options=None if op.customOptions is None else bytes(op.customOptions),
                raw=copy.copy(op),
            )
            for op in raw.operators or ()
        ]
        return Subgraph(
            name=text(raw.name),
            tensors=tensors,
            inputs=[pick(i) for i in _integers(raw.inputs)],
            outputs=[pick(i) for i in _integers(raw.outputs)],
            operators=operators,
            raw=copy.copy(raw),
        )

    def _signature(self, raw: Any) -> Signature:
        subgraph = _pick(self.subgraphs, raw.subgraphIndex, "subgraph")

        def maps(entries: Any) -> list[tuple[str, Tensor]]:
            return [(text(m.name), _pick(subgraph.tensors, m.tensorIndex, "tensor")) for m in entries or ()]

        return Signature(text(raw.signatureKey), subgraph, maps(raw.inputs), maps(raw.outputs))
