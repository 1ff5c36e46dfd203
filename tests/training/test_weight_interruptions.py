"""Weight perturbation that is interrupted or killed anywhere: the same bits as if it had not been."""

import dataclasses
import sys
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest

from helpers.examples import slow_but
from helpers.moments import At, interrupt, interrupt_at_call, stop
from helpers.processes import kill_and_resume
from helpers.runs import state, weight_settings
from helpers.weight_runs import SETTINGS, X, Y, is_replay, zo_model
from tflm_zo.converters import export_model
from tflm_zo.core import Control
from tflm_zo.logs import Log, LogError, LogWriter, replay_log
from tflm_zo.training import Callback, RunProgress, Settings, Trainer

STEPS, HEADER, RECORD = 17, 132, 28
SETTINGS_OF: dict[str, Settings] = {
    "8": weight_settings(batch_size=8, queries=2, estimator="one-sided", learning_rate=2.0),
    "16": dataclasses.replace(SETTINGS, learning_rate=2.0),
    "cut": weight_settings(batch_size=4, queries=2, scope="blocks", learning_rate=2.0),
}


def make(kind: str = "16") -> Trainer:
    return Trainer(zo_model(kind), SETTINGS_OF[kind])


def fit(trainer: Trainer, x: Any = X, y: Any = Y, **more: Any) -> None:
    trainer.fit(x, y, **{"steps": STEPS, "keep": "last", **more})


@cache
def uninterrupted(kind: str = "16") -> tuple[bytes, dict[str, bytes]]:
    """Log and weights of a run."""
    trainer = make(kind)
    with TemporaryDirectory() as folder:
        fit(trainer, log=Path(folder) / "log")
        return (Path(folder) / "log").read_bytes(), state(trainer)


def check_interrupted(trainer: Trainer, log: Path, kind: str = "16") -> int:
    """Checks that the weights are those of the log, which has complete steps only, and that resuming leads to
    the same end."""
    read = Log.read(log)
    assert read.torn_bytes == 0
    assert uninterrupted(kind)[0].startswith(log.read_bytes())
    assert is_replay(trainer, log)
    again = make(kind)
    fit(again, log=log, resume=True)
    assert (log.read_bytes(), state(again)) == uninterrupted(kind)
    return len(read.steps)


@pytest.mark.parametrize("kind", SETTINGS_OF)
@pytest.mark.parametrize("step", slow_but((0, 3), (0, 2, 3, 8, STEPS - 1)))
@pytest.mark.parametrize("action", [stop, interrupt])
def test_stopped_by_a_callback(kind: str, step: int, action: Any, tmp_path: Path) -> None:
    trainer = make(kind)
    fit(trainer, log=tmp_path / "log", callbacks=[At(step, action)])
    assert check_interrupted(trainer, tmp_path / "log", kind) == step + 1


@pytest.mark.parametrize("kind", SETTINGS_OF)
@pytest.mark.parametrize("when", slow_but(["after"], ["before", "after"]))
@pytest.mark.parametrize("place, most", [("invoke", 60), ("report", 60), ("append", STEPS), ("settle", 4)])
def test_interrupted_anywhere(
    kind: str, when: Any, place: str, most: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Interrupts random calls of a run with Ctrl-C."""
    rng = np.random.default_rng([len(place), when == "after", len(kind)])
    for round_ in range(4):
        # The model of 8 bits has its minibatches passed forward in one invoke: three evaluations a step.
        calls = min(most, 3 * STEPS) if kind == "8" else most
        trainer, log, call = make(kind), tmp_path / f"log{round_}", int(rng.integers(1, calls))
        owner = {"invoke": type(trainer.runtime), "append": LogWriter}.get(place, Control)
        with monkeypatch.context() as patch:
            left = interrupt_at_call(patch, owner, place, call, when)
            try:
                fit(trainer, log=log)
            except KeyboardInterrupt:
                assert place == "invoke" and call == 1  # before the first step
                continue
        assert left[0] <= 0
        check_interrupted(trainer, log, kind)


def test_an_error_of_a_callback_leaves_the_last_steps_weights(tmp_path: Path) -> None:
    def fail(_: Any) -> None:
        raise RuntimeError("disk full")

    ended: list[int] = []

    class End(Callback):
        def on_train_end(self, progress: RunProgress) -> None:
            ended.append(progress.step)

    trainer = make()
    with pytest.raises(RuntimeError, match="disk full"):
        fit(trainer, log=tmp_path / "log", callbacks=[At(4, fail), End()])
    assert ended == [5]
    assert check_interrupted(trainer, tmp_path / "log") == 5


def killed(folder: Path, kills: int, steps: int) -> int:
    return kill_and_resume(folder, zo_model(), SETTINGS, (X, Y), kills=kills, steps=steps, header=HEADER, record=RECORD)


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="no SIGKILL")
def test_killed(tmp_path: Path) -> None:
    assert killed(tmp_path, 3, 2000) >= 2
    weights, _ = replay_log(zo_model(), Log.read(tmp_path / "log"))
    assert export_model(zo_model(), weights).to_bytes() == (tmp_path / "final.tflite").read_bytes()


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="no SIGKILL")
def test_killed_20_times(tmp_path: Path) -> None:
    assert killed(tmp_path, 20, 20000) >= 15


def test_a_torn_record_is_cut_off(tmp_path: Path) -> None:
    log, trainer = tmp_path / "log", make()
    whole, _ = uninterrupted()
    for torn in (1, 13, 27):
        log.write_bytes(whole[: HEADER + 7 * RECORD + torn])
        fit(trainer, log=log, resume=True)
        assert (log.read_bytes(), state(trainer)) == uninterrupted()


def test_resume_of_what_is_not_this_run(tmp_path: Path) -> None:
    log = tmp_path / "log"
    trainer, other = make(), Trainer(zo_model(), weight_settings(batch_size=8, queries=2, seed=10))
    with pytest.raises(ValueError, match="`resume` must have a log to resume from"):
        fit(trainer, resume=True)
    fit(trainer, log=log, callbacks=[At(3, stop)])
    data = log.read_bytes()
    with pytest.raises(LogError, match="other settings"):
        fit(other, log=log, resume=True)
    with pytest.raises(LogError, match="other settings, data or number of steps"):
        fit(trainer, log=log, steps=STEPS + 1, resume=True)
    with pytest.raises(LogError, match="other settings, data"):
        fit(trainer, X[1:], Y[1:], log=log, resume=True)
    with pytest.raises(LogError, match="another model"):
        fit(Trainer(zo_model("8"), SETTINGS), log=log, resume=True)
    with pytest.raises(LogError, match="another model"):
        replay_log(zo_model("8"), Log.read(log))
    with pytest.raises(FileExistsError):
        fit(trainer, log=log)
    assert log.read_bytes() == data
