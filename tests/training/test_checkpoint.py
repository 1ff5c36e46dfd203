"""Checkpoints: their content, their restoration, and interruptions that change nothing."""

import csv
import errno
import os
from pathlib import Path
from typing import Any

import pytest

from helpers.interrupted_runs import STEPS, VALIDATION, fit, layout, make, snapshot, train, uninterrupted
from helpers.moments import At, interrupt, stop
from tflm_zo.logs import Log, LogError
from tflm_zo.training import Callback, Checkpoint, CSVLogger, RunProgress

PER_EPOCH = 3
EACH_KIND = pytest.mark.parametrize("kind", ["nodes", "weights"])


def steps_of(path: Path) -> int:
    """Steps of a checkpoint or of a log, which is whole."""
    log = Log.read(path)
    assert log.torn_bytes == 0
    return len(log.losses)


@EACH_KIND
@pytest.mark.parametrize("every", [1, 3, 5])
def test_every(every: int, kind: str, tmp_path: Path) -> None:
    seen: list[int] = []

    class Look(Callback):
        def on_epoch_end(self, progress: RunProgress, logs: dict[str, float]) -> None:
            seen.append(steps_of(tmp_path / "kept") if (tmp_path / "kept").exists() else 0)

    train(tmp_path / "log", kind, callbacks=[Checkpoint(tmp_path / "kept", every=every), Look()])
    assert seen == [min((epoch + 1) // every * every * PER_EPOCH, STEPS) for epoch in range(5)]


@EACH_KIND
@pytest.mark.parametrize("action", [stop, interrupt])
@pytest.mark.parametrize("step", [1, 2, 3, 5, 8, STEPS - 1])
def test_interruptions_change_nothing(step: int, action: Any, kind: str, tmp_path: Path) -> None:
    """Stops after any step, after an epoch's last one before or after its checkpoint. A run resumes from one."""

    def run(log: str, kept: str, *more: Callback, **options: Any) -> None:
        callbacks = [Checkpoint(tmp_path / kept, every=2), *more]
        train(tmp_path / log, kind, validation_data=VALIDATION, callbacks=callbacks, **options)

    run("once", "once.kept")
    run("log", "kept", At(step, action))
    run("log", "kept", resume=True)
    assert (tmp_path / "log").read_bytes() == (tmp_path / "once").read_bytes() == uninterrupted(kind).log
    assert (tmp_path / "kept").read_bytes() == (tmp_path / "once.kept").read_bytes()
    assert steps_of(tmp_path / "kept") == 4 * PER_EPOCH
    train(tmp_path / "kept", kind, resume=True)
    assert (tmp_path / "kept").read_bytes() == uninterrupted(kind).log


@EACH_KIND
@pytest.mark.parametrize("step", [1, 4, 5, 9])
def test_the_history_of_a_resumed_run_is_the_rest(step: int, kind: str, tmp_path: Path) -> None:
    """Averages the whole of an epoch that was cut short, and a .csv has every line."""

    def run(log: str, table: str, *more: Callback, **options: Any) -> dict[str, list[float]]:
        given = {"callbacks": [CSVLogger(tmp_path / table), *more], "validation_data": VALIDATION}
        return fit(make(kind), log=tmp_path / log, **given, **options).history

    expected = run("once", "once.csv")
    run("log", "a.csv", At(step, interrupt))
    with open(tmp_path / "a.csv", "a") as file:
        file.write("7,0.25")  # the trace of an interrupted write
    rest = run("log", "a.csv", resume=True)
    # An epoch whose last step was the interrupted one has not been told of, and is not told of later.
    done = (step + 1) // PER_EPOCH
    assert rest == {name: values[done:] for name, values in expected.items()}
    rows = [list(csv.reader(open(tmp_path / f"{name}.csv", newline=""))) for name in ("once", "a")]
    assert rows[1] == [row for row in rows[0] if row[0] != str((step + 1) / PER_EPOCH - 1).removesuffix(".0")]


def test_refusals(tmp_path: Path) -> None:
    kept, log = tmp_path / "kept", tmp_path / "log"
    with pytest.raises(ValueError, match="`every` must be at least 1. Received: 0"):
        Checkpoint(kept, every=0)
    with pytest.raises(ValueError, match="give fit a log"):
        fit(make("weights"), callbacks=[Checkpoint(kept)])
    # Nothing has been trained, so no log is left that would be in the way of the next try.
    assert not list(tmp_path.iterdir())

    kept.write_bytes(b"precious")
    with pytest.raises(FileExistsError, match="kept exists"):
        train(log, "weights", callbacks=[Checkpoint(kept)])
    assert kept.read_bytes() == b"precious" and not log.exists()
    log.write_bytes(b"old")
    with pytest.raises(FileExistsError, match="kept exists"):
        train(log, "weights", callbacks=[Checkpoint(kept)], replace=True)
    assert log.read_bytes() == b"old"
    train(log, "weights", callbacks=[Checkpoint(kept, replace=True)], replace=True)
    assert kept.read_bytes() == log.read_bytes() == uninterrupted("weights").log


@EACH_KIND
def test_a_checkpoint_of_another_run_is_refused(kind: str, tmp_path: Path) -> None:
    """Refuses also one that is ahead of the run, which is of another future."""
    log, kept, whole = tmp_path / "log", tmp_path / "kept", uninterrupted(kind).log
    train(log, kind, callbacks=[At(4, stop)])
    data = log.read_bytes()
    for wrong in (uninterrupted({"nodes": "head", "weights": "8"}[kind]).log, whole, b"none at all"):
        kept.write_bytes(wrong)
        with pytest.raises(LogError, match="no checkpoint of this run|no (seed|snapshot) log"):
            train(log, kind, callbacks=[Checkpoint(kept)], resume=True)
        assert kept.read_bytes() == wrong and log.read_bytes() == data


def test_full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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
            train(log, "weights", callbacks=[Checkpoint(kept)])
    assert failure.value.filename == str(kept)
    assert (steps_of(kept), steps_of(log)) == (2 * PER_EPOCH, 3 * PER_EPOCH)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["kept", "log"]
    train(log, "weights", callbacks=[Checkpoint(kept)], resume=True)
    assert kept.read_bytes() == log.read_bytes() == uninterrupted("weights").log


def test_looking_at_a_checkpoint_does_not_change_what_an_interruption_goes_back_to(tmp_path: Path) -> None:
    """A checkpoint whose snapshots are damaged stands for the beginning of the run."""
    log, kept = tmp_path / "log", tmp_path / "kept"
    first = train(log, "nodes", callbacks=[At(4, stop)])
    data, (slots, records, _) = bytearray(log.read_bytes()), layout("nodes")
    for slot in (slots, (slots + records) // 2):
        data[slot + 20] ^= 16
    kept.write_bytes(data)

    class Now(Callback):
        def on_train_begin(self, progress: RunProgress) -> None:
            raise KeyboardInterrupt

    callbacks = [Checkpoint(kept, every=3), Now()]
    second = train(log, "nodes", validation_data=VALIDATION, callbacks=callbacks, resume=True)
    assert second.interrupted and second.step == 5
    assert snapshot(second) == snapshot(first)
