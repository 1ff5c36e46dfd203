"""Bytes of logs, which the C core writes and reads: measurements (``ops/core/log/zo_measurement.h``), seed logs
(``ops/core/log/zo_log.h``) and snapshot logs (``ops/core/log/zo_snapshot_log.h``).
"""

from __future__ import annotations

import ctypes
import functools
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final

import numpy as np
from numpy.typing import NDArray

from .control import Control
from .loader import CSettings, Struct, constants, library, structs
from .node_control import NodeControl
from .node_layer import NodeState, NodeTask, TaskKind

MEASUREMENT_BYTES: Final[int] = constants.ZO_MEASUREMENT_BYTES
THRESHOLD_STEP: Final[int] = constants.ZO_THRESHOLD_STEP
"""The number of steps in the record of a threshold, which has the bytes of a measurement."""


@dataclass(frozen=True)
class Measurement:
    """One measurement."""

    step: int  #: number of complete steps before the measurement.
    samples: int  #: number of labelled samples.
    loss_sum: int  #: sum of their losses, unit 2^-16.
    correct: int  #: number of correct outputs; 0 for the mean squared error.
    data_checksum: int  #: CRC-32 of the prepared samples and labels.

    @property
    def loss(self) -> float:
        """Mean loss of the labelled samples, nats or `ZoLoss.unit`."""
        return self.loss_sum / 65536 / max(1, self.samples)

    def _struct(self) -> Any:
        return structs.zo_measurement(self.step, self.samples, self.loss_sum, self.correct, self.data_checksum)

    def to_bytes(self, checksum: int) -> bytes:
        """Returns the measurement's record. Its checksum continues that of the previous record."""
        record = ctypes.create_string_buffer(MEASUREMENT_BYTES)
        library().zo_measurement_write(self._struct(), checksum, record)
        return record.raw

    @classmethod
    def from_bytes(cls, record: bytes, checksum: int) -> Measurement | None:
        """Returns the measurement of a record; None if the record is damaged or incomplete."""
        m = structs.zo_measurement()
        if len(record) < MEASUREMENT_BYTES or library().zo_measurement_read(record, checksum, m):
            return None
        return cls(m.step, m.samples, m.loss, m.correct, m.data_checksum)


def is_due(every: int, steps: int, step: int, done: int) -> bool:
    """Returns whether a run of `steps` measures after `step` of them; `done` measurements are in its log."""
    due = library().zo_measurement_is_due(every, steps, step)
    return bool(due and library().zo_measurement_number(every, step) == done)


def best_of(measurements: Iterable[Measurement]) -> Measurement | None:
    """Returns the best of a run's measurements, given in order: the smallest loss among measurements with at least as
    many correct outputs as the first one. Returns None without measurements.
    """
    best = first = next(iter(given := list(measurements)), None)
    for m in given[1:]:
        if best and first and library().zo_measurement_is_better(m._struct(), best._struct(), first.correct):
            best = m
    return best


SEED_LOG_HEADER_BYTES: Final[int] = constants.ZO_LOG_HEADER_BYTES
FINGERPRINT_BYTES: Final[int] = constants.ZO_LOG_FINGERPRINT_BYTES
STORE_UNIT_MOST: Final[int] = constants.ZO_STORE_UNIT_MOST
UNIT_AT: Final[int] = constants.ZO_LOG_UNIT_AT
"""Offset of the byte of a header that says how its log is padded (``ops/core/log/zo_store_units.h``)."""


@functools.lru_cache
def _record_bytes(queries: int) -> int:
    # Kept: asking for each record takes a fifth of the time of reading a log.
    return int(library().zo_log_record_bytes(queries))


@dataclass(frozen=True)
class StepRecord:
    """Record of a step in a log."""

    step: int  #: number of the step.
    mean_loss: int  #: mean loss, unit 2^-16 nat.
    mean_square: int = 0  #: running mean of the control unit after the step; 0 in a snapshot log.
    coefficients: Sequence[int] = ()  #: coefficient of each query; none in a snapshot log.

    @staticmethod
    def size_of(queries: int) -> int:
        """Returns the size of a record in a seed log, bytes, by the number of queries per step."""
        return _record_bytes(queries)

    @staticmethod
    def write(control: Control, checksum: int) -> bytes:
        """Returns the record of the last finished step. Its checksum continues `checksum`."""
        data = ctypes.create_string_buffer(_record_bytes(control.settings.queries))
        library().zo_log_write_record(control.struct, control.mean_loss, checksum, data)
        return data.raw


