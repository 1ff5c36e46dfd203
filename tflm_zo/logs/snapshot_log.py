# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""The log (``.zolog``) of a run whose updates depend on data: snapshots of the weights, and its steps.

Its bytes are specified in ``ops/core/log/zo_snapshot_log.h`` and written and read by the C core.
"""

from __future__ import annotations

import ctypes
import io
import os
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import core
from ..converters import Model, load_model, read_metadata
from ..converters.files import lock_file
from ..core import (
    MEASUREMENT_BYTES,
    CSettings,
    Measurement,
    NodeControl,
    NodeRules,
    NodeState,
    NodeTask,
    best_of,
    is_due,
)
from ..core.node_control import _Run, _Settings
from ..core.nodes import _Scale
from .seed_log import (
    FINGERPRINT_BYTES,
    MAGIC,
    IncompleteHeaderError,
    LogError,
    _checksum,
    check_version,
    fingerprint,
    new_log,
)

__all__ = ["Snapshot", "SnapshotLog", "SnapshotWriter", "TaskEntry", "data_checksum", "is_snapshot_log"]

RECORD_BYTES = 12
_VERSION = 4
_TASKS_MAX = 64
_FIXED_HEADER_BYTES = 164
_BEST_SLOT = 2

_u32, _ptr = ctypes.c_uint32, ctypes.c_void_p


class _Header(ctypes.Structure):
    _fields_ = [
        ("fingerprint", ctypes.c_uint8 * FINGERPRINT_BYTES),
        ("interval", _u32),
        ("weight_bytes", _u32),
        ("data_checksum", _u32),
        ("measure_every", _u32),
    ]


class _Task(ctypes.Structure):
    _fields_ = [
        ("tensor", _u32),
        ("tensors", _u32),
        ("kind", _u32),
        ("queries", _u32),
        ("mu", _u32),
        ("rate", _u32),
        ("gain", _Scale),
    ]


@lru_cache(maxsize=1)
def _library() -> Any:
    library, number = core.library(), ctypes.POINTER(_u32)
    header, settings, task = (ctypes.POINTER(t) for t in (_Header, _Settings, _Task))
    prototypes: dict[str, tuple[Any, list[Any]]] = {
        "zo_snapshot_header_bytes": (_u32, [_u32]),
        "zo_snapshot_bytes": (_u32, [_u32, _u32]),
        "zo_snapshot_slots": (_u32, [_u32]),
        "zo_snapshot_write_header": (None, [header, settings, task, _ptr]),
        "zo_snapshot_read_header": (ctypes.c_int, [ctypes.c_char_p, _u32, header, settings, task]),
        "zo_snapshot_write_head": (None, [ctypes.POINTER(_Run), _u32, _u32, _ptr]),
        "zo_snapshot_read": (
            ctypes.c_int,
            [
                ctypes.c_char_p,
                _u32,
                settings,
                task,
                _u32,
                number,
                number,
                ctypes.POINTER(ctypes.c_int32),
                ctypes.POINTER(_Scale),
            ],
        ),
        "zo_step_record_at": (_u32, [_u32, _u32, _u32, _u32]),
        "zo_measurement_at": (_u32, [_u32, _u32, _u32, _u32]),
        "zo_snapshot_write_record": (None, [_u32, ctypes.c_int32, _u32, _ptr]),
        "zo_snapshot_read_record": (
            ctypes.c_int,
            [ctypes.c_char_p, _u32, number, ctypes.POINTER(ctypes.c_int32)],
        ),
    }
    for name, (result, arguments) in prototypes.items():
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
    return library


def data_checksum(arrays: Sequence[NDArray[Any]]) -> int:
    """CRC-32 of training samples and labels, as the model reads them, one array after the other."""
    crc = 0
    for array in arrays:
        crc = zlib.crc32(np.ascontiguousarray(array).tobytes(), crc)
    return crc


def is_snapshot_log(path: str | os.PathLike[str]) -> bool:
    """Whether a file begins like a snapshot log."""
    with open(path, "rb") as file:
        head = file.read(len(MAGIC) + 2)
    return head == MAGIC + _VERSION.to_bytes(2, "little")


@dataclass(frozen=True)
class TaskEntry:
    """What the log says of a task.

    Attributes:
        tensors: consecutive numbers of its trainable tensors.
        queries, mu, rate, gain: see `NodeTask`.
        perturbs_weights: whether its weights are perturbed.
    """

    tensors: tuple[int, ...]
    queries: int
    mu: int
    rate: int
    gain: NodeState
    perturbs_weights: bool

    @classmethod
    def of(cls, task: NodeTask, tensors: Sequence[int]) -> TaskEntry:
        """Of a run's task."""
        weights = task.layer is None
        return cls(tuple(tensors), task.queries, task.mu, task.rate, task.gain, weights)


