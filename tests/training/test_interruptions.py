"""Runs that are interrupted or killed anywhere: the same bits as if they had not been."""

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from helpers.examples import slow_but
from helpers.interpreters import require
from helpers.interrupted_runs import (
    NODE_SETTINGS,
    SETTINGS_OF,
    STEPS,
    WEIGHT_SETTINGS,
    X,
    Y,
    check_interrupted,
    check_resumed,
    ended,
    fit,
    layout,
    make,
    model_of,
    snapshot,
    train,
)
from helpers.moments import At, interrupt, interrupt_at_call, interrupt_at_line, stop
from helpers.processes import kill_and_resume
from tflm_zo.converters import export_model
from tflm_zo.core import Control, NodeControl
from tflm_zo.logs import Log, LogWriter, replay_log
from tflm_zo.training import Callback, EarlyStopping, RunProgress, Trainer
from tflm_zo.training.node_run import NodeRun
from tflm_zo.training.setting_texts import changed

NODE_PLACES = {"invoke": 60, "capture": 12, "report": 60, "update": 14, "append": STEPS}
NODE_PLACES |= {"snapshot": 3, "_write_at": 17, "_sync": 6}
WEIGHT_PLACES = {"invoke": 3 * STEPS, "report": 3 * STEPS, "append": STEPS, "settle": 3}


@pytest.mark.parametrize("kind", SETTINGS_OF)
@pytest.mark.parametrize("step", slow_but((0, 3), (0, 2, 3, 4, 8, STEPS - 2, STEPS - 1)))
@pytest.mark.parametrize("action", [stop, interrupt])
def test_stopped_by_a_callback(kind: str, step: int, action: Any, tmp_path: Path) -> None:
    trainer = train(tmp_path / "log", kind, callbacks=[At(step, action)])
    assert check_interrupted(trainer, tmp_path / "log", kind) == step + 1


