# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""The addresses of a segment's trainable tensors in the memory of a runtime.

No runtime's API reaches variable tensors everywhere (TFLM's does not at all), so the op pack publishes their
addresses in a ``zo_directory`` that we own (``ops/core/graph/zo_op.h``), at every invoke.
"""

from __future__ import annotations

import ctypes

import numpy as np
from numpy.typing import NDArray

from .loader import constants, structs

__all__ = ["Directory"]


def _view(address: int, size: int) -> NDArray[np.int8]:
    return np.ctypeslib.as_array(ctypes.cast(address, ctypes.POINTER(ctypes.c_int8)), (size,))


class Directory:
    """The addresses of up to `capacity` tensors.

    The views below alias the runtime's memory: they are valid while the interpreter that filled the directory
    lives and is not reallocated.
    """

    def __init__(self, capacity: int) -> None:
        self._entries = (structs.zo_directory_entry * capacity)()
        self._directory = structs.zo_directory(
            constants.ZO_DIRECTORY_MAGIC, capacity, 0, ctypes.addressof(self._entries)
        )

    @property
    def address(self) -> int:
        """Address of the ``zo_directory``, for the op pack."""
        return ctypes.addressof(self._directory)

    def find(self, stream: int) -> tuple[NDArray[np.int8], NDArray[np.int8] | None]:
        """Views of the weights and (16-bit update) the fractions of one tensor, int8 [size].

        Args:
            stream: number of the tensor in the model.

        Raises:
            KeyError: the tensor was not published, since no invoke was made or it is not in this segment.
        """
        for entry in self._entries[: self._directory.count]:
            if entry.stream == stream and entry.weights:
                fraction = _view(entry.fraction, entry.size) if entry.fraction else None
                return _view(entry.weights, entry.size), fraction
        raise KeyError(stream)
