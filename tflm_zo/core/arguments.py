"""Checks of arguments for the C core's functions.

Arrays are never converted, because they are changed in place. A wrong type, layout or size raises `TypeError` or
`ValueError`.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

QUERY_DTYPE: Final = np.dtype([("seed", np.uint32), ("coefficient", np.int32)])
"""One (seed, coefficient) or (seed, k) pair as the C core stores it."""

Queries: TypeAlias = Sequence[tuple[int, int]] | NDArray[Any]
"""Pairs (seed, coefficient): a sequence of tuples, an integer array [n, 2] or an array of `QUERY_DTYPE`."""


def address(name: str, array: object, dtype: type[np.generic], *, writable: bool = False) -> int:
    """Checks an array and returns the address of its data. The caller must keep the array alive."""
    if not isinstance(array, np.ndarray):
        raise TypeError(f"`{name}` must be a NumPy array of {dtype.__name__}. Received: {type(array).__name__}.")
    if array.dtype != dtype:
        raise TypeError(f"`{name}` must have dtype {dtype.__name__}. Received: {array.dtype}.")
    if not array.flags.c_contiguous:
        raise ValueError(f"`{name}` must be C-contiguous. Received: strides {array.strides}.")
    if writable and not array.flags.writeable:
        raise ValueError(f"`{name}` must be writable. Received: a read-only array.")
    # A quarter of the time that `ctypes.data` takes, which a training step asks for dozens of times.
    if array.flags.writeable and array.size:
        memory: Any = array  # a buffer, which its type does not say
        return ctypes.addressof(ctypes.c_char.from_buffer(memory))
    return int(array.ctypes.data)


def integer(name: str, value: object, low: int, high: int) -> int:
    """Returns an integer of Python or NumPy as an `int`, after a check of its range."""
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)):
        raise TypeError(f"`{name}` must be an integer. Received: {type(value).__name__}.")
    if not low <= value <= high:
        raise ValueError(f"`{name}` must be in {low}..{high}. Received: {value}.")
    return int(value)


def unsigned(name: str, value: object) -> int:
    """Returns an integer after a check that it fits uint32."""
    return integer(name, value, 0, 2**32 - 1)


def signed(name: str, value: object) -> int:
    """Returns an integer after a check that it fits int32."""
    return integer(name, value, -(2**31), 2**31 - 1)


def pairs(name: str, pairs: Queries, second: str) -> NDArray[np.void]:
    """Returns pairs (seed, second) as a contiguous array of `QUERY_DTYPE`."""
    if isinstance(pairs, np.ndarray) and pairs.dtype == QUERY_DTYPE:
        return np.ascontiguousarray(pairs).reshape(-1)
    try:
        table = np.asarray(pairs)
    except (ValueError, OverflowError) as error:
        raise ValueError(f"`{name}` must be pairs (seed, {second}): {error}") from None
    if table.size == 0:
        return np.zeros(0, QUERY_DTYPE)
    if table.ndim != 2 or table.shape[1] != 2:
        raise ValueError(f"`{name}` must be pairs (seed, {second}). Received: an array of shape {table.shape}.")
    if table.dtype.kind not in "iu":
        raise TypeError(f"`{name}` must be pairs of integers (seed, {second}). Received: {table.dtype}.")
    if table[:, 0].min() < 0 or table[:, 0].max() > 2**32 - 1:
        raise ValueError(f"`{name}` must have seeds in 0..2^32-1.")
    if table[:, 1].min() < -(2**31) or table[:, 1].max() > 2**31 - 1:
        raise ValueError(f"`{name}` must have each {second} in -2^31..2^31-1.")
    result = np.empty(len(table), QUERY_DTYPE)
    result["seed"], result["coefficient"] = table[:, 0], table[:, 1]
    return result


def step_pairs(steps: Sequence[Queries] | NDArray[Any]) -> tuple[NDArray[np.void], int, int]:
    """Returns recorded steps as a flat array of `QUERY_DTYPE`, queries per step, and number of steps."""
    if isinstance(steps, np.ndarray) and steps.dtype == QUERY_DTYPE:
        if steps.ndim != 2:
            raise ValueError(f"`steps` must have the shape [steps, queries]. Received: {steps.shape}.")
        return np.ascontiguousarray(steps).reshape(-1), steps.shape[1], steps.shape[0]
    converted = [pairs(f"steps[{i}]", step, "coefficient") for i, step in enumerate(steps)]
    if not converted:
        return np.zeros(0, QUERY_DTYPE), 0, 0
    lengths = {len(step) for step in converted}
    if len(lengths) != 1:
        raise ValueError(f"`steps` must have the same number of queries in each step. Received: {sorted(lengths)}.")
    return np.concatenate(converted), lengths.pop(), len(converted)
