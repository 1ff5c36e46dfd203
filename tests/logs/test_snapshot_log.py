"""A snapshot log, written record by record without a run, against its bytes as they are specified."""

import struct
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from helpers.injection import inject_all
from helpers.models import MODELS
from tflm_zo.core import (
    CSettings,
    Measurement,
    NodeControl,
    NodeLayer,
    NodeState,
    NodeTask,
    Rademacher,
    SnapshotLogHeader,
    TaskEntry,
    write_step_record,
)
from tflm_zo.logs import Log, LogError, LogWriter, data_checksum, fingerprint

STEPS, INTERVAL, MARK, DATA = 9, 2, bytes(range(16)), 0xABCDEF
LAYER = NodeLayer(in_c=3, out_c=2)
TENSOR = 6
SLOT = 16 + 8 + TENSOR + 4
HEADER = 164 + 32


class Run:
    """A control unit that is told where it is."""

    def __init__(self) -> None:
        settings = CSettings(
            run_seed=7,
            steps=STEPS,
            samples=10,
            batch=2,
            parts=1,
            queries=1,
            distribution=Rademacher(2).struct,
            rate=65536,
            clip=1 << 16,
        )
        self.task = NodeTask(LAYER, 1, 1)
        self.control = NodeControl(settings, 0, [self.task])

    def at(self, step: int) -> Any:
        """Goes there; the weights that it has."""
        self.control.resume(step, [NodeState(2**31 + step, -20 - step)], 100 * step)
        return np.full(TENSOR, step, np.int8)

    def writer(self, path: Path, every: int = 0, *, tensor: int = 4, mark: bytes = MARK, **more: Any) -> LogWriter:
        tasks = (TaskEntry.of(self.task, [tensor]),)
        header = SnapshotLogHeader(self.control.node_settings, tasks, mark, INTERVAL, TENSOR, DATA, every)
        return LogWriter(path, header, **more)


def measured(step: int) -> Measurement:
    return Measurement(step, 10, 1000 - step, step, DATA)


def append(writer: LogWriter, step: int, loss: float) -> None:
    writer.append(lambda owner: write_step_record(step, round(loss * 65536), owner))


