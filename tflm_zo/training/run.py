"""The interface of a run, which the trainer drives step by step."""

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


class Run(ABC):
    """A run in a runtime, which starts with the model's initial weights or resumes from a log.

    Attributes:
        total: number of steps of the whole run.
        forwards: number of forward passes of a sample, partial ones included.
        measure_every: steps between measurements, set before the run begins; 0: never.
        spent: forward equivalents of the measurement of the learning rate.
        measurements: measurements so far, in order, including those before the run was resumed.
    """

    total: int
    forwards: int
    measure_every: int = 0
    spent: float = 0.0
    measurements: list[Measurement]

    @property
    @abstractmethod
    def step(self) -> int:
        """Number of complete steps."""

    @property
    def equivalents(self) -> float:
        """Cost of the run so far in forward equivalents: executed multiply-accumulates, updates and the
        measured learning rate included, divided by those of one sample's complete forward pass.
        """
        return self.spent + self._cost_of_steps()

    @abstractmethod
    def _cost_of_steps(self) -> float:
        """Returns the forward equivalents of the complete steps."""

    @abstractmethod
    def begin(self) -> None:
        """Restores the model's initial weights."""

    @abstractmethod
    def resume(self, log: Path) -> int | None:
        """Restores the weights and the state that a log records.

        Returns:
            Length of the valid part of the log, for `open_log`.

        Raises:
            IncompleteHeaderError: the log ends before its first step.
            LogError: the log is of another model or run.
        """

    @abstractmethod
    def resumed_losses(self, first: int) -> NDArray[np.float64]:
        """Returns the mean losses, nats or `ZoLoss.unit`, of the steps from `first` to the point of
        resumption; empty if the run was not resumed.
        """

    @abstractmethod
    def open_log(self, log: Path, kept: int | None, *, replace: bool, sync_every: float | None) -> None:
        """Opens the log for writing.

        Args:
            log: path of the log.
            kept: length that `resume` returned; None creates a new log, 0 overwrites it.
            replace: True if a new log may replace an existing one.
            sync_every: seconds between two syncs to the disk; 0: after each step; None: at the end.
        """

    @property
    @abstractmethod
    def has_log(self) -> bool:
        """Returns whether a log is open."""

    @abstractmethod
    def advance(self) -> StepReport:
        """Runs one step and appends it to the log."""

    @abstractmethod
    def evaluate(self, data: Data) -> Evaluation:
        """Evaluates the weights after the last complete step. Call `settle` first."""

    @abstractmethod
    def add_measurement(self, measurement: Measurement) -> None:
        """Appends a measurement of the weights after the last complete step to the log."""

    @abstractmethod
    def best_state(self) -> tuple[Measurement, Arrays, Arrays] | None:
        """Returns the best measurement in the log of a resumed run, with its weights and fractions; None
        without one.
        """

    def check_measured_data(self, checksum: int) -> None:
        """Raises LogError if a resumed run measured other data."""
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
        """Updates the runtime's weights to those after the last complete step."""

    @abstractmethod
    def roll_back(self) -> None:
        """Restores the weights and the log of the last complete step after an interruption."""

    @abstractmethod
    def close_log(self) -> None:
        """Syncs the log to the disk and closes it."""

    @abstractmethod
    def log_bytes(self) -> bytes:
        """Returns the log up to the last complete step."""

    @abstractmethod
    def steps_of_copy(self, log: Path) -> int:
        """Returns the number of steps in an earlier copy of this run's log.

        Raises:
            LogError: the file is no copy of this run's log.
            OSError: the file cannot be read.
        """
