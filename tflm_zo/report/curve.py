# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""Losses of a run's steps, in as many ranges as a picture can show."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

import numpy as np
from numpy.typing import NDArray

from .document import Curve

__all__ = ["curve_of", "rounded"]

# Of a picture that is some 400 pixels wide: more would lie upon each other, and make the page large.
_RANGES: Final = 200


def curve_of(losses: NDArray[np.float64], cost: Callable[[int], float]) -> Curve:
    """Returns mean and extremes of the losses in at most 200 ranges, which differ by one step at most.

    Args:
        losses: mean loss of each step, nats, float64 [steps].
        cost: function from a number of steps to their forward equivalents.
    """
    if not len(losses):
        return Curve((), (), (), (), ())
    ends = np.unique(np.linspace(0, len(losses), min(_RANGES, len(losses)) + 1).round().astype(int))
    begins = ends[:-1]
    sums = np.add.reduceat(losses, begins)
    return Curve(
        tuple(ends[1:].tolist()),
        rounded(cost(int(step)) for step in ends[1:]),
        rounded(sums / np.diff(ends)),
        rounded(np.minimum.reduceat(losses, begins)),
        rounded(np.maximum.reduceat(losses, begins)),
    )


def rounded(values: Iterable[float]) -> tuple[float, ...]:
    """Returns numbers with six significant digits, more than a picture or a table shows."""
    return tuple(float(f"{value:.6g}") for value in values)
