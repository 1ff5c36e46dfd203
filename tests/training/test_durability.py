"""Logs when disks are full, the power fails, or bytes are damaged; a run resumes from them with the same bits."""

import errno
import io
import os
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from helpers.interrupted_runs import (
    EVERY,
    SETTINGS_OF,
    STEPS,
    check_interrupted,
    check_resumed,
    fit,
    layout,
    make,
    model_of,
    train,
    uninterrupted,
)
from helpers.moments import At, Disk, fail_to_sync, stop
from tflm_zo.logs import Log, LogError, LogWarning, LogWriter
from tflm_zo.training import Trainer

EACH_KIND = pytest.mark.parametrize("kind", ["nodes", "weights"])
SLOTS, RECORDS, RECORD = layout("nodes")
SLOT = (RECORDS - SLOTS) // 2
FORMATS = {"nodes": "snapshot", "weights": "seed"}


def synced(log: Path, kind: str, every: float | None, **more: Any) -> Trainer:
    """Trains with a log that is brought to the disk so often."""
    trainer = Trainer(model_of(kind), replace(SETTINGS_OF[kind], sync_every=every))
    fit(trainer, log=log, **more)
    return trainer


# --- a full disk --------------------------------------------------------------------------------------------


@EACH_KIND
@pytest.mark.parametrize("room", [(0, 0), (0, 1), (1, -1), (2, 5), (4, 0), (7, 11)])
def test_full_disk(kind: str, room: tuple[int, int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Log and weights are those of the last step whose record there is room for; `room`: records and bytes."""
    log, trainer, (_, records, size) = tmp_path / "log", make(kind), layout(kind)
    free = room[0] * size + room[1]
    with monkeypatch.context() as patch:
        Disk(patch, records + free)
        with pytest.raises(OSError, match="No space left on device") as failure:
            fit(trainer, log=log)
    assert failure.value.filename == str(log)
    said = {"weights": "resumed", "nodes": "keeps its last whole snapshot"}[kind]
    assert (said in failure.value.strerror) == (free >= size or kind == "nodes")
    assert len(log.read_bytes()) == records + free // size * size  # nothing stays of a part of a record
    assert check_interrupted(trainer, log, kind) == free // size


def test_full_again_and_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Leaves room for one record and a half each time."""
    log, times, (_, header, size) = tmp_path / "log", 0, layout("weights")
    whole = uninterrupted("weights").log
    disk = Disk(monkeypatch, header + size)
    while True:
        try:
            train(log, "weights", resume=log.exists())
            break
        except OSError:
            times += 1
            assert log.read_bytes() == whole[: header + times * size]
            disk.size = header + times * size + size * 3 // 2
    assert times == STEPS - 1 and log.read_bytes() == whole


def test_a_disk_that_takes_a_few_bytes_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = uninterrupted("weights").log
    Disk(monkeypatch, 2 * len(whole), at_once=5)
    train(tmp_path / "log", "weights")
    assert (tmp_path / "log").read_bytes() == whole


@pytest.mark.parametrize(
    ("kind", "room"),
    [*(("weights", n) for n in (0, 1, 131)), *(("nodes", n) for n in (0, 1, SLOTS - 1, SLOTS, RECORDS - 1))],
)
@pytest.mark.parametrize("exists", [False, True])
def test_full_before_the_first_step(
    kind: str, room: int, exists: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Leaves no log behind; a log that would have been replaced stays."""
    log = tmp_path / "log"
    if exists:
        log.write_bytes(b"precious")
    Disk(monkeypatch, room)
    with pytest.raises(OSError, match="No space left on device.*: '"):
        train(log, kind, replace=True)
    assert [path.name for path in tmp_path.iterdir()] == ["log"] * exists
    assert not exists or log.read_bytes() == b"precious"


@pytest.mark.parametrize(
    ("kind", "every", "good", "error"),
    [("weights", 0.0, 6, errno.ENOSPC), *(("nodes", 1.0, good, errno.EIO) for good in (3, 4, 5, 6, 7))],
)
def test_a_disk_that_fails_to_sync(
    kind: str, every: float, good: int, error: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Keeps complete steps on a file system that reports only afterwards that it is full."""
    log = tmp_path / "log"
    with monkeypatch.context() as patch:
        fail_to_sync(patch, good, error)
        with pytest.raises(OSError, match=os.strerror(error)) as failure:
            synced(log, kind, every)
    assert failure.value.filename == str(log)
    if kind == "weights":
        left = Log.read(log)
        assert 0 < len(left.steps) < STEPS and left.torn_bytes == 0
    check_resumed(log, kind)


def test_no_such_folder(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError) as failure:
        train(tmp_path / "no" / "log", "nodes")
    assert failure.value.filename == str(tmp_path / "no" / "log")


# --- the power fails ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "every, expected",
    # The header, its folder, and the end are synced in any case.
    [(0, STEPS), (1.0, 3), (2.0, 2), (None, 0), (100.0, 0)],
)
def test_how_often_the_log_is_brought_to_the_disk(
    every: float | None, expected: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Steps take 0.3 s here: 4.2 s in all."""
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
    synced(tmp_path / "log", "weights", every)
    assert calls[0] - 3 == expected


@pytest.mark.parametrize("every", [-1.0, float("nan")])
def test_sync_every_is_checked(every: float, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="`sync_every` must be in 0"):
        synced(tmp_path / "log", "weights", every)
    assert not (tmp_path / "log").exists()


def test_a_record_is_one_write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[int] = []

    class File(io.FileIO):
        def write(self, data: Any) -> int:
            sizes.append(len(data))
            return super().write(data)

    monkeypatch.setattr(io, "FileIO", File)
    train(tmp_path / "log", "weights")
    assert sizes == [132] + [28] * STEPS


DAMAGES: dict[str, Any] = {
    "zeros": lambda end, size: bytes(len(end)),
    "hole": lambda end, size: bytes(size) + end[size:],
    "other bytes": lambda end, size: np.random.default_rng(0).bytes(len(end)),
    "nothing": lambda end, size: b"",
    "ones behind": lambda end, size: b"\xff" * 40,
    "a part of a record": lambda end, size: end[: size - 1],
}


@EACH_KIND
@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("steps", [5, 12])
def test_what_a_power_failure_leaves(kind: str, damage: str, steps: int, tmp_path: Path) -> None:
    """Ends the log at blocks that never reached the disk, which are missing or read as zeros or older content."""
    log, data, (_, records, size) = tmp_path / "log", uninterrupted(kind).log, layout(kind)
    at = records + steps * size
    log.write_bytes(data[:at] + DAMAGES[damage](data[at:], size))
    assert len(Log.read(log).losses) == steps
    check_resumed(log, kind)


def damaged(data: bytes, at: int) -> bytes:
    return data[:at] + bytes([data[at] ^ 16]) + data[at + 1 :]


def slot_of(number: int) -> int:
    return SLOTS + (number - 1) % 2 * SLOT


@pytest.mark.parametrize("place", [0, 4, 13, SLOT // 2, SLOT - 1])
@pytest.mark.parametrize("steps", [6, 9, 12, STEPS])
def test_a_damaged_snapshot_costs_its_steps_only(steps: int, place: int, tmp_path: Path) -> None:
    log = tmp_path / "log"
    train(log, "nodes", callbacks=[At(steps - 1, stop)])
    number = -(-steps // EVERY)
    log.write_bytes(damaged(log.read_bytes(), slot_of(number) + place))
    read = Log.read(log)
    assert read.snapshot is not None and read.snapshot.step == (number - 1) * EVERY
    assert len(read.losses) == steps
    check_resumed(log, "nodes")


def test_an_older_snapshot_that_is_damaged_is_not_missed(tmp_path: Path) -> None:
    log = tmp_path / "log"
    train(log, "nodes", callbacks=[At(8, stop)])
    log.write_bytes(damaged(log.read_bytes(), slot_of(2) + 40))
    read = Log.read(log)
    assert read.snapshot is not None and read.snapshot.step == 9
    check_resumed(log, "nodes")


def test_both_snapshots_damaged(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_bytes(damaged(damaged(uninterrupted("nodes").log, slot_of(1) + 20), slot_of(2) + 20))
    assert Log.read(log).snapshot is None
    check_resumed(log, "nodes")


@pytest.mark.parametrize("record, expected", [(0, 0), (3, 0), (11, 0), (12, 12), (13, 12)])
def test_damaged_records(record: int, expected: int, tmp_path: Path) -> None:
    """Skips a snapshot whose steps have lost their records: the log would keep a hole."""
    log = tmp_path / "log"
    log.write_bytes(damaged(uninterrupted("nodes").log, RECORDS + RECORD * record + 5))
    read = Log.read(log)
    assert len(read.losses) == record
    assert (0 if read.snapshot is None else read.snapshot.step) == expected
    check_resumed(log, "nodes")


# --- a log without a whole header ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "length"),
    [
        *(("weights", n) for n in (None, 0, 1, 7, 8, 9, 100, 131)),
        *(("nodes", n) for n in (None, 0, 1, 8, 10, 100, 163, 164, SLOTS - 1, SLOTS, SLOTS + 50, RECORDS - 1)),
    ],
)
def test_cut_short_before_the_records(kind: str, length: int | None, tmp_path: Path) -> None:
    log = tmp_path / "log"
    said = "no such log"
    if length is not None:
        log.write_bytes(uninterrupted(kind).log[:length])
        said = f"ends within its {'header' if length < layout(kind)[0] else 'first snapshots'}"
    with pytest.warns(LogWarning, match=f"{said}.*; training from the beginning"):
        train(log, kind, resume=True)
    assert log.read_bytes() == uninterrupted(kind).log
    check_resumed(log, kind)  # a finished run


@EACH_KIND
def test_what_is_no_log_is_refused(kind: str, tmp_path: Path) -> None:
    """Refuses other files, logs of the other format, and headers with a wrong byte, which stay as they are."""
    log, whole, other = tmp_path / "log", uninterrupted(kind).log, {"nodes": "weights"}.get(kind, "nodes")
    strangers = [b"x", b"ZOLOG\n", bytes(8), b"a letter that is dear to somebody", bytes(132), b"\xff" * 500]
    headers = [damaged(whole, at) for at in (0, 8, 10, 14, 40, 110, layout(kind)[0] - 1)]
    cases = [(content, "or its header is damaged") for content in (*strangers, *headers)]
    said = f"but a {FORMATS[other]} log, of another kind of run"
    cases += [(uninterrupted(other).log[:length], said) for length in (16, 100, None)]
    for content, why in cases:
        log.write_bytes(content)
        with pytest.raises(LogError, match=f"is no {FORMATS[kind]} log of this version, {why}"):
            train(log, kind, resume=True)
        assert log.read_bytes() == content


@EACH_KIND
def test_replace(kind: str, tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_bytes(b"old")
    with pytest.raises(FileExistsError, match="exists. Choose another name, or use `resume=True` or `replace=True`"):
        train(log, kind)
    with pytest.raises(ValueError, match="steps"):
        fit(make(kind), steps=0, log=log, replace=True)
    assert log.read_bytes() == b"old"
    train(log, kind, replace=True)
    assert [path.name for path in tmp_path.iterdir()] == ["log"]
    train(tmp_path / "other", kind, replace=True)
    assert log.read_bytes() == (tmp_path / "other").read_bytes() == uninterrupted(kind).log
