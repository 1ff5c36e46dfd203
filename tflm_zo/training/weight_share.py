# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""A worker's share of a run of weight perturbation: some invokes of each step, and every step's record."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..converters import Model
from ..core import CSettings, without_losses
from ..data import Data
from ..logs import Log
from ..logs.replay import Arrays, Replay
from ..runtime import Runtime
from .evaluation import Evaluation
from .weight_run import WeightRun

__all__ = ["Follower", "Steps", "WeightShare"]


@dataclass(frozen=True)
class Steps:
    """What leads a worker to the weights after a step: what a seed log has of the steps since it asked last.

    Attributes:
        first: number of the first step of `coefficients`.
        coefficients: of each whole step, one for each query, unit 2^-16 LSB.
        mean_square: the control unit's running mean of d^2 after them, unit 2^-32.
        begin: weights and fractions before step `first`, for a worker that has others; None: it has them, or
            they are the model's own, before step 0.
    """

    first: int
    coefficients: list[list[int]]
    mean_square: int
    begin: tuple[Arrays, Arrays] | None = None


class Follower:
    """Moves a runtime's weights by steps that were put together elsewhere: the same integers as those of an
    update of the graph.

    Args:
        runtime: runtime with the loaded model.
        model: model that the runtime has loaded.
        settings: settings of the run.
    """

    def __init__(self, runtime: Runtime, model: Model, settings: CSettings) -> None:
        self._runtime, self._settings = runtime, settings
        views = {t.name: runtime.weight_views(t.name) for t in runtime.metadata.trainable}
        weights = {name: own for name, (own, _) in views.items()}
        fractions = {name: own for name, (_, own) in views.items() if own is not None}
        self._replay = Replay(model, (weights, fractions))

    def take(self, steps: Steps) -> None:
        """Moves the weights to where steps lead."""
        if steps.begin is not None:
            self._runtime.write_weights(*steps.begin)
        elif not steps.first:
            self._runtime.execute(self._runtime.command(loss=False).restore())
        if steps.coefficients:
            self._replay.add(Log.from_steps(self._settings, b"", steps.coefficients, steps.first))


class WeightShare(WeightRun):
    """A replica of a run, at weights of whole steps. It does those invokes of a step that it is told to, and
    moves its weights by the records of steps that were put together elsewhere. See `WeightRun` for arguments.
    """

    _follower: Follower | None = None
    _evaluated: Data  # by the last call of `evaluate_part`

    def losses(self, steps: Steps, first: int, last: int) -> list[NDArray[np.int32]]:
        """Losses of the samples of some invokes of the step that comes after `steps`.

        Args:
            steps: what has happened since this was called last.
            first: number of the first invoke within the step.
            last: number behind the last one, > `first`.

        Returns:
            Of each invoke: int32 [samples], unit 2^-16. The weights are those before the step again.
        """
        self._take(steps)
        found: list[NDArray[np.int32]] = []
        nothing = np.zeros(self._invokes.samples, np.int32)
        for number in range(last):
            request = self._control.next()
            assert request is not None  # a step has that many
            if number < first:  # its moves are on the way to the share's own
                self._runtime.execute(without_losses(request.words))
            else:
                # The invoke before the first one has left nothing to start from.
                found.append(self._invokes.losses(request, request.start_segment if found else 0).copy())
            if number + 1 < last:
                self._control.report(nothing)
        self._runtime.execute(self._control.abandon(executed=True))
        self._invokes.end_step()
        return found

    def evaluate_part(self, steps: Steps, data: Data | None) -> Evaluation:
        """Evaluates the weights after `steps` on samples; None: on those of the last call."""
        self._take(steps)
        if data is not None:
            self._evaluated = data
        return self.evaluate(self._evaluated)

    def _take(self, steps: Steps) -> None:
        if self._follower is None:
            self._follower = Follower(self._runtime, self._model, self._control.settings)
        self._follower.take(steps)
        self._control.resume(steps.first + len(steps.coefficients), steps.mean_square)
