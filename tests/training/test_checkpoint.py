"""Checkpoints: their content, their restoration, and interruptions that change nothing."""

import csv
import dataclasses
import errno
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from helpers import node_runs
from helpers.injection import inject_all
from helpers.models import MODELS
from helpers.moments import At, interrupt, stop
from helpers.node_runs import make, train, uninterrupted
from helpers.runs import random_samples
from tflm_zo.logs import Log, LogError
from tflm_zo.training import Callback, Checkpoint, CSVLogger, RunProgress, Settings, Trainer, Weights

RNG = np.random.default_rng(3)
X, Y = random_samples(RNG, 20)
VALIDATION = random_samples(RNG, 9)
EPOCHS, PER_EPOCH = 8, 3  # an epoch's last step is of samples of the next one, too
SETTINGS = Settings(tasks=(Weights(queries=2),), batch_size=8, seed=5, learning_rate=6.0)
MODEL = inject_all(MODELS["small_cnn"](), batch=4)


def fit(log: Path | None, *callbacks: Callback, **more: Any) -> Any:
    trainer = Trainer(MODEL, dataclasses.replace(SETTINGS, sync_every=None))
    options = {"epochs": EPOCHS, "validation_data": VALIDATION, "callbacks": callbacks, "log": log} | more
    return trainer.fit(X, Y, **options, keep="last").history


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> tuple[bytes, dict[str, list[float]]]:
    """Log and history of the run."""
    log = tmp_path_factory.mktemp("whole") / "log"
    history = fit(log)
    return log.read_bytes(), history


def steps_of(path: Path, whole: bytes) -> int:
    """Steps of a checkpoint, which is a beginning of the log."""
    assert whole.startswith(path.read_bytes())
    log = Log.read(path)
    assert log.torn_bytes == 0
    return len(log.steps)


