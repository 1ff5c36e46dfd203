# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""A layer-wise run whose minibatches are shared by workers."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..converters import Model, load_model
from ..core import NodeRequest, StepReport
from ..data import Data
from ..runtime import Runtime, load
from .checks import SettingsError
from .evaluation import Evaluation
from .node_run import NodeRun
from .node_share import Found, NodeShare, State
from .settings import Settings
from .shares import Shares
from .workers import Workers

__all__ = ["SharedNodeRun"]


class SharedNodeRun(NodeRun):
    """A layer-wise run, such as node perturbation. Workers pass parts of each minibatch forward and ask their
    queries; what comes back is what the C core keeps of these samples, of which this run makes the update as
    if it had passed them forward itself. Such updates depend on data, so that what workers are told of a step
    is the weights that it has led to. Log and weights are the same for any number of workers, and for none.

    Args:
        runtime: see `NodeRun`, like the arguments that are not described here.
        model: see `NodeRun`.
        settings: see `NodeRun`.
        total: see `NodeRun`.
        inputs: see `NodeRun`.
        labels: see `NodeRun`.
        workers: workers, which this run starts.

    Raises:
        SettingsError: minibatches have one part.
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
        self.parts = int(self._control.settings.parts)
        if self.parts == 1:
            raise SettingsError(
                f"workers: they share the batches of a minibatch, and one of {settings.batch_size} samples "
                f"is one batch of the model's {runtime.batch}: choose batch_size={2 * runtime.batch} or more"
            )
        workers.start(_make_share, model.to_bytes(), runtime.name, settings, total, inputs, labels)
        self._shares = Shares(workers, self._news)
        self._state: State | None = None  # after the last whole step that workers have been told of
        self._found: list[Found] = []  # of the step in progress
        self._losses_of: list[NDArray[np.int32]] = []  # its parts

    def _news(self, seen: int | None) -> State | None:
        """What leads a worker from the weights after so many steps to those after the last whole one."""
        if seen == self.step:
            return None
        if self._state is None or self._state.step != self.step:
            control = self._control
            weights = np.concatenate([v.ravel() for v in self._views()])
            self._state = State(self.step, weights, control.states, control.largest_loss)
        return self._state

    def _forward(self, request: NodeRequest) -> None:
        """Takes a part's losses from those that the workers have found, for all parts at the first one."""
        part = request.first_sample // self._runtime.batch % self.parts
        if part == 0:
            self._found = self._shares.divide("parts", self.parts, self.step)
            self._losses_of = [losses for found in self._found for losses in found.losses]
        self.forwards += self._runtime.batch
        self._control.report(self._losses_of[part])

    def _query(self, request: NodeRequest) -> None:
        """Passes over queries, which the workers have asked."""
        self.forwards += self._control.evaluations * self._runtime.batch
        self._pass_over(request)

    def _update(self, request: NodeRequest) -> StepReport | None:
        """Does a task's update; takes what the workers have found before the first one."""
        control, row = self._control, 0
        for found in self._found:
            rows = slice(row, row + len(found.losses) * self._runtime.batch)
            for place, evidence in zip(control.evidence(rows), found.evidence, strict=True):
                place[...] = evidence
            row = rows.stop
        for place, *parts in zip(control.sums, *(found.sums for found in self._found), strict=True):
            place[...] = sum(parts) if parts else place
        self._found = []
        return super()._update(request)

    def evaluate(self, data: Data) -> Evaluation:
        """Evaluates the weights after the last whole step."""
        return self._shares.evaluate(data, self.step)

    def roll_back(self) -> None:
        """Goes back to the weights and the log of the last whole step, after an interruption anywhere."""
        super().roll_back()
        self._state = None


def _make_share(
    model: bytes,
    runtime: str,
    settings: Settings,
    total: int,
    inputs: list[NDArray[Any]],
    labels: NDArray[Any],
) -> NodeShare:
    loaded = load_model(model)
    share = NodeShare(load(loaded, runtime), loaded, settings, total, inputs, labels)
    share.begin()
    return share
