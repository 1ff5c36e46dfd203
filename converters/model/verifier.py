"""Checks that a flatbuffer stays within its file and within the schema that we know.

The generated Python code trusts every offset: a damaged length makes it loop for minutes or return garbage, and a field
that a newer schema added is dropped without a word. Both are found here, before it runs.
"""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

from ..errors import ConversionError
from .schema import OPTIONS2_NAMES, OPTIONS_NAMES, QUANTIZATION_DETAILS_NAMES, SPARSE_INDEX_NAMES, known_fields


class _Vector(NamedTuple):
    """A vector of scalars, or a string (with its terminating zero)."""

    item_bytes: int


class _Table(NamedTuple):
    name: str


class _Tables(NamedTuple):
    """A vector of tables."""

    name: str


class _Union(NamedTuple):
    """A union, given by the slot of its type and by table names by type."""

    type_slot: int
    names: dict[int, str]


_STRING: Final = _Vector(1)
_Field = _Vector | _Table | _Tables | _Union

# Fields that hold offsets, by slot. Of other tables (operator options) only the extent is checked; the
# generated code reads their contents with slices that cannot leave the file.
_OFFSETS: Final[dict[str, dict[int, _Field]]] = {
    "Model": {
        1: _Tables("OperatorCode"),
        2: _Tables("SubGraph"),
        3: _STRING,
        4: _Tables("Buffer"),
        5: _Vector(4),
        6: _Tables("Metadata"),
        7: _Tables("SignatureDef"),
    },
    "OperatorCode": {1: _STRING},
    "SubGraph": {0: _Tables("Tensor"), 1: _Vector(4), 2: _Vector(4), 3: _Tables("Operator"), 4: _STRING},
    "Tensor": {
        0: _Vector(4),
        3: _STRING,
        4: _Table("QuantizationParameters"),
        6: _Table("SparsityParameters"),
        7: _Vector(4),
        9: _Tables("VariantSubType"),
    },
    "QuantizationParameters": {
        0: _Vector(4),
        1: _Vector(4),
        2: _Vector(4),
        3: _Vector(8),
        5: _Union(4, QUANTIZATION_DETAILS_NAMES),
    },
    "SparsityParameters": {0: _Vector(4), 1: _Vector(4), 2: _Tables("DimensionMetadata")},
    "DimensionMetadata": {3: _Union(2, SPARSE_INDEX_NAMES), 5: _Union(4, SPARSE_INDEX_NAMES)},
    "VariantSubType": {0: _Vector(4)},
    "Operator": {
        1: _Vector(4),
        2: _Vector(4),
        4: _Union(3, OPTIONS_NAMES),
        5: _Vector(1),
        7: _Vector(1),
        8: _Vector(4),
        12: _Union(11, OPTIONS2_NAMES),
    },
    "Buffer": {0: _Vector(1)},
    "Metadata": {0: _STRING},
    "SignatureDef": {0: _Tables("TensorMap"), 1: _Tables("TensorMap"), 2: _STRING},
    "TensorMap": {0: _STRING},
}

# Fields that say that data lies outside the flatbuffer, where this package would lose it.
_EXTERNAL: Final[dict[str, tuple[int, ...]]] = {"Model": (8, 9), "Tensor": (10,), "Operator": (9, 10), "Buffer": (1, 2)}


class _Verifier:
    def __init__(self, data: bytes) -> None:
        self.data = data
        self.fields: dict[str, int] = {}
        # Every table takes at least its 4-byte vtable offset. Damaged offsets can make tables overlap and
        # vectors of tables nest; the budget ends such a walk.
        self.budget = len(data) // 4

    def read(self, code: str, position: int) -> int:
        size = struct.calcsize(code)
        if position < 0 or position + size > len(self.data):
            raise ConversionError("the file is damaged or truncated: an offset leads outside of it")
        return int(struct.unpack_from(f"<{code}", self.data, position)[0])

    def table(self, position: int, name: str) -> None:
        self.budget -= 1
        if self.budget < 0:
            raise ConversionError("the file is damaged: its tables overlap")
        vtable = position - self.read("i", position)
        vtable_bytes = self.read("H", vtable)
        object_bytes = self.read("H", vtable + 2)
        if vtable_bytes < 4 or vtable_bytes % 2 or object_bytes < 4:
            raise ConversionError(f"the file is damaged: a {name} table is malformed")
        self.read("B", vtable + vtable_bytes - 1)
        self.read("B", position + object_bytes - 1)
        if name not in self.fields:
            self.fields[name] = known_fields(name)
        slots: dict[int, int] = {}
        for slot in range((vtable_bytes - 4) // 2):
            offset = self.read("H", vtable + 4 + 2 * slot)
            if not offset:
                continue
            if slot >= self.fields[name]:
                raise ConversionError(
                    f"the model uses a newer schema: {name} has a field (number {slot}) that would be lost; "
                    "update ai-edge-litert or convert the model with an older converter"
                )
            if offset < 4 or offset >= object_bytes:
                raise ConversionError(f"the file is damaged: a field of a {name} table leads outside of it")
            slots[slot] = position + offset
        self._check_external(name, slots)
        for slot, field in _OFFSETS.get(name, {}).items():
            if isinstance(field, _Union):
                self._union(name, slots, slot, field)
            elif slot in slots:
                target = slots[slot] + self.read("I", slots[slot])
                if isinstance(field, _Table):
                    self.table(target, field.name)
                else:
                    self._vector(target, field)

    def _vector(self, position: int, field: _Vector | _Tables) -> None:
        length = self.read("I", position)
        item_bytes = field.item_bytes if isinstance(field, _Vector) else 4
        if position + 4 + length * item_bytes > len(self.data):
            raise ConversionError("the file is damaged or truncated: a vector leads outside of it")
        if isinstance(field, _Tables):
            for i in range(length):
                entry = position + 4 + 4 * i
                self.table(entry + self.read("I", entry), field.name)

    def _union(self, name: str, slots: dict[int, int], slot: int, union: _Union) -> None:
        kind = self.read("B", slots[union.type_slot]) if union.type_slot in slots else 0
        if kind not in union.names:
            raise ConversionError(
                f"the model uses a newer schema: {name} has options of unknown type {kind} that would be "
                "lost; update ai-edge-litert or convert the model with an older converter"
            )
        if kind and slot in slots:
            self.table(slots[slot] + self.read("I", slots[slot]), union.names[kind])
        elif kind or slot in slots:
            # The generated code would drop or invent options here.
            raise ConversionError(f"the file is damaged: a {name} table has options without a type")

    def _check_external(self, name: str, slots: dict[int, int]) -> None:
        for slot in _EXTERNAL.get(name, ()):
            if slot not in slots:
                continue
            # In Model these are vectors, elsewhere scalars that are 0 (or 1) where unused.
            code = "I" if name in ("Model", "Tensor") else "Q"
            if self.read(code, slots[slot]) > (1 if name == "Buffer" else 0):
                raise ConversionError(
                    "the model keeps data outside the flatbuffer (external buffers, as in models over 2 GB), "
                    "which is not supported; convert it with its weights inside"
                )


def verify(data: bytes) -> None:
    """Raises ConversionError if a .tflite file is damaged or has fields that reading into objects would lose."""
    verifier = _Verifier(data)
    verifier.table(verifier.read("I", 0), "Model")
