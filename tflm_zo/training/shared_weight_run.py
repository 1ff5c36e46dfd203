# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""A run of weight perturbation whose invokes are shared by workers."""

from __future__ import annotations

import itertools
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
from .shares import Shares
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
        self._shares = Shares(workers, self._steps_since)
        self._settled = 0  # whole steps that are in this runtime's weights
        self._follower = Follower(runtime, model, self._control.settings)

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
        for losses in itertools.chain.from_iterable(self._shares.divide("losses", self.invokes, self.step)):
            self._control.next()
            self.forwards += self._invokes.samples
            report = self._control.report(losses)
        assert report is not None  # of the step's last invoke
        self._keep_step()
        return report

    def evaluate(self, data: Data) -> Evaluation:
        """Evaluates the weights after the last whole step."""
        return self._shares.evaluate(data, self.step)

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
