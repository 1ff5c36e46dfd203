# SPDX-License-Identifier: Apache-2.0
"""A tensor of a subgraph."""

from __future__ import annotations

import copy
import dataclasses
import math
from typing import Any

import numpy as np
import numpy.typing as npt

from ..errors import ConversionError
from .buffer import Buffer
from .quantization import Quantization
from .schema import DTYPES, TENSOR_TYPE_NAMES, schema


@dataclasses.dataclass(eq=False)
class Tensor:
    """A tensor; compared by identity, since names need not be unique.

    Attributes:
        name: its name in the file, possibly empty.
        shape: sizes; () for a scalar.
        type: a ``TensorType``.
        buffer: constant data; a buffer without data for everything that is computed, fed or variable.
        quantization: None where the file has no quantization table for it.
        is_variable: keeps its value between invokes, zero after allocation and reset.
        shape_signature: like shape with -1 for sizes that may change, or None where the file has none.
        raw: the generated object, for what is not modelled (sparsity, variant tensors, has_rank …).
    """

    name: str
    shape: tuple[int, ...]
    type: int
    buffer: Buffer
    quantization: Quantization | None = None
    is_variable: bool = False
    shape_signature: tuple[int, ...] | None = None
    raw: Any = dataclasses.field(default_factory=schema.TensorT)

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
        """The constant data, shaped; read-only.

        Raises:
            ConversionError: there is no data, or it cannot be looked into (strings, sub-byte integers …).
        """
        if not self.is_constant:
            raise ConversionError(f"tensor «{self.name}» has no constant data")
        if self.type not in DTYPES or self.raw.sparsity is not None:
            raise ConversionError(f"data of tensor «{self.name}» ({self.type_name}) cannot be read")
        return np.frombuffer(self.buffer.data, DTYPES[self.type]).reshape(self.shape)

    def set_data(self, array: npt.NDArray[Any]) -> None:
        """Gives the tensor a buffer of its own with this data; other users of the old buffer keep it.

        Args:
            array: same shape and element type as the tensor.
        """
        if array.shape != self.shape or array.dtype != np.dtype(DTYPES[self.type]):
            raise ConversionError(
                f"tensor «{self.name}» is {self.type_name} {list(self.shape)}, "
                f"not {array.dtype} {list(array.shape)}"
            )
        self.buffer = Buffer(array.tobytes())

    def copy(self) -> Tensor:
        """A tensor of its own that shares the buffer."""
        return dataclasses.replace(
            self, quantization=copy.deepcopy(self.quantization), raw=copy.deepcopy(self.raw)
        )