@dataclass(frozen=True)
class SeedLogHeader:
    """Header of a seed log. It also has the attributes of a `SnapshotLogHeader`: no tasks, no slots for snapshots."""

    settings: CSettings  #: settings of the run.
    fingerprint: bytes  #: fingerprint of the base model, 16 bytes.
    measure_every: int  #: steps between measurements; 0: never.
    size: ClassVar[int] = SEED_LOG_HEADER_BYTES  #: bytes of the header.
    is_chained: ClassVar[bool] = True  #: True: the checksum of a record continues that of the record before it.
    tasks: ClassVar[tuple[()]] = ()
    interval: ClassVar[int] = 0
    slots: ClassVar[int] = 0
    slot_bytes: ClassVar[int] = 0

    @property
    def record_bytes(self) -> int:
        """Size of a step's record, bytes."""
        return _record_bytes(self.settings.queries)

    def to_bytes(self) -> bytes:
        """Returns the header, which ends with its checksum."""
        header = structs.zo_log_header(tuple(self.fingerprint), self.measure_every)
        data = ctypes.create_string_buffer(SEED_LOG_HEADER_BYTES)
        library().zo_log_write_header(header, self.settings, data)
        return data.raw

    @classmethod
    def from_bytes(cls, data: bytes) -> SeedLogHeader | None:
        """Parses a header; returns None if it is incomplete, damaged, or has invalid settings."""
        header, settings = structs.zo_log_header(), CSettings()
        if len(data) < SEED_LOG_HEADER_BYTES or library().zo_log_read_header(data, header, settings):
            return None
        return cls(settings, bytes(header.fingerprint), int(header.measure_every))

    def read_record(self, data: bytes, checksum: int) -> StepRecord | None:
        """Parses a record; returns None if it is incomplete or damaged."""
        record, settings = structs.zo_log_record(), self.settings
        if len(data) < self.record_bytes or library().zo_log_read_record(data, settings, checksum, record):
            return None
        coefficients = record.coefficients[: settings.queries]
        return StepRecord(record.step, record.mean_loss, record.mean_square, coefficients)


SNAPSHOT_RECORD_BYTES: Final[int] = constants.ZO_SNAPSHOT_RECORD_BYTES
BEST_SLOT: Final[int] = constants.ZO_SNAPSHOT_BEST_SLOT
"""The slot of the best state; those before it are of the snapshots."""


@dataclass(frozen=True)
class TaskEntry:
    """Entry of a task in the log: fields of the `NodeTask`, and its tensors."""

    tensors: tuple[int, ...]  #: consecutive numbers of its trainable tensors.
    queries: int
    mu: int
    rate: int
    gain: NodeState
    kind: TaskKind

    @classmethod
    def of(cls, task: NodeTask, tensors: Sequence[int]) -> TaskEntry:
        """Returns the entry of a run's task."""
        return cls(tuple(tensors), task.queries, task.mu, task.rate, task.gain, task.kind)

    @property
    def struct(self) -> Struct:
        """``zo_snapshot_task``."""
        fields = {name: getattr(self, name) for name in ("kind", "queries", "mu", "rate")}
        first, count = self.tensors[0], len(self.tensors)
        return structs.zo_snapshot_task(tensor=first, tensors=count, gain=self.gain.struct, **fields)

    @classmethod
    def of_struct(cls, task: Any) -> TaskEntry:
        """Returns the entry of a ``zo_snapshot_task``."""
        tensors, gain = tuple(range(task.tensor, task.tensor + task.tensors)), NodeState.of(task.gain)
        return cls(tensors, task.queries, task.mu, task.rate, gain, TaskKind(task.kind))


