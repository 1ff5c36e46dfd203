# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""A run of weight perturbation whose invokes are shared by workers."""

from __future__ import annotations

import itertools
from dataclasses import astuple
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..converters import Model, load_model
from ..core import StepReport
from ..data import Data
from ..runtime import Runtime, load
from .checks import SettingsError
from .evaluation import Evaluation
from .settings import Settings
from .weight_run import WeightRun
from .weight_share import Follower, Steps, WeightShare
from .workers import Workers

__all__ = ["SharedWeightRun"]


class SharedWeightRun(WeightRun):
    """A run of weight perturbation. Each step's invokes are done by workers, each of which has the model, the
    weights and the data; what comes back are losses, from which the control unit makes the step's record as
    if it had done the invokes itself, and what workers are told of a step is its record. So log and weights
    are the same for any number of workers, and for none.

    A worker that dies is replaced. The new one gets the weights that this run keeps, at most 4,096 steps old,
    and the records since.

    Args:
        runtime: runtime with the loaded model, for evaluations.
        model: model that the runtime has loaded.
        settings: settings of the run.
        total: number of steps.
        inputs: all training samples, one array per input.
        labels: labels of all samples.
        workers: workers, which this run starts.

    Attributes:
        invokes: invokes of a step, which workers divide among them.

    Raises:
        SettingsError: steps are sharpness-aware, so that what an invoke perturbs depends on the one before.
    """

    def __init__(
        self,
        runtime: Runtime,
        model: Model,
        settings: Settings,
        total: int,
        inputs: list[NDArray[Any]],
        labels: NDArray[Any],
        workers: Workers,
    ) -> None:
        super().__init__(runtime, model, settings, total, inputs, labels)
        if settings.weights.sharpness:
            raise SettingsError(
                "workers: sharpness-aware invokes depend on the losses of those before; train without workers"
            )
        self.invokes = self._count_invokes()
        workers.start(_make_share, model.to_bytes(), runtime.name, settings, total, inputs, labels)
        self._workers = workers
        # The whole steps that are in the weights of each worker, and of this runtime; None: of a worker that
        # has just started.
        self._seen: list[int | None] = [None] * workers.count
        self._settled = 0
        self._follower = Follower(runtime, model, self._control.settings)
        self._data: tuple[Data, Any] | None = None  # that was evaluated last, and where the workers find it

    def _count_invokes(self) -> int:
        nothing, count = np.zeros(self._invokes.samples, np.int32), 1
        self._control.next()
        while self._control.report(nothing) is None:
            self._control.next()
            count += 1
        self._control.resume(0, 0)
        return count

    def begin(self) -> None:
        """Sets the weights that the model starts with."""
        super().begin()
        self._settled = 0

    def resume(self, log: Path) -> int | None:
        """Sets weights and state to what a log leads to."""
        kept = super().resume(log)
        self._settled = self.step
        return kept

    def advance(self) -> StepReport:
        """Does one step and writes it to the log."""
        if self.step == self.total:
            raise ValueError("the run is over")
        report = None
        for losses in itertools.chain.from_iterable(self._divide("losses", self.invokes)):
            self._control.next()
            self.forwards += self._invokes.samples
            report = self._control.report(losses)
        assert report is not None  # of the step's last invoke
        self._keep_step()
        return report

    def evaluate(self, data: Data) -> Evaluation:
        """Evaluates the weights after the last whole step."""
        if self._data is None or self._data[0] is not data:
            self._data = data, self._workers.put(data)
        parts = self._divide("evaluate_part", len(data), self._data[1])
        return Evaluation(*(sum(column) for column in zip(*map(astuple, parts), strict=True)))

    def _divide(self, method: str, count: int, *arguments: Any) -> list[Any]:
        """Calls a method of the workers' shares, each for its part of `count` things."""
        shares = min(self._workers.count, count)
        ends = [count * k // shares for k in range(shares + 1)]

        def call(worker: int) -> tuple[Any, ...]:
            return self._steps_since(self._seen[worker]), *arguments, ends[worker], ends[worker + 1]

        def call_anew(worker: int) -> tuple[Any, ...]:
            self._seen[worker] = None
            return call(worker)

        found = self._workers.call(method, [call(k) for k in range(shares)], call_anew)
        self._seen[:shares] = [self.step] * shares
        return found

    def _steps_since(self, seen: int | None) -> Steps:
        """What leads from the weights after so many steps to those after the last whole one."""
        begin, first, done = self._base
        mean_square = int(self._control.struct.mean_square)
        if seen is not None and seen >= first:
            return Steps(seen, done[seen - first :], mean_square)
        return Steps(first, done, mean_square, begin)

    def settle(self) -> None:
        """Makes the runtime's weights those after the last whole step."""
        self._follower.take(self._steps_since(self._settled))
        self._settled = self.step

    def roll_back(self) -> None:
        """Goes back to the weights and the log of the last whole step, after an interruption anywhere."""
        super().roll_back()
        self._settled = self.step


def _make_share(
    model: bytes,
    runtime: str,
    settings: Settings,
    total: int,
    inputs: list[NDArray[Any]],
    labels: NDArray[Any],
) -> WeightShare:
    loaded = load_model(model)
    return WeightShare(load(loaded, runtime), loaded, settings, total, inputs, labels)
