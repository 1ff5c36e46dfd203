# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""A client of a fleet: its weights, its data, and what it answers."""

from __future__ import annotations

import numpy as np

from ..converters import Model
from ..core import Control
from ..data import Labels, Samples, prepare
from ..runtime import load
from ..training.costs import block_segments
from ..training.evaluation import Evaluation, evaluate
from ..training.executors import LocalExecutor
from .answer import Answer
from .position import Position

__all__ = ["Replica"]


class Replica(Position):
    """A copy of a fleet's run at a client, which answers for each step from data of its own.

    Args:
        model: the ZO model.
        header: header of the run's seed log, 132 bytes.
        x: samples, as `Trainer.fit` takes them.
        y: labels, as `Trainer.fit` takes them.
        runtime: name of the runtime that runs the model.
        threads: number of threads, which change no bit.

    Raises:
        FleetError: see `Position`.
        DataError: the data do not fit the model.
    """

    def __init__(
        self,
        model: Model,
        header: bytes,
        x: Samples,
        y: Labels | None = None,
        runtime: str = "litert",
        threads: int = 1,
    ) -> None:
        self.runtime = load(model, runtime, threads=threads)
        metadata = self.runtime.metadata
        super().__init__(model, header, self.runtime.all_weight_views())
        self._control = Control(self.settings, metadata.command_words, block_segments(metadata))
        data = prepare(self.runtime, x, y)
        self._executor = LocalExecutor(self.runtime, self._control, list(data.inputs), data.labels)

    def answer(self) -> Answer:
        """Evaluates the queries of the next step on the client's own minibatch. The weights are the same
        after it.

        Raises:
            ValueError: the run is over.
        """
        control = self._control
        control.resume(self.step, self.mean_square)
        loss, report, executed = 0, None, False
        try:
            while report is None:
                request = control.next()
                if request is None:
                    raise ValueError("the run is over")
                executed = True
                losses = self._executor.losses(request, request.start_segment)
                loss += int(losses.sum(dtype=np.int64))
                report, executed = control.report(losses), False
        except BaseException:
            self.runtime.execute(control.abandon(executed=executed))
            raise
        finally:
            self._executor.end_step()
        self.runtime.execute(control.withdraw(self.mean_square))
        s = self.settings
        return Answer(self.step, control.differences, loss, int(s.batch * s.parts))

    def evaluate(self, x: Samples, y: Labels | None = None) -> Evaluation:
        """Evaluates the weights on samples, as `Trainer.evaluate` takes them."""
        return evaluate(self.runtime, prepare(self.runtime, x, y))
