# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""All lanes of a runtime, of which an invoke takes the one that has as many samples."""

from __future__ import annotations

from collections.abc import Callable

from ..core import without_instructions
from .lane import Fed, Found, Lane

__all__ = ["Lanes"]


class Lanes:
    """Passes any number of samples through a model's segments.

    Args:
        own: lane of the segments that have the weights.
        make: makes a lane for so many samples whose segments read the weights of `own`, or returns None where
            the model cannot pass so many; None where the runtime has no such lanes.
    """

    def __init__(self, own: Lane, make: Callable[[int], Lane | None] | None) -> None:
        self._own, self._make = own, make
        self._made: dict[int, Lane | None] = {own.samples: own}

    def of(self, samples: int) -> Lane:
        """Returns the lane that passes so many samples on: in one run, or else whole batches one after the
        other.

        Raises:
            ValueError: the model can be run with whole batches alone, and these are none.
        """
        if samples not in self._made:
            self._made[samples] = None if self._make is None else self._make(samples)
        found = self._made[samples]
        if found is None and samples % self._own.samples:
            raise ValueError(f"expected a multiple of the model's {self._own.samples} samples, got {samples}")
        return found or self._own

    @staticmethod
    def run(lane: Lane, samples: int, start: int, stop: int, fed: Fed) -> Found:
        """Runs the segments from `start` to before `stop`; the command is executed once."""
        if samples == lane.samples:
            return lane.run(start, stop, fed)
        parts = [lane.run(start, stop, fed).kept()]
        fed = fed._replace(words=without_instructions(fed.words))
        parts += [
            lane.run(start, stop, fed, first).kept() for first in range(lane.samples, samples, lane.samples)
        ]
        return Found.of_all(parts)