@dataclass(frozen=True)
class Snapshot:
    """Weights and state after some step.

    Attributes:
        number: counted from 1.
        step: whole steps done.
        states: of the tasks.
        largest_loss: of the steps so far, unit 2^-16.
        weights: int8, the tasks' tensors one after the other, then their fractions (16-bit update).
    """

    number: int
    step: int
    states: tuple[NodeState, ...]
    largest_loss: int
    weights: NDArray[np.int8]


@dataclass(frozen=True)
class SnapshotLog:
    """A log that was read.

    Attributes:
        settings: of the run.
        first_segment: where its forward passes begin.
        rules: more settings.
        tasks: what it trains.
        fingerprint: of the base model, 16 bytes.
        interval: steps between snapshots.
        weight_bytes: of a snapshot.
        data_checksum: of the training data.
        measure_every: steps between measurements; 0: never.
        snapshot: the last whole one whose steps all have their records; None before the first.
        best_slot: the last whole one of a best state; None where no measurement was better than the first.
        losses: mean loss of each whole step, nats, float64 [steps]; there may be more than the snapshot
            has: those need the data to be repeated.
        measurements: what the run measured, in order; there may be more than the snapshot has, too.
    """

    settings: CSettings
    first_segment: int
    rules: NodeRules
    tasks: tuple[TaskEntry, ...]
    fingerprint: bytes
    interval: int
    weight_bytes: int
    data_checksum: int
    measure_every: int
    snapshot: Snapshot | None
    best_slot: Snapshot | None
    losses: NDArray[np.float64]
    measurements: tuple[Measurement, ...]

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> SnapshotLog:
        """Reads a log up to its last whole record.

        Raises:
            IncompleteHeaderError: the file ends before its first record.
            LogError: no such log, one of an older version, a damaged header, or settings that no run has.
            OSError: the file cannot be read.
        """
        data = Path(path).read_bytes()
        check_version(path, data)
        header, settings, tasks = _Header(), _Settings(), (_Task * _TASKS_MAX)()
        status = _library().zo_snapshot_read_header(
            data, len(data), ctypes.byref(header), ctypes.byref(settings), tasks
        )
        if status and _is_cut_short(data):
            raise IncompleteHeaderError(f"{path} ends within its header: there is no step in it")
        if status:
            raise LogError(f"{path} is no snapshot log of this version, or its header is damaged")
        count, total, every = int(settings.tasks), int(settings.common.steps), int(header.measure_every)
        slot = int(_library().zo_snapshot_bytes(count, header.weight_bytes))
        begin = int(_library().zo_snapshot_header_bytes(count))
        slots = int(_library().zo_snapshot_slots(every))
        if len(data) < begin + slots * slot:
            raise IncompleteHeaderError(f"{path} ends within its first snapshots: there is no step in it")
        owner = _checksum(data[:begin])
        found = [
            _read_slot(data[at : at + slot], owner, settings, tasks, header.weight_bytes)
            for at in range(begin, begin + slots * slot, slot)
        ]
        losses: list[float] = []
        measurements: list[Measurement] = []
        step, loss, at = _u32(), ctypes.c_int32(), begin + slots * slot
        while True:
            done = len(losses)
            if is_due(every, total, done, len(measurements)):
                measured = Measurement.from_bytes(data[at : at + MEASUREMENT_BYTES], owner)
                if measured is None or measured.step != done:
                    break
                measurements.append(measured)
                at += MEASUREMENT_BYTES
                continue
            chunk = data[at : at + RECORD_BYTES]
            if len(chunk) < RECORD_BYTES or done == total:
                break
            if _library().zo_snapshot_read_record(chunk, owner, ctypes.byref(step), ctypes.byref(loss)):
                break
            if step.value != done:
                break
            losses.append(loss.value / 65536)
            at += RECORD_BYTES
        # Where records before a snapshot are damaged, an older one with all of its records counts.
        snapshots = [s for s in found[:_BEST_SLOT] if s is not None and s.step <= len(losses)]
        return cls(
            settings.common,
            int(settings.first_segment),
            NodeRules(settings.weight_clip, settings.rule, settings.exact_rule, settings.bits, settings.rows),
            tuple(_entry(t) for t in tasks[:count]),
            bytes(header.fingerprint),
            int(header.interval),
            int(header.weight_bytes),
            int(header.data_checksum),
            every,
            max(snapshots, key=lambda s: s.number, default=None),
            found[_BEST_SLOT] if slots > _BEST_SLOT else None,
            np.array(losses, np.float64),
            tuple(measurements),
        )

    def after(self, step: int) -> Snapshot | None:
        """The snapshot after so many steps; None where there is none, as before the first step."""
        return next((s for s in (self.snapshot, self.best_slot) if s is not None and s.step == step), None)

    def best_until(self, step: int) -> Measurement | None:
        """The best measurement of the first steps, of those whose weights the log, or the model, has: a power
        failure may have damaged the best.
        """
        return best_of(
            m for m in self.measurements if m.step <= step and (not m.step or self.after(m.step) is not None)
        )

    @property
    def best(self) -> Measurement | None:
        """The best measurement whose weights there are; None where nothing was measured."""
        return self.best_until(int(self.settings.steps))

    def check_model(self, model: Model | bytes) -> None:
        """Raises LogError unless the log was recorded on this very ZO model, of tensors that it has."""
        if fingerprint(model) != self.fingerprint:
            raise LogError("the log is of another model: its fingerprint differs from this ZO model's")
        metadata = read_metadata(model if isinstance(model, Model) else load_model(model))
        trainable, numbers = metadata.trainable, [i for task in self.tasks for i in task.tensors]
        if beyond := [i for i in numbers if i >= len(trainable)]:
            raise LogError(
                f"the log is damaged: it is of trainable tensor {beyond[0]}, the model has {len(trainable)}"
            )
        size = sum(trainable[i].size for i in numbers) * (2 if metadata.update_bits == 16 else 1)
        if size != self.weight_bytes:
            raise LogError(
                f"the log is damaged: its snapshots are of {self.weight_bytes} bytes of weights, and the "
                f"tensors that it trains have {size}"
            )


