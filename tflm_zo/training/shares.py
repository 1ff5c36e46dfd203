# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""What a run divides among workers, and what it tells them before."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import astuple, replace
from typing import Any

import numpy as np

from ..data import Data
from .evaluation import Evaluation
from .workers import Workers

__all__ = ["Shares"]


class Shares:
    """Divides a run's work among workers, each of which holds a replica of it at the weights of a whole step.

    Args:
        workers: workers, which `start` has given the replicas.
        news: function of the number of whole steps that a worker has seen (None: it has just started, or that
            is not known), which returns what leads its replica to the run's last whole step.
    """

    def __init__(self, workers: Workers, news: Callable[[int | None], Any]) -> None:
        self._workers, self._news = workers, news
        self._seen: list[int | None] = [None] * workers.count
        self._data: list[Data | None] = [None] * workers.count  # of which each one has its part

    def divide(self, method: str, count: int, step: int) -> list[Any]:
        """Calls a method of the replicas, each for its part of `count` things.

        Args:
            method: name of the method, which takes news, the first number of its part and the one behind its
                last.
            count: number of things, >= 1.
            step: whole steps of the run, which the replicas have seen then.

        Returns:
            What the methods return, in order.

        Raises:
            WorkersError: workers keep dying.
        """
        ends = self._ends(count)
        return self._call(method, step, len(ends) - 1, lambda worker: (ends[worker], ends[worker + 1]))

    def evaluate(self, data: Data, step: int) -> Evaluation:
        """Evaluates the weights after the last whole step on samples that the workers share. Each one keeps
        its part of the data set that was evaluated last.
        """
        ends = self._ends(len(data))

        def part(worker: int) -> tuple[Data | None]:
            if self._data[worker] is data:
                return (None,)
            return (data.take(np.arange(ends[worker], ends[worker + 1])),)

        found = self._call("evaluate_part", step, len(ends) - 1, part)
        self._data[: len(found)] = [data] * len(found)
        sums = [sum(column) for column in zip(*map(astuple, found), strict=True)]
        return replace(Evaluation(*sums), unit=found[0].unit)

    def _ends(self, count: int) -> list[int]:
        """Where the parts of so many things begin, and where the last one ends."""
        shares = min(self._workers.count, count)
        return [count * k // shares for k in range(shares + 1)]

    def _call(self, method: str, step: int, shares: int, part: Callable[[int], tuple[Any, ...]]) -> list[Any]:
        def call(worker: int) -> tuple[Any, ...]:
            return self._news(self._seen[worker]), *part(worker)

        def call_anew(worker: int) -> tuple[Any, ...]:
            self._seen[worker], self._data[worker] = None, None
            return call(worker)

        try:
            found = self._workers.call(method, [call(k) for k in range(shares)], call_anew)
        except BaseException:  # what the workers have seen of an interrupted call is unknown
            self._seen = [None] * self._workers.count
            self._data = [None] * self._workers.count
            raise
        self._seen[:shares] = [step] * shares
        return found