@pytest.mark.parametrize("when", slow_but(["after"], ["before", "after"]))
@pytest.mark.parametrize(
    ("kind", "place", "calls"),
    [
        *((kind, *place) for kind in NODE_SETTINGS for place in NODE_PLACES.items()),
        *((kind, *place) for kind in WEIGHT_SETTINGS for place in WEIGHT_PLACES.items()),
    ],
)
def test_interrupted_around_any_call(
    kind: str, when: Any, place: str, calls: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Interrupts random calls of a run with Ctrl-C."""
    rng = np.random.default_rng([len(place), when == "after", len(kind)])
    control: Any = NodeControl if kind in NODE_SETTINGS else Control
    for round_ in range(3):
        trainer, log = make(kind), tmp_path / f"log{round_}"
        owner = control if hasattr(control, place) else LogWriter
        owner = type(trainer.runtime) if place == "invoke" else owner
        name = "capture_head" if place == "capture" and kind == "head" else place
        with monkeypatch.context() as patch:
            left = interrupt_at_call(patch, owner, name, int(rng.integers(1, calls + 1)), when)
            try:
                fit(trainer, log=log)
            except KeyboardInterrupt:
                assert place == "invoke"  # before the first step
                continue
        assert left[0] <= 0 or kind == "head"  # which has fewer calls
        if log.exists():
            check_interrupted(trainer, log, kind)
        else:
            assert trainer.step == 0  # while the log was made


@pytest.mark.parametrize("kind", NODE_SETTINGS)
def test_interrupted_at_any_line(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Interrupts with Ctrl-C before random lines of Python of a step."""
    files = ("node_run.py", "writer.py", "node_control.py")
    left = interrupt_at_line(monkeypatch, NodeRun, "advance", files)
    train(tmp_path / "whole", kind)
    lines = 2**62 - left[0]
    assert lines > 1000
    rng = np.random.default_rng(len(kind))
    # Whole steps, and with them records and snapshots, are done in the last lines of a step.
    chosen = [*rng.integers(1, lines, 10), *range(lines - 30, lines, 3)]
    interrupted = []
    for i, line in enumerate(chosen):
        left[0] = int(line)
        trainer = train(tmp_path / f"log{i}", kind)
        left[0] = 2**62
        assert trainer.interrupted
        interrupted.append(check_interrupted(trainer, tmp_path / f"log{i}", kind))
    assert {STEPS - 1, STEPS} <= set(interrupted)


def test_interrupted_again_and_again(tmp_path: Path) -> None:
    """Interrupts after every single step."""
    for step in range(STEPS):
        trainer = train(tmp_path / "log", "nodes", callbacks=[At(step, interrupt)], resume=step > 0)
        assert trainer.step == step + 1
    check_resumed(tmp_path / "log", "nodes")


@pytest.mark.parametrize("owner, name", [(NodeControl, "resume"), (LogWriter, "keep")])
def test_interrupted_while_going_back(owner: Any, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes no snapshot of a state between two steps: Ctrl-C twice."""
    original = getattr(owner, name)
    with monkeypatch.context() as patch:
        left = interrupt_at_call(patch, NodeControl, "update", 14, "after")  # within step 6

        def again(*args: Any) -> Any:
            if left[0] <= 0:
                raise KeyboardInterrupt
            return original(*args)

        patch.setattr(owner, name, again)
        with pytest.raises(KeyboardInterrupt):
            train(tmp_path / "log", "nodes")
    read = Log.read(tmp_path / "log")
    assert read.snapshot is not None and read.snapshot.step == 4
    check_resumed(tmp_path / "log", "nodes")


def test_an_interruption_without_a_log_leaves_the_last_whole_step(monkeypatch: pytest.MonkeyPatch) -> None:
    a, b = make("nodes"), make("nodes")
    fit(a, callbacks=[At(5, stop)])
    with monkeypatch.context() as patch:
        left = interrupt_at_call(patch, NodeControl, "update", 2 * 6 + 1, "after")  # the first of two tasks
        fit(b)
    assert left == [0] and b.interrupted and b.step == 6
    assert snapshot(a) == snapshot(b)


@pytest.mark.parametrize("kind", NODE_SETTINGS)
@pytest.mark.parametrize("runtimes", [("litert", "tflm"), ("tflm", "litert"), ("tflm", "tflm")])
def test_a_run_goes_on_in_another_runtime(kind: str, runtimes: tuple[str, str], tmp_path: Path) -> None:
    """Resumes in the exact ones, with the same bits."""
    for name in runtimes:
        require(name)
    first, second, once = (Trainer(model_of(kind), SETTINGS_OF[kind], runtime) for runtime in (*runtimes, runtimes[1]))
    fit(once, log=tmp_path / "once")
    fit(first, log=tmp_path / "log", callbacks=[At(6, interrupt)])
    fit(second, log=tmp_path / "log", resume=True)
    assert ended(second, tmp_path / "log") == ended(once, tmp_path / "once")


@pytest.mark.parametrize("kind", ["nodes", "weights"])
def test_an_error_of_a_callback(kind: str, tmp_path: Path) -> None:
    """Leaves the weights of the last step, and reports the end to the others."""
    ended_at: list[int] = []

    def fail(_: Any) -> None:
        raise RuntimeError("out of paper")

    class End(Callback):
        def on_train_end(self, progress: RunProgress) -> None:
            ended_at.append(progress.step)

    trainer = make(kind)
    with pytest.raises(RuntimeError, match="out of paper"):
        fit(trainer, log=tmp_path / "log", callbacks=[At(6, fail), End()])
    assert ended_at == [7] and check_interrupted(trainer, tmp_path / "log", kind) == 7


def test_early_stopping(tmp_path: Path) -> None:
    """Leaves a log with the weights at the end of training."""
    stopping = EarlyStopping("loss", patience=2, min_delta=100.0)
    trainer = train(tmp_path / "log", "nodes", callbacks=[stopping])
    assert check_interrupted(trainer, tmp_path / "log", "nodes") == 9


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="no SIGKILL")
@pytest.mark.parametrize(
    ("kind", "kills", "steps", "changes"),
    [
        ("nodes", 3, 1500, {"snapshot_every": 20}),
        ("nodes", 20, 10000, {"snapshot_every": 7}),
        ("weights", 3, 2000, {}),
        ("weights", 20, 20000, {}),
    ],
)
def test_killed(kind: str, kills: int, steps: int, changes: dict[str, Any], tmp_path: Path) -> None:
    model, settings, (_, header, record) = model_of(kind), changed(SETTINGS_OF[kind], changes), layout(kind)
    more = {"kills": kills, "steps": steps, "header": header, "record": record}
    assert kill_and_resume(tmp_path, model, settings, (X, Y), **more) >= 3 * kills // 4
    weights, _ = replay_log(model, Log.read(tmp_path / "log"))
    assert export_model(model, weights).to_bytes() == (tmp_path / "final.tflite").read_bytes()
