# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""One call of `Trainer.fit`: a run from first to last step, with its log, measurements and callbacks."""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ..data import Data
from ..logs import IncompleteHeaderError, LogWarning
from ..logs.log_file import log_exists
from .best_state import BestState
from .callbacks import Callback
from .history import History
from .missing_classes import covered
from .run import Run

if TYPE_CHECKING:
    from .trainer import Trainer

__all__ = ["Session", "check_log", "prepare_log"]


def check_log(log: str | os.PathLike[str] | None, *, resume: bool, replace: bool) -> None:
    """Checks the arguments of `prepare_log` before anything has changed.

    Raises:
        ValueError: a run is to be resumed, and has no log.
        FileExistsError: a new log would replace another one, and `replace` is not set.
    """
    if log is None:
        if resume:
            raise ValueError("resume: needs a log to go on from")
    elif not resume and not replace and os.path.exists(log):
        raise log_exists(log)


def prepare_log(
    run: Run, log: str | os.PathLike[str] | None, *, resume: bool, replace: bool, sync_every: float | None
) -> Callable[[], None]:
    """Sets weights and control unit to the beginning of a run.

    Args:
        run: run that is to begin or to go on.
        log: path of the run's log, or None.
        resume: True to go on from the log, see `Trainer.fit`.
        replace: True to replace an older log, see `Trainer.fit`.
        sync_every: seconds between two syncs of the log, see `Settings`.

    Returns:
        A function that opens the log, which is not touched before.
    """
    if log is None:
        run.begin()
        return lambda: None
    path = Path(log)

    def opened(kept: int | None) -> Callable[[], None]:
        return lambda: run.open_log(path, kept, replace=replace, sync_every=sync_every)

    if not resume:
        run.begin()
        return opened(None)
    try:
        return opened(run.resume(path))
    except FileNotFoundError:
        warnings.warn(f"{log}: no such log; training from the beginning", LogWarning, stacklevel=4)
        run.begin()
        return opened(None)
    except IncompleteHeaderError as error:
        warnings.warn(f"{error}; training from the beginning", LogWarning, stacklevel=4)
        run.begin()
        return opened(0)


class Session:
    """A run in progress.

    Args:
        trainer: the trainer, whose counters follow the run.
        run: the run, which begins or was resumed.
        validation: samples and labels that are evaluated after each epoch, or None.
        measured: samples and labels that the run's weights are measured on, or None.
        may_end: the run ends before its last step where nothing gets better any more.
    """

    def __init__(
        self, trainer: Trainer, run: Run, validation: Data | None, measured: Data | None, *, may_end: bool
    ) -> None:
        self._trainer, self.run, self._validation, self._may_end = trainer, run, validation, may_end
        self._best = None if measured is None else BestState(trainer.runtime, run, measured)
        self._forwards = trainer.forwards
        self._history = History()

    def train(self, open_log: Callable[[], None], callbacks: Sequence[Callback]) -> History:
        """Does the run's steps; the runtime then has the weights that are handed over.

        Args:
            open_log: function that `prepare_log` returned.
            callbacks: callbacks that are called after every step and epoch.

        Returns:
            The history, also of a run that Ctrl-C or a callback ended.
        """
        trainer, run, begin = self._trainer, self.run, time.perf_counter()
        # A run that begins pays for what it does before its first step, too.
        before = run.equivalents if run.step else 0.0
        self._count()
        begun: list[Callback] = []
        try:
            # A new log is made, and an old one replaced, when the callbacks have nothing against it.
            if run.step:
                open_log()
            for callback in callbacks:
                begun.append(callback)
                callback.on_train_begin(trainer, run.total)
            if not run.has_log:
                open_log()
            self._loop(callbacks)
        except BaseException as error:
            run.roll_back()
            self._count()
            if not isinstance(error, KeyboardInterrupt):
                raise
            trainer.interrupted = True
        finally:
            try:
                run.close_log()
            finally:
                for callback in begun:
                    callback.on_train_end(trainer)
        history = self._history
        history.kept_step = run.step
        if self._best is not None:
            step = self._best.restore()
            history.kept_step = run.step if step is None else step
            history.measurements = self._best.values()
        history.forwards = run.forwards
        history.equivalents = run.equivalents - before
        history.seconds = time.perf_counter() - begin
        return history

    def _count(self) -> None:
        trainer, run = self._trainer, self.run
        trainer.forwards, trainer.equivalents = self._forwards + run.forwards, run.equivalents
        trainer.step = run.step

    def _loop(self, callbacks: Sequence[Callback]) -> None:
        trainer, run, best = self._trainer, self.run, self._best
        per_epoch = trainer.steps_per_epoch
        if best is not None:
            best.measure_where_due()
        unit = trainer.runtime.metadata.loss_unit
        # Of the epoch: losses are whole multiples of 2^-16, so the sum is exact in any order.
        begun = run.resumed_losses(run.step // per_epoch * per_epoch)
        total, count = float(begun.sum()), len(begun)
        while run.step < run.total and not (self._may_end and best is not None and best.is_stuck):
            report = run.advance()
            self._count()
            self._history.append_step(report.loss * unit)
            if best is not None:
                best.measure_where_due()
            total, count = total + report.loss, count + 1
            for callback in callbacks:
                callback.on_step_end(trainer, report.step, {"loss": report.loss * unit, "rate": report.rate})
            if run.step % per_epoch == 0 or run.step == run.total:
                # The mean loss also of an epoch that was cut short and resumed.
                self._end_epoch(callbacks, {"loss": total / count * unit, "rate": report.rate})
                total, count = 0.0, 0
            if trainer.stop_training:
                break
        run.settle()

    def _end_epoch(self, callbacks: Sequence[Callback], logs: dict[str, float]) -> None:
        trainer, run = self._trainer, self.run
        run.settle()
        logs["equivalents"] = run.equivalents
        logs |= self._validate()
        self._history.append(**logs)
        for callback in callbacks:
            callback.on_epoch_end(trainer, (run.step - 1) // trainer.steps_per_epoch, logs)

    def _validate(self) -> dict[str, float]:
        """Returns "val_loss" and, if there is one, "val_accuracy" on the validation data; {} without data."""
        if self._validation is None:
            return {}
        found = self._best.last if self._best is not None else None
        values = (found or self.run.evaluate(self._validation)).values()
        loss = self._trainer.runtime.metadata.loss
        assert loss is not None  # the trainer has refused such a model
        if covered(self._validation, loss).constant:
            values.pop("accuracy", None)
        return {f"val_{name}": value for name, value in values.items()}
