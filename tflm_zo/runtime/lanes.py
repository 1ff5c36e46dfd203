# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""All lanes of a runtime, which divide the samples of an invoke among them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait

from .lane import Fed, Found, Lane

__all__ = ["Lanes"]

_Part = tuple[Lane, int]
"""A lane, and the first sample that it passes on."""


def _shares(samples: int, threads: int) -> Iterator[tuple[int, int]]:
    """Yields the first sample and the number of samples of each thread that has some."""
    first = 0
    for thread in range(threads):
        share = samples // threads + (thread < samples % threads)
        if share:
            yield first, share
        first += share


class Lanes:
    """Passes any number of samples through a model's segments, in one thread or in several.

    What a sample leads to does not depend on those beside it, so results are the same for any number of
    threads.

    Args:
        own: lane of the segments that have the weights.
        threads: number of threads.
        make: makes a lane for so many samples whose segments read the weights of `own`, or returns None where
            the model cannot pass so many; None where the runtime has no such lanes.
    """

    def __init__(self, own: Lane, threads: int, make: Callable[[int], Lane | None] | None) -> None:
        self._own, self._threads, self._make = own, threads, make
        self._made: dict[tuple[int, int], Lane] = {}  # by thread and number of samples
        self._pool = ThreadPoolExecutor(threads - 1) if threads > 1 else None

    def _lane(self, thread: int, samples: int) -> Lane | None:
        key = thread, samples
        if key not in self._made:
            made = None if self._make is None else self._make(samples)
            if made is None:
                return None
            self._made[key] = made
        return self._made[key]

    def plan(self, samples: int) -> list[list[_Part]]:
        """Returns what each thread does.

        Raises:
            ValueError: the model can be run with whole batches alone, and these are none.
        """
        batch = self._own.samples
        if self._threads == 1 and samples == batch:
            return [[(self._own, 0)]]
        shares = list(_shares(samples, self._threads))
        lanes = [self._lane(t, n) for t, (_, n) in enumerate(shares)]
        found = [[(lane, first)] for lane, (first, _) in zip(lanes, shares, strict=True) if lane is not None]
        if len(found) == len(shares):
            return found
        if samples % batch:
            raise ValueError(f"expected a multiple of the model's {batch} samples, got {samples}")
        parts, whole = samples // batch, self._own if self._threads == 1 else self._lane(0, batch)
        assert whole is not None  # a batch of the model's own size needs no change
        return [[(whole, first * batch) for first in range(parts)]]

    def borrow_weights(self, plan: list[list[_Part]]) -> bool:
        """True if no lane of a plan has the weights itself."""
        return plan[0][0][0] is not self._own

    def run(self, plan: list[list[_Part]], start: int, stop: int, fed: Fed) -> Found:
        """Runs the segments from `start` to before `stop` as `plan` says."""
        for parts in plan:
            for lane, _ in parts:
                for k in range(start, stop):
                    lane.segment(k)  # loaded before any thread begins

        def work(parts: list[_Part]) -> list[Found]:
            return [lane.run(start, stop, fed, first) for lane, first in parts]

        if self._pool is None:
            return Found.of_all(work(plan[0]))
        others = [self._pool.submit(work, parts) for parts in plan[1:]]
        try:
            found = work(plan[0])
        finally:
            wait(others)  # an interruption must not leave one running
        for other in others:
            found += other.result()
        return Found.of_all(found)
