# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""The log (``.zolog``) of a run whose updates depend on data: snapshots of the weights, and its steps.

Its bytes are specified in ``ops/core/zo_snapshot_log.h`` and written and read by the C core.
"""

from __future__ import annotations

import ctypes
import io
import os
import secrets
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from . import native
from .control import CSettings
from .converters import Model
from .node_control import NodeControl, NodeRules, NodeTask, _Run, _Settings
from .nodes import NodeState, _Scale
from .seedlog import FINGERPRINT_BYTES, MAGIC, IncompleteHeaderError, LogError, _sync_folder, fingerprint

__all__ = ["Snapshot", "SnapshotLog", "SnapshotWriter", "TaskEntry", "data_checksum", "is_snapshot_log"]

RECORD_BYTES = 12
_VERSION = 2
_TASKS_MAX = 64
_FIXED_HEADER_BYTES = 160

_u32, _ptr = ctypes.c_uint32, ctypes.c_void_p


class _Header(ctypes.Structure):
    _fields_ = [
        ("fingerprint", ctypes.c_uint8 * FINGERPRINT_BYTES),
        ("interval", _u32),
        ("weight_bytes", _u32),
        ("data_checksum", _u32),
    ]


class _Task(ctypes.Structure):
    _fields_ = [
        ("tensor", _u32),
        ("tensors", _u32),
        ("kind", _u32),
        ("queries", _u32),
        ("mu", _u32),
        ("period", _u32),
        ("rate", _u32),
        ("gain", _Scale),
    ]


@lru_cache(maxsize=1)
def _library() -> Any:
    library, number = native.library(), ctypes.POINTER(_u32)
    header, settings, task = (ctypes.POINTER(t) for t in (_Header, _Settings, _Task))
    prototypes: dict[str, tuple[Any, list[Any]]] = {
        "zo_snapshot_header_bytes": (_u32, [_u32]),
        "zo_snapshot_bytes": (_u32, [_u32, _u32]),
        "zo_snapshot_write_header": (None, [header, settings, task, _ptr]),
        "zo_snapshot_read_header": (ctypes.c_int, [ctypes.c_char_p, _u32, header, settings, task]),
        "zo_snapshot_write_head": (None, [ctypes.POINTER(_Run), _u32, _ptr]),
        "zo_snapshot_read": (
            ctypes.c_int,
            [
                ctypes.c_char_p,
                _u32,
                _u32,
                number,
                number,
                ctypes.POINTER(ctypes.c_int32),
                ctypes.POINTER(_Scale),
            ],
        ),
        "zo_snapshot_write_record": (None, [_u32, ctypes.c_int32, _ptr]),
        "zo_snapshot_read_record": (
            ctypes.c_int,
            [ctypes.c_char_p, number, ctypes.POINTER(ctypes.c_int32)],
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
        queries, mu, period, rate, gain: see `NodeTask`.
        perturbs_weights: whether its weights are perturbed.
    """

    tensors: tuple[int, ...]
    queries: int
    mu: int
    period: int
    rate: int
    gain: NodeState
    perturbs_weights: bool

    @classmethod
    def of(cls, task: NodeTask, tensors: Sequence[int]) -> TaskEntry:
        """Of a run's task."""
        weights = task.layer is None
        return cls(tuple(tensors), task.queries, task.mu, task.period, task.rate, task.gain, weights)


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
        data_checksum: of the training data.
        snapshot: the last whole one whose steps all have their records; None before the first.
        losses: mean loss of each whole step, nats, float64 [steps]; there may be more than the snapshot
            has: those need the data to be repeated.
    """

    settings: CSettings
    first_segment: int
    rules: NodeRules
    tasks: tuple[TaskEntry, ...]
    fingerprint: bytes
    interval: int
    data_checksum: int
    snapshot: Snapshot | None
    losses: NDArray[np.float64]

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> SnapshotLog:
        """Reads a log up to its last whole record.

        Raises:
            IncompleteHeaderError: the file ends before its first record.
            LogError: no such log, or a damaged header.
            OSError: the file cannot be read.
        """
        data = Path(path).read_bytes()
        header, settings, tasks = _Header(), _Settings(), (_Task * _TASKS_MAX)()
        status = _library().zo_snapshot_read_header(
            data, len(data), ctypes.byref(header), ctypes.byref(settings), tasks
        )
        if status and _is_cut_short(data):
            raise IncompleteHeaderError(f"{path} ends within its header: there is no step in it")
        if status:
            raise LogError(f"{path} is no snapshot log of this version, or its header is damaged")
        count = int(settings.tasks)
        slot = int(_library().zo_snapshot_bytes(count, header.weight_bytes))
        begin = int(_library().zo_snapshot_header_bytes(count))
        if len(data) < begin + 2 * slot:
            raise IncompleteHeaderError(f"{path} ends within its header: there is no step in it")
        found = [_read_slot(data[at : at + slot], count, header.weight_bytes) for at in (begin, begin + slot)]
        losses: list[float] = []
        step, loss = _u32(), ctypes.c_int32()
        for at in range(begin + 2 * slot, len(data) - RECORD_BYTES + 1, RECORD_BYTES):
            chunk = data[at : at + RECORD_BYTES]
            if _library().zo_snapshot_read_record(chunk, ctypes.byref(step), ctypes.byref(loss)):
                break
            if step.value != len(losses):
                break
            losses.append(loss.value / 65536)
        # Where records before a snapshot are damaged, an older one with all of its records counts.
        snapshots = [s for s in found if s is not None and s.step <= len(losses)]
        return cls(
            settings.common,
            int(settings.first_segment),
            NodeRules(settings.weight_clip, settings.rule, settings.exact_rule, settings.bits, settings.rows),
            tuple(_entry(t) for t in tasks[:count]),
            bytes(header.fingerprint),
            int(header.interval),
            int(header.data_checksum),
            max(snapshots, key=lambda s: s.number, default=None),
            np.array(losses, np.float64),
        )

    def check_model(self, model: Model | bytes) -> None:
        """Raises LogError unless the log was recorded on this very ZO model."""
        if fingerprint(model) != self.fingerprint:
            raise LogError("the log is of another model: its fingerprint differs from this ZO model's")


def _entry(task: _Task) -> TaskEntry:
    return TaskEntry(
        tuple(range(task.tensor, task.tensor + task.tensors)),
        task.queries,
        task.mu,
        task.period,
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


def _read_slot(data: bytes, tasks: int, weight_bytes: int) -> Snapshot | None:
    number, step, largest, states = _u32(), _u32(), ctypes.c_int32(), (_Scale * tasks)()
    status = _library().zo_snapshot_read(
        data,
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
        resume: whether to go on with an existing log, from the snapshot of `control.step`; records from there
            on are cut off.
        replace: whether a new log may replace an existing one.

    Attributes:
        snapshot_step: step of the last whole snapshot; 0 before the first.

    Raises:
        FileExistsError: a new log exists.
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
        resume: bool = False,
        replace: bool = False,
    ) -> None:
        self._control, self._path, self._interval = control, os.fspath(path), interval
        count = len(control.tasks)
        header_bytes = int(_library().zo_snapshot_header_bytes(count))
        self._slot_bytes = int(_library().zo_snapshot_bytes(count, weight_bytes))
        self._slots = header_bytes
        self._records = header_bytes + 2 * self._slot_bytes
        self.snapshot_step = control.step if resume else 0
        if resume:
            self._file = io.FileIO(path, "r+")
            self.keep(control.step)
            return
        header = _Header(
            fingerprint=(ctypes.c_uint8 * FINGERPRINT_BYTES)(*mark),
            interval=interval,
            weight_bytes=weight_bytes,
            data_checksum=checksum,
        )
        entries = (_Task * count)(
            *(
                _Task(
                    t.tensors[0],
                    len(t.tensors),
                    int(t.perturbs_weights),
                    t.queries,
                    t.mu,
                    t.period,
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
        if os.path.exists(path) and not replace:
            raise FileExistsError(f"{path} exists; choose another name, or resume from it or replace it")
        self._create(Path(path), data.raw + bytes(2 * self._slot_bytes))

    def _create(self, path: Path, data: bytes) -> None:
        """Makes the log beside what it may replace, which stays until this one is on the disk."""
        beginning = path.with_name(f".{path.name}.{secrets.token_hex(8)}.part")
        try:
            self._file = io.FileIO(beginning, "x+")
        except OSError as error:
            raise OSError(error.errno, error.strerror or str(error), self._path) from error
        try:
            self._write_at(0, data)
            self._sync()
            os.replace(beginning, path)
            _sync_folder(path.parent)
        except BaseException:
            self._file.close()
            beginning.unlink(missing_ok=True)
            raise

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
        _library().zo_snapshot_write_record(step, round(loss * 65536), record)
        self._write_at(self._records + RECORD_BYTES * step, record.raw)

    def keep(self, steps: int) -> None:
        """Cuts off the records from so many steps on."""
        try:
            self._file.truncate(self._records + RECORD_BYTES * steps)
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
        head = ctypes.create_string_buffer(12 + 8 * len(self._control.tasks))
        _library().zo_snapshot_write_head(ctypes.byref(self._control.c_run), number, head)
        body = head.raw + b"".join(w.tobytes() for w in weights)
        slot = body + zlib.crc32(body).to_bytes(4, "little")
        self._sync()  # its records first
        self._write_at(self._slots + (number - 1) % 2 * self._slot_bytes, slot)
        self._sync()
        self.snapshot_step = self._control.step

    def whole(self, steps: int) -> bytes:
        """The log's bytes up to so many whole steps."""
        return Path(self._path).read_bytes()[: self._records + RECORD_BYTES * steps]

    def close(self) -> None:
        """Brings the log to the disk and closes it."""
        if not self._file.closed:
            try:
                self._sync()
            finally:
                self._file.close()
