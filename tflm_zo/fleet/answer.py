# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""Answers of clients for a step: the differences of their losses."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..core import CSettings

__all__ = ["Answer", "FleetError", "evaluations", "mean_of", "sum_of"]


class FleetError(ValueError):
    """What came is of another model, run, version or step, or damaged; nothing has changed."""


# Of a sample's loss either way, unit 2^-16: what the loss operator's int32 has room for.
_MOST_LOSS = 1 << 31


def evaluations(settings: CSettings) -> int:
    """Returns how often a step passes each sample of its minibatch forward."""
    return int(settings.queries) + 1 if settings.estimator else 2 * int(settings.queries)


@dataclass(frozen=True)
class Answer:
    """A client's answer for a step.

    Attributes:
        step: number of the step.
        differences: L(w + z) - L(w - z) of each query, summed over the client's minibatch (for a one-sided
            estimator L(w + z) - L(w)), int64 [queries], unit 2^-16 nat.
        loss: sum of the losses of all evaluations of the step, unit 2^-16 nat.
        samples: number of samples in the minibatch, >= 1.
    """

    step: int
    differences: NDArray[np.int64]
    loss: int
    samples: int

    def check(self, settings: CSettings, step: int) -> None:
        """Raises FleetError where no client of a run can have answered this for a step."""
        if self.step != step:
            raise FleetError(f"an answer for step {self.step}, where step {step} is asked for")
        if self.differences.shape != (settings.queries,):
            raise FleetError(
                f"an answer of {self.differences.size} differences for {settings.queries} queries"
            )
        if self.samples < 1:
            raise FleetError(f"an answer of {self.samples} samples")
        most = 2 * _MOST_LOSS * self.samples
        wrong = [int(d) for d in self.differences if not -most <= d <= most]
        if wrong:
            raise FleetError(f"a difference of {wrong[0] / 65536:g} nats of {self.samples} samples")
        if abs(self.loss) > _MOST_LOSS * self.samples * evaluations(settings):
            raise FleetError(f"a sum of losses of {self.loss / 65536:g} nats of {self.samples} samples")


def sum_of(answers: Sequence[Answer]) -> Answer:
    """The answer of several clients together, for the same step: that of one with all their samples."""
    return Answer(
        answers[0].step,
        np.sum([a.differences for a in answers], axis=0, dtype=np.int64),
        sum(a.loss for a in answers),
        sum(a.samples for a in answers),
    )


def mean_of(answer: Answer, settings: CSettings) -> NDArray[np.float64]:
    """The mean differences and, at the end, the mean loss of an answer, nats, float64 [queries + 1]."""
    loss = answer.loss / evaluations(settings)
    return np.array([*answer.differences, loss]) / 65536 / answer.samples
