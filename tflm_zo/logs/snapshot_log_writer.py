# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""Writes the snapshot log of a run."""

from __future__ import annotations

import os
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ..core import (
    BEST_SLOT,
    MEASUREMENT_BYTES,
    SNAPSHOT_RECORD_BYTES,
    Measurement,
    NodeControl,
    Snapshot,
    SnapshotLogHeader,
    TaskEntry,
    measurement_at,
    step_record_at,
    write_step_record,
)
from .beginning import ending
from .log_file import LogFile

__all__ = ["SnapshotLogWriter"]


class SnapshotLogWriter(LogFile):
    """Writes a run's log.

    Each record is one write to the operating system; snapshots are brought to the disk, with all records
    before them. A killed program or a power failure costs the steps since the last whole snapshot: they are
    repeated from the data.

    Args:
        path: path of the log.
        control: control unit of the run.
        tasks: tasks of the run, with the numbers of their trainable tensors.
        mark: fingerprint of the model.
        interval: number of steps between snapshots.
        weight_bytes: bytes of a snapshot's weights.
        checksum: checksum of the training data.
        resume: measurements to keep of an existing log, which is gone on with from the snapshot of
            `control.step`: records from there on are cut off; None starts a new log.
        replace: True if a new log may replace an existing one.
        measure_every: steps between measurements; 0: never.

    Attributes:
        snapshot_step: step of the last whole snapshot; 0 before the first.
        best_step: step of the last whole snapshot of a best state; 0 before the first.

    Raises:
        FileExistsError: the log is to be new, and its file exists.
        FileInUseError: another run is writing the log.
        OSError: the log cannot be written; a new log is then not left behind.
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
        super().__init__(path)
        self._control, self._interval, self._every = control, interval, measure_every
        header = SnapshotLogHeader(
            control.node_settings, tuple(tasks), mark, interval, weight_bytes, checksum, measure_every
        )
        data = header.to_bytes()
        self._owner = ending(data)
        self._slots, self._slot_bytes = header.size, header.slot_bytes
        self._records = header.size + header.slots * header.slot_bytes
        self.snapshot_step = 0 if resume is None else control.step
        self.best_step = 0
        if resume is not None:
            with self._resumed():
                self.keep(control.step, resume)
        else:
            with self._new(replace=replace):
                self._write_at(0, data + bytes(header.slots * header.slot_bytes))

    @property
    def _kept(self) -> str:
        return "; the log keeps its last whole snapshot"

    def append(self, step: int, loss: float) -> None:
        """Writes the record of a finished step, whose mean loss is given in nats or `ZoLoss.unit`."""
        at = step_record_at(self._records, self._every, step)
        self._write_at(at, write_step_record(step, round(loss * 65536), self._owner))

    def append_measurement(self, measurement: Measurement) -> None:
        """Writes the record of a measurement."""
        at = measurement_at(self._records, self._every, measurement.step)
        self._write_at(at, measurement.to_bytes(self._owner))

    def size(self, steps: int, measurements: int) -> int:
        """Bytes of the log up to so many whole steps and measurements."""
        return self._records + SNAPSHOT_RECORD_BYTES * steps + MEASUREMENT_BYTES * measurements

    def keep(self, steps: int, measurements: int) -> None:
        """Cuts off the records behind so many steps and measurements."""
        try:
            self._file.truncate(self.size(steps, measurements))
        except OSError as error:
            raise self._failure(error) from error

    @property
    def is_due(self) -> bool:
        """Returns whether a snapshot belongs after the step that has just been finished."""
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
            number: number of its measurement, counted from 0.
            weights: the tasks' weights, then their fractions.
        """
        self._write_slot(BEST_SLOT, number + 1, weights)
        self.best_step = self._control.step

    def _write_slot(self, slot: int, number: int, weights: Sequence[NDArray[np.int8]]) -> None:
        data = Snapshot.write(self._control, self._owner, number, weights)
        self._write_at(self._slots + slot * self._slot_bytes, data)