def _entry(task: _Task) -> TaskEntry:
    return TaskEntry(
        tuple(range(task.tensor, task.tensor + task.tensors)),
        task.queries,
        task.mu,
        task.rate,
        NodeState(task.gain.mantissa, task.gain.exponent),
        bool(task.kind),
    )


def _is_cut_short(data: bytes) -> bool:
    """Whether a file is the beginning of a header, and not something else."""
    beginning = MAGIC + _VERSION.to_bytes(2, "little")
    if data[: len(beginning)] != beginning[: len(data)]:
        return False
    if len(data) < _FIXED_HEADER_BYTES:
        return True
    size, _, tasks = (int.from_bytes(data[at : at + 2], "little") for at in (10, 12, 14))
    return len(data) < size == int(_library().zo_snapshot_header_bytes(tasks))


def _read_slot(
    data: bytes, owner: int, settings: _Settings, tasks: ctypes.Array[_Task], weight_bytes: int
) -> Snapshot | None:
    number, step, largest, states = _u32(), _u32(), ctypes.c_int32(), (_Scale * settings.tasks)()
    status = _library().zo_snapshot_read(
        data,
        owner,
        ctypes.byref(settings),
        tasks,
        weight_bytes,
        ctypes.byref(number),
        ctypes.byref(step),
        ctypes.byref(largest),
        states,
    )
    if status:
        return None
    weights = np.frombuffer(data, np.int8, weight_bytes, len(data) - 4 - weight_bytes).copy()
    return Snapshot(
        number.value,
        step.value,
        tuple(NodeState(s.mantissa, s.exponent) for s in states),
        largest.value,
        weights,
    )