@pytest.mark.parametrize("every", [1, 3, 5])
def test_every(every: int, run: Any, tmp_path: Path) -> None:
    seen: list[int] = []

    class Look(Callback):
        def on_epoch_end(self, progress: RunProgress, logs: dict[str, float]) -> None:
            there = (tmp_path / "kept").exists()
            seen.append(steps_of(tmp_path / "kept", run[0]) if there else 0)

    fit(tmp_path / "log", Checkpoint(tmp_path / "kept", every=every), Look())
    assert seen == [(epoch + 1) // every * every * PER_EPOCH for epoch in range(EPOCHS)]


@pytest.mark.parametrize("action", [stop, interrupt])
@pytest.mark.parametrize("step", [1, 2, 5, 6, 10, 14, 17, 22, 23])
def test_interruptions_change_nothing(step: int, action: Any, run: Any, tmp_path: Path) -> None:
    """Stops after any step, after an epoch's last one before or after its checkpoint."""
    fit(tmp_path / "once.log", Checkpoint(tmp_path / "once", every=2))
    expected = (tmp_path / "once").read_bytes()
    fit(tmp_path / "log", Checkpoint(tmp_path / "kept", every=2), At(step, action))
    fit(tmp_path / "log", Checkpoint(tmp_path / "kept", every=2), resume=True)
    assert (tmp_path / "kept").read_bytes() == expected
    assert (tmp_path / "log").read_bytes() == run[0]


def test_a_run_goes_on_from_a_checkpoint(run: Any, tmp_path: Path) -> None:
    fit(tmp_path / "log", Checkpoint(tmp_path / "kept", every=5))
    assert steps_of(tmp_path / "kept", run[0]) == 5 * PER_EPOCH
    history = fit(tmp_path / "kept", resume=True)
    assert (tmp_path / "kept").read_bytes() == run[0]
    assert history == {name: values[5:] for name, values in run[1].items()}


@pytest.mark.parametrize("step", [1, 4, 5, 9])
def test_the_history_of_a_resumed_run_is_the_rest(step: int, run: Any, tmp_path: Path) -> None:
    """Averages the whole of an epoch that was cut short, and a .csv has every line."""
    fit(tmp_path / "once.log", CSVLogger(tmp_path / "once.csv"))
    fit(tmp_path / "log", CSVLogger(tmp_path / "a.csv"), At(step, interrupt))
    with open(tmp_path / "a.csv", "a") as file:
        file.write("7,0.25")  # the trace of an interrupted write
    rest = fit(tmp_path / "log", CSVLogger(tmp_path / "a.csv"), resume=True)
    # An epoch whose last step was the interrupted one has not been told of, and is not told of later.
    done = (step + 1) // PER_EPOCH
    assert rest == {name: values[done:] for name, values in run[1].items()}
    rows = [list(csv.reader(open(tmp_path / f"{name}.csv", newline=""))) for name in ("once", "a")]
    told = [row for row in rows[0] if row[0] != str((step + 1) / PER_EPOCH - 1).removesuffix(".0")]
    assert rows[1] == told


def test_refusals(run: Any, tmp_path: Path) -> None:
    kept, log = tmp_path / "kept", tmp_path / "log"
    with pytest.raises(ValueError, match="`every` must be at least 1. Received: 0"):
        Checkpoint(kept, every=0)
    with pytest.raises(ValueError, match="give fit a log"):
        fit(None, Checkpoint(kept))
    # Nothing has been trained, so no log is left that would be in the way of the next try.
    assert not list(tmp_path.iterdir())

    kept.write_bytes(b"precious")
    with pytest.raises(FileExistsError, match="kept exists"):
        fit(log, Checkpoint(kept))
    assert kept.read_bytes() == b"precious" and not log.exists()
    log.write_bytes(b"old")
    with pytest.raises(FileExistsError, match="kept exists"):
        fit(log, Checkpoint(kept), replace=True)
    assert log.read_bytes() == b"old"
    fit(log, Checkpoint(kept, replace=True), replace=True)
    assert kept.read_bytes() == log.read_bytes() == run[0]

    other = tmp_path / "other"
    Trainer(MODEL, SETTINGS).fit(X, Y, epochs=2, log=other, keep="last")
    log.write_bytes(run[0][: 132 + 28 * 7])
    for wrong in (other.read_bytes(), run[0], b"none at all"):  # another run; steps that this one has not done
        kept.write_bytes(wrong)
        with pytest.raises(LogError, match="no checkpoint of this run|no seed log"):
            fit(log, Checkpoint(kept), resume=True)
        assert kept.read_bytes() == wrong and log.read_bytes() == run[0][: 132 + 28 * 7]


def test_full_disk(run: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keeps the last checkpoint and a complete log, and the run resumes when there is room."""
    log, kept, calls = tmp_path / "log", tmp_path / "kept", [0]
    real = os.replace

    def replace(a: Any, b: Any) -> None:
        calls[0] += Path(b) == kept
        if calls[0] == 3:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(a))
        real(a, b)

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", replace)
        with pytest.raises(OSError, match="No space left on device") as failure:
            fit(log, Checkpoint(kept))
    assert failure.value.filename == str(kept)
    assert steps_of(kept, run[0]) == 2 * PER_EPOCH
    assert steps_of(log, run[0]) == 3 * PER_EPOCH
    assert sorted(path.name for path in tmp_path.iterdir()) == ["kept", "log"]
    fit(log, Checkpoint(kept), resume=True)
    assert kept.read_bytes() == log.read_bytes() == run[0]


# --- node perturbation --------------------------------------------------------------------------------------


@pytest.mark.parametrize("step", [1, 4, 5, 9])
def test_a_resumed_history_is_the_rest(step: int, tmp_path: Path) -> None:
    """Takes three steps an epoch; means over one that was cut short are those of the whole epoch."""
    expected = node_runs.fit(make(), validation_data=node_runs.VALIDATION).history
    log, csv_log = tmp_path / "log", tmp_path / "a.csv"
    train(log, validation_data=node_runs.VALIDATION, callbacks=[CSVLogger(csv_log), At(step, interrupt)])
    resumed = {"validation_data": node_runs.VALIDATION, "callbacks": [CSVLogger(csv_log)], "resume": True}
    rest = node_runs.fit(make(), log=log, **resumed).history
    done = (step + 1) // 3
    assert rest == {name: values[done:] for name, values in expected.items()}
    with open(csv_log, newline="") as file:
        rows = {int(row.pop("epoch")): row for row in csv.DictReader(file)}
    for epoch, row in rows.items():
        assert {k: float(v) for k, v in row.items()} == {k: v[epoch] for k, v in expected.items()}
    assert set(range(5)) - set(rows) <= {done - 1}


@pytest.mark.parametrize("action", [stop, interrupt])
@pytest.mark.parametrize("step", [2, 3, 8, node_runs.STEPS - 1])
def test_checkpoints(step: int, action: Any, tmp_path: Path) -> None:
    """Changes neither the checkpoint nor the log by an interruption; a run resumes from one."""

    def run(log: str, kept: str, *more: Callback, **options: Any) -> None:
        callbacks = [Checkpoint(tmp_path / kept, every=2), *more]
        train(tmp_path / log, validation_data=node_runs.VALIDATION, callbacks=callbacks, **options)

    run("once", "once.kept")
    run("log", "kept", At(step, action))
    run("log", "kept", resume=True)
    assert (tmp_path / "log").read_bytes() == (tmp_path / "once").read_bytes()
    assert (tmp_path / "kept").read_bytes() == (tmp_path / "once.kept").read_bytes()
    assert Log.read(tmp_path / "kept").losses.size % 6 == 0
    train(tmp_path / "kept", resume=True)
    assert (tmp_path / "kept").read_bytes() == (tmp_path / "once").read_bytes()


def test_a_checkpoint_of_another_run_is_refused(tmp_path: Path) -> None:
    """Refuses also one that is ahead of the run, which is of another future."""
    log, kept = tmp_path / "log", tmp_path / "kept"
    train(log, callbacks=[At(4, stop)])
    data = log.read_bytes()
    kept.write_bytes(uninterrupted().log)
    with pytest.raises(LogError, match="is no checkpoint of this run; choose another name"):
        train(log, callbacks=[Checkpoint(kept)], resume=True)
    assert kept.read_bytes() == uninterrupted().log and log.read_bytes() == data


def test_looking_at_a_checkpoint_does_not_change_what_an_interruption_goes_back_to(tmp_path: Path) -> None:
    """A checkpoint whose snapshots are damaged stands for the beginning of the run."""
    log, kept = tmp_path / "log", tmp_path / "kept"
    first = train(log, callbacks=[At(4, stop)])
    data, (slots, records) = bytearray(log.read_bytes()), node_runs.layout()
    for slot in (slots, (slots + records) // 2):
        data[slot + 20] ^= 16
    kept.write_bytes(data)

    class Now(Callback):
        def on_train_begin(self, progress: RunProgress) -> None:
            raise KeyboardInterrupt

    callbacks = [Checkpoint(kept, every=3), Now()]
    second = train(log, validation_data=node_runs.VALIDATION, callbacks=callbacks, resume=True)
    assert second.interrupted and second.step == 5
    assert node_runs.snapshot(second) == node_runs.snapshot(first)
