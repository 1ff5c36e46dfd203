# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""What the network before the first layer that is trained makes of the samples of a run."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..runtime import Runtime

__all__ = ["Prefix"]


class Prefix:
    """Activations that the network reads from a segment on. Each sample passes the segments before it once.

    Args:
        runtime: the loaded model, whose weights before the segment stay as they are.
        first: number of the segment, >= 1.
        inputs: all samples, one array per input.
        used: number of samples of which a run uses any, at most.
    """

    def __init__(self, runtime: Runtime, first: int, inputs: list[NDArray[Any]], used: int) -> None:
        self._runtime, self._first, self._inputs, self._used = runtime, first, inputs, used
        # By the segments that they enter, in the order in which samples are used first, and where there each
        # sample is; -1: nowhere yet.
        self._kept: dict[int, NDArray[np.int8]] = {}
        self._row = np.empty(len(inputs[0]), np.int64)
        self.forget()

    def forget(self) -> None:
        """Forgets what was computed: the samples are others from now on."""
        self._row[:], self._count = -1, 0

    def of(self, chosen: NDArray[np.uint32]) -> dict[int, NDArray[np.int8]]:
        """Returns the samples' activations by the segments that they enter, int8 [samples, ...]."""
        new = np.unique(chosen[self._row[chosen] < 0])
        if len(new):
            self._compute(new)
        return {k: kept[self._row[chosen]] for k, kept in self._kept.items()}

    def _compute(self, new: NDArray[np.uint32]) -> None:
        runtime = self._runtime
        # As many as are missing to a whole batch are run twice.
        runtime.feed([x[np.resize(new, runtime.batch)] for x in self._inputs], None)
        runtime.invoke(stop=self._first)
        at, self._count = self._count, self._count + len(new)
        for k in runtime.metadata.entering(self._first):
            values = runtime.boundary(k)
            if k not in self._kept:
                self._kept[k] = np.empty((self._used, *values.shape[1:]), values.dtype)
            self._kept[k][at : self._count] = values[: len(new)]
        self._row[new] = np.arange(at, self._count)
