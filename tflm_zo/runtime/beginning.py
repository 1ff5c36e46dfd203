# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""The activations that a run from a segment on begins with."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["begin_with"]


def begin_with(
    start: int,
    boundary: NDArray[Any] | Mapping[int, NDArray[Any]] | None,
    needed: Mapping[int, tuple[tuple[int, ...], np.dtype[Any]]],
    kept: Collection[int],
) -> dict[int, NDArray[Any]]:
    """Returns the activations that were given, checked, by the segments that they enter.

    Args:
        start: number of the first segment of the run.
        boundary: activation that enters it, or activations by the segments that they enter.
        needed: shape, for a batch, and dtype of each activation that the run reads and does not compute.
            Those that are given may be of any number of samples.
        kept: segments whose entering activation was kept by an earlier run.

    Raises:
        ValueError: an activation is missing, is not read, or has another shape or dtype.
    """
    if start == 0 and boundary is not None:
        raise ValueError("boundary: segment 0 has none; it reads the inputs")
    given: Mapping[int, NDArray[Any]] = {}
    if boundary is not None:
        given = boundary if isinstance(boundary, Mapping) else {start: boundary}
    for k in needed:
        if k not in given and k not in kept:
            raise ValueError(f"boundary: segment {k - 1} has not run yet, so it must be given")
    values = {}
    for k, activation in given.items():
        if k not in needed:
            raise ValueError(f"boundary: a run from segment {start} on reads {list(needed)}, not {k}")
        shape, dtype = needed[k]
        value = np.asarray(activation)
        if value.shape[1:] != shape[1:] or value.dtype != dtype or not value.size:
            raise ValueError(
                f"boundary: expected {dtype} [samples, {', '.join(map(str, shape[1:]))}], "
                f"got {value.dtype} {list(value.shape)}"
            )
        values[k] = np.ascontiguousarray(value)
    return values
