# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""The log of node perturbation: interrupted anywhere, killed, damaged, out of room; always the same bits."""

from __future__ import annotations

import csv
import errno
import hashlib
import io
import os
import signal
import struct
import subprocess
import sys
import time
import warnings
import zlib
from dataclasses import replace
from functools import cache
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import pytest

from helpers.injection import inject_all
from helpers.interpreters import require
from helpers.models import MODELS
from helpers.moments import At, interrupt, stop
from tflm_zo.core import NodeControl
from tflm_zo.logs import LogError, LogWarning, SnapshotLog, SnapshotLogWriter
from tflm_zo.training import (
    Callback,
    Checkpoint,
    CSVLogger,
    EarlyStopping,
    Exact,
    Nodes,
    Settings,
    Trainer,
    Weights,
)
from tflm_zo.training.integers import layerwise_integers
from tflm_zo.training.node_run import NodeRun
from tflm_zo.training.setting_names import changed

RNG = np.random.default_rng(3)
X = RNG.integers(-128, 128, (24, 8, 8, 1)).astype(np.int8)
Y = RNG.integers(0, 4, 24)
VALIDATION = (RNG.integers(-128, 128, (9, 8, 8, 1)).astype(np.int8), RNG.integers(0, 4, 9))
STEPS, EVERY, RECORD = 14, 4, 12
SETTINGS = Settings(tasks=(Nodes(queries=2),), batch_size=8, seed=9, snapshot_every=EVERY)

# Both layers with fractions; one with the prefix run once, 8 bit, its head exact.
MODELS_OF = {
    "whole": inject_all(MODELS["small_cnn"](), nodes="*", batch=4),
    "head": inject_all(MODELS["small_cnn"](), nodes="fc", batch=8, update_bits=8),
}
SETTINGS_OF = {
    "whole": SETTINGS,
    "head": replace(SETTINGS, tasks=(*SETTINGS.tasks, Exact()), snapshot_every=5),
}
KINDS = list(MODELS_OF)


def make(kind: str = "whole") -> Trainer:
    return Trainer(MODELS_OF[kind], SETTINGS_OF[kind])


def train(log: Path, kind: str = "whole", **more: Any) -> Trainer:
    trainer = make(kind)
    trainer.fit(X, Y, steps=STEPS, log=log, **more, keep="last")
    return trainer


def state(trainer: Trainer) -> bytes:
    """The trained weights and fractions, as a snapshot has them."""
    metadata = trainer.runtime.metadata
    views = [trainer.runtime.weight_views(metadata.trainable[n.trainable].name) for n in metadata.nodes]
    return b"".join(v.tobytes() for v in [*(w for w, _ in views), *(f for _, f in views if f is not None)])


@cache
def layout(kind: str) -> tuple[int, int]:
    """Where slots and records begin."""
    trainer = make(kind)
    tasks = len(trainer.runtime.metadata.nodes)
    header = 164 + 32 * tasks
    return header, header + 2 * (16 + 8 * tasks + len(state(trainer)) + 4)


SLOTS, RECORDS = layout("whole")
SLOT = (RECORDS - SLOTS) // 2


class Run:
    """Log, weights and exported model of an uninterrupted run."""

    def __init__(self, kind: str, folder: Path) -> None:
        trainer = train(folder / kind, kind)
        self.log, self.state = (folder / kind).read_bytes(), state(trainer)
        self.exported = trainer.export().to_bytes()


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Run]:
    folder = tmp_path_factory.mktemp("whole")
    return {kind: Run(kind, folder) for kind in KINDS}


def resume(kind: str, log: Path, whole: dict[str, Run]) -> None:
    """Going on ends with the bits of the run that was not interrupted."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        trainer = train(log, kind, resume=True)
    assert log.read_bytes() == whole[kind].log
    assert state(trainer) == whole[kind].state
    assert trainer.export().to_bytes() == whole[kind].exported


def check_and_resume(kind: str, log: Path, whole: dict[str, Run], trainer: Trainer) -> int:
    """An interrupted run's weights are those of its last whole step, and so are those of its log."""
    slots, records = layout(kind)
    data, read = log.read_bytes(), SnapshotLog.read(log)
    steps = len(read.losses)
    assert trainer.step == steps
    assert data[:slots] == whole[kind].log[:slots]
    assert data[records:] == whole[kind].log[records : records + RECORD * steps]
    if steps:
        assert read.snapshot is not None and read.snapshot.step == steps
        assert read.snapshot.weights.tobytes() == state(trainer)
    else:
        assert read.snapshot is None and state(trainer) == state(make(kind))
    resume(kind, log, whole)
    return steps


