# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""Callbacks watch a run, and may stop it."""

from __future__ import annotations

import csv
import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from ..io.files import NewFile

if TYPE_CHECKING:
    from .trainer import Trainer

__all__ = ["CSVLogger", "Callback", "EarlyStopping", "ProgressBar"]


class Callback:
    """Base class of callbacks; a method that sets `trainer.stop_training` ends the run after the step."""

    def on_train_begin(self, trainer: Trainer, steps: int) -> None:
        """Is called before the first step, with the number of steps of the whole run."""

    def on_step_end(self, trainer: Trainer, step: int, logs: dict[str, float]) -> None:
        """Is called after each step; logs has its "loss" and "rate"."""

    def on_epoch_end(self, trainer: Trainer, epoch: int, logs: dict[str, float]) -> None:
        """Is called after each epoch; logs has the values that the history gets."""

    def on_train_end(self, trainer: Trainer) -> None:
        """Is called after the last step, also of an interrupted run."""


class CSVLogger(Callback):
    """Writes a CSV file with a line for each epoch: its number and the history's values.

    Args:
        path: path of the file, which is replaced; a resumed run keeps the lines of the epochs before.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._path = path
        self._new: NewFile | None = None
        self._file: TextIO | None = None
        self._writer: csv.DictWriter[str] | None = None
        self._before: list[dict[str, str]] = []

    def on_train_begin(self, trainer: Trainer, steps: int) -> None:
        """Reads the lines that a resumed run keeps."""
        self._before = []
        if trainer.step and os.path.exists(self._path):
            epochs = trainer.step // trainer.steps_per_epoch
            with open(self._path, newline="", encoding="utf-8") as file:
                rows = list(csv.DictReader(file))
            # The last line may be cut short.
            whole = [row for row in rows if None not in row.values() and row["epoch"].isdecimal()]
            self._before = [row for row in whole if int(row["epoch"]) < epochs]

    def on_epoch_end(self, trainer: Trainer, epoch: int, logs: dict[str, float]) -> None:
        """Writes the epoch's line, and the header before the first one."""
        if self._writer is None:
            self._new = NewFile(Path(self._path))
            self._file = open(self._new.file.fileno(), "w", newline="", encoding="utf-8", closefd=False)
            self._writer = csv.DictWriter(self._file, ["epoch", *logs], extrasaction="ignore")
            self._writer.writeheader()
            self._writer.writerows(self._before)
            # The old file is replaced when all lines that are kept of it have been written.
            self._file.flush()
            self._new.publish(replace=True)
        assert self._file is not None
        self._writer.writerow({"epoch": epoch, **logs})
        self._file.flush()

    def on_train_end(self, trainer: Trainer) -> None:
        """Closes the file."""
        if self._file is not None and self._new is not None:
            try:
                self._file.close()
            finally:
                self._new.discard()
                self._file, self._new, self._writer = None, None, None


class EarlyStopping(Callback):
    """Stops a run when a value has not improved for `patience` epochs.

    Args:
        monitor: the value: "val_loss", "loss" (lower is better) or "val_accuracy" (higher is better).
        patience: number of epochs without an improvement, >= 1.
        min_delta: smallest change that counts as an improvement.
    """

    def __init__(self, monitor: str = "val_loss", patience: int = 5, min_delta: float = 0.0) -> None:
        if patience < 1:
            raise ValueError(f"patience: expected at least 1, got {patience}")
        self._monitor, self._patience, self._min_delta = monitor, patience, min_delta
        self._best, self._waited = float("-inf"), 0

    def on_train_begin(self, trainer: Trainer, steps: int) -> None:
        """Forgets the values of the last run."""
        self._best, self._waited = float("-inf"), 0

    def on_epoch_end(self, trainer: Trainer, epoch: int, logs: dict[str, float]) -> None:
        """Counts the epochs since the last improvement."""
        if self._monitor not in logs:
            raise ValueError(f"monitor: no {self._monitor!r}; there are {', '.join(logs)}")
        value = logs[self._monitor] if self._monitor.endswith("accuracy") else -logs[self._monitor]
        if value > self._best + self._min_delta:
            self._best, self._waited = value, 0
        else:
            self._waited += 1
            trainer.stop_training = trainer.stop_training or self._waited >= self._patience


class ProgressBar(Callback):
    """Draws a bar: step, forward equivalents, loss, validation accuracy, equivalents per second, time left.

    Args:
        console: console on which the bar is drawn; None: stderr.
    """

    def __init__(self, console: Console | None = None) -> None:
        # In a notebook rich's own bars are widgets, of a package that few have.
        self._console = console or Console(stderr=True, force_jupyter=False)

    def on_train_begin(self, trainer: Trainer, steps: int) -> None:
        """Starts to draw the bar."""
        self._progress = Progress(
            TextColumn("step {task.completed:>6.0f}/{task.total:.0f}"),
            BarColumn(),
            TextColumn("{task.fields[equivalents]:,.0f} equivalents"),
            TextColumn("loss {task.fields[loss]:.5g}"),
            TextColumn("{task.fields[accuracy]}"),
            TextColumn("{task.fields[speed]:,.0f} equivalents/s"),
            TimeRemainingColumn(compact=True),
            console=self._console,
        )
        self._begin, self._before, self._loss = time.perf_counter(), trainer.equivalents, 0.0
        self._task = self._progress.add_task(
            "",
            total=steps,
            completed=trainer.step,
            equivalents=trainer.equivalents,
            loss=0.0,
            accuracy="",
            speed=0.0,
        )
        self._progress.start()

    def on_step_end(self, trainer: Trainer, step: int, logs: dict[str, float]) -> None:
        """Moves the bar on by a step."""
        self._loss = logs["loss"] if self._loss == 0.0 else 0.95 * self._loss + 0.05 * logs["loss"]
        speed = (trainer.equivalents - self._before) / (time.perf_counter() - self._begin + 1e-9)
        self._progress.update(
            self._task,
            completed=step + 1,
            equivalents=trainer.equivalents,
            loss=self._loss,
            speed=speed,
        )

    def on_epoch_end(self, trainer: Trainer, epoch: int, logs: dict[str, float]) -> None:
        """Shows the accuracy on the validation data."""
        if "val_accuracy" in logs:
            self._progress.update(self._task, accuracy=f"val {100 * logs['val_accuracy']:.1f} %")

    def on_train_end(self, trainer: Trainer) -> None:
        """Leaves the last state on the screen."""
        self._progress.stop()