def write(path: Path, steps: int, every: int = 0, **more: Any) -> None:
    run = Run()
    writer = run.writer(path, every, **more)
    for step in range(steps + 1):
        if step:
            append(writer, step - 1, step / 4)
        weights = run.at(step) if step else None
        if every and step % every == 0:
            writer.append(measured(step).to_bytes)
            if step:
                writer.best_snapshot(run.control, step // every, [weights])
        if step and writer.is_due(step):
            writer.snapshot(run.control, [weights])
    writer.close()


def slot_bytes(owner: int, number: int, step: int) -> bytes:
    body = struct.pack("<4IIi", owner, number, step, 100 * step, 2**31 + step, -20 - step) + bytes([step]) * TENSOR
    return body + struct.pack("<I", zlib.crc32(body))


@pytest.mark.parametrize("every", [0, 3])
@pytest.mark.parametrize("steps", [0, 1, 2, 5, STEPS])
def test_bytes(steps: int, every: int, tmp_path: Path) -> None:
    """Checks slots of the last snapshots, and of the best state if the run measures; records in their order."""
    write(tmp_path / "log", steps, every)
    data = (tmp_path / "log").read_bytes()
    owner = zlib.crc32(data[: HEADER - 4])
    assert data[HEADER - 4 : HEADER] == struct.pack("<I", owner)
    slots = [b"", b"", b""][: 3 if every else 2]
    for step in range(1, steps + 1):
        if every and step % every == 0:
            slots[2] = slot_bytes(owner, step // every + 1, step)
        if step % INTERVAL == 0 or step == STEPS:
            number = -(-step // INTERVAL)
            slots[(number - 1) % 2] = slot_bytes(owner, number, step)
    records = b""
    for step in range(steps + 1):
        if step:
            body = struct.pack("<Ii", step - 1, round(65536 * step / 4))
            records += body + struct.pack("<I", zlib.crc32(body, owner))
        if every and step % every == 0:
            records += measured(step).to_bytes(owner)
    assert data[HEADER:] == b"".join(slot.ljust(SLOT, b"\0") for slot in slots) + records


@pytest.mark.parametrize("every", [0, 3])
def test_reading(every: int, tmp_path: Path) -> None:
    write(tmp_path / "log", 7, every)
    log = Log.read(tmp_path / "log")
    assert (log.fingerprint, log.interval, log.weight_bytes, log.data_checksum) == (MARK, INTERVAL, 6, DATA)
    assert (log.measure_every, log.first_segment, log.settings.steps) == (every, 0, STEPS)
    assert log.tasks == (TaskEntry((4,), 1, 2, 65536, NodeState(), False),)
    assert log.losses.tolist() == [step / 4 for step in range(1, 8)]
    assert log.measurements == (tuple(measured(s) for s in (0, 3, 6)) if every else ())
    found = log.snapshot
    assert found is not None and (found.number, found.step, found.largest_loss) == (3, 6, 600)
    assert found.states == (NodeState(2**31 + 6, -26),) and found.weights.tolist() == [6] * TENSOR
    assert log.after(6) is found and log.after(4) is None
    assert (log.best_slot is not None) == bool(every)
    assert log.best == (measured(6) if every else None)
    assert log.best_until(5) == (measured(0) if every else None)  # the weights after 3 steps are gone


@pytest.mark.parametrize(("at", "value", "number"), [(8, 6, 9), (8, STEPS + 1, 2), (12, 0, 9), (12, -1, 2)])
def test_a_snapshot_that_no_run_writes_is_none(at: int, value: int, number: int, tmp_path: Path) -> None:
    """Refuses a step outside the run, or a loss below 0, with a valid checksum, too."""
    write(tmp_path / "log", 7)
    data = bytearray((tmp_path / "log").read_bytes())
    slot = bytearray(slot_bytes(int.from_bytes(data[HEADER - 4 : HEADER], "little"), 9, 6)[:-4])
    slot[at : at + 4] = struct.pack("<i", value)
    data[HEADER : HEADER + SLOT] = slot + struct.pack("<I", zlib.crc32(slot))
    (tmp_path / "log").write_bytes(data)
    found = Log.read(tmp_path / "log").snapshot
    assert found is not None and found.number == number


@pytest.mark.parametrize(("other", "number"), [(0, 9), (1, 2)])
def test_a_slot_of_another_run_is_none(other: int, number: int, tmp_path: Path) -> None:
    """It may lie where a run before wrote it: whole, but with the checksum of another header."""
    write(tmp_path / "log", 7)
    data = bytearray((tmp_path / "log").read_bytes())
    owner = int.from_bytes(data[HEADER - 4 : HEADER], "little")
    data[HEADER : HEADER + SLOT] = slot_bytes(owner ^ other, 9, 6)
    (tmp_path / "log").write_bytes(data)
    found = Log.read(tmp_path / "log").snapshot
    assert found is not None and found.number == number


def test_a_log_belongs_to_its_model(tmp_path: Path) -> None:
    model = inject_all(MODELS["small_cnn"](), nodes="fc")
    write(tmp_path / "log", 3)
    with pytest.raises(LogError, match="of another model"):
        Log.read(tmp_path / "log").check_model(model)
    Run().writer(tmp_path / "own", tensor=40, mark=fingerprint(model)).close()
    with pytest.raises(LogError, match="trainable tensor 40"):
        Log.read(tmp_path / "own").check_model(model)


def test_opened_by_what_it_begins_with(tmp_path: Path) -> None:
    write(tmp_path / "log", 3)
    assert Log.read(tmp_path / "log").kind == "snapshot log"
    (tmp_path / "other").write_bytes(b"something else")
    with pytest.raises(LogError, match="no seed log of this version"):
        Log.read(tmp_path / "other")


def test_checksum_of_data() -> None:
    a, b = np.arange(6, dtype=np.int8).reshape(2, 3), np.array([1, -1], np.int32)
    assert data_checksum([a, b]) == zlib.crc32(a.tobytes() + b.tobytes())
    assert data_checksum([a[:, ::-1]]) == zlib.crc32(bytes([2, 1, 0, 5, 4, 3]))
