# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""Differences of weights as few bytes."""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from .errors import FleetError

__all__ = ["packed", "unpacked"]

Arrays = Mapping[str, NDArray[Any]]

_TYPES: Final = (np.dtype("<i1"), np.dtype("<i2"), np.dtype("<i4"))
_LEVEL: Final = 9


def packed(now: Arrays, before: Arrays | None = None) -> bytes:
    """Returns what leads from weights to others: of each tensor the byte that says in how many bytes its
    largest difference fits (0: 1, 1: 2, 2: 4), then its differences, little-endian, all compressed by zlib.

    Args:
        now: int8 weights and int32 biases by tensor name.
        before: the same before; None: all 0, so that the result stands for itself.
    """
    parts = []
    for name, array in now.items():
        change = array.astype(np.int64) - (0 if before is None else before[name])
        fits = [change.min(initial=0) >= np.iinfo(t).min and change.max(initial=0) <= np.iinfo(t).max
                for t in _TYPES]  # fmt: skip
        kind = fits.index(True)
        parts += [bytes([kind]), change.astype(_TYPES[kind]).tobytes()]
    return zlib.compress(b"".join(parts), _LEVEL)


def unpacked(data: bytes, before: Arrays, *, whole: bool = False) -> dict[str, NDArray[Any]]:
    """Returns the weights that `packed` leads to, or, of a difference, int64 arrays of it.

    Args:
        data: what `packed` returned.
        before: weights that it leads from; their shapes alone are read where `whole` is set.
        whole: the bytes stand for themselves.

    Raises:
        FleetError: they are damaged, or of another model.
    """
    try:
        # At most what these weights can take, whatever the bytes claim.
        most = sum(1 + 4 * array.size for array in before.values())
        unpacker = zlib.decompressobj()
        content = unpacker.decompress(data, most + 1)
    except zlib.error as error:
        raise FleetError(f"damaged weights: {error}") from None
    found, at = {}, 0
    for name, array in before.items():
        kind = content[at] if at < len(content) else len(_TYPES)
        if kind >= len(_TYPES) or at + 1 + array.size * _TYPES[kind].itemsize > len(content):
            raise FleetError("weights of another model, or cut off")
        change = np.frombuffer(content, _TYPES[kind], array.size, at + 1).reshape(array.shape)
        at += 1 + change.nbytes
        found[name] = change.astype(np.int64) + (0 if whole else array)
    if at != len(content) or not unpacker.eof:
        raise FleetError("weights of another model, or cut off")
    return found
