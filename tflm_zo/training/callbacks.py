"""Callbacks, which follow the progress of a run and can stop it."""

from __future__ import annotations

import csv
import os
import time
from pathlib import Path
from typing import Any, TextIO

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from ..io.errors import SettingsError
from ..io.files import NewFile
from ..logs import LogError
from .progress import RunProgress


class Callback:
    """Base class of callbacks; a method that calls `progress.stop()` ends the run after the step."""

    def on_train_begin(self, progress: RunProgress) -> None:
        """Is called before the first step."""

    def on_step_end(self, progress: RunProgress, logs: dict[str, float]) -> None:
        """Is called after each step; logs has its "loss" and "rate"."""

    def on_epoch_end(self, progress: RunProgress, logs: dict[str, float]) -> None:
        """Is called after each epoch; logs has the values of the history."""

    def on_train_end(self, progress: RunProgress) -> None:
        """Is called after the last step, also of an interrupted run."""


class CSVLogger(Callback):
    """Writes a CSV file with a line for each epoch: its number and the history's values.

    Args:
        path: path of the file, which is replaced. A resumed run keeps the lines of earlier epochs.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._path = path
        self._new: NewFile | None = None
        self._file: TextIO | None = None
        self._writer: csv.DictWriter[str] | None = None
        self._before: list[dict[str, str]] = []

    def on_train_begin(self, progress: RunProgress) -> None:
        """Reads the lines that a resumed run keeps."""
        self._before = []
        if progress.step and os.path.exists(self._path):
            epochs = progress.step // progress.steps_per_epoch
            with open(self._path, newline="", encoding="utf-8") as file:
                rows = list(csv.DictReader(file))
            # The last line may be cut short.
            whole = [row for row in rows if None not in row.values() and row["epoch"].isdecimal()]
            self._before = [row for row in whole if int(row["epoch"]) < epochs]

    def on_epoch_end(self, progress: RunProgress, logs: dict[str, float]) -> None:
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
        self._writer.writerow({"epoch": progress.epoch, **logs})
        self._file.flush()

    def on_train_end(self, progress: RunProgress) -> None:
        """Closes the file."""
        if self._file is not None and self._new is not None:
            try:
                self._file.close()
            finally:
                self._new.discard()
                self._file, self._new, self._writer = None, None, None


class Checkpoint(Callback):
    """Copies the run's log, whole or not at all.

    The copy is a normal log: ``tflm-zo replay`` makes a model from it, and a run can resume from it. It does
    not change the final weights, which `keep` of `Trainer.fit` selects.

    Args:
        path: path of the copy; later copies replace it. The file must not exist when a run begins, unless the
            run is resumed or `replace` is set.
        every: number of epochs between two copies, >= 1.
        replace: True if the run may begin although the file exists.

    Raises:
        ValueError: `every` is out of range, or the run has no log.
        FileExistsError: the file exists when the run begins.
        LogError: the file is no checkpoint of the resumed run.
        OSError: the copy cannot be written.
    """

    def __init__(self, path: str | os.PathLike[str], *, every: int = 1, replace: bool = False) -> None:
        if every < 1:
            raise SettingsError("every", "be at least 1", every)
        self._path, self._every, self._replace = Path(path), every, replace

    def on_train_begin(self, progress: RunProgress) -> None:
        """Reads the checkpoint of a resumed run."""
        if progress.log is None:
            raise ValueError("a checkpoint is a copy of the log: give fit a log")
        there = self._path.exists()
        if there and not progress.step and not self._replace:
            raise FileExistsError(f"{self._path} exists; choose another name or ask to replace it")
        kept = 0
        if there and progress.step:
            try:
                kept = progress.steps_of_copy(self._path)
            except LogError as error:
                raise LogError(f"{self._path} is no checkpoint of this run; choose another name") from error
        # The run may have been killed after an epoch's last step and before its checkpoint.
        epochs, within = divmod(progress.step, progress.steps_per_epoch)
        if progress.step > kept and not within and not epochs % self._every:
            progress.save_log(self._path)

    def on_epoch_end(self, progress: RunProgress, logs: dict[str, float]) -> None:
        """Copies the log."""
        if (progress.epoch + 1) % self._every == 0:
            progress.save_log(self._path)


class EarlyStopping(Callback):
    """Stops a run when a value has not improved for `patience` epochs.

    Args:
        monitor: the value: "val_loss", "loss" (lower is better) or "val_accuracy" (higher is better).
        patience: number of epochs without an improvement, >= 1.
        min_delta: smallest change that counts as an improvement.
    """

    def __init__(self, monitor: str = "val_loss", patience: int = 5, min_delta: float = 0.0) -> None:
        if patience < 1:
            raise SettingsError("patience", "be at least 1", patience)
        self._monitor, self._patience, self._min_delta = monitor, patience, min_delta
        self._best, self._waited = float("-inf"), 0

    def on_train_begin(self, progress: RunProgress) -> None:
        """Forgets the values of the last run."""
        self._best, self._waited = float("-inf"), 0

    def on_epoch_end(self, progress: RunProgress, logs: dict[str, float]) -> None:
        """Counts the epochs since the last improvement."""
        if self._monitor not in logs:
            raise SettingsError("monitor", f"be one of {', '.join(logs)}", self._monitor)
        value = logs[self._monitor] if self._monitor.endswith("accuracy") else -logs[self._monitor]
        if value > self._best + self._min_delta:
            self._best, self._waited = value, 0
        else:
            self._waited += 1
            if self._waited >= self._patience:
                progress.stop()


class ProgressBar(Callback):
    """Draws a bar: step, forward equivalents, loss, validation accuracy, equivalents per second, time left.

    Args:
        console: console on which the bar is drawn; None: stderr.
    """

    def __init__(self, console: Console | None = None) -> None:
        # In a notebook rich's own bars are widgets, of a package that few have.
        self._console = console or Console(stderr=True, force_jupyter=False)

    def on_train_begin(self, progress: RunProgress) -> None:
        """Starts the bar."""
        self._bar = Progress(
            TextColumn("step {task.completed:>6.0f}/{task.total:.0f}"),
            BarColumn(),
            TextColumn("{task.fields[equivalents]:,.0f} equivalents"),
            TextColumn("loss {task.fields[loss]:.5g}"),
            TextColumn("{task.fields[accuracy]}"),
            TextColumn("{task.fields[speed]:,.0f} equivalents/s"),
            TimeRemainingColumn(compact=True),
            console=self._console,
        )
        self._begin, self._before, self._loss = time.perf_counter(), progress.equivalents, 0.0
        self._task = self._bar.add_task(
            "",
            total=progress.total,
            completed=progress.step,
            equivalents=progress.equivalents,
            loss=0.0,
            accuracy="",
            speed=0.0,
        )
        self._bar.start()

    def on_step_end(self, progress: RunProgress, logs: dict[str, float]) -> None:
        """Advances the bar by a step."""
        self._loss = logs["loss"] if self._loss == 0.0 else 0.95 * self._loss + 0.05 * logs["loss"]
        speed = (progress.equivalents - self._before) / (time.perf_counter() - self._begin + 1e-9)
        self._bar.update(
            self._task, completed=progress.step, equivalents=progress.equivalents, loss=self._loss, speed=speed
        )

    def on_epoch_end(self, progress: RunProgress, logs: dict[str, float]) -> None:
        """Shows the accuracy on the validation data."""
        if "val_accuracy" in logs:
            self._bar.update(self._task, accuracy=f"val {100 * logs['val_accuracy']:.1f} %")

    def on_train_end(self, progress: RunProgress) -> None:
        """Stops the bar."""
        self._bar.stop()


class TensorBoard(Callback):
    """Writes event files for TensorBoard: `loss`, `rate` and `equivalents` (forward equivalents of the run
    until then) of steps, and the history's values of epochs as `epoch/…`, `epoch/val_accuracy` among them.

    It needs the package tensorboardX, of the extra ``tflm_zo[tensorboard]``, and no TensorFlow.

    Args:
        folder: folder of the event files. A resumed run overwrites entries of the same steps.
        every: steps between two entries, >= 1.

    Raises:
        ImportError: tensorboardX is not installed.
        ValueError: `every` is out of range.
    """

    def __init__(self, folder: str | os.PathLike[str], *, every: int = 1) -> None:
        if every < 1:
            raise SettingsError("every", "be at least 1", every)
        try:
            from tensorboardX import SummaryWriter
        except ImportError as error:
            raise ImportError(
                f"TensorBoard needs tensorboardX, which does not import ({error}); install it with: "
                "pip install 'tflm_zo[tensorboard]'"
            ) from error
        self._make, self._folder, self._every = SummaryWriter, os.fspath(folder), every
        self._writer: Any = None

    def on_train_begin(self, progress: RunProgress) -> None:
        """Opens an event file."""
        # Files are named by the second: a run that is resumed at once is to have one of its own.
        suffix = f".{progress.step}"
        self._writer = self._make(self._folder, purge_step=progress.step or None, filename_suffix=suffix)

    def on_step_end(self, progress: RunProgress, logs: dict[str, float]) -> None:
        """Writes the values of the step, if it is one of `every`."""
        if progress.step % self._every == 0:
            self._write("", {**logs, "equivalents": progress.equivalents}, progress.step)

    def on_epoch_end(self, progress: RunProgress, logs: dict[str, float]) -> None:
        """Writes the values of the epoch."""
        self._write("epoch/", logs, progress.step)
        self._writer.flush()

    def on_train_end(self, progress: RunProgress) -> None:
        """Closes the file."""
        self._writer.close()

    def _write(self, prefix: str, values: dict[str, float], step: int) -> None:
        for name, value in values.items():
            self._writer.add_scalar(prefix + name, value, step)
