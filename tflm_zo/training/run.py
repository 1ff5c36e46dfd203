"""The interface of a run, which the trainer drives step by step."""

from __future__ import annotations

from abc import ABC, abstractmethod
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ..converters import Model
from ..core import Control, Measurement, NodeControl, StepReport, is_due
from ..data import Data
from ..logs import Log, LogError, LogWriter, fingerprint
from ..logs.layout import Header
from ..logs.replay import Arrays
from ..runtime import Runtime
from .costs import costs_of
from .evaluation import Evaluation, evaluate
from .lowering import LoweredRun


class Run(ABC):
    """A run in a runtime, which starts with the model's initial weights or resumes from a log.

    Attributes:
        total: number of steps of the whole run.
        forwards: number of forward passes of a sample, partial ones included.
        measure_every: steps between measurements, set before the run begins; 0: never.
        spent: forward equivalents of the measurement of the learning rate.
        measurements: measurements so far, in order, including those before the run was resumed.
    """

    measure_every = 0
    spent = 0.0
    _control: Control | NodeControl

    def __init__(self, runtime: Runtime, model: Model, lowered: LoweredRun) -> None:
        self._runtime, self._model, self._mark, self._lowered = runtime, model, fingerprint(model), lowered
        self._costs = costs_of(lowered.settings, lowered.tasks, model, runtime.metadata)
        self._writer: LogWriter | None = None
        self._resumed_log: Path | None = None
        self.total, self.forwards, self.measurements = int(lowered.settings.steps), 0, list[Measurement]()

    @property
    @abstractmethod
    def step(self) -> int:
        """Number of complete steps."""

    @property
    def equivalents(self) -> float:
        """Cost of the run so far in forward equivalents: executed multiply-accumulates, updates and the
        measured learning rate included, divided by those of one sample's complete forward pass.
        """
        return self.spent + self._costs.until(self.step, int(self._lowered.settings.samples))

    @abstractmethod
    def begin(self) -> None:
        """Restores the model's initial weights."""

    @abstractmethod
    def advance(self) -> StepReport:
        """Runs one step and appends it to the log."""

    def settle(self) -> None:  # noqa: B027 - most runs leave nothing to do
        """Updates the runtime's weights to those after the last complete step."""

    @abstractmethod
    def roll_back(self) -> None:
        """Restores the weights and the log of the last complete step after an interruption."""

    def evaluate(self, data: Data) -> Evaluation:
        """Evaluates the weights after the last complete step. Call `settle` first."""
        return evaluate(self._runtime, data)

    # --- measurements ---------------------------------------------------------------------------------------

    def add_measurement(self, measurement: Measurement) -> None:
        """Appends a measurement of the weights after the last complete step to the log."""
        if self._writer is not None:
            self._writer.append(measurement.to_bytes)
        self.measurements.append(measurement)

    @property
    def measures_now(self) -> bool:
        """True if a measurement is due after the last complete step."""
        return is_due(self.measure_every, self.total, self.step, len(self.measurements))

    @abstractmethod
    def best_state(self) -> tuple[Measurement, Arrays, Arrays] | None:
        """Returns the best measurement in the log of a resumed run, with its weights and fractions, or None."""

    def check_measured_data(self, checksum: int) -> None:
        """Raises LogError if a resumed run measured other data."""
        if any(m.data_checksum != checksum for m in self.measurements):
            raise LogError(
                "the log is of a run that measured other data: give the same --validation, or the same "
                "training data and --held-out"
            )

    # --- log ------------------------------------------------------------------------------------------------

    @abstractmethod
    def _header(self) -> Header:
        """Returns the header of the run's log."""

    @abstractmethod
    def resume(self, log: Path) -> int:
        """Restores the weights and the state that a log records. Returns the length of its valid part, for `open_log`.
        IncompleteHeaderError: the log ends before its first step. LogError: it is of another model or run.
        """

    def resumed_losses(self, first: int) -> NDArray[np.float64]:
        """Returns the mean losses, nats or `ZoLoss.unit`, of steps from `first` on before the run was resumed."""
        if self._resumed_log is None:
            return np.zeros(0)
        parts = Log.parts(self._resumed_log)
        return np.concatenate([p.losses[max(first - p.first_step, 0) :] for p in parts])[: self.step - first]

    @property
    def has_log(self) -> bool:
        """True if a log is open."""
        return self._writer is not None

    def open_log(self, log: Path, kept: int | None, *, replace: bool, sync_every: float | None) -> None:
        """Opens the log for writing: a new one with `kept` None, which `replace` lets replace an old one; or the one
        whose valid length `resume` returned, 0 to overwrite it.
        """
        self._writer = LogWriter(
            log,
            self._header(),
            keep=(self.step, len(self.measurements)) if kept else None,
            replace=replace or kept is not None,
            sync_every=sync_every,
        )

    def close_log(self) -> None:
        """Syncs the log to the disk and closes it."""
        writer, self._writer = self._writer, None
        if writer is not None:
            writer.close()

    def _own_log(self) -> LogWriter:
        if self._writer is None:
            raise ValueError("there is no log to copy: give fit a log")
        return self._writer

    def log_bytes(self) -> bytes:
        """Returns the log up to the last complete step."""
        return self._own_log().whole(self.step, len(self.measurements))

    @abstractmethod
    def steps_of_copy(self, log: Path) -> int:
        """Returns the number of steps in an earlier copy of this run's log; raises LogError for another file."""

    def _check_log(self, log: Log, same: bool) -> None:
        log.check_model(self._model)
        if bytes(log.settings) != bytes(self._control.settings) or not same:
            raise LogError("the log is of a run with other settings, data or number of steps")
        if log.measure_every != self.measure_every:
            kept = "keeps its last state" if not log.measure_every else "keeps the best state that it measures"
            raise LogError(f"the log is of a run that {kept}, or measures at other steps: give the same keep")
