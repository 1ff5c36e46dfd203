# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""The records of a log, as they come: those of the steps, and the measurements among them."""

from __future__ import annotations

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

__all__ = ["SeedRecords", "SnapshotRecords"]


class SeedRecords:
    """Takes the records of a seed log in their order.

    Attributes:
        size: bytes of a step's record.
        step: number of steps taken.
    """

    def __init__(self, settings: CSettings, every: int, checksum: int) -> None:
        self._settings, self._every, self._checksum = settings, every, checksum
        self.size, self.step = SeedLogRecord.size(settings), 0
        self._measured = 0

    def take(self, data: bytes) -> tuple[list[SeedLogRecord], list[Measurement], int]:
        """Goes on with what follows the records so far.

        Returns:
            The records of steps and the measurements, up to a record that is not whole or not in its place;
            the bytes that they take.
        """
        at, steps, measurements = 0, list[SeedLogRecord](), list[Measurement]()
        while True:
            if is_due(self._every, self._settings.steps, self.step, self._measured):
                end = at + MEASUREMENT_BYTES
                measurement = Measurement.from_bytes(data[at:end], self._checksum)
                if measurement is None or measurement.step != self.step:
                    break
                measurements.append(measurement)
                self._measured += 1
            else:
                end = at + self.size
                record = SeedLogRecord.read(data[at:end], self._settings, self._checksum)
                if record is None or record.step != self.step:
                    break
                steps.append(record)
                self.step += 1
            self._checksum, at = ending(data[at:end]), end
        return steps, measurements, at


class SnapshotRecords:
    """Takes the records of a snapshot log in their order.

    Args:
        header: header of the log.
        owner: checksum at the end of the header, which those of the records continue.

    Attributes:
        step: number of steps taken.
    """

    def __init__(self, header: SnapshotLogHeader, owner: int) -> None:
        self._header, self._owner, self.step, self._measured = header, owner, 0, 0

    def take(self, data: bytes) -> tuple[list[float], list[Measurement], int]:
        """Goes on with what follows the records so far.

        Returns:
            Losses of the steps in nats and the measurements, up to a record that is not whole or not in its
            place; the bytes that they take.
        """
        at, losses, measurements = 0, list[float](), list[Measurement]()
        every, steps = self._header.measure_every, int(self._header.settings.steps)
        while True:
            if is_due(every, steps, self.step, self._measured):
                end = at + MEASUREMENT_BYTES
                measured = Measurement.from_bytes(data[at:end], self._owner)
                if measured is None or measured.step != self.step:
                    break
                measurements.append(measured)
                self._measured += 1
            else:
                end = at + SNAPSHOT_RECORD_BYTES
                record = read_step_record(data[at:end], self._owner)
                if record is None or record[0] != self.step or self.step == steps:
                    break
                losses.append(record[1] / 65536)
                self.step += 1
            at = end
        return losses, measurements, at
