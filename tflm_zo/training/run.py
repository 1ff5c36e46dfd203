# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""The interface of a run over training data, step by step, that the trainer needs of an algorithm."""

from __future__ import annotations

from abc import ABC, abstractmethod
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ..core import Measurement, StepReport
from ..data import Data
from ..logs import LogError
from ..logs.replay import Arrays
from .evaluation import Evaluation

__all__ = ["Run"]


class Run(ABC):
    """One run in a runtime, from the weights that the model starts with or from a log.

    Attributes:
        total: number of steps of the whole run.
        forwards: samples that were passed through the network, whole or from some segment on.
        measure_every: steps between measurements, set before the run begins; 0: never.
        spent: forward equivalents that were paid before the first step, for measured learning rates.
        measurements: measurements after some of the whole steps, in order, those before the run was resumed
            included.
    """

    total: int
    forwards: int
    measure_every: int = 0
    spent: float = 0.0
    measurements: list[Measurement]

    @property
    @abstractmethod
    def step(self) -> int:
        """Whole steps done."""

    @property
    def equivalents(self) -> float:
        """Cost of measured learning rates and of the whole steps, those before the run was resumed included,
        in forward equivalents: multiply-accumulates that are executed, those of updates included, divided by
        those of one sample's whole forward pass.
        """
        return self.spent + self._cost_of_steps()

    @abstractmethod
    def _cost_of_steps(self) -> float:
        """Forward equivalents of the whole steps, and of what they need of the network before them."""

    @abstractmethod
    def begin(self) -> None:
        """Sets the weights that the model starts with."""

    @abstractmethod
    def resume(self, log: Path) -> int | None:
        """Sets weights and state to what a log leads to.

        Returns:
            Length of the log that is kept, for `open_log`.

        Raises:
            IncompleteHeaderError: the log ends before its first step.
            LogError: the log is of another model or run.
        """

    @abstractmethod
    def resumed_losses(self, first: int) -> NDArray[np.float64]:
        """Mean losses, nats or `ZoLoss.unit`, of the steps from `first` on that were done before the run was
        resumed; none where it was not.
        """

    @abstractmethod
    def open_log(self, log: Path, kept: int | None, *, replace: bool, sync_every: float | None) -> None:
        """Opens the log for the steps to come.

        Args:
            log: path of the log.
            kept: length that `resume` returned; None for a new log, 0 to write it anew.
            replace: True if a new log may replace an existing one.
            sync_every: seconds between two syncs to the disk; 0: after each step; None: at the end.
        """

    @property
    @abstractmethod
    def has_log(self) -> bool:
        """Returns whether a log is open."""

    @abstractmethod
    def advance(self) -> StepReport:
        """Does one step and writes it to the log."""

    @abstractmethod
    def evaluate(self, data: Data) -> Evaluation:
        """Evaluates the weights after the last whole step, which `settle` has made the runtime's."""

    @abstractmethod
    def add_measurement(self, measurement: Measurement) -> None:
        """Writes what was measured of the weights after the last whole step into the log."""

    @abstractmethod
    def best_state(self) -> tuple[Measurement, Arrays, Arrays] | None:
        """Returns the best measurement whose weights the log of a resumed run has, and these weights."""

    def check_measured_data(self, checksum: int) -> None:
        """Raises LogError where a run that was resumed has measured data of another checksum."""
        if any(m.data_checksum != checksum for m in self.measurements):
            raise LogError(
                "the log is of a run that measured other data: give the same --validation, or the same "
                "training data and --held-out"
            )

    def _check_interval(self, every: int) -> None:
        if every != self.measure_every:
            kept = "keeps its last state" if every == 0 else "keeps the best state that it measures"
            raise LogError(f"the log is of a run that {kept}, or measures at other steps: give the same keep")

    @abstractmethod
    def settle(self) -> None:
        """Makes the runtime's weights those after the last whole step."""

    @abstractmethod
    def roll_back(self) -> None:
        """Goes back to the weights and the log of the last whole step, after an interruption anywhere."""

    @abstractmethod
    def close_log(self) -> None:
        """Brings the log to the disk and closes it."""

    @abstractmethod
    def log_bytes(self) -> bytes:
        """The log up to the last whole step, from which the run can be resumed and its weights rebuilt."""

    @abstractmethod
    def steps_of_copy(self, log: Path) -> int:
        """Steps that an earlier copy of this run's log leads to.

        Raises:
            LogError: the file is no copy of this run's log.
            OSError: the file cannot be read.
        """
