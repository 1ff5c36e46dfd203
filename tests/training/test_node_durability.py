"""The log of node perturbation that is damaged or has no room; a run resumes from it with the same bits."""

import errno
from pathlib import Path

import pytest

from helpers.moments import At, Disk, fail_to_sync, stop
from helpers.node_runs import (
    EVERY,
    RECORD,
    STEPS,
    check_interrupted,
    check_resumed,
    fit,
    layout,
    make,
    train,
    uninterrupted,
)
from tflm_zo.logs import Log, LogError, LogWarning

SLOTS, RECORDS = layout()
SLOT = (RECORDS - SLOTS) // 2


# --- damage -------------------------------------------------------------------------------------------------


def damaged(data: bytes, at: int) -> bytes:
    return data[:at] + bytes([data[at] ^ 16]) + data[at + 1 :]


def slot_of(number: int) -> int:
    return SLOTS + (number - 1) % 2 * SLOT


@pytest.mark.parametrize("place", [0, 4, 13, SLOT // 2, SLOT - 1])
@pytest.mark.parametrize("steps", [6, 9, 12, STEPS])
def test_a_damaged_snapshot_costs_its_steps_only(steps: int, place: int, tmp_path: Path) -> None:
    log = tmp_path / "log"
    train(log, callbacks=[At(steps - 1, stop)])
    number = -(-steps // EVERY)
    log.write_bytes(damaged(log.read_bytes(), slot_of(number) + place))
    read = Log.read(log)
    assert read.snapshot is not None and read.snapshot.step == (number - 1) * EVERY
    assert len(read.losses) == steps
    check_resumed(log)


def test_an_older_snapshot_that_is_damaged_is_not_missed(tmp_path: Path) -> None:
    log = tmp_path / "log"
    train(log, callbacks=[At(8, stop)])
    log.write_bytes(damaged(log.read_bytes(), slot_of(2) + 40))
    read = Log.read(log)
    assert read.snapshot is not None and read.snapshot.step == 9
    check_resumed(log)


def test_both_snapshots_damaged(tmp_path: Path) -> None:
    log = tmp_path / "log"
    data = damaged(damaged(uninterrupted().log, slot_of(1) + 20), slot_of(2) + 20)
    log.write_bytes(data)
    assert Log.read(log).snapshot is None
    check_resumed(log)


@pytest.mark.parametrize("record, expected", [(0, 0), (3, 0), (11, 0), (12, 12), (13, 12)])
def test_damaged_records(record: int, expected: int, tmp_path: Path) -> None:
    """Skips a snapshot whose steps have lost their records: the log would keep a hole."""
    log = tmp_path / "log"
    log.write_bytes(damaged(uninterrupted().log, RECORDS + RECORD * record + 5))
    read = Log.read(log)
    assert len(read.losses) == record
    assert (0 if read.snapshot is None else read.snapshot.step) == expected
    check_resumed(log)


@pytest.mark.parametrize("torn", [0, 1, 11])
@pytest.mark.parametrize("steps", [5, 8, 12, 13])
def test_cut_short_within_the_records(steps: int, torn: int, tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_bytes(uninterrupted().log[: RECORDS + RECORD * steps + torn])
    assert len(Log.read(log).losses) == steps
    check_resumed(log)


@pytest.mark.parametrize("tail", [b"\0" * 40, b"\xff" * 12, b"x"])
def test_garbage_behind_the_records(tail: bytes, tmp_path: Path) -> None:
    log = tmp_path / "log"
    train(log, callbacks=[At(6, stop)])
    log.write_bytes(log.read_bytes() + tail)
    assert len(Log.read(log).losses) == 7
    check_resumed(log)


@pytest.mark.parametrize("length", [None, 0, 1, 8, 10, 100, 163, 164, SLOTS - 1, SLOTS, SLOTS + 50, RECORDS - 1])
def test_cut_short_before_the_records(length: int | None, tmp_path: Path) -> None:
    log = tmp_path / "log"
    if length is not None:
        log.write_bytes(uninterrupted().log[:length])
    said = "no such log" if length is None else "ends within its "
    if length is not None:
        said += "header" if length < SLOTS else "first snapshots"
    with pytest.warns(LogWarning, match=f"{said}.*; training from the beginning"):
        train(log, resume=True)
    assert log.read_bytes() == uninterrupted().log


@pytest.mark.parametrize("at", [0, 8, 10, 14, 40, 110, 160, SLOTS - 1])
def test_a_damaged_header_is_refused(at: int, tmp_path: Path) -> None:
    log = tmp_path / "log"
    data = damaged(uninterrupted().log, at)
    log.write_bytes(data)
    with pytest.raises(LogError, match="no snapshot log of this version, or its header is damaged"):
        train(log, resume=True)
    assert log.read_bytes() == data


# --- no room ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("room", [0, 1, RECORD - 1, 2 * RECORD + 5, 4 * RECORD, 7 * RECORD + 11])
def test_full_disk(room: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Log and weights are those of the last step whose record there is room for."""
    log, trainer = tmp_path / "log", make()
    with monkeypatch.context() as patch:
        Disk(patch, RECORDS + room)
        with pytest.raises(OSError, match="No space left on device") as failure:
            fit(trainer, log=log)
    assert failure.value.filename == str(log)
    assert check_interrupted(trainer, log) == room // RECORD


@pytest.mark.parametrize("room", [0, 1, SLOTS - 1, SLOTS, RECORDS - 1])
@pytest.mark.parametrize("exists", [False, True])
def test_full_before_the_first_step(room: int, exists: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Leaves no log behind; a log that would have been replaced stays."""
    log = tmp_path / "log"
    if exists:
        log.write_bytes(b"precious")
    Disk(monkeypatch, room)
    with pytest.raises(OSError, match="No space left on device.*log'"):
        train(log, replace=True)
    assert [path.name for path in tmp_path.iterdir()] == ["log"] * exists
    assert not exists or log.read_bytes() == b"precious"


def test_no_such_folder(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError) as failure:
        train(tmp_path / "no" / "log")
    assert failure.value.filename == str(tmp_path / "no" / "log")


@pytest.mark.parametrize("good", [3, 4, 5, 6, 7])
def test_a_disk_that_fails_to_sync(good: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = tmp_path / "log"
    with monkeypatch.context() as patch:
        fail_to_sync(patch, good, errno.EIO)
        with pytest.raises(OSError, match="Input/output error") as failure:
            train(log)
    assert failure.value.filename == str(log)
    check_resumed(log)


def test_replace(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_bytes(b"old")
    with pytest.raises(ValueError, match="steps"):
        fit(make(), steps=0, log=log, replace=True)
    assert log.read_bytes() == b"old"
    train(log, replace=True)
    assert log.read_bytes() == uninterrupted().log
    assert [path.name for path in tmp_path.iterdir()] == ["log"]
