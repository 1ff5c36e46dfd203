"""A call of fit as callbacks and the log see it, on a run whose losses are written down here."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from helpers.interrupted_runs import X, Y, make
from tflm_zo.training import Callback, History, RunProgress, trainer

LOSSES = [4.0, 2.0, 3.0, 1.0, 8.0, 5.0, 7.0]
PER_EPOCH = 3
assert -(-len(X) // 8) == PER_EPOCH


class ScriptedRun:
    """Seven steps of known losses, 10 forward passes and 8 equivalents each, and the requests to it."""

    events: list[Any]
    resumed = 0
    measurements: list[Any] = []

    def __init__(self, *_: Any) -> None:
        self.step, self.total, self.has_log, self.first = 0, len(LOSSES), False, 0

    @property
    def forwards(self) -> int:
        return 10 * (self.step - self.first)

    @property
    def equivalents(self) -> float:
        return 8.0 * self.step

    def begin(self) -> None:
        self.step = 0

    def resume(self, log: Path) -> int:
        self.step = self.first = self.resumed
        return 0

    def resumed_losses(self, first: int) -> Any:
        return np.array(LOSSES[first : self.step])

    def advance(self) -> Any:
        self.step += 1
        return SimpleNamespace(step=self.step - 1, loss=LOSSES[self.step - 1], rate=0.5)

    def settle(self) -> None:
        pass

    def roll_back(self) -> None:
        self.events.append("rolled back")

    def open_log(self, *_: Any, **__: Any) -> None:
        self.events.append("log opened")
        self.has_log = True

    def close_log(self) -> None:
        self.events.append("log closed")


class Tell(Callback):
    """Records its events; `at` is raised after a step, or as the run begins."""

    def __init__(self, events: list[Any], at: int | str = "", error: BaseException | None = None) -> None:
        self.events, self.at, self.error = events, at, error

    def _tell(self, event: Any, at: int | str) -> None:
        self.events.append(event)
        if self.error is not None and at == self.at:
            raise self.error

    def on_train_begin(self, progress: RunProgress) -> None:
        self._tell(f"begins, {progress.total} steps", "begin")

    def on_step_end(self, progress: RunProgress, logs: dict[str, float]) -> None:
        self._tell(progress.step, progress.step)

    def on_epoch_end(self, progress: RunProgress, logs: dict[str, float]) -> None:
        self._tell((progress.epoch, logs["loss"], logs["equivalents"]), "")

    def on_train_end(self, progress: RunProgress) -> None:
        self._tell("ends", "end")


@pytest.fixture
def events(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Returns the events in runs, which are scripted ones."""
    found: list[Any] = []
    monkeypatch.setattr(ScriptedRun, "events", found, raising=False)
    monkeypatch.setattr(trainer, "NodeRun", ScriptedRun)
    return found


def trained(*callbacks: Callback, log: Path, own: Any = None, **more: Any) -> tuple[Any, Any]:
    """Returns trainer and history of a run."""
    own = own or make("nodes")
    given = {"steps": len(LOSSES), "keep": "last", "log": log, "callbacks": callbacks, **more}
    return own, own.fit(X, Y, **given)


def test_epochs_have_the_mean_of_their_steps(events: list[Any], tmp_path: Path) -> None:
    """Averages the last one, too, which has a single step; a new log is opened when nobody has refused the run."""
    own, history = trained(Tell(events), log=tmp_path / "log")
    epochs = [(0, 3.0, 24.0), (1, 14 / 3, 48.0), (2, 7.0, 56.0)]
    assert events == [
        *("begins, 7 steps", "log opened", 1, 2, 3, epochs[0], 4, 5, 6, epochs[1], 7, epochs[2]),
        *("log closed", "ends"),
    ]
    assert list(history.steps) == LOSSES
    assert history.history["loss"] == [mean for _, mean, _ in epochs]
    assert (history.forwards, history.equivalents, history.kept_step) == (70, 56.0, 7)
    assert (own.forwards, own.equivalents, own.step) == (70, 56.0, 7)
    trained(log=tmp_path / "log", own=own)
    assert (own.forwards, own.equivalents, own.step) == (140, 56.0, 7)


def test_an_epoch_that_was_cut_short_has_the_mean_of_all_its_steps(
    events: list[Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Resumes after its second step: the log is open before callbacks look at it."""
    monkeypatch.setattr(ScriptedRun, "resumed", 5)
    _, history = trained(Tell(events), log=tmp_path / "log", resume=True)
    assert events[:4] == ["log opened", "begins, 7 steps", 6, (1, 14 / 3, 48.0)]
    assert list(history.steps) == LOSSES[5:]
    assert (history.forwards, history.equivalents) == (20, 16.0)  # of this part alone


@pytest.mark.parametrize("error", [KeyboardInterrupt(), RuntimeError("out of paper")])
def test_what_ends_a_run_early_rolls_it_back(error: BaseException, events: list[Any], tmp_path: Path) -> None:
    """Ctrl-C leaves a history; any other error goes to the caller. Either way the log is closed."""
    tell = Tell(events, at=2, error=error)
    own = make("nodes")
    if isinstance(error, RuntimeError):
        with pytest.raises(RuntimeError, match="out of paper"):
            trained(tell, log=tmp_path / "log", own=own)
    else:
        _, history = trained(tell, log=tmp_path / "log", own=own)
        assert own.interrupted and list(history.steps) == LOSSES[:2]
    assert events[-4:] == [2, "rolled back", "log closed", "ends"] and own.step == 2


def test_a_callback_that_refuses_the_run_leaves_no_log(events: list[Any], tmp_path: Path) -> None:
    """Reports the end to callbacks that have begun, and not to those after them."""
    after = Tell(own := [])
    with pytest.raises(ValueError, match="not this one"):
        trained(Tell(events, at="begin", error=ValueError("not this one")), after, log=tmp_path / "log")
    assert events == ["begins, 7 steps", "rolled back", "log closed", "ends"] and own == []


@pytest.mark.parametrize("moment", ["on_train_begin", "on_step_end", "on_epoch_end"])
def test_a_callback_may_stop_the_run(
    moment: str, events: list[Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stopping = Callback()
    monkeypatch.setattr(stopping, moment, lambda progress, *_: progress.stop())
    own, history = trained(stopping, Tell(events), log=tmp_path / "log")
    steps = {"on_train_begin": 0, "on_step_end": 1, "on_epoch_end": 3}[moment]
    assert own.step == len(history.steps) == steps and not own.interrupted
    assert events[-2:] == ["log closed", "ends"]


def test_logs_that_are_refused_before_anything_has_changed(events: list[Any], tmp_path: Path) -> None:
    (tmp_path / "log").write_bytes(b"another run's")
    with pytest.raises(ValueError, match="`resume` must have a log to resume from"):
        make("nodes").fit(X, Y, resume=True)
    with pytest.raises(FileExistsError):
        trained(log=tmp_path / "log")
    assert events == []
    for changes in ({"resume": True}, {"replace": True}):
        trained(log=tmp_path / "log", **changes)


def test_a_history_fits_on_a_line() -> None:
    """Prints the result of `fit` on one line, for notebooks."""
    history = History(kept_step=6)
    assert repr(history) == "<History: 0 epochs, weights of step 6 kept>"
    for loss in (2.5, 1.25, 0.62501):
        history.append(loss=loss, rate=1.0)
    assert repr(history) == "<History: 3 epochs, loss 2.5 -> 0.625, weights of step 6 kept>"