class SnapshotWriter:
    """Writes a run's log.

    Each record is one write to the operating system; snapshots are brought to the disk, with all records
    before them. A killed program or a power failure costs the steps since the last whole snapshot: they are
    repeated from the data.

    Args:
        path: of the log.
        control: of the run.
        tasks: of the run, with the numbers of their trainable tensors.
        mark: fingerprint of the model.
        interval: steps between snapshots.
        weight_bytes: bytes of a snapshot's weights.
        checksum: of the training data.
        resume: measurements to keep of an existing log, which is gone on with from the snapshot of
            `control.step`: records from there on are cut off; None starts a new log.
        replace: whether a new log may replace an existing one.
        measure_every: steps between measurements; 0: never.

    Attributes:
        snapshot_step: step of the last whole snapshot; 0 before the first.
        best_step: step of the last whole snapshot of a best state; 0 before the first.

    Raises:
        FileExistsError: a new log exists.
        FileInUseError: another run is writing it.
        OSError: it cannot be written; a new log is then not left behind.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        control: NodeControl,
        tasks: Sequence[TaskEntry],
        mark: bytes,
        interval: int,
        weight_bytes: int,
        checksum: int,
        *,
        resume: int | None = None,
        replace: bool = False,
        measure_every: int = 0,
    ) -> None:
        self._control, self._path, self._interval = control, os.fspath(path), interval
        self._every = measure_every
        count = len(control.tasks)
        header_bytes = int(_library().zo_snapshot_header_bytes(count))
        self._slot_bytes = int(_library().zo_snapshot_bytes(count, weight_bytes))
        self._slots = header_bytes
        slots = int(_library().zo_snapshot_slots(measure_every))
        self._records = header_bytes + slots * self._slot_bytes
        self.snapshot_step = 0 if resume is None else control.step
        self.best_step = 0
        header = _Header(
            fingerprint=(ctypes.c_uint8 * FINGERPRINT_BYTES)(*mark),
            interval=interval,
            weight_bytes=weight_bytes,
            data_checksum=checksum,
            measure_every=measure_every,
        )
        entries = (_Task * count)(
            *(
                _Task(
                    t.tensors[0],
                    len(t.tensors),
                    int(t.perturbs_weights),
                    t.queries,
                    t.mu,
                    t.rate,
                    _Scale(t.gain.mantissa, t.gain.exponent),
                )
                for t in tasks
            )
        )
        data = ctypes.create_string_buffer(header_bytes)
        _library().zo_snapshot_write_header(
            ctypes.byref(header), ctypes.byref(control.c_settings), entries, data
        )
        self._owner = _checksum(data.raw)
        if resume is not None:
            self._file = io.FileIO(path, "r+")
            try:
                lock_file(self._file, path)
                self.keep(control.step, resume)
            except BaseException:
                self._file.close()
                raise
            return
        with new_log(path) as new:
            self._file = new.file
            self._write_at(0, data.raw + bytes(slots * self._slot_bytes))
            new.publish(replace=replace)

    def _write_at(self, at: int, data: bytes) -> None:
        self._file.seek(at)
        written = 0
        try:
            while written < len(data):
                written += self._file.write(data[written:]) or 0
        except OSError as error:
            raise self._failure(error) from error

    def _sync(self) -> None:
        try:
            os.fsync(self._file.fileno())
        except OSError as error:
            raise self._failure(error) from error

    def _failure(self, error: OSError) -> OSError:
        what = f"{error.strerror or error}; the log keeps its last whole snapshot"
        return OSError(error.errno, what, self._path)

    def append(self, step: int, loss: float) -> None:
        """Writes the record of a finished step, whose mean loss is given in nats."""
        record = ctypes.create_string_buffer(RECORD_BYTES)
        _library().zo_snapshot_write_record(step, round(loss * 65536), self._owner, record)
        at = _library().zo_step_record_at(self._records, RECORD_BYTES, self._every, step)
        self._write_at(at, record.raw)

    def append_measurement(self, measurement: Measurement) -> None:
        """Writes the record of a measurement."""
        at = _library().zo_measurement_at(self._records, RECORD_BYTES, self._every, measurement.step)
        self._write_at(at, measurement.to_bytes(self._owner))

    def _size(self, steps: int, measurements: int) -> int:
        return self._records + RECORD_BYTES * steps + MEASUREMENT_BYTES * measurements

    def keep(self, steps: int, measurements: int) -> None:
        """Cuts off the records behind so many steps and measurements."""
        try:
            self._file.truncate(self._size(steps, measurements))
        except OSError as error:
            raise self._failure(error) from error

    @property
    def is_due(self) -> bool:
        """Whether a snapshot belongs after the step that has just been finished."""
        step = self._control.step
        return step % self._interval == 0 or step == self._control.settings.steps

    def snapshot(self, weights: Sequence[NDArray[np.int8]]) -> None:
        """Writes a snapshot of the run as it is, whole before the one before it is given up.

        Args:
            weights: the tasks' weights, then their fractions.
        """
        # One that is taken between two that are due has the number, and so the slot, of the next.
        number = -(-self._control.step // self._interval)
        self._sync()  # its records first, and the best state
        self._write_slot((number - 1) % 2, number, weights)
        self._sync()
        self.snapshot_step = self._control.step

    def best_snapshot(self, number: int, weights: Sequence[NDArray[np.int8]]) -> None:
        """Writes the run as it is as its best state, before the snapshot of its step.

        Args:
            number: of its measurement, counted from 0.
            weights: the tasks' weights, then their fractions.
        """
        self._write_slot(_BEST_SLOT, number + 1, weights)
        self.best_step = self._control.step

    def _write_slot(self, slot: int, number: int, weights: Sequence[NDArray[np.int8]]) -> None:
        head = ctypes.create_string_buffer(16 + 8 * len(self._control.tasks))
        _library().zo_snapshot_write_head(ctypes.byref(self._control.c_run), self._owner, number, head)
        body = head.raw + b"".join(w.tobytes() for w in weights)
        checksum = zlib.crc32(body).to_bytes(4, "little")
        self._write_at(self._slots + slot * self._slot_bytes, body + checksum)

    def whole(self, steps: int, measurements: int) -> bytes:
        """The log's bytes up to so many whole steps and measurements."""
        return Path(self._path).read_bytes()[: self._size(steps, measurements)]

    def close(self) -> None:
        """Brings the log to the disk and closes it."""
        if not self._file.closed:
            try:
                self._sync()
            finally:
                self._file.close()
