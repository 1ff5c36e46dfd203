"""The log when disks are full, headers are cut short and the power fails."""

import dataclasses
import errno
import io
import os
import time
import warnings
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from helpers.injection import inject_all
from helpers.models import MODELS
from helpers.moments import Disk, fail_to_sync, interrupt_at_call
from helpers.runs import packed, random_samples, state
from tflm_zo.core import Control, SeedLogHeader, StepRecord
from tflm_zo.logs import Log, LogError, LogWarning, LogWriter, replay_log
from tflm_zo.training import Settings, Trainer, Weights
from tflm_zo.training.lowering import weight_integers

X, Y = random_samples(3)
STEPS, HEADER, RECORD = 9, 132, 28
SETTINGS = Settings(tasks=(Weights(queries=2),), batch_size=8, seed=9)
MODEL = inject_all(MODELS["small_cnn"](), batch=4)


def train(log: Path, *, sync_every: float | None = 1.0, **more: Any) -> Trainer:
    trainer = Trainer(MODEL, dataclasses.replace(SETTINGS, sync_every=sync_every))
    trainer.fit(X, Y, steps=STEPS, log=log, **more, keep="last")
    return trainer


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """Returns the log of an uninterrupted run."""
    log = tmp_path_factory.mktemp("whole") / "log"
    train(log)
    data = log.read_bytes()
    assert len(data) == HEADER + STEPS * RECORD
    return data


