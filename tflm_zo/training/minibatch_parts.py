# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""The parts of a minibatch, one for each invoke that passes it forward."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

__all__ = ["MinibatchParts", "together_at_most"]

_Part = tuple[list[NDArray[Any]], NDArray[Any]]

# Bytes of a minibatch that is kept for a step; of a larger one each part is gathered when it is fed.
_MOST_BYTES: Final = 1 << 26


# Of what an invoke reads where it may pass several batches forward: what is more does not stay in a core's
# cache from one layer to the next.
_MOST_OF_INVOKE: Final = 1 << 20


def together_at_most(batch: int, sample_bytes: int) -> int:
    """Returns the number of batches that one invoke passes forward at most, at least 1."""
    return max(1, _MOST_OF_INVOKE // max(1, batch * sample_bytes))


class MinibatchParts:
    """Gathers the samples of each part of a minibatch once a step: all sides and queries of it read the same.

    Args:
        inputs: all training samples, one array per input.
        labels: labels of all samples.
        batch: number of samples in a part.
        count: number of parts.
    """

    def __init__(self, inputs: list[NDArray[Any]], labels: NDArray[Any], batch: int, count: int) -> None:
        self._inputs, self._labels = inputs, labels
        every = sum(x[:1].nbytes for x in [*inputs, labels]) * batch * count
        # Memory that one step's parts leave to the next one's: fresh memory is slower than the copy into it.
        self._free = [self._room(batch) for _ in range(count if every <= _MOST_BYTES else 1)]
        self._gathered: dict[int, _Part] = {}

    def _room(self, batch: int) -> _Part:
        inputs = [np.empty((batch, *x.shape[1:]), x.dtype) for x in self._inputs]
        return inputs, np.empty((batch, *self._labels.shape[1:]), self._labels.dtype)

    def forget(self) -> None:
        """Forgets what was gathered: a step has ended, or samples may have been replaced."""
        self._free += self._gathered.values()
        self._gathered = {}

    def find(self, first: int) -> _Part | None:
        """Returns inputs and labels of a part that this step has gathered, or None."""
        return self._gathered.get(first)

    def gather(self, first: int, chosen: NDArray[np.uint32]) -> _Part:
        """Gathers a part.

        Args:
            first: position of the part's first sample, by which `find` knows it.
            chosen: numbers of its samples, [batch].
        """
        if not self._free:
            self.forget()
        inputs, labels = room = self._free.pop()
        for values, own in zip(self._inputs, inputs, strict=True):
            np.take(values, chosen, axis=0, out=own, mode="clip")  # other modes take a copy more
        np.take(self._labels, chosen, axis=0, out=labels, mode="clip")
        self._gathered[first] = room
        return room
