# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""The log (``.zolog``) of a run whose updates depend on data: snapshots of the weights, and its steps.

Its bytes are specified in ``ops/core/log/zo_snapshot_log.h``.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..converters import Model, load_model, read_metadata
from ..core import (
    BEST_SLOT,
    CSettings,
    Measurement,
    NodeRules,
    Snapshot,
    SnapshotLogHeader,
    TaskEntry,
    best_of,
)
from .beginning import SNAPSHOT_LOG, check_version, ending, fingerprint
from .errors import IncompleteHeaderError, LogError
from .padding import unpadded
from .records import SnapshotRecords

__all__ = ["SnapshotLog", "data_checksum"]


def data_checksum(arrays: Sequence[NDArray[Any]]) -> int:
    """CRC-32 of training samples and labels, as the model reads them, one array after the other."""
    crc = 0
    for array in arrays:
        crc = zlib.crc32(np.ascontiguousarray(array).tobytes(), crc)
    return crc


@dataclass(frozen=True)
class SnapshotLog:
    """A log that was read.

    Attributes:
        settings: settings of the run.
        first_segment: segment at which its forward passes begin.
        rules: settings of layer-wise runs.
        tasks: tasks of the run.
        fingerprint: fingerprint of the base model, 16 bytes.
        interval: number of steps between snapshots.
        weight_bytes: bytes of a snapshot's weights.
        data_checksum: checksum of the training data.
        measure_every: steps between measurements; 0: never.
        snapshot: the last whole one whose steps all have their records; None before the first.
        best_slot: the last whole one of a best state; None where no measurement was better than the first.
        losses: mean loss of each whole step, nats or `ZoLoss.unit`, float64 [steps]. Steps after the
            snapshot have losses too;
            repeating these steps needs the data.
        measurements: measurements of the run, in order; there may be more than the snapshot has, too.
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
            LogError: the file is no snapshot log or one of an older version, its header is damaged, or no run
                has its settings.
            OSError: the file cannot be read.
        """
        data = unpadded(Path(path).read_bytes())
        check_version(path, data)
        header = SnapshotLogHeader.from_bytes(data)
        if header is None and _is_cut_short(data):
            raise IncompleteHeaderError(f"{path} ends within its header: there is no step in it")
        if header is None:
            raise LogError(f"{path} is no snapshot log of this version, or its header is damaged")
        begin, slots, slot = header.size, header.slots, header.slot_bytes
        records = begin + slots * slot
        if len(data) < records:
            raise IncompleteHeaderError(f"{path} ends within its first snapshots: there is no step in it")
        owner = ending(data[:begin])
        found = [Snapshot.read(data[at : at + slot], owner, header) for at in range(begin, records, slot)]
        losses, measurements, _ = SnapshotRecords(header, owner).take(data[records:])
        # Where records before a snapshot are damaged, an older one with all of its records counts.
        snapshots = [s for s in found[:BEST_SLOT] if s is not None and s.step <= len(losses)]
        return cls(
            header.settings,
            int(header.node_settings.first_segment),
            header.rules,
            header.tasks,
            header.fingerprint,
            header.interval,
            header.weight_bytes,
            header.data_checksum,
            header.measure_every,
            max(snapshots, key=lambda s: s.step, default=None),
            found[BEST_SLOT] if slots > BEST_SLOT else None,
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
        known = [
            m for m in self.measurements if m.step <= step and (not m.step or self.after(m.step) is not None)
        ]
        best, slot = best_of(known), self.best_slot
        if best is not None and not best.step and slot is not None:
            # Written when the loss alone said which state is the best: the one that the run handed over.
            return next((m for m in known if m.step == slot.step), best)
        return best

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
        size = metadata.bytes_of(numbers)
        if size != self.weight_bytes:
            raise LogError(
                f"the log is damaged: its snapshots are of {self.weight_bytes} bytes of weights, and the "
                f"tensors that it trains have {size}"
            )


def _is_cut_short(data: bytes) -> bool:
    if data[: len(SNAPSHOT_LOG)] != SNAPSHOT_LOG[: len(data)]:
        return False
    if len(data) < SnapshotLogHeader.size_of(0):
        return True
    size, _, tasks = (int.from_bytes(data[at : at + 2], "little") for at in (10, 12, 14))
    return len(data) < size == SnapshotLogHeader.size_of(tasks)
