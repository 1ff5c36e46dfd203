# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""The bytes of a snapshot log (``ops/core/log/zo_snapshot_log.h``): written and read by the C core."""

from __future__ import annotations

import ctypes
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final

import numpy as np
from numpy.typing import NDArray

from .declarations import CSettings, Struct
from .loader import constants, library, structs
from .node_control import NodeControl
from .node_layer import NodeState
from .node_settings import NodeRules, NodeTask, TaskKind
from .seed_log_format import StepRecord

__all__ = [
    "BEST_SLOT",
    "SNAPSHOT_RECORD_BYTES",
    "Snapshot",
    "SnapshotLogHeader",
    "TaskEntry",
    "write_step_record",
]

SNAPSHOT_RECORD_BYTES: Final[int] = constants.ZO_SNAPSHOT_RECORD_BYTES
BEST_SLOT: Final[int] = constants.ZO_SNAPSHOT_BEST_SLOT
"""The slot of the best state; those before it are of the snapshots."""


@dataclass(frozen=True)
class TaskEntry:
    """Entry of a task in the log.

    Attributes:
        tensors: consecutive numbers of its trainable tensors.
        queries, mu, rate, gain: fields of the `NodeTask` that the entry records.
        kind: kind of the task.
    """

    tensors: tuple[int, ...]
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
        struct: Struct = structs.zo_snapshot_task(
            tensor=self.tensors[0],
            tensors=len(self.tensors),
            kind=self.kind,
            queries=self.queries,
            mu=self.mu,
            rate=self.rate,
            gain=self.gain.struct,
        )
        return struct

    @classmethod
    def of_struct(cls, task: Any) -> TaskEntry:
        """Returns the entry of a ``zo_snapshot_task``."""
        tensors = tuple(range(task.tensor, task.tensor + task.tensors))
        gain = NodeState.of(task.gain)
        return cls(tensors, task.queries, task.mu, task.rate, gain, TaskKind(task.kind))


@dataclass(frozen=True)
class SnapshotLogHeader:
    """Header of a snapshot log.

    Attributes:
        node_settings: settings of the run, ``zo_node_settings``.
        tasks: tasks of the run.
        fingerprint: fingerprint of the base model, 16 bytes.
        interval: number of steps between snapshots.
        weight_bytes: bytes of a snapshot's weights.
        data_checksum: checksum of the training data.
        measure_every: steps between measurements; 0: never.
        is_chained: False: the checksum of every record continues that of the header.
        record_bytes: bytes of a step's record.
    """

    node_settings: Any
    tasks: tuple[TaskEntry, ...]
    fingerprint: bytes
    interval: int
    weight_bytes: int
    data_checksum: int
    measure_every: int
    is_chained: ClassVar[bool] = False
    record_bytes: ClassVar[int] = SNAPSHOT_RECORD_BYTES

    @staticmethod
    def size_of(tasks: int) -> int:
        """Bytes of the header of a run with so many tasks."""
        return int(library().zo_snapshot_header_bytes(tasks))

    @property
    def size(self) -> int:
        """Bytes of the header."""
        return self.size_of(len(self.tasks))

    @staticmethod
    def slot_of(tasks: int, weight_bytes: int) -> int:
        """Bytes of the room for a snapshot of a run with so many tasks and bytes of weights."""
        return int(library().zo_snapshot_bytes(tasks, weight_bytes))

    @property
    def slots(self) -> int:
        """Number of snapshots that the log has room for."""
        return int(library().zo_snapshot_slots(self.measure_every))

    @property
    def slot_bytes(self) -> int:
        """Bytes of the room for a snapshot."""
        return self.slot_of(len(self.tasks), self.weight_bytes)

    @property
    def settings(self) -> CSettings:
        """Settings that every run has."""
        settings: CSettings = self.node_settings.common
        return settings

    @property
    def rules(self) -> NodeRules:
        """Settings of layer-wise runs."""
        return NodeRules.of(self.node_settings)

    def _entries(self) -> ctypes.Array[Any]:
        entries: ctypes.Array[Any] = (structs.zo_snapshot_task * len(self.tasks))(
            *(t.struct for t in self.tasks)
        )
        return entries

    def to_bytes(self) -> bytes:
        """The header, which ends with its checksum."""
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
        """Returns the header of a log; None if it is cut short, damaged, or has settings of no run."""
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
        """Returns the record in some bytes; None if it is not whole or its checksum is wrong."""
        step, loss = ctypes.c_uint32(), ctypes.c_int32()
        if len(data) < SNAPSHOT_RECORD_BYTES:
            return None
        if library().zo_snapshot_read_record(data, checksum, ctypes.byref(step), ctypes.byref(loss)):
            return None
        return StepRecord(step.value, loss.value)


@dataclass(frozen=True)
class Snapshot:
    """Weights and state after some step.

    Attributes:
        number: number of the snapshot, counted from 1.
        step: number of whole steps done.
        states: states of the tasks.
        largest_loss: largest loss of the steps so far, unit 2^-16.
        weights: bytes of the tasks' tensors one after the other, int8 weights or int32 biases, then the
            fractions of the weights (16-bit update), int8.
    """

    number: int
    step: int
    states: tuple[NodeState, ...]
    largest_loss: int
    weights: NDArray[np.int8]

    @staticmethod
    def write(control: NodeControl, owner: int, number: int, weights: Sequence[NDArray[np.int8]]) -> bytes:
        """Returns the bytes of a snapshot of the run as it is.

        Args:
            control: control unit of the run.
            owner: checksum of the log's header.
            number: number of the snapshot.
            weights: the tasks' weights, then their fractions.
        """
        head = ctypes.create_string_buffer(16 + 8 * len(control.tasks))
        library().zo_snapshot_write_head(control.struct, owner, number, head)
        body = head.raw + b"".join(w.tobytes() for w in weights)
        return body + zlib.crc32(body).to_bytes(4, "little")

    @classmethod
    def read(cls, data: bytes, owner: int, header: SnapshotLogHeader) -> Snapshot | None:
        """Returns the snapshot in a slot; None if its checksum is wrong or it is of another log."""
        number, step, largest = ctypes.c_uint32(), ctypes.c_uint32(), ctypes.c_int32()
        states = (structs.zo_scale * len(header.tasks))()
        if library().zo_snapshot_read(
            data,
            owner,
            header.node_settings,
            header._entries(),
            header.weight_bytes,
            ctypes.byref(number),
            ctypes.byref(step),
            ctypes.byref(largest),
            states,
        ):
            return None
        size = header.weight_bytes
        weights = np.frombuffer(data, np.int8, size, len(data) - 4 - size).copy()
        return cls(number.value, step.value, tuple(map(NodeState.of, states)), largest.value, weights)


def write_step_record(step: int, mean_loss: int, owner: int) -> bytes:
    """Returns a snapshot log's record of a finished step, whose mean loss has the unit 2^-16 nat."""
    record = ctypes.create_string_buffer(SNAPSHOT_RECORD_BYTES)
    library().zo_snapshot_write_record(step, mean_loss, owner, record)
    return record.raw
