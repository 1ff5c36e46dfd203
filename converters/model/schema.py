"""The generated TFLite schema, and names for its enumerations.

No other module imports the generated code, which is untyped, and which a new release of the schema changes.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt
from ai_edge_litert import schema_py_generated as _generated

schema: Final[Any] = _generated

BuiltinOperator: Final[Any] = schema.BuiltinOperator
TensorType: Final[Any] = schema.TensorType

#: File identifier and version of the schema that this package reads and writes.
FILE_IDENTIFIER: Final = b"TFL3"
SCHEMA_VERSION: Final = 3


def _names(enumeration: Any) -> dict[int, str]:
    return {value: name for name, value in vars(enumeration).items() if isinstance(value, int)}


OPERATOR_NAMES: Final = _names(BuiltinOperator)
TENSOR_TYPE_NAMES: Final = _names(TensorType)
OPTIONS_NAMES: Final = _names(schema.BuiltinOptions)
OPTIONS2_NAMES: Final = _names(schema.BuiltinOptions2)
QUANTIZATION_DETAILS_NAMES: Final = _names(schema.QuantizationDetails)
SPARSE_INDEX_NAMES: Final = _names(schema.SparseIndexVector)

#: NumPy types of tensor elements; types that are missing here (strings, sub-byte integers, resources …) are
#: carried through untouched but cannot be looked into.
DTYPES: Final[dict[int, npt.DTypeLike]] = {
    TensorType.FLOAT64: np.float64,
    TensorType.FLOAT32: np.float32,
    TensorType.FLOAT16: np.float16,
    TensorType.INT64: np.int64,
    TensorType.UINT64: np.uint64,
    TensorType.INT32: np.int32,
    TensorType.UINT32: np.uint32,
    TensorType.INT16: np.int16,
    TensorType.UINT16: np.uint16,
    TensorType.INT8: np.int8,
    TensorType.UINT8: np.uint8,
    TensorType.BOOL: np.bool_,
    TensorType.COMPLEX64: np.complex64,
    TensorType.COMPLEX128: np.complex128,
}


class _FieldCounter:
    """Stands in for a flatbuffers builder to learn how many fields a generated table has."""

    fields = 0

    def StartObject(self, fields: int) -> None:  # noqa: N802 (the builder's name)
        self.fields = fields


def known_fields(table: str) -> int:
    """Returns the number of fields that the schema gives a table, e.g. ``known_fields("Tensor")``."""
    counter = _FieldCounter()
    getattr(schema, f"{table}Start")(counter)
    return counter.fields


def text(raw: bytes | str | None) -> str:
    """Returns a flatbuffers string as str; bytes that are not UTF-8 survive the way back (``raw_text``)."""
    if raw is None:
        return ""
    return raw.decode("utf-8", "surrogateescape") if isinstance(raw, bytes) else raw


def raw_text(value: str, original: bytes | str | None = None) -> bytes | None:
    """Returns the bytes to store for a string; None (field absent) if it is empty and was absent before."""
    if not value and original is None:
        return None
    return value.encode("utf-8", "surrogateescape")
