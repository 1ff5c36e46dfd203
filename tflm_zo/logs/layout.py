"""The parts of a log: its beginning, its records in their order, and the padding of stores that program several
bytes at once (``ops/core/log/zo_store_units.h``). Without padding, a device's log is a desktop's.
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
    Snapshot,
    SnapshotLogHeader,
    StepRecord,
    is_due,
)

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
