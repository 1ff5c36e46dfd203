# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""The records of a log, as they come: those of the steps, and the measurements among them."""

from __future__ import annotations

from typing import Generic, TypeVar

from ..core import (
    MEASUREMENT_BYTES,
    SNAPSHOT_RECORD_BYTES,
    CSettings,
    Measurement,
    SeedLogRecord,
    SnapshotLogHeader,
    is_due,
    read_step_record,
)
from .beginning import ending
from .padding import filled_up

__all__ = ["Records", "SeedRecords", "SnapshotRecords"]

_Step = TypeVar("_Step")


class Records(Generic[_Step]):
    """Takes the records of a log in their order.

    Args:
        size: bytes of a step's record.
        steps: number of steps of the whole run.
        every: steps between two measurements; 0: there are none.
        checksum: checksum at the end of the header, which that of the first record continues.
        unit: bytes that records are padded to.

    Attributes:
        size: bytes of a step's record.
        step: number of steps taken.
    """

    def __init__(self, size: int, steps: int, every: int, checksum: int, unit: int) -> None:
        self.size, self.step, self._unit = size, 0, unit
        self._steps, self._every, self._checksum, self._measured = steps, every, checksum, 0

    def take(self, data: bytes) -> tuple[list[_Step], list[Measurement], int]:
        """Goes on with what follows the records so far.

        Returns:
            What the records of steps say and the measurements, up to a record that is not whole or not in its
            place; the bytes that they take, padding included.
        """
        at, steps, measurements = 0, list[_Step](), list[Measurement]()
        while True:
            measures = is_due(self._every, self._steps, self.step, self._measured)
            size = MEASUREMENT_BYTES if measures else self.size
            record, end = data[at : at + size], at + filled_up(size, self._unit)
            if end > len(data):
                break
            if measures:
                measurement = Measurement.from_bytes(record, self._checksum)
                if measurement is None or measurement.step != self.step:
                    break
                measurements.append(measurement)
                self._measured += 1
            else:
                found = self._read(record)
                if found is None:
                    break
                steps.append(found)
                self.step += 1
            self._checksum, at = self._after(record), end
        return steps, measurements, at

    def _read(self, record: bytes) -> _Step | None:
        """Returns what the record of step `step` says; None where it is none."""
        raise NotImplementedError

    def _after(self, record: bytes) -> int:
        """Returns the checksum that the next record's continues."""
        raise NotImplementedError


class SeedRecords(Records[SeedLogRecord]):
    """Those of a seed log, each of which continues the checksum of the one before."""

    def __init__(self, settings: CSettings, every: int, checksum: int, unit: int = 1) -> None:
        super().__init__(SeedLogRecord.size(settings), int(settings.steps), every, checksum, unit)
        self._settings = settings

    def _read(self, record: bytes) -> SeedLogRecord | None:
        found = SeedLogRecord.read(record, self._settings, self._checksum)
        return found if found is not None and found.step == self.step else None

    def _after(self, record: bytes) -> int:
        return ending(record)


class SnapshotRecords(Records[float]):
    """Those of a snapshot log: losses of steps. All of them continue the header's checksum."""

    def __init__(self, header: SnapshotLogHeader, owner: int, unit: int = 1) -> None:
        steps = int(header.settings.steps)
        super().__init__(SNAPSHOT_RECORD_BYTES, steps, header.measure_every, owner, unit)

    def _read(self, record: bytes) -> float | None:
        found = read_step_record(record, self._checksum)
        if found is None or found[0] != self.step or self.step == self._steps:
            return None
        return found[1] / 65536

    def _after(self, record: bytes) -> int:
        return self._checksum
