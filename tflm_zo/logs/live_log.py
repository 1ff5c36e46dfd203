# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""A log that a run is still writing, somewhere else: what its bytes say as they arrive."""

from __future__ import annotations

from typing import Final

from ..core import (
    MEASUREMENT_BYTES,
    SEED_LOG_HEADER_BYTES,
    SNAPSHOT_RECORD_BYTES,
    SeedLogHeader,
    Snapshot,
    SnapshotLogHeader,
    TaskEntry,
)
from .beginning import MAGIC, SEED_LOG, SNAPSHOT_LOG, check_version, ending
from .errors import LogError
from .padding import filled_up, unit_of, unpadded
from .records import SeedRecords, SnapshotRecords

__all__ = ["LiveLog"]


class LiveLog:
    """A log of either kind, of which the header is known, and records as far as they were taken.

    Args:
        header: the whole header.
        name: what an error calls the log.

    Attributes:
        header: the whole header.
        unit: bytes that header, slots and records are padded to, as all offsets and sizes here take them.
        fingerprint: fingerprint of the base model, or of it and the weights that the run began with, 16
            bytes.
        begin: offset of the first record; before it lie the header and, in a snapshot log, the slots.
        end: bytes of the log when the run is over.
        record_bytes: sizes of records, the largest first.
        steps: number of steps of the whole run.
        repeated: steps that the run does again at most, and writes again, when it has lost its power.
        tasks: tasks of a layer-wise run; none of weight perturbation.

    Raises:
        LogError: the header is damaged, or of another version.
    """

    #: Bytes that say how long the header is.
    BEGINNING: Final = 12

    def __init__(self, header: bytes, name: str) -> None:
        check_version(name, header)
        self.header, self.unit = header, unit_of(header)
        header = unpadded(header)
        self._records: SeedRecords | SnapshotRecords
        self._snapshots: SnapshotLogHeader | None = None
        self.tasks: tuple[TaskEntry, ...] = ()
        self.repeated = 0
        if (
            header[: len(SNAPSHOT_LOG)] == SNAPSHOT_LOG
            and (found := SnapshotLogHeader.from_bytes(header)) is not None
        ):
            self._snapshots, self.tasks, self.repeated = found, found.tasks, found.interval
            self._records, size = SnapshotRecords(found, ending(header), self.unit), SNAPSHOT_RECORD_BYTES
            self.begin = self._padded(found.size) + found.slots * self._padded(found.slot_bytes)
            self.fingerprint, settings, every = found.fingerprint, found.settings, found.measure_every
        elif header[: len(SEED_LOG)] == SEED_LOG and (of_seeds := SeedLogHeader.from_bytes(header)):
            settings, every = of_seeds.settings, of_seeds.measure_every
            self._records = SeedRecords(settings, every, ending(header), self.unit)
            self.begin, size = self._padded(SEED_LOG_HEADER_BYTES), self._records.size
            self.fingerprint = of_seeds.fingerprint
        else:
            raise LogError(f"{name} is no log of this version, or its header is damaged")
        self.steps = int(settings.steps)
        measurements = 1 + -(-self.steps // every) if every else 0
        size, measurement = self._padded(size), self._padded(MEASUREMENT_BYTES)
        self.end = self.begin + self.steps * size + measurements * measurement
        self.record_bytes = sorted({size, measurement if every else size}, reverse=True)

    def _padded(self, size: int) -> int:
        return filled_up(size, self.unit)

    @classmethod
    def header_bytes(cls, beginning: bytes) -> int | None:
        """Returns the bytes of the header that begins with `BEGINNING` bytes; None: it is no log's."""
        if len(beginning) < cls.BEGINNING or beginning[: len(MAGIC)] != MAGIC:
            return None
        return max(int.from_bytes(beginning[10:12], "little"), cls.BEGINNING)

    @property
    def is_snapshot_log(self) -> bool:
        """Whether it is the log of a layer-wise run."""
        return self._snapshots is not None

    @property
    def step(self) -> int:
        """Number of whole steps taken."""
        return self._records.step

    def is_over(self, data: bytes) -> bool:
        """Whether a log that begins with these bytes, whose records were taken, is a whole run's.

        A layer-wise run that has lost its power repeats the steps after its last snapshot, whose records are
        there already.
        """
        if self.step < self.steps or (header := self._snapshots) is None:
            return self.step == self.steps
        slots = range(self._padded(header.size), self.begin, self._padded(header.slot_bytes))
        owner = ending(self.header)
        found = (Snapshot.read(data[at : at + header.slot_bytes], owner, header) for at in slots)
        return any(snapshot is not None and snapshot.step == self.steps for snapshot in found)

    def take(self, data: bytes) -> tuple[list[float], int]:
        """Goes on with the bytes behind the records so far.

        Returns:
            Mean losses of the steps, nats or `ZoLoss.unit`, and the bytes that their records take; what
            follows is no whole record.
        """
        if isinstance(self._records, SnapshotRecords):
            losses, _, used = self._records.take(data)
            return losses, used
        steps, _, used = self._records.take(data)
        return [step.mean_loss / 65536 for step in steps], used