# --- a full disk --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("free", [HEADER, HEADER + 1, HEADER + RECORD - 1, HEADER + 4 * RECORD + 13])
def test_full_disk(free: int, whole: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = tmp_path / "log"
    trainer = Trainer(MODEL, SETTINGS)
    steps = (free - HEADER) // RECORD
    with monkeypatch.context() as patch:
        Disk(patch, free)
        with pytest.raises(OSError, match="No space left on device") as failure:
            trainer.fit(X, Y, steps=STEPS, log=log, keep="last")
    assert failure.value.filename == str(log)
    assert ("resumed" in failure.value.strerror) == (steps > 0)
    assert log.read_bytes() == whole[: HEADER + steps * RECORD]
    assert state(trainer) == packed(*replay_log(MODEL, Log.read(log)))
    train(log, resume=True)
    assert log.read_bytes() == whole


def test_the_log_alone_ends_with_a_whole_record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ends the log with a complete record if another record does not fit: nothing of it stays."""
    control = Control(weight_integers(SETTINGS, steps=5, samples=8, batch=4, weights=9, blocks=1), 100, [0])
    Disk(monkeypatch, HEADER + 2 * RECORD - 1)
    writer = LogWriter(tmp_path / "log", SeedLogHeader(control.settings, bytes(16), 0))
    for full in (False, True):
        while control.next() and not control.report(np.zeros(4, np.int32)):
            pass
        if full:
            with pytest.raises(OSError, match="No space left"):
                writer.append(partial(StepRecord.write, control))
        else:
            writer.append(partial(StepRecord.write, control))
        assert (tmp_path / "log").stat().st_size == HEADER + RECORD
    writer.close()
    log = Log.read(tmp_path / "log")
    assert (len(log.steps), log.torn_bytes) == (1, 0)


def test_full_again_and_again(whole: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Leaves room for one record and a half each time."""
    log, times = tmp_path / "log", 0
    disk = Disk(monkeypatch, HEADER + RECORD)
    while True:
        try:
            train(log, resume=log.exists())
            break
        except OSError:
            times += 1
            assert log.read_bytes() == whole[: HEADER + times * RECORD]
            disk.size = HEADER + times * RECORD + RECORD * 3 // 2
    assert times == STEPS - 1
    assert log.read_bytes() == whole


def test_a_disk_that_takes_a_few_bytes_at_once(whole: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Disk(monkeypatch, 2 * len(whole), at_once=5)
    train(tmp_path / "log")
    assert (tmp_path / "log").read_bytes() == whole


@pytest.mark.parametrize("free", [0, 1, HEADER - 1])
@pytest.mark.parametrize("exists", [False, True])
def test_full_before_the_first_step(free: int, exists: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Leaves no log behind; a log that would have been replaced stays."""
    log = tmp_path / "log"
    if exists:
        log.write_bytes(b"precious")
    Disk(monkeypatch, free)
    with pytest.raises(OSError, match="No space left on device: '"):
        train(log, replace=True)
    assert [path.name for path in tmp_path.iterdir()] == ["log"] * exists
    assert not exists or log.read_bytes() == b"precious"


def test_a_disk_that_fails_to_sync(whole: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keeps a complete log on a file system that reports only afterwards that it is full."""
    log = tmp_path / "log"
    with monkeypatch.context() as patch:
        fail_to_sync(patch, 6, errno.ENOSPC)
        with pytest.raises(OSError, match="No space left") as failure:
            train(log, sync_every=0)
    assert failure.value.filename == str(log)
    data = log.read_bytes()
    assert whole.startswith(data) and 0 < (len(data) - HEADER) // RECORD < STEPS
    assert (len(data) - HEADER) % RECORD == 0
    train(log, resume=True)
    assert log.read_bytes() == whole


# --- the power fails ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "every, expected",
    # The header, its folder, and the end are synced in any case.
    [(0, STEPS), (1.0, 2), (2.0, 1), (None, 0), (100.0, 0)],
)
def test_how_often_the_log_is_brought_to_the_disk(
    every: float | None, expected: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Steps take 0.3 s here: 2.7 s in all."""
    now, calls = [1000.0], [0]
    real_append, real_fsync = LogWriter.append, os.fsync

    def append(self: Any, record: Any) -> None:
        now[0] += 0.3
        real_append(self, record)

    def fsync(handle: int) -> None:
        calls[0] += 1
        real_fsync(handle)

    monkeypatch.setattr(LogWriter, "append", append)
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    monkeypatch.setattr(os, "fsync", fsync)
    train(tmp_path / "log", sync_every=every)
    assert calls[0] - 3 == expected


@pytest.mark.parametrize("every", [-1.0, float("nan")])
def test_sync_every_is_checked(every: float, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="`sync_every` must be in 0"):
        train(tmp_path / "log", sync_every=every)
    assert not (tmp_path / "log").exists()


def test_a_record_is_one_write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[int] = []

    class File(io.FileIO):
        def write(self, data: Any) -> int:
            sizes.append(len(data))
            return super().write(data)

    monkeypatch.setattr(io, "FileIO", File)
    train(tmp_path / "log")
    assert sizes == [HEADER] + [RECORD] * STEPS


@pytest.mark.parametrize("when", ["before", "after"])
def test_ctrl_c_at_the_record(when: Any, whole: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Interrupts with Ctrl-C between a step's last loss and the record that makes it count: all agree on the
    step before."""
    log = tmp_path / "log"
    with monkeypatch.context() as patch:
        interrupt_at_call(patch, LogWriter, "append", 5, when)
        trainer = train(log)
    assert trainer.interrupted
    assert trainer.step == len(Log.read(log).steps) == 4
    train(log, resume=True)
    assert log.read_bytes() == whole


@pytest.mark.parametrize("damage", ["zeros", "hole", "other bytes"])
def test_what_a_power_failure_leaves(damage: str, whole: bytes, tmp_path: Path) -> None:
    """Ends the log at blocks that never reached the disk, which read as zeros or as older content."""
    log, at = tmp_path / "log", HEADER + 4 * RECORD + 9
    data = bytearray(whole)
    if damage == "zeros":
        data[at:] = bytes(len(data) - at)
    elif damage == "hole":
        data[at : at + RECORD] = bytes(RECORD)
    else:
        data[at:] = np.random.default_rng(0).bytes(len(data) - at)
    log.write_bytes(data)
    assert len(Log.read(log).steps) == 4
    train(log, resume=True)
    assert log.read_bytes() == whole


# --- a log without a whole header ---------------------------------------------------------------------------


@pytest.mark.parametrize("length", [None, 0, 1, 7, 8, 9, 100, HEADER - 1])
def test_killed_before_the_header_is_whole(length: int | None, whole: bytes, tmp_path: Path) -> None:
    log = tmp_path / "log"
    if length is not None:
        log.write_bytes(whole[:length])
    said = "no such log" if length is None else "ends within its header"
    with pytest.warns(LogWarning, match=f"{said}.*; training from the beginning"):
        train(log, resume=True)
    assert log.read_bytes() == whole
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        train(log, resume=True)  # a finished run
    assert log.read_bytes() == whole


@pytest.mark.parametrize(
    "content",
    [b"x", b"ZOLOG\n", bytes(8), b"a letter that is dear to somebody", bytes(HEADER), b"\xff" * 500],
    ids=["x", "another line end", "zeros", "short", "zero header", "long"],
)
def test_what_is_no_log_is_refused(content: bytes, tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_bytes(content)
    with pytest.raises(LogError, match="is no seed log of this version, or its header is damaged"):
        train(log, resume=True)
    assert log.read_bytes() == content


def test_a_damaged_header_is_refused(whole: bytes, tmp_path: Path) -> None:
    log = tmp_path / "log"
    for at in (0, 8, 40, HEADER - 1):
        data = bytearray(whole)
        data[at] ^= 16
        log.write_bytes(data)
        with pytest.raises(LogError, match="header is damaged"):
            train(log, resume=True)
        assert log.read_bytes() == data


# --- replacing ----------------------------------------------------------------------------------------------


def test_replace(whole: bytes, tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_bytes(b"old")
    with pytest.raises(FileExistsError, match="exists. Choose another name, or use `resume=True` or `replace=True`"):
        train(log)
    with pytest.raises(ValueError, match="steps"):
        Trainer(MODEL, SETTINGS).fit(X, Y, steps=0, log=log, replace=True, keep="last")
    assert log.read_bytes() == b"old"
    train(log, replace=True)
    assert log.read_bytes() == whole
    assert [path.name for path in tmp_path.iterdir()] == ["log"]
    train(tmp_path / "other", replace=True)
    assert (tmp_path / "other").read_bytes() == whole


def test_first_steps(whole: bytes, tmp_path: Path) -> None:
    """Compares the log after n steps with that of a run that was cut short."""
    (tmp_path / "log").write_bytes(whole)
    log = Log.read(tmp_path / "log")
    for steps in (0, 1, 5, STEPS):
        (tmp_path / "cut").write_bytes(whole[: HEADER + steps * RECORD])
        cut, first = Log.read(tmp_path / "cut"), log.first(steps)
        assert bytes(first.settings) == bytes(cut.settings)
        assert (first.fingerprint, first.whole_bytes, first.torn_bytes) == (
            cut.fingerprint,
            cut.whole_bytes,
            cut.torn_bytes,
        )
        for a, b in ((first.steps, cut.steps), (first.losses, cut.losses)):
            np.testing.assert_array_equal(a, b)
        np.testing.assert_array_equal(first.mean_squares, cut.mean_squares)
    for steps in (-1, STEPS + 1):
        with pytest.raises(LogError, match=f"Steps of the log must be in 0..9. Received: {steps}"):
            log.first(steps)
