"""The progress of a run, for callbacks, and its history."""

from __future__ import annotations

import array
import os
from dataclasses import dataclass, field
from pathlib import Path

from ..converters import Model
from ..data import Labels, Samples, prepare
from ..io.files import write_output
from ..runtime import Runtime
from .evaluation import evaluate
from .run import Run
from .settings import Settings


@dataclass(repr=False)
class History:
    """History of a run, like Keras' History: `history` maps a name to its values."""

    #: values of each epoch: "loss" (mean training loss, nats or the output's unit squared), "rate" (the last step's
    #: learning rate), "equivalents" (forward equivalents of the run until then) and, with validation data, "val_loss"
    #: and "val_accuracy" (not for the mean squared error, nor for samples of one class alone, for which one constant
    #: answer is right).
    history: dict[str, list[float]] = field(default_factory=dict)
    #: measurements of the run's weights, in order, those before it was resumed included: "step", "loss" and, where
    #: "val_accuracy" would be given, "accuracy", on the validation data or, without them, on the training data; empty
    #: with keep="last".
    measurements: list[dict[str, float]] = field(default_factory=list)
    #: step of the weights that were kept; 0: the initial weights. With keep="best" they have the highest measured
    #: accuracy and, among equals, the smallest loss.
    kept_step: int = 0
    forwards: int = 0  #: number of forward passes of a sample in training, partial ones included; without validation.
    equivalents: float = 0.0  #: cost of the run in forward equivalents, see `Trainer`.
    seconds: float = 0.0  #: duration of the run, validation and callbacks included.
    # 8 bytes a step: a run may have millions.
    _losses: array.array[float] = field(default_factory=lambda: array.array("d"), compare=False)

    def __repr__(self) -> str:
        losses = self.history.get("loss", [])
        change = f", loss {losses[0]:.4g} -> {losses[-1]:.4g}" if losses else ""
        return f"<History: {len(losses)} epochs{change}, weights of step {self.kept_step} kept>"

    @property
    def steps(self) -> list[float]:
        """Mean loss of each step of this call of `fit`, in nats or the output's unit squared."""
        return self._losses.tolist()

    def append_step(self, loss: float) -> None:
        """Adds one step's mean loss."""
        self._losses.append(loss)

    def append(self, **values: float) -> None:
        """Adds one epoch's values."""
        for name, value in values.items():
            self.history.setdefault(name, []).append(value)


class RunProgress:
    """Progress of a run, which callbacks read.

    Attributes:
        model: the ZO model that is trained, to which the log belongs.
        settings: settings of the run, as they were given.
        total: number of steps of the whole run.
        steps_per_epoch: number of steps in an epoch.
        measured_rate: learning rate that the run measured, LSB; None where it was given or chosen.
        log: path of the run's log, or None.
        stopped: True if the run ends after this step.
    """

    def __init__(
        self,
        run: Run,
        runtime: Runtime,
        model: Model,
        settings: Settings,
        *,
        samples: int,
        log: Path | None,
        measured_rate: float | None,
    ) -> None:
        self._run, self._runtime = run, runtime
        self.model, self.settings, self.log, self.measured_rate = model, settings, log, measured_rate
        self.total, self.stopped = run.total, False
        self.steps_per_epoch = settings.steps_per_epoch(samples)

    @property
    def step(self) -> int:
        """Number of complete steps, including those before the run was resumed."""
        return self._run.step

    @property
    def epoch(self) -> int:
        """Number of the epoch that the last step belongs to, counted from 0."""
        return max(self.step - 1, 0) // self.steps_per_epoch

    @property
    def equivalents(self) -> float:
        """Cost of the complete steps in forward equivalents, see `Trainer`."""
        return self._run.equivalents

    def stop(self) -> None:
        """Ends the run after this step."""
        self.stopped = True

    def evaluate(self, x: Samples, y: Labels | None = None) -> dict[str, float]:
        """Returns loss and accuracy of the weights after the last complete step, as `Trainer.evaluate` does."""
        data = prepare(self._runtime, x, y)
        self._run.settle()
        return evaluate(self._runtime, data).values()

    def steps_of_copy(self, path: str | os.PathLike[str]) -> int:
        """Returns the steps in a copy of the run's log, before the first step; LogError: it is another file."""
        return self._run.steps_of_copy(Path(path))

    def save_log(self, path: str | os.PathLike[str]) -> None:
        """Copies the run's log up to the last complete step, to a log that can be replayed and resumed from.
        ValueError: the run has no log. OSError: the copy cannot be written; an older file, which a copy replaces, is as
        it was.
        """
        write_output(Path(path), self._run.log_bytes(), force=True)
