# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""A log that a device is still writing, read as its bytes arrive."""

from __future__ import annotations

from typing import Final

from ..core import MEASUREMENT_BYTES, Snapshot, SnapshotLogHeader
from .layout import MAGIC, LogError, Records, check_version, ending, filled_up, read_header, unit_of, unpadded

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
        found = read_header(unpadded(header))
        if found is None:
            raise LogError(f"{name} is no log of this version, or its header is damaged")
        self.header, self.unit, self._found = header, unit_of(header), found
        self.fingerprint, self.tasks, self.repeated = found.fingerprint, found.tasks, found.interval
        self._owner = ending(unpadded(header))
        self._records = Records(found, self._owner, self.unit)
        self.begin = self._padded(found.size) + found.slots * self._padded(found.slot_bytes)
        self.steps, every = int(found.settings.steps), found.measure_every
        measurements = 1 + -(-self.steps // every) if every else 0
        size, measurement = self._padded(found.record_bytes), self._padded(MEASUREMENT_BYTES)
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
        return bool(self._found.slots)

    @property
    def step(self) -> int:
        """Number of whole steps taken."""
        return self._records.step

    def is_over(self, data: bytes) -> bool:
        """Whether a log that begins with these bytes, whose records were taken, is a whole run's.

        A layer-wise run that has lost its power repeats the steps after its last snapshot, whose records are
        there already.
        """
        header = self._found
        if self.step < self.steps or not isinstance(header, SnapshotLogHeader):
            return self.step == self.steps
        slots = range(self._padded(header.size), self.begin, self._padded(header.slot_bytes))
        found = (Snapshot.read(data[at : at + header.slot_bytes], self._owner, header) for at in slots)
        return any(snapshot is not None and snapshot.step == self.steps for snapshot in found)

    def take(self, data: bytes) -> tuple[list[float], int]:
        """Takes the bytes behind the records so far.

        Returns:
            Mean losses of the steps, nats or `ZoLoss.unit`, and the bytes that their records take; what
            follows is no whole record.
        """
        steps, _, used = self._records.take(data)
        return [step.mean_loss / 65536 for step in steps], used