# --- interruptions ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_bytes_are_as_specified(kind: str, whole: dict[str, Run]) -> None:
    """Field by field, from the text of zo_snapshot_log.h."""
    data, settings = whole[kind].log, SETTINGS_OF[kind]
    trainer = make(kind)
    metadata, weights = trainer.runtime.metadata, len(whole[kind].state)
    tasks = len(metadata.nodes)
    header, records = layout(kind)
    assert data[:16] == b"ZOLOG\r\n\x1a" + struct.pack("<4H", 4, 164 + 32 * tasks, 12, tasks)
    assert data[16:32] == hashlib.sha256(MODELS_OF[kind].to_bytes()).digest()[:16]
    integers = layerwise_integers(settings, steps=STEPS, samples=24, batch=metadata.batch)
    assert data[32:52] == struct.pack("<5I", 9, STEPS, 24, metadata.batch, 8 // metadata.batch)
    assert struct.unpack_from("<2I", data, 32 + 4 * 9) == (integers.rate, integers.final_rate)
    assert struct.unpack_from("<I", data, 32 + 4 * 15) == (4 * 65536,)  # clip
    checksum = zlib.crc32(Y.astype("<i4").tobytes(), zlib.crc32(X.tobytes()))
    first = min(n.input_segment for n in metadata.nodes)
    assert data[124:140] == struct.pack("<4I", first, settings.snapshot_every, weights, checksum)
    assert data[140:160] == struct.pack("<5I", 3 * 65536, 0, 5 | 4 << 8 | 3 << 16 | 1 << 24, 0, 0)
    for t, n in enumerate(metadata.nodes):
        queries = 0 if n.head and settings.has(Exact) else 2
        entry = struct.pack("<8I", n.trainable, 1 << 16, queries, 2 << 16 | 1, 65536, 0, 0, 0)
        assert data[160 + 32 * t :][:32] == entry
    assert data[header - 4 : header] == zlib.crc32(data[: header - 4]).to_bytes(4, "little")

    slot = (records - header) // 2
    owner = int.from_bytes(data[header - 4 : header], "little")
    last = -(-STEPS // settings.snapshot_every)
    for number in (last - 1, last):
        at = data[header + (number - 1) % 2 * slot :][:slot]
        step = min(number * settings.snapshot_every, STEPS)
        part = make(kind)
        part.fit(X, Y, steps=STEPS, callbacks=[At(step - 1, stop)], keep="last")
        largest = max(struct.unpack_from("<i", data, records + RECORD * i + 4)[0] for i in range(step))
        assert at[:16] == struct.pack("<4I", owner, number, step, largest)
        assert at[16 + 8 * tasks : -4] == state(part)
        for t in range(tasks):
            mantissa, exponent = struct.unpack_from("<Ii", at, 16 + 8 * t)
            assert mantissa >= 2**31 and -64 < exponent < 64
        assert at[-4:] == zlib.crc32(at[:-4]).to_bytes(4, "little")

    history = make(kind).fit(X, Y, steps=STEPS, keep="last")
    assert len(data) == records + RECORD * STEPS
    for step, loss in enumerate(history.steps):
        body = struct.pack("<Ii", step, round(loss * 65536))
        assert data[records + RECORD * step :][:RECORD] == body + struct.pack("<I", zlib.crc32(body, owner))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("step", [0, 2, 3, 4, 8, STEPS - 2, STEPS - 1])
@pytest.mark.parametrize("action", [stop, interrupt])
def test_stopped_by_a_callback(
    kind: str, step: int, action: Any, tmp_path: Path, whole: dict[str, Run]
) -> None:
    trainer = make(kind)
    trainer.fit(X, Y, steps=STEPS, log=tmp_path / "log", callbacks=[At(step, action)], keep="last")
    assert check_and_resume(kind, tmp_path / "log", whole, trainer) == step + 1


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize(
    "place, calls",
    [
        ("invoke", 60),
        ("capture", 12),
        ("report", 60),
        ("update", 14),
        ("append", STEPS),
        ("snapshot", 3),
        ("_write_at", 17),
        ("_sync", 6),
    ],
)
def test_interrupted_around_any_call(
    kind: str,
    when: str,
    place: str,
    calls: int,
    tmp_path: Path,
    whole: dict[str, Run],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Ctrl-C at random calls of what a run consists of."""
    rng = np.random.default_rng([len(place), when == "after", len(kind)])
    for round_ in range(2):
        trainer, log = make(kind), tmp_path / f"log{round_}"
        if place == "invoke":
            owner: Any = type(trainer.runtime)
        else:
            owner = NodeControl if hasattr(NodeControl, place) else SnapshotLogWriter
        name = "capture_head" if place == "capture" and kind == "head" else place
        original, left = getattr(owner, name), [int(rng.integers(1, calls + 1))]

        def patched(*args: Any, original: Any = original, left: list[int] = left, **kwargs: Any) -> Any:
            left[0] -= 1
            if left[0] == 0 and when == "before":
                raise KeyboardInterrupt
            result = original(*args, **kwargs)
            if left[0] == 0:
                raise KeyboardInterrupt
            return result

        with monkeypatch.context() as patch:
            patch.setattr(owner, name, patched)
            try:
                trainer.fit(X, Y, steps=STEPS, log=log, keep="last")
            except KeyboardInterrupt:
                assert place == "invoke"  # before the first step
                continue
        if log.exists():
            check_and_resume(kind, log, whole, trainer)
        else:
            assert trainer.step == 0  # while the log was made


@pytest.mark.parametrize("kind", KINDS)
def test_interrupted_at_any_line(
    kind: str, tmp_path: Path, whole: dict[str, Run], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ctrl-C before random lines of Python that a step consists of."""
    files = ("node_run.py", "snapshot_log_writer.py", "log_file.py", "node_control.py")
    left = [2**62]

    def trace_line(frame: FrameType, event: str, _: Any) -> Any:
        if event == "line":
            left[0] -= 1
            if left[0] == 0:
                raise KeyboardInterrupt
        return trace_line

    def trace(frame: FrameType, event: str, _: Any) -> Any:
        return trace_line if frame.f_code.co_filename.endswith(files) else None

    original = NodeRun.advance

    def advance(run: NodeRun) -> Any:
        before = sys.gettrace()
        sys.settrace(trace)
        try:
            return original(run)
        finally:
            sys.settrace(before)

    monkeypatch.setattr(NodeRun, "advance", advance)
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
        interrupted.append(check_and_resume(kind, tmp_path / f"log{i}", whole, trainer))
    assert {STEPS - 1, STEPS} <= set(interrupted)


def test_interrupted_again_and_again(tmp_path: Path, whole: dict[str, Run]) -> None:
    """After every single step."""
    for step in range(STEPS):
        trainer = make()
        trainer.fit(
            X,
            Y,
            steps=STEPS,
            log=tmp_path / "log",
            callbacks=[At(step, interrupt)],
            resume=step > 0,
            keep="last",
        )
        assert trainer.step == step + 1
    resume("whole", tmp_path / "log", whole)


@pytest.mark.parametrize("owner, name", [(NodeControl, "resume"), (SnapshotLogWriter, "keep")])
def test_interrupted_while_going_back(
    owner: Any, name: str, tmp_path: Path, whole: dict[str, Run], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ctrl-C twice: no snapshot is made of what is neither one step nor the other."""
    calls = [0]
    original, update = getattr(owner, name), NodeControl.update

    def again(*args: Any) -> Any:
        if calls[0] > 13:
            raise KeyboardInterrupt
        return original(*args)

    def interrupted(*args: Any) -> Any:
        calls[0] += 1
        result = update(*args)
        if calls[0] > 13:  # within step 6
            raise KeyboardInterrupt
        return result

    with monkeypatch.context() as patch:
        patch.setattr(owner, name, again)
        patch.setattr(NodeControl, "update", interrupted)
        with pytest.raises(KeyboardInterrupt):
            train(tmp_path / "log")
    read = SnapshotLog.read(tmp_path / "log")
    assert read.snapshot is not None and read.snapshot.step == 4
    resume("whole", tmp_path / "log", whole)


def test_an_interruption_without_a_log_leaves_the_last_whole_step() -> None:
    a, b = make(), make()
    a.fit(X, Y, steps=STEPS, callbacks=[At(5, stop)], keep="last")
    calls = [0]

    class Many(Callback):
        def on_step_end(self, trainer: Trainer, step: int, logs: dict[str, float]) -> None:
            if step == 5:
                original = NodeControl.update

                def update(control: NodeControl, *args: Any) -> Any:
                    calls[0] += 1
                    result = original(control, *args)
                    NodeControl.update = original  # type: ignore[method-assign]
                    assert result is None  # the first of two tasks
                    raise KeyboardInterrupt

                NodeControl.update = update  # type: ignore[method-assign]

    b.fit(X, Y, steps=STEPS, callbacks=[Many()], keep="last")
    assert calls == [1] and b.interrupted and b.step == 6
    assert state(a) == state(b)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("runtimes", [("litert-ref", "tflm"), ("tflm", "litert-ref"), ("tflm", "tflm")])
def test_a_run_goes_on_in_another_runtime(kind: str, runtimes: tuple[str, str], tmp_path: Path) -> None:
    """In the exact ones, with the same bits."""
    for name in runtimes:
        require(name)
    model, settings, results = MODELS_OF[kind], SETTINGS_OF[kind], []
    for name, interrupted in (("once", False), ("twice", True)):
        if interrupted:
            first = Trainer(model, settings, runtimes[0])
            first.fit(X, Y, steps=STEPS, log=tmp_path / name, callbacks=[At(6, interrupt)], keep="last")
        trainer = Trainer(model, settings, runtimes[1])
        trainer.fit(X, Y, steps=STEPS, log=tmp_path / name, resume=interrupted, keep="last")
        results.append(((tmp_path / name).read_bytes(), state(trainer), trainer.export().to_bytes()))
    assert results[0] == results[1]


def test_an_error_of_a_callback(tmp_path: Path, whole: dict[str, Run]) -> None:
    def fail(trainer: Trainer) -> None:
        raise RuntimeError("out of paper")

    trainer = make()
    with pytest.raises(RuntimeError, match="out of paper"):
        trainer.fit(X, Y, steps=STEPS, log=tmp_path / "log", callbacks=[At(6, fail)], keep="last")
    assert check_and_resume("whole", tmp_path / "log", whole, trainer) == 7


CHILD = """
import sys
import numpy as np
from tflm_zo.training import Nodes, Settings, Trainer, Weights
folder, resume = sys.argv[1], sys.argv[2] == "resume"
data = np.load(folder + "/data.npz")
settings = Settings(tasks=(Nodes(queries=2),), batch_size=8, seed=9, snapshot_every=EVERY)
trainer = Trainer(folder + "/model.tflite", settings)
trainer.fit(data["x"], data["y"], steps=STEPS, log=folder + "/log", resume=resume, keep="last")
trainer.export().save(folder + "/final.tflite")
"""


def kill_and_resume(folder: Path, kills: int, steps: int, every: int) -> int:
    MODELS_OF["whole"].save(folder / "model.tflite")
    np.savez(folder / "data.npz", x=X, y=Y)
    rng, log = np.random.default_rng(kills), folder / "log"
    marks = sorted(int(v) for v in rng.integers(1, steps, kills))
    child = CHILD.replace("STEPS", str(steps)).replace("EVERY", str(every))
    killed = 0
    for i, mark in enumerate([*marks, None]):
        command = [sys.executable, "-c", child, str(folder), "resume" if i else "new"]
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        if mark is None:
            assert process.wait(timeout=240) == 0
            break
        deadline = time.monotonic() + 120
        # Records are cut back to the last snapshot as a run is resumed; it is on its way when there are more.
        lowest = mark // every * every + 1 + int(rng.integers(every))
        while not (log.exists() and log.stat().st_size >= RECORDS + RECORD * min(lowest, steps)):
            if process.poll() is not None:
                break
            assert time.monotonic() < deadline
            time.sleep(0.0005)
        time.sleep(float(rng.random()) * 0.003)
        process.send_signal(signal.SIGKILL)
        process.wait()
        killed += process.returncode == -signal.SIGKILL
    settings = replace(SETTINGS, snapshot_every=every)
    trainer = Trainer(MODELS_OF["whole"], settings)
    trainer.fit(X, Y, steps=steps, log=folder / "once", keep="last")
    assert log.read_bytes() == (folder / "once").read_bytes()
    assert (folder / "final.tflite").read_bytes() == trainer.export().to_bytes()
    return killed


@pytest.mark.skipif(sys.platform == "win32", reason="no SIGKILL")
def test_killed(tmp_path: Path) -> None:
    assert kill_and_resume(tmp_path, 3, 1500, 20) >= 2


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="no SIGKILL")
def test_killed_20_times(tmp_path: Path) -> None:
    assert kill_and_resume(tmp_path, 20, 10000, 7) >= 15


# --- another run --------------------------------------------------------------------------------------------


def test_other_data_are_refused(tmp_path: Path) -> None:
    log = tmp_path / "log"
    trainer = make()
    trainer.fit(X, Y, steps=STEPS, log=log, callbacks=[At(5, stop)], keep="last")
    data, other_x, other_y = log.read_bytes(), X.copy(), Y.copy()
    other_x[7, 3, 3, 0] ^= 1
    other_y[20] = (other_y[20] + 1) % 4
    order = np.roll(np.arange(24), 1)
    for x, y in ((other_x, Y), (X, other_y), (X[order], Y[order]), (X, Y[order])):
        with pytest.raises(LogError, match="of a run on other data: node perturbation is repeated from"):
            make().fit(x, y, steps=STEPS, log=log, resume=True, keep="last")
    assert log.read_bytes() == data
    # The same data in another form.
    again = make()
    again.fit(X.copy(order="F"), Y.astype(np.uint8), steps=STEPS, log=log, resume=True, keep="last")
    assert again.step == STEPS


def test_what_is_not_this_run_is_refused(tmp_path: Path) -> None:
    log = tmp_path / "log"
    trainer = make()
    with pytest.raises(ValueError, match="resume: needs a log"):
        trainer.fit(X, Y, steps=STEPS, resume=True, keep="last")
    trainer.fit(X, Y, steps=STEPS, log=log, callbacks=[At(5, stop)], keep="last")
    data = log.read_bytes()
    for changes in ({"seed": 10}, {"queries": 3}, {"perturbation": 3}, {"learning_rate": 2.0},
                    {"step_clip": 1.0}, {"exact.last": 1}, {"snapshot_every": 5},
                    {"batch_size": 4}):  # fmt: skip
        other = Trainer(MODELS_OF["whole"], changed(SETTINGS, changes))
        with pytest.raises(LogError, match="other settings, data or number of steps"):
            other.fit(X, Y, steps=STEPS, log=log, resume=True, keep="last")
    with pytest.raises(LogError, match="other settings, data or number of steps"):
        make().fit(X, Y, steps=STEPS + 1, log=log, resume=True, keep="last")
    with pytest.raises(LogError, match="other settings, data or number of steps"):
        make().fit(X[1:], Y[1:], steps=STEPS, log=log, resume=True, keep="last")
    with pytest.raises(LogError, match="another model"):
        Trainer(MODELS_OF["head"], SETTINGS).fit(X, Y, steps=STEPS, log=log, resume=True, keep="last")
    with pytest.raises(
        FileExistsError, match="go on from it with resume=True or replace it with replace=True"
    ):
        make().fit(X, Y, steps=STEPS, log=log, keep="last")
    by_weights = Trainer(MODELS_OF["whole"], Settings(tasks=(Weights(),), batch_size=8))
    with pytest.raises(LogError, match="no seed log of this version"):
        by_weights.fit(X, Y, steps=STEPS, log=log, resume=True, keep="last")
    assert log.read_bytes() == data


@pytest.mark.parametrize("steps", [1, 2, 9])
def test_a_seed_log_is_not_overwritten(steps: int, tmp_path: Path) -> None:
    """However short it is."""
    log = tmp_path / "log"
    Trainer(MODELS_OF["whole"], Settings(tasks=(Weights(),), batch_size=8)).fit(
        X, Y, steps=steps, log=log, keep="last"
    )
    data = log.read_bytes()
    for length in (16, 100, len(data)):
        log.write_bytes(data[:length])
        with pytest.raises(LogError, match="is no snapshot log of this version"):
            train(log, resume=True)
        assert log.read_bytes() == data[:length]


# --- damage -------------------------------------------------------------------------------------------------


def damaged(data: bytes, at: int) -> bytes:
    return data[:at] + bytes([data[at] ^ 16]) + data[at + 1 :]


def slot_of(number: int) -> int:
    return SLOTS + (number - 1) % 2 * SLOT


@pytest.mark.parametrize("place", [0, 4, 13, SLOT // 2, SLOT - 1])
@pytest.mark.parametrize("steps", [6, 9, 12, STEPS])
def test_a_damaged_snapshot_costs_its_steps_only(
    steps: int, place: int, tmp_path: Path, whole: dict[str, Run]
) -> None:
    log = tmp_path / "log"
    train(log, callbacks=[At(steps - 1, stop)])
    number = -(-steps // EVERY)
    log.write_bytes(damaged(log.read_bytes(), slot_of(number) + place))
    read = SnapshotLog.read(log)
    assert read.snapshot is not None and read.snapshot.step == (number - 1) * EVERY
    assert len(read.losses) == steps
    resume("whole", log, whole)


def test_an_older_snapshot_that_is_damaged_is_not_missed(tmp_path: Path, whole: dict[str, Run]) -> None:
    log = tmp_path / "log"
    train(log, callbacks=[At(8, stop)])
    log.write_bytes(damaged(log.read_bytes(), slot_of(2) + 40))
    read = SnapshotLog.read(log)
    assert read.snapshot is not None and read.snapshot.step == 9
    resume("whole", log, whole)


def test_both_snapshots_damaged(tmp_path: Path, whole: dict[str, Run]) -> None:
    log = tmp_path / "log"
    data = damaged(damaged(whole["whole"].log, slot_of(1) + 20), slot_of(2) + 20)
    log.write_bytes(data)
    assert SnapshotLog.read(log).snapshot is None
    resume("whole", log, whole)


@pytest.mark.parametrize("record, expected", [(0, 0), (3, 0), (11, 0), (12, 12), (13, 12)])
def test_damaged_records(record: int, expected: int, tmp_path: Path, whole: dict[str, Run]) -> None:
    """A snapshot whose steps have lost their records is not used: the log would keep a hole."""
    log = tmp_path / "log"
    log.write_bytes(damaged(whole["whole"].log, RECORDS + RECORD * record + 5))
    read = SnapshotLog.read(log)
    assert len(read.losses) == record
    assert (0 if read.snapshot is None else read.snapshot.step) == expected
    resume("whole", log, whole)


@pytest.mark.parametrize("torn", [0, 1, 11])
@pytest.mark.parametrize("steps", [5, 8, 12, 13])
def test_cut_short_within_the_records(steps: int, torn: int, tmp_path: Path, whole: dict[str, Run]) -> None:
    log = tmp_path / "log"
    log.write_bytes(whole["whole"].log[: RECORDS + RECORD * steps + torn])
    assert len(SnapshotLog.read(log).losses) == steps
    resume("whole", log, whole)


@pytest.mark.parametrize("tail", [b"\0" * 40, b"\xff" * 12, b"x"])
def test_garbage_behind_the_records(tail: bytes, tmp_path: Path, whole: dict[str, Run]) -> None:
    log = tmp_path / "log"
    train(log, callbacks=[At(6, stop)])
    log.write_bytes(log.read_bytes() + tail)
    assert len(SnapshotLog.read(log).losses) == 7
    resume("whole", log, whole)


@pytest.mark.parametrize(
    "length", [None, 0, 1, 8, 10, 100, 163, 164, SLOTS - 1, SLOTS, SLOTS + 50, RECORDS - 1]
)
def test_cut_short_before_the_records(length: int | None, tmp_path: Path, whole: dict[str, Run]) -> None:
    log = tmp_path / "log"
    if length is not None:
        log.write_bytes(whole["whole"].log[:length])
    said = "no such log" if length is None else "ends within its "
    if length is not None:
        said += "header" if length < SLOTS else "first snapshots"
    with pytest.warns(LogWarning, match=f"{said}.*; training from the beginning"):
        train(log, resume=True)
    assert log.read_bytes() == whole["whole"].log


@pytest.mark.parametrize("at", [0, 8, 10, 14, 40, 110, 160, SLOTS - 1])
def test_a_damaged_header_is_refused(at: int, tmp_path: Path, whole: dict[str, Run]) -> None:
    log = tmp_path / "log"
    data = damaged(whole["whole"].log, at)
    log.write_bytes(data)
    with pytest.raises(LogError, match="no snapshot log of this version, or its header is damaged"):
        train(log, resume=True)
    assert log.read_bytes() == data


# --- no room ------------------------------------------------------------------------------------------------


class Disk:
    """A disk on which the log may grow to so many bytes; a write takes what there is room for."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, size: int) -> None:
        disk = self
        self.size = size

        class File(io.FileIO):
            def write(self, data: Any) -> int:
                room = disk.size - self.tell()
                if room <= 0:
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
                return super().write(data[:room])

        monkeypatch.setattr(io, "FileIO", File)


@pytest.mark.parametrize("room", [0, 1, RECORD - 1, 2 * RECORD + 5, 4 * RECORD, 7 * RECORD + 11])
def test_full_disk(room: int, tmp_path: Path, whole: dict[str, Run], monkeypatch: pytest.MonkeyPatch) -> None:
    """Log and weights are those of the last step whose record there is room for."""
    log, trainer = tmp_path / "log", make()
    with monkeypatch.context() as patch:
        Disk(patch, RECORDS + room)
        with pytest.raises(OSError, match="No space left on device") as failure:
            trainer.fit(X, Y, steps=STEPS, log=log, keep="last")
    assert failure.value.filename == str(log)
    assert check_and_resume("whole", log, whole, trainer) == room // RECORD


@pytest.mark.parametrize("room", [0, 1, SLOTS - 1, SLOTS, RECORDS - 1])
@pytest.mark.parametrize("exists", [False, True])
def test_full_before_the_first_step(
    room: int, exists: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No log is left behind; one that was to be replaced stays."""
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
def test_a_disk_that_fails_to_sync(
    good: int, tmp_path: Path, whole: dict[str, Run], monkeypatch: pytest.MonkeyPatch
) -> None:
    log, calls = tmp_path / "log", [0]
    real = os.fsync

    def fsync(handle: int) -> None:
        calls[0] += 1
        if calls[0] > good:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        real(handle)

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", fsync)
        with pytest.raises(OSError, match="Input/output error") as failure:
            train(log)
    assert failure.value.filename == str(log)
    resume("whole", log, whole)


def test_replace(tmp_path: Path, whole: dict[str, Run]) -> None:
    log = tmp_path / "log"
    log.write_bytes(b"old")
    with pytest.raises(ValueError, match="steps"):
        make().fit(X, Y, steps=0, log=log, replace=True, keep="last")
    assert log.read_bytes() == b"old"
    train(log, replace=True)
    assert log.read_bytes() == whole["whole"].log
    assert [path.name for path in tmp_path.iterdir()] == ["log"]


# --- callbacks ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("step", [1, 4, 5, 9])
def test_a_resumed_history_is_the_rest(step: int, tmp_path: Path) -> None:
    """Three steps are an epoch; means over one that was cut short are those of the whole epoch."""
    expected = make().fit(X, Y, steps=STEPS, validation_data=VALIDATION, keep="last").history
    options = {"steps": STEPS, "validation_data": VALIDATION, "log": tmp_path / "log"}
    csv_log = tmp_path / "a.csv"
    make().fit(X, Y, callbacks=[CSVLogger(csv_log), At(step, interrupt)], **options, keep="last")
    rest = make().fit(X, Y, callbacks=[CSVLogger(csv_log)], resume=True, **options, keep="last").history
    done = (step + 1) // 3
    assert rest == {name: values[done:] for name, values in expected.items()}
    with open(csv_log, newline="") as file:
        rows = {int(row.pop("epoch")): row for row in csv.DictReader(file)}
    for epoch, row in rows.items():
        assert {k: float(v) for k, v in row.items()} == {k: v[epoch] for k, v in expected.items()}
    assert set(range(5)) - set(rows) <= {done - 1}


def test_early_stopping(tmp_path: Path, whole: dict[str, Run]) -> None:
    """The log it leaves has the weights that training stopped with."""
    trainer = make()
    stopping = EarlyStopping("loss", patience=2, min_delta=100.0)
    trainer.fit(X, Y, steps=STEPS, log=tmp_path / "log", callbacks=[stopping], keep="last")
    assert check_and_resume("whole", tmp_path / "log", whole, trainer) == 9


@pytest.mark.parametrize("error", [stop, interrupt])
@pytest.mark.parametrize("step", [2, 3, 8, STEPS - 1])
def test_checkpoints(step: int, error: Any, tmp_path: Path) -> None:
    """An interruption changes neither the checkpoint nor the log; one can be gone on from."""

    def fit(log: str, kept: str, *more: Callback, **options: Any) -> None:
        checkpoint = Checkpoint(tmp_path / kept, every=2)
        make().fit(
            X,
            Y,
            steps=STEPS,
            validation_data=VALIDATION,
            log=tmp_path / log,
            callbacks=[checkpoint, *more],
            **options,
            keep="last",
        )

    fit("once", "once.kept")
    fit("log", "kept", At(step, error))
    fit("log", "kept", resume=True)
    assert (tmp_path / "log").read_bytes() == (tmp_path / "once").read_bytes()
    assert (tmp_path / "kept").read_bytes() == (tmp_path / "once.kept").read_bytes()
    assert SnapshotLog.read(tmp_path / "kept").losses.size % 6 == 0
    train(tmp_path / "kept", resume=True)
    assert (tmp_path / "kept").read_bytes() == (tmp_path / "once").read_bytes()


def test_a_checkpoint_of_another_run_is_refused(tmp_path: Path, whole: dict[str, Run]) -> None:
    """Also one that is ahead of the run, which is of another future."""
    log, kept = tmp_path / "log", tmp_path / "kept"
    train(log, callbacks=[At(4, stop)])
    data = log.read_bytes()
    kept.write_bytes(whole["whole"].log)
    with pytest.raises(LogError, match="is no checkpoint of this run; choose another name"):
        train(log, callbacks=[Checkpoint(kept)], resume=True)
    assert kept.read_bytes() == whole["whole"].log and log.read_bytes() == data


def test_looking_at_a_checkpoint_does_not_change_what_an_interruption_goes_back_to(tmp_path: Path) -> None:
    """A checkpoint whose snapshots are damaged stands for the beginning of the run."""
    log, kept = tmp_path / "log", tmp_path / "kept"
    first = train(log, callbacks=[At(4, stop)])
    kept.write_bytes(damaged(damaged(log.read_bytes(), slot_of(1) + 20), slot_of(2) + 20))

    class Now(Callback):
        def on_train_begin(self, trainer: Trainer, steps: int) -> None:
            raise KeyboardInterrupt

    second = make()
    options = {"validation_data": VALIDATION, "resume": True}
    second.fit(
        X,
        Y,
        steps=STEPS,
        log=log,
        callbacks=[Checkpoint(kept, every=3), Now()],
        **options,
        keep="last",
    )
    assert second.interrupted and second.step == 5
    assert state(second) == state(first)