@dataclass(frozen=True)
class SnapshotLogHeader:
    """Header of a snapshot log."""

    node_settings: Any  #: settings of the run, ``zo_node_settings``.
    tasks: tuple[TaskEntry, ...]  #: tasks of the run.
    fingerprint: bytes  #: fingerprint of the base model, 16 bytes.
    interval: int  #: number of steps between snapshots.
    weight_bytes: int  #: bytes of a snapshot's weights.
    data_checksum: int  #: checksum of the training data.
    measure_every: int  #: steps between measurements; 0: never.
    is_chained: ClassVar[bool] = False  #: False: the checksum of every record continues that of the header.
    record_bytes: ClassVar[int] = SNAPSHOT_RECORD_BYTES  #: bytes of a step's record.

    @staticmethod
    def size_of(tasks: int) -> int:
        """Returns the size of a header, bytes, by the number of tasks."""
        return int(library().zo_snapshot_header_bytes(tasks))

    @property
    def size(self) -> int:
        """Size of the header, bytes."""
        return self.size_of(len(self.tasks))

    @staticmethod
    def slot_of(tasks: int, weight_bytes: int) -> int:
        """Returns the size of a snapshot's slot, bytes, by the number of tasks and the bytes of weights."""
        return int(library().zo_snapshot_bytes(tasks, weight_bytes))

    @property
    def slots(self) -> int:
        """Number of slots for snapshots in the log."""
        return int(library().zo_snapshot_slots(self.measure_every))

    @property
    def slot_bytes(self) -> int:
        """Size of a snapshot's slot, bytes."""
        return self.slot_of(len(self.tasks), self.weight_bytes)

    @property
    def settings(self) -> CSettings:
        """Settings that every run has."""
        settings: CSettings = self.node_settings.common
        return settings

    def _entries(self) -> ctypes.Array[Any]:
        return (structs.zo_snapshot_task * len(self.tasks))(*(t.struct for t in self.tasks))

    def to_bytes(self) -> bytes:
        """Returns the header, which ends with its checksum."""
        header = structs.zo_snapshot_header(
            fingerprint=tuple(self.fingerprint),
            interval=self.interval,
            weight_bytes=self.weight_bytes,
            data_checksum=self.data_checksum,
            measure_every=self.measure_every,
        )
        data = ctypes.create_string_buffer(self.size)
        library().zo_snapshot_write_header(header, self.node_settings, self._entries(), data)
        return data.raw

    @classmethod
    def from_bytes(cls, data: bytes) -> SnapshotLogHeader | None:
        """Parses a header; returns None if it is incomplete, damaged, or has invalid settings."""
        header, settings = structs.zo_snapshot_header(), structs.zo_node_settings()
        tasks = (structs.zo_snapshot_task * constants.ZO_NODE_TASKS_MAX)()
        if library().zo_snapshot_read_header(data, len(data), header, settings, tasks):
            return None
        return cls(
            settings,
            tuple(map(TaskEntry.of_struct, tasks[: settings.tasks])),
            bytes(header.fingerprint),
            int(header.interval),
            int(header.weight_bytes),
            int(header.data_checksum),
            int(header.measure_every),
        )

    def read_record(self, data: bytes, checksum: int) -> StepRecord | None:
        """Parses a record; returns None if it is incomplete or damaged."""
        step, loss = ctypes.c_uint32(), ctypes.c_int32()
        places = ctypes.byref(step), ctypes.byref(loss)
        if len(data) < SNAPSHOT_RECORD_BYTES or library().zo_snapshot_read_record(data, checksum, *places):
            return None
        return StepRecord(step.value, loss.value)


@dataclass(frozen=True)
class Snapshot:
    """Weights and state after some step."""

    number: int  #: number of the snapshot, counted from 1.
    step: int  #: number of complete steps.
    states: tuple[NodeState, ...]  #: states of the tasks.
    largest_loss: int  #: largest loss of the steps so far, unit 2^-16.
    #: bytes of the tasks' tensors, int8 weights or int32 biases, then the int8 fractions of 16-bit updates.
    weights: NDArray[np.int8]

    @staticmethod
    def write(control: NodeControl, owner: int, number: int, weights: Sequence[NDArray[np.int8]]) -> bytes:
        """Returns a snapshot of the present state: tasks' weights, then fractions; `owner`: the header's checksum."""
        head = ctypes.create_string_buffer(16 + 8 * len(control.tasks))
        library().zo_snapshot_write_head(control.struct, owner, number, head)
        body = head.raw + b"".join(w.tobytes() for w in weights)
        return body + zlib.crc32(body).to_bytes(4, "little")

    @classmethod
    def read(cls, data: bytes, owner: int, header: SnapshotLogHeader) -> Snapshot | None:
        """Parses the snapshot in a slot; returns None if it is damaged or belongs to another log."""
        number, step, largest = ctypes.c_uint32(), ctypes.c_uint32(), ctypes.c_int32()
        states, size = (structs.zo_scale * len(header.tasks))(), header.weight_bytes
        places = ctypes.byref(number), ctypes.byref(step), ctypes.byref(largest), states
        if library().zo_snapshot_read(data, owner, header.node_settings, header._entries(), size, *places):
            return None
        weights = np.frombuffer(data, np.int8, size, len(data) - 4 - size).copy()
        return cls(number.value, step.value, tuple(map(NodeState.of, states)), largest.value, weights)


def write_step_record(step: int, mean_loss: int, owner: int) -> bytes:
    """Returns a snapshot log's record of a finished step. The unit of the mean loss is 2^-16 nat."""
    record = ctypes.create_string_buffer(SNAPSHOT_RECORD_BYTES)
    library().zo_snapshot_write_record(step, mean_loss, owner, record)
    return record.raw
