# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""What a run divides among workers, and what it tells them before."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import astuple
from typing import Any

from ..data import Data
from .evaluation import Evaluation
from .workers import Workers

__all__ = ["Shares"]


class Shares:
    """Divides a run's work among workers, each of which holds a replica of it at the weights of a whole step.

    Args:
        workers: workers, which `start` has given the replicas.
        news: function of the number of whole steps that a worker has seen (None: it has just started), which
            returns what leads its replica to the run's last whole step.
    """

    def __init__(self, workers: Workers, news: Callable[[int | None], Any]) -> None:
        self._workers, self._news = workers, news
        self._seen: list[int | None] = [None] * workers.count
        self._data: tuple[Data, Any] | None = None  # that was evaluated last, and where the workers find it

    def divide(self, method: str, count: int, step: int, *arguments: Any) -> list[Any]:
        """Calls a method of the replicas, each for its part of `count` things.

        Args:
            method: name of the method, which takes news, the arguments, the first number of its part and the
                one behind its last.
            count: number of things, >= 1.
            step: whole steps of the run, which the replicas have seen then.
            arguments: further arguments of all calls.

        Returns:
            What the methods return, in order.

        Raises:
            WorkersError: workers keep dying.
        """
        shares = min(self._workers.count, count)
        ends = [count * k // shares for k in range(shares + 1)]

        def call(worker: int) -> tuple[Any, ...]:
            return self._news(self._seen[worker]), *arguments, ends[worker], ends[worker + 1]

        def call_anew(worker: int) -> tuple[Any, ...]:
            self._seen[worker] = None
            return call(worker)

        found = self._workers.call(method, [call(k) for k in range(shares)], call_anew)
        self._seen[:shares] = [step] * shares
        return found

    def evaluate(self, data: Data, step: int) -> Evaluation:
        """Evaluates the weights after the last whole step on samples that the workers share."""
        if self._data is None or self._data[0] is not data:
            self._data = data, self._workers.put(data)
        parts = self.divide("evaluate_part", len(data), step, self._data[1])
        return Evaluation(*(sum(column) for column in zip(*map(astuple, parts), strict=True)))
