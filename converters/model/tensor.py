# SPDX-License-Identifier: Apache-2.0
"""A tensor of a subgraph."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np
import numpy.typing as npt

from ..errors import ConversionError
from .buffer import Buffer
from .quantization import Quantization
from .schema import DTYPES, TENSOR_TYPE_NAMES, schema


@dataclasses.dataclass(eq=False, repr=False)
class Tensor:
    """A tensor; compared by identity, since names need not be unique.

    Attributes:
        name: name in the file, possibly empty.
        shape: sizes of the dimensions; () for a scalar.
        type: element type, a ``TensorType``.
        buffer: buffer with the constant data; one without data for a tensor that is computed, fed or
            variable.
        quantization: quantization parameters, or None where the file has no table of them.
        is_variable: True if the tensor keeps its value between invokes; the value is zero after allocation
            and reset.
        shape_signature: the shape with -1 for sizes that may change, or None where the file has none.
        raw: the object of the generated schema, which keeps all that is not modelled here (sparsity, variant
            tensors, has_rank …).
    """

    name: str
    shape: tuple[int, ...]
    type: int
    buffer: Buffer
    quantization: Quantization | None = None
    is_variable: bool = False
    shape_signature: tuple[int, ...] | None = None
    raw: Any = dataclasses.field(default_factory=schema.TensorT)

    def __repr__(self) -> str:
        return f"<Tensor {self.name!r}: {self.type_name} {list(self.shape)}>"

    @property
    def type_name(self) -> str:
        """Name of the element type, e.g. ``INT8``."""
        return TENSOR_TYPE_NAMES.get(self.type, str(self.type))

    @property
    def is_constant(self) -> bool:
        """True if the file holds its data."""
        return bool(self.buffer.data)

    @property
    def size(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    def numpy(self) -> npt.NDArray[Any]:
        """Returns the constant data as a read-only array of the tensor's shape.

        Raises:
            ConversionError: the tensor has no constant data, or data of a type that NumPy lacks (strings,
                sub-byte integers …).
        """
        if not self.is_constant:
            raise ConversionError(f"tensor `{self.name}` has no constant data")
        if self.type not in DTYPES or self.raw.sparsity is not None:
            raise ConversionError(f"data of tensor `{self.name}` ({self.type_name}) cannot be read")
        return np.frombuffer(self.buffer.data, DTYPES[self.type]).reshape(self.shape)

    def set_data(self, array: npt.NDArray[Any]) -> None:
        """Gives the tensor a buffer of its own with this data; other users of the old buffer keep it.

        Args:
            array: the data, of the tensor's shape and element type.
        """
        if array.shape != self.shape or array.dtype != np.dtype(DTYPES[self.type]):
            raise ConversionError(
                f"tensor `{self.name}` is {self.type_name} {list(self.shape)}, "
                f"not {array.dtype} {list(array.shape)}"
            )
        self.buffer = Buffer(array.tobytes())

    def copy(self) -> Tensor:
        """Returns a copy that shares the buffer and ``raw``, of which the writer completes a copy."""
        quantization = None if self.quantization is None else self.quantization.copy()
        return dataclasses.replace(self, quantization=quantization)
