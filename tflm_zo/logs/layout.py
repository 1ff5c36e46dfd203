"""The layout of a log: header, records, and the padding for stores with a programming unit of several bytes
(``ops/core/log/zo_store_units.h``). Without padding, the logs of device and desktop are equal.
"""

from __future__ import annotations

import hashlib
import os
import zlib
from collections.abc import Iterator
from typing import Final, TypeAlias

from ..converters import Model
from ..core import (
    FINGERPRINT_BYTES,
    MEASUREMENT_BYTES,
    STORE_UNIT_MOST,
    THRESHOLD_STEP,
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
# Bytes of settings that tflm_zo 0.1 had, reserved now.
_REMOVED: Final = {"momentum": slice(116, 120), "sharpness": slice(120, 124)}
_OLD_VERSIONS: Final = (1, 2)  # of either kind


class LogError(ValueError):
    """The log is damaged, or belongs to another model or run."""


class IncompleteHeaderError(LogError):
    """The log ends within its header: the run was killed before its first step."""


class LogWarning(UserWarning):
    """A run resumes from an earlier state than expected."""


def fingerprint(model: Model | bytes) -> bytes:
    """Returns the first 16 bytes of the SHA-256 of a model's file."""
    data = model if isinstance(model, bytes) else model.to_bytes()
    return hashlib.sha256(data).digest()[:FINGERPRINT_BYTES]


def no_log(name: str | os.PathLike[str], data: bytes, wanted: str = "") -> LogError:
    """Returns the error of bytes that do not begin with the header of a log of a kind, "seed" or "snapshot"."""
    version = int.from_bytes(data[len(MAGIC) : len(MAGIC) + 1], "little")
    if data[: len(MAGIC)] == MAGIC and version in _OLD_VERSIONS:
        return LogError(
            f"{name} is a log in format {version}, of an older version of tflm-zo, which this one does not "
            "read: read it with the version that wrote it, or repeat the run"
        )
    intact = zlib.crc32(data[:128]).to_bytes(4, "little") == data[128:132]
    removed = [setting for setting, at in _REMOVED.items() if any(data[at])]
    if data[: len(SEED_LOG)] == SEED_LOG and intact and removed:
        return LogError(
            f"{name} was made with setting `{removed[0]}`, which this version does not have; use tflm_zo 0.1, or "
            "repeat the run without it"
        )
    kind = {SEED_LOG: "seed", SNAPSHOT_LOG: "snapshot"}.get(data[: len(SEED_LOG)], wanted)
    if wanted and kind != wanted:
        return LogError(f"{name} is no {wanted} log of this version, but a {kind} log, of another kind of run")
    what = f"{wanted} log" if wanted else "log"
    return LogError(f"{name} is no {what} of this version, or its header is damaged")


def is_snapshot_log(path: str | os.PathLike[str]) -> bool:
    """Returns whether a file begins like a snapshot log."""
    with open(path, "rb") as file:
        return file.read(len(SNAPSHOT_LOG)) == SNAPSHOT_LOG


def ending(data: bytes) -> int:
    """Returns the checksum at the end of a header or record, from which that of the next record continues."""
    return int.from_bytes(data[-4:], "little")


def read_header(data: bytes) -> Header | None:
    """Returns the header at the beginning of some bytes, without padding; None if it is incomplete."""
    return SeedLogHeader.from_bytes(data) or SnapshotLogHeader.from_bytes(data)


# --- records --------------------------------------------------------------------------------------------


class Records:
    """Parses the records of a log in order: steps, measurements, and behind the last one the threshold of an anomaly.
    `step` is the number of parsed steps, `checksum` at first that of the header, and records are padded to multiples of
    `unit` bytes.
    """

    def __init__(self, header: Header, checksum: int, unit: int = 1) -> None:
        self.step, self._measured, self.checksum = 0, 0, checksum
        self.threshold: Measurement | None = None
        self._header, self._steps, self._unit = header, int(header.settings.steps), unit

    def take(self, data: bytes) -> tuple[list[StepRecord], list[Measurement], int]:
        """Parses the bytes that follow the records so far. Returns records of steps and measurements up to the first
        incomplete or misplaced one, and the size of all records in bytes, padding included.
        """
        header, at = self._header, 0
        steps, measurements = list[StepRecord](), list[Measurement]()
        while self.threshold is None:
            measures = is_due(header.measure_every, self._steps, self.step, self._measured)
            size = MEASUREMENT_BYTES if measures else header.record_bytes
            data_of_record, end = data[at : at + size], at + filled_up(size, self._unit)
            if end > len(data):
                break
            if measures:
                measurement = Measurement.from_bytes(data_of_record, self.checksum)
                if measurement is None or measurement.step != self.step:
                    break
                measurements.append(measurement)
                self._measured += 1
            else:
                record = header.read_record(data_of_record, self.checksum)
                if record is None or record.step != self.step or self.step == self._steps:
                    break
                steps.append(record)
                self.step += 1
            if header.is_chained:
                self.checksum = ending(data_of_record)
            at = end
        end = at + filled_up(MEASUREMENT_BYTES, self._unit)
        last = Measurement.from_bytes(data[at:end], self.checksum) if end <= len(data) else None
        if self.threshold is None and last is not None and last.step == THRESHOLD_STEP:
            self.threshold, at = last, end
        return steps, measurements, at


# --- padding --------------------------------------------------------------------------------------------


def is_store_unit(unit: int) -> bool:
    """Returns whether a number is a valid programming unit of a store."""
    return 1 <= unit <= STORE_UNIT_MOST and not unit & (unit - 1)


def filled_up(size: int, unit: int) -> int:
    """Returns bytes, padded to a multiple of the unit."""
    return -(-size // unit) * unit


def unit_of(data: bytes) -> int:
    """Returns the unit of a padded log; 1 if it is not padded, or is no log."""
    unit = data[UNIT_AT] - 128 if data[: len(MAGIC)] == MAGIC and len(data) > UNIT_AT else 1
    return unit if is_store_unit(unit) else 1


def unpadded(data: bytes) -> bytes:
    """Removes the padding of a log; other bytes are returned unchanged. An incomplete header loses the mark only."""
    unit = unit_of(data)
    if unit == 1:
        return data
    data = data[:UNIT_AT] + b"\0" + data[UNIT_AT + 1 :]
    at, pieces = 0, list[bytes]()
    for size in _sizes(data):
        pieces.append(data[at : at + size])
        at += filled_up(size, unit)
        if at >= len(data):
            break
    return b"".join(pieces) + data[at:]


def padded(data: bytes, unit: int) -> bytes:
    """Pads a log, padded or not, for a store with a programming unit of 1, 2, 4, 8, 16 or 32 bytes. A log with an
    incomplete header is returned unchanged.
    """
    data = unpadded(data)
    at, pieces = 0, list[bytes]()
    for size in _sizes(data) if unit > 1 else ():
        if at + size > len(data):
            break  # an incomplete part has no padding
        pieces.append(data[at : at + size].ljust(filled_up(size, unit), b"\xff"))
        at += size
    if not pieces:
        return data
    pieces[0] = pieces[0][:UNIT_AT] + bytes([128 + unit]) + pieces[0][UNIT_AT + 1 :]
    return b"".join(pieces) + data[at:]


def _sizes(data: bytes) -> Iterator[int]:
    """Returns the sizes of the parts that are padded one by one, in order; none if the header is incomplete."""
    header = read_header(data)
    if header is None:
        return
    yield from (header.size, *[header.slot_bytes] * header.slots)
    steps, step, measured = int(header.settings.steps), 0, 0
    while True:
        if is_due(header.measure_every, steps, step, measured):
            yield MEASUREMENT_BYTES
            measured += 1
        elif step < steps:
            yield header.record_bytes
            step += 1
        else:
            yield MEASUREMENT_BYTES  # of the threshold
            return


class LiveLog:
    """A log of either kind with a complete header, and its records so far. `name` is that of the log in errors. Raises
    LogError if the header is damaged, or of another version.

    Attributes:
        unit: programming unit in bytes; all offsets and sizes include the padding.
        fingerprint: fingerprint of the base model, or of it and the weights at the beginning of the run, 16 bytes.
        begin: offset of the first record, after the header and, in a snapshot log, the slots.
        end: size of the complete log with a threshold, bytes.
        record_bytes: sizes of records, the largest first.
        steps: number of steps of the whole run.
        repeated: largest number of steps that the run repeats, and writes again, after a power failure.
        tasks: tasks of a layer-wise run; none for weight perturbation.
    """

    #: Bytes that say how long the header is.
    BEGINNING: Final = 12

    def __init__(self, header: bytes, name: str) -> None:
        found = read_header(unpadded(header))
        if found is None:
            raise no_log(name, header)
        self.header, self.unit, self._found = header, unit_of(header), found
        self.fingerprint, self.tasks, self.repeated = found.fingerprint, found.tasks, found.interval
        self._owner = ending(unpadded(header))
        self._records = Records(found, self._owner, self.unit)
        self.begin = self._padded(found.size) + found.slots * self._padded(found.slot_bytes)
        self.steps, every = int(found.settings.steps), found.measure_every
        measurements = 1 + (1 + -(-self.steps // every) if every else 0)  # with the threshold
        size, measurement = self._padded(found.record_bytes), self._padded(MEASUREMENT_BYTES)
        self.end = self.begin + self.steps * size + measurements * measurement
        self.record_bytes = sorted({size, measurement}, reverse=True)

    def _padded(self, size: int) -> int:
        return filled_up(size, self.unit)

    @classmethod
    def header_bytes(cls, beginning: bytes) -> int | None:
        """Returns the size of a header from its first `BEGINNING` bytes; None if they are no log's."""
        if len(beginning) < cls.BEGINNING or beginning[: len(MAGIC)] != MAGIC:
            return None
        return max(int.from_bytes(beginning[10:12], "little"), cls.BEGINNING)

    @property
    def is_snapshot_log(self) -> bool:
        """True for the log of a layer-wise run."""
        return bool(self._found.slots)

    @property
    def step(self) -> int:
        """Number of complete steps so far."""
        return self._records.step

    def is_over(self, data: bytes) -> bool:
        """Returns whether the log of these bytes belongs to a finished run. After a power failure a layer-wise run
        repeats the steps after its last snapshot, although the log has their records.
        """
        header = self._found
        if self.step < self.steps or not isinstance(header, SnapshotLogHeader):
            return self.step == self.steps
        slots = range(self._padded(header.size), self.begin, self._padded(header.slot_bytes))
        found = (Snapshot.read(data[at : at + header.slot_bytes], self._owner, header) for at in slots)
        return any(snapshot is not None and snapshot.step == self.steps for snapshot in found)

    def take(self, data: bytes) -> tuple[list[float], int]:
        """Parses the bytes after the records so far. Returns the mean losses of the complete new steps, nats or
        `ZoLoss.unit`, and the size of their records.
        """
        steps, _, used = self._records.take(data)
        return [step.mean_loss / 65536 for step in steps], used
