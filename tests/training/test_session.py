# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""A call of fit as callbacks and the log see it, on a run whose losses are written down here."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tflm_zo.training import Callback, Trainer
from tflm_zo.training.session import Session, check_log

LOSSES = [4.0, 2.0, 3.0, 1.0, 8.0, 5.0, 7.0]
PER_EPOCH = 3


class ScriptedRun:
    """Seven steps of known losses, 10 forward passes and 8 equivalents each, and what was asked of it."""

    def __init__(self, events: list[Any], step: int = 0) -> None:
        self.events, self.step, self.total, self.has_log = events, step, len(LOSSES), False
        self.begun = step

    @property
    def forwards(self) -> int:
        return 10 * (self.step - self.begun)

    @property
    def equivalents(self) -> float:
        return 8.0 * self.step

    def resumed_losses(self, first: int) -> Any:
        return np.array(LOSSES[first : self.step])

    def advance(self) -> Any:
        self.step += 1
        return SimpleNamespace(step=self.step - 1, loss=LOSSES[self.step - 1], rate=0.5)

    def settle(self) -> None:
        pass

    def roll_back(self) -> None:
        self.events.append("rolled back")

    def close_log(self) -> None:
        self.events.append("log closed")
        self.has_log = False

    def open_log(self) -> None:
        self.events.append("log opened")
        self.has_log = True


class Tell(Callback):
    """Writes down what it is told; `at` is raised after a step, or as the run begins."""

    def __init__(self, events: list[Any], at: int | str = "", error: BaseException | None = None) -> None:
        self.events, self.at, self.error = events, at, error

    def _tell(self, event: Any, at: int | str) -> None:
        self.events.append(event)
        if self.error is not None and at == self.at:
            raise self.error

    def on_train_begin(self, trainer: Trainer, steps: int) -> None:
        self._tell(f"begins, {steps} steps", "begin")

    def on_step_end(self, trainer: Trainer, step: int, logs: dict[str, float]) -> None:
        self._tell(step, step)

    def on_epoch_end(self, trainer: Trainer, epoch: int, logs: dict[str, float]) -> None:
        self._tell((epoch, logs["loss"], logs["equivalents"]), "")

    def on_train_end(self, trainer: Trainer) -> None:
        self._tell("ends", "end")


def trained(events: list[Any], *callbacks: Callback, step: int = 0) -> tuple[Any, Any]:
    """Trainer and history of a run that begins, or goes on after `step`."""
    trainer: Any = SimpleNamespace(
        forwards=100,
        equivalents=0.0,
        step=0,
        steps_per_epoch=PER_EPOCH,
        interrupted=False,
        stop_training=False,
        runtime=SimpleNamespace(metadata=SimpleNamespace(loss_unit=1.0)),
    )
    run: Any = ScriptedRun(events, step)
    session = Session(trainer, run, None, None, may_end=False)
    return trainer, session.train(run.open_log, callbacks)


def test_epochs_have_the_mean_of_their_steps() -> None:
    """The last one, too, which has a single step; a new log is opened when nobody has refused the run."""
    events: list[Any] = []
    trainer, history = trained(events, Tell(events))
    epochs = [(0, 3.0, 24.0), (1, 14 / 3, 48.0), (2, 7.0, 56.0)]
    assert events == [
        *("begins, 7 steps", "log opened", 0, 1, 2, epochs[0], 3, 4, 5, epochs[1], 6, epochs[2]),
        *("log closed", "ends"),
    ]
    assert list(history.steps) == LOSSES
    assert history.history["loss"] == [mean for _, mean, _ in epochs]
    assert (history.forwards, history.equivalents, history.kept_step) == (70, 56.0, 7)
    assert (trainer.forwards, trainer.equivalents, trainer.step) == (170, 56.0, 7)


def test_an_epoch_that_was_cut_short_has_the_mean_of_all_its_steps() -> None:
    """Resumed after its second step: the log is open before callbacks look at it."""
    events: list[Any] = []
    _, history = trained(events, Tell(events), step=5)
    assert events[:4] == ["log opened", "begins, 7 steps", 5, (1, 14 / 3, 48.0)]
    assert list(history.steps) == LOSSES[5:]
    assert (history.forwards, history.equivalents) == (20, 16.0)  # of this part alone


@pytest.mark.parametrize("error", [KeyboardInterrupt(), RuntimeError("out of paper")])
def test_what_ends_a_run_early_rolls_it_back(error: BaseException) -> None:
    """Ctrl-C leaves a history; any other error goes to the caller. Either way the log is closed."""
    events: list[Any] = []
    tell = Tell(events, at=1, error=error)
    if isinstance(error, RuntimeError):
        with pytest.raises(RuntimeError, match="out of paper"):
            trained(events, tell)
    else:
        trainer, history = trained(events, tell)
        assert trainer.interrupted and list(history.steps) == LOSSES[:2]
    assert events[-4:] == [1, "rolled back", "log closed", "ends"]


def test_a_callback_that_refuses_the_run_leaves_no_log() -> None:
    """Those that have begun are told of the end, those after it are not."""
    events: list[Any] = []
    after = Tell(own := [])
    with pytest.raises(ValueError, match="not this one"):
        trained(events, Tell(events, at="begin", error=ValueError("not this one")), after)
    assert events == ["begins, 7 steps", "rolled back", "log closed", "ends"] and own == []


def test_logs_that_are_refused_before_anything_has_changed(tmp_path: Path) -> None:
    (tmp_path / "log").write_bytes(b"another run's")
    with pytest.raises(ValueError, match="resume: needs a log"):
        check_log(None, resume=True, replace=False)
    with pytest.raises(FileExistsError):
        check_log(tmp_path / "log", resume=False, replace=False)
    for resume, replace in ((True, False), (False, True)):
        check_log(tmp_path / "log", resume=resume, replace=replace)
    check_log(tmp_path / "new", resume=False, replace=False)
    check_log(None, resume=False, replace=False)
