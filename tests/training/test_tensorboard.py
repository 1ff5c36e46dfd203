"""Event files: read back record by record, they have the history's numbers."""

import struct
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from helpers.models import MODELS
from helpers.moments import At, stop
from helpers.runs import layerwise_settings, random_samples
from tflm_zo.training import Callback, TensorBoard, Trainer

X, Y = random_samples(5, 40)


def crc32c(data: bytes) -> int:
    """Computes Castagnoli's checksum, bit by bit, masked as records have it."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    crc ^= 0xFFFFFFFF
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def records(path: Path) -> Iterator[bytes]:
    """Records of a file: length, its checksum, data, their checksum."""
    data = path.read_bytes()
    at = 0
    while at < len(data):
        head = data[at : at + 8]
        (size,) = struct.unpack("<Q", head)
        body = data[at + 12 : at + 12 + size]
        assert struct.unpack("<I", data[at + 8 : at + 12]) == (crc32c(head),)
        assert struct.unpack("<I", data[at + 12 + size : at + 16 + size]) == (crc32c(body),)
        yield body
        at += 16 + size


def scalars(folder: Path) -> dict[str, dict[int, float]]:
    """Returns values by name and step."""
    from tensorboardX.proto.event_pb2 import Event

    found: dict[str, dict[int, float]] = {}
    for path in sorted(folder.glob("events.*")):
        for record in records(path):
            event: Any = Event.FromString(record)
            for value in event.summary.value:
                found.setdefault(value.tag, {})[event.step] = value.simple_value
    return found


def test_events_are_the_history(tmp_path: Path) -> None:
    trainer = Trainer(MODELS["small_cnn"](), layerwise_settings(batch_size=8, learning_rate=1.0))
    history = trainer.fit(X, Y, epochs=3, validation_data=(X, Y), callbacks=[TensorBoard(tmp_path)])
    found = scalars(tmp_path)
    assert list(found["loss"]) == list(found["equivalents"]) == list(range(1, 16))
    assert list(found["loss"].values()) == pytest.approx(history.steps, rel=1e-6)
    assert found["equivalents"][15] == pytest.approx(trainer.equivalents)
    for name in ("loss", "val_loss", "val_accuracy", "equivalents"):
        own = found[f"epoch/{name}"]
        assert list(own) == [5, 10, 15]
        assert list(own.values()) == pytest.approx(history.history[name], rel=1e-6)


def test_fewer_entries(tmp_path: Path) -> None:
    trainer = Trainer(MODELS["small_cnn"](), layerwise_settings(batch_size=8, learning_rate=1.0))
    trainer.fit(X, Y, epochs=2, callbacks=[TensorBoard(tmp_path / "run", every=4)])
    found = scalars(tmp_path / "run")
    assert list(found["loss"]) == [4, 8] and list(found["epoch/loss"]) == [5, 10]


def test_a_resumed_run_takes_the_place_of_its_steps(tmp_path: Path) -> None:
    from tensorboardX.proto.event_pb2 import Event, SessionLog

    log = tmp_path / "run.zolog"
    settings = layerwise_settings(batch_size=8, learning_rate=1.0, snapshot_every=5)
    for resume in (False, True):
        trainer = Trainer(MODELS["small_cnn"](), settings)
        callbacks: list[Callback] = [TensorBoard(tmp_path / "events"), *([] if resume else [At(5, stop)])]
        trainer.fit(X, Y, epochs=3, keep="last", log=log, resume=resume, callbacks=callbacks)
    events = [Event.FromString(r) for p in sorted((tmp_path / "events").glob("events.*")) for r in records(p)]
    starts = [e.step for e in events if e.session_log.status == SessionLog.START]
    assert starts == [6]
    assert list(scalars(tmp_path / "events")["loss"]) == list(range(1, 16))


def test_without_its_package_the_message_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tensorboardX", None)
    with pytest.raises(ImportError, match=r"pip install 'tflm_zo\[tensorboard\]'"):
        TensorBoard("runs")


def test_entries_are_at_least_a_step_apart() -> None:
    with pytest.raises(ValueError, match="`every` must be at least 1. Received: 0"):
        TensorBoard("runs", every=0)
