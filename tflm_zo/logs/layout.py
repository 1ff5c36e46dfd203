# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""The parts of a log: its beginning, its records in their order, and the padding of stores that program
several bytes at once (``ops/core/log/zo_store_units.h``). Without padding, a device's log is a desktop's.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from typing import Final, TypeAlias

from ..converters import Model
from ..core import (
    FINGERPRINT_BYTES,
    MEASUREMENT_BYTES,
    STORE_UNIT_MOST,
    UNIT_AT,
    Measurement,
    SeedLogHeader,
    SnapshotLogHeader,
    StepRecord,
    is_due,
)

__all__ = [
    "MAGIC",
    "SEED_LOG",
    "SNAPSHOT_LOG",
    "Header",
    "IncompleteHeaderError",
    "LogError",
    "LogWarning",
    "Records",
    "check_version",
    "ending",
    "filled_up",
    "fingerprint",
    "is_padded",
    "is_snapshot_log",
    "is_store_unit",
    "padded",
    "read_header",
    "unit_of",
    "unpadded",
]

Header: TypeAlias = SeedLogHeader | SnapshotLogHeader

MAGIC: Final = b"ZOLOG\r\n\x1a"
SEED_LOG: Final = MAGIC + b"\x03"
SNAPSHOT_LOG: Final = MAGIC + b"\x04"
_OLD_VERSIONS: Final = (1, 2)  # of either kind


class LogError(ValueError):
    """The log is damaged, or of another model or run."""


class IncompleteHeaderError(LogError):
    """The log ends within its header: the run was killed before its first step, and nothing is lost."""


class LogWarning(UserWarning):
    """A run goes on from less than was asked for."""


def fingerprint(model: Model | bytes) -> bytes:
    """The first 16 bytes of the SHA-256 of a model's file."""
    data = model if isinstance(model, bytes) else model.to_bytes()
    return hashlib.sha256(data).digest()[:FINGERPRINT_BYTES]


def check_version(path: str | os.PathLike[str], data: bytes) -> None:
    """Raises LogError where a file is a log that an older version of this library wrote."""
    version = int.from_bytes(data[len(MAGIC) : len(MAGIC) + 1], "little")
    if data[: len(MAGIC)] == MAGIC and version in _OLD_VERSIONS:
        raise LogError(
            f"{path} is a log in format {version}, of an older version of tflm-zo, which this one does not "
            "read: read it with the version that wrote it, or repeat the run"
        )


def is_snapshot_log(path: str | os.PathLike[str]) -> bool:
    """Returns whether a file begins like a snapshot log."""
    with open(path, "rb") as file:
        return file.read(len(SNAPSHOT_LOG)) == SNAPSHOT_LOG


def ending(data: bytes) -> int:
    """The checksum that a header or record ends with, which the next one's continues."""
    return int.from_bytes(data[-4:], "little")


def read_header(data: bytes) -> Header | None:
    """Returns the header that some bytes begin with, without padding; None where it is not whole."""
    return SeedLogHeader.from_bytes(data) or SnapshotLogHeader.from_bytes(data)


# --- records --------------------------------------------------------------------------------------------


class Records:
    """Takes the records of a log in their order: those of the steps, and the measurements among them.

    Args:
        header: header of the log.
        checksum: checksum at the end of the header, which that of the first record continues.
        unit: bytes that records are padded to.

    Attributes:
        step: number of steps taken.
    """

    def __init__(self, header: Header, checksum: int, unit: int = 1) -> None:
        self.step, self._measured, self._checksum = 0, 0, checksum
        self._header, self._steps, self._unit = header, int(header.settings.steps), unit

    def take(self, data: bytes) -> tuple[list[StepRecord], list[Measurement], int]:
        """Takes the bytes that follow the records so far.

        Returns:
            Records of steps and the measurements, up to a record that is not whole or not in its place; the
            bytes that they take, padding included.
        """
        header, at = self._header, 0
        steps, measurements = list[StepRecord](), list[Measurement]()
        while True:
            measures = is_due(header.measure_every, self._steps, self.step, self._measured)
            size = MEASUREMENT_BYTES if measures else header.record_bytes
            data_of_record, end = data[at : at + size], at + filled_up(size, self._unit)
            if end > len(data):
                break
            if measures:
                measurement = Measurement.from_bytes(data_of_record, self._checksum)
                if measurement is None or measurement.step != self.step:
                    break
                measurements.append(measurement)
                self._measured += 1
            else:
                record = header.read_record(data_of_record, self._checksum)
                if record is None or record.step != self.step or self.step == self._steps:
                    break
                steps.append(record)
                self.step += 1
            if header.is_chained:
                self._checksum = ending(data_of_record)
            at = end
        return steps, measurements, at


# --- padding --------------------------------------------------------------------------------------------


def is_store_unit(unit: int) -> bool:
    """Returns whether a store may program so many bytes at once."""
    return 1 <= unit <= STORE_UNIT_MOST and not unit & (unit - 1)


def filled_up(size: int, unit: int) -> int:
    """Bytes, filled up to whole units."""
    return -(-size // unit) * unit


def is_padded(data: bytes) -> bool:
    """Returns whether some bytes begin a padded log."""
    return unit_of(data) > 1


def unit_of(data: bytes) -> int:
    """The unit that a log is padded to, by its beginning; 1: it is not padded, or is no log."""
    unit = data[UNIT_AT] - 128 if data[: len(MAGIC)] == MAGIC and len(data) > UNIT_AT else 1
    return unit if is_store_unit(unit) else 1


def unpadded(data: bytes) -> bytes:
    """What a padded log has, without padding: the log that a desktop writes.

    A log that is not padded, or another file, is returned as it is. Of a log whose header is not whole, the
    mark of padding alone is taken away.
    """
    if not is_padded(data):
        return data
    unit, data = unit_of(data), data[:UNIT_AT] + b"\0" + data[UNIT_AT + 1 :]
    at, pieces = 0, list[bytes]()
    for size in _sizes(data):
        pieces.append(data[at : at + size])
        at += filled_up(size, unit)
        if at >= len(data):
            break
    return b"".join(pieces) + data[at:]


def padded(data: bytes, unit: int) -> bytes:
    """What a store that programs ``unit`` bytes at once has of a log.

    Args:
        data: a log, padded or not. One whose header is not whole is returned as it is.
        unit: 1, 2, 4, 8, 16 or 32.
    """
    data = unpadded(data)
    at, pieces = 0, list[bytes]()
    for size in _sizes(data) if unit > 1 else ():
        if at + size > len(data):
            break  # what is not whole is not filled up either
        pieces.append(data[at : at + size].ljust(filled_up(size, unit), b"\xff"))
        at += size
    if not pieces:
        return data
    pieces[0] = pieces[0][:UNIT_AT] + bytes([128 + unit]) + pieces[0][UNIT_AT + 1 :]
    return b"".join(pieces) + data[at:]


def _sizes(data: bytes) -> Iterator[int]:
    """Bytes of each thing that is padded by itself, in their order; none where there is no whole header."""
    header = read_header(data)
    if header is None:
        return
    yield header.size
    for _ in range(header.slots):
        yield header.slot_bytes
    steps, step, measured = int(header.settings.steps), 0, 0
    while True:
        if is_due(header.measure_every, steps, step, measured):
            yield MEASUREMENT_BYTES
            measured += 1
        elif step < steps:
            yield header.record_bytes
            step += 1
        else:
            return
