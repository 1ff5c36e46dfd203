# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""The seed log (``.zolog``): a complete, append-only checkpoint of a weight-perturbation run.

Its bytes are specified in ``ops/core/log/zo_log.h`` and written and read by the C core.
"""

from __future__ import annotations

import contextlib
import ctypes
import hashlib
import io
import itertools
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import core
from ..converters import Model
from ..converters.files import NewFile, lock_file, new_file
from ..core import (
    MAX_QUERIES,
    MEASUREMENT_BYTES,
    QUERY_DTYPE,
    Control,
    CSettings,
    Distribution,
    DistributionKind,
    Measurement,
    best_of,
    is_due,
)

__all__ = ["IncompleteHeaderError", "LogError", "LogWarning", "LogWriter", "SeedLog", "fingerprint"]

HEADER_BYTES = 132
FINGERPRINT_BYTES = 16
MAGIC = b"ZOLOG\r\n\x1a"
VERSION = b"\x03\x00"
_OLD_VERSIONS = (1, 2)  # of either kind of log
_STEPS_AT_ONCE = 8192  # of a log that is read in parts


class LogError(ValueError):
    """The log is damaged, or of another model or run."""


class IncompleteHeaderError(LogError):
    """The log ends within its header: the run was killed before its first step, and nothing is lost."""


class LogWarning(UserWarning):
    """A run goes on from less than was asked for."""


class _Header(ctypes.Structure):
    _fields_ = [("fingerprint", ctypes.c_uint8 * FINGERPRINT_BYTES), ("measure_every", ctypes.c_uint32)]


class _Record(ctypes.Structure):
    _fields_ = [
        ("step", ctypes.c_uint32),
        ("mean_loss", ctypes.c_int32),
        ("mean_square", ctypes.c_int64),
        ("coefficients", ctypes.c_int32 * MAX_QUERIES),
    ]


@lru_cache(maxsize=1)
def _library() -> Any:
    library, pointer, u32 = core.library(), ctypes.c_void_p, ctypes.c_uint32
    settings, header = ctypes.POINTER(CSettings), ctypes.POINTER(_Header)
    for name, result, arguments in (
        ("zo_control_distribution", core.native._Distribution, [settings, ctypes.c_uint32]),
        ("zo_control_items", ctypes.c_uint32, [settings, ctypes.c_uint32, pointer, pointer]),
        ("zo_log_record_bytes", ctypes.c_uint32, [ctypes.c_uint32]),
        ("zo_log_write_header", None, [header, settings, pointer]),
        ("zo_log_read_header", ctypes.c_int, [ctypes.c_char_p, header, settings]),
        ("zo_log_write_record", None, [pointer, ctypes.c_int32, u32, pointer]),
        ("zo_log_read_record", ctypes.c_int, [ctypes.c_char_p, settings, u32, ctypes.POINTER(_Record)]),
    ):
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
    return library


def fingerprint(model: Model | bytes) -> bytes:
    """The first 16 bytes of the SHA-256 of a model's file."""
    data = model if isinstance(model, bytes) else model.to_bytes()
    return hashlib.sha256(data).digest()[:FINGERPRINT_BYTES]


def check_version(path: str | os.PathLike[str], data: bytes) -> None:
    """Raises LogError where a file is a log that an older version of this library wrote."""
    version = int.from_bytes(data[len(MAGIC) : len(MAGIC) + 2], "little")
    if data[: len(MAGIC)] == MAGIC and version in _OLD_VERSIONS:
        raise LogError(
            f"{path} is a log in format {version}, of an older version of tflm-zo, which this one does not "
            "read: read it with the version that wrote it, or repeat the run"
        )


def _checksum(data: bytes) -> int:
    """At the end of a header or record: what the next one's continues."""
    return int.from_bytes(data[-4:], "little")


@dataclass(frozen=True)
class SeedLog:
    """A log that was read, or consecutive steps of one.

    Attributes:
        settings: of the run.
        fingerprint: of the base model, 16 bytes.
        measure_every: steps between measurements; 0: never.
        losses: mean loss of each whole step, nats, float64 [steps].
        mean_squares: the control unit's running mean after each step, int64 [steps].
        steps: (seed, coefficient) pairs, `QUERY_DTYPE` [steps, queries].
        measurements: what the run measured, in order, from those of the first of these steps on.
        whole_bytes: size of header and whole records, up to the last of these steps and its measurement.
        torn_bytes: what follows the last whole record: the trace of an interrupted write.
        first_step: number of the first of these steps in the run.
    """

    settings: CSettings
    fingerprint: bytes
    measure_every: int
    losses: NDArray[np.float64]
    mean_squares: NDArray[np.int64]
    steps: NDArray[np.void]
    measurements: tuple[Measurement, ...]
    whole_bytes: int
    torn_bytes: int
    first_step: int = 0

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> SeedLog:
        """Reads a log up to its last whole record.

        Raises:
            IncompleteHeaderError: the file is the beginning of a log's header.
            LogError: no log, one of an older version, a damaged header, or settings that no run has.
            OSError: the file cannot be read.
        """
        parts = list(cls.parts(path))
        last = parts[-1]
        return cls(
            last.settings,
            last.fingerprint,
            last.measure_every,
            np.concatenate([p.losses for p in parts]),
            np.concatenate([p.mean_squares for p in parts]),
            np.concatenate([p.steps for p in parts]),
            tuple(m for p in parts for m in p.measurements),
            last.whole_bytes,
            last.torn_bytes,
        )

    @property
    def best(self) -> Measurement | None:
        """The best of the measurements; None where nothing was measured."""
        return best_of(self.measurements)

    @classmethod
    def parts(cls, path: str | os.PathLike[str]) -> Iterator[SeedLog]:
        """Reads a log up to its last whole record, some thousand steps at a time: memory does not grow with
        its length.

        Yields:
            Consecutive parts, at least one; the last one alone may be empty, and alone knows torn bytes.

        Raises:
            IncompleteHeaderError: the file is the beginning of a log's header.
            LogError: no log, or a damaged header.
            OSError: the file cannot be read.
        """
        with open(path, "rb") as file:
            data = file.read(HEADER_BYTES)
            beginning = MAGIC + VERSION
            if len(data) < HEADER_BYTES and data[: len(beginning)] == beginning[: len(data)]:
                raise IncompleteHeaderError(f"{path} ends within its header: there is no step in it")
            check_version(path, data)
            header, settings = _Header(), CSettings()
            if len(data) < HEADER_BYTES or _library().zo_log_read_header(
                data, ctypes.byref(header), ctypes.byref(settings)
            ):
                raise LogError(f"{path} is no seed log of this version, or its header is damaged")
            records = _Records(settings, int(header.measure_every), _checksum(data))
            length, at, data = os.fstat(file.fileno()).st_size, HEADER_BYTES, b""
            at_once = _STEPS_AT_ONCE * records.size
            while True:
                more, first = file.read(at_once), records.step
                steps, measurements, used = records.take(data + more)
                data = (data + more)[used:]
                at += used
                is_last = len(more) < at_once or len(data) >= records.size + MEASUREMENT_BYTES
                yield cls(
                    settings,
                    bytes(header.fingerprint),
                    int(header.measure_every),
                    np.array([loss / 65536 for loss, _, _ in steps], np.float64),
                    np.array([square for _, square, _ in steps], np.int64),
                    _with_seeds(settings, [coefficients for _, _, coefficients in steps], first),
                    tuple(measurements),
                    at,
                    length - at if is_last else 0,
                    first,
                )
                if is_last:
                    return

    @classmethod
    def from_steps(
        cls, settings: CSettings, mark: bytes, coefficients: list[list[int]], first: int = 0
    ) -> SeedLog:
        """A log that was never written: the coefficients of a run's whole steps, from step `first` on."""
        none = np.zeros(len(coefficients))
        steps = _with_seeds(settings, coefficients, first)
        return cls(settings, mark, 0, none, none.astype(np.int64), steps, (), 0, 0, first)

    def first(self, steps: int) -> SeedLog:
        """The log as it was after so many steps.

        Raises:
            LogError: the log has fewer.
        """
        if not 0 <= steps <= len(self.steps):
            raise LogError(f"steps: the log has {len(self.steps)} whole steps, got {steps}")
        size = int(_library().zo_log_record_bytes(self.settings.queries))
        measurements = tuple(m for m in self.measurements if m.step <= self.first_step + steps)
        cut = (len(self.steps) - steps) * size + MEASUREMENT_BYTES * (
            len(self.measurements) - len(measurements)
        )
        return SeedLog(
            self.settings,
            self.fingerprint,
            self.measure_every,
            self.losses[:steps],
            self.mean_squares[:steps],
            self.steps[:steps],
            measurements,
            max(self.whole_bytes - cut, 0),
            0,
            self.first_step,
        )

    def check_model(self, model: Model | bytes) -> None:
        """Raises LogError unless the log was recorded on this very ZO model."""
        if fingerprint(model) != self.fingerprint:
            raise LogError("the log is of another model: its fingerprint differs from this ZO model's")

    def steps_of_block(self, block: int) -> list[tuple[Distribution, NDArray[np.void]]]:
        """The steps that move a block, in order: those of each stage with their distribution.

        With momentum a query has one item for each seed of its direction, and items of coefficient 0 where
        the first steps have fewer.
        """
        end_step = self.first_step + len(self.steps)
        numbers = np.arange(self.first_step, end_step)
        if blocks := self.settings.blocks:
            numbers = numbers[numbers % blocks == block % blocks]
        begins = [min(b, end_step) for b in self.settings.stage_steps if b]
        found = []
        for first, end in itertools.pairwise([0, *begins, end_step]):
            own = numbers[(numbers >= first) & (numbers < end)]
            if len(own):
                z = _library().zo_control_distribution(ctypes.byref(self.settings), first)
                found.append((Distribution(DistributionKind(z.kind), z.mu, z.p_zero), self._items(own)))
        return found

    def _items(self, numbers: NDArray[np.int_]) -> NDArray[np.void]:
        """What these steps do to the weights: (seed, coefficient) pairs, [steps, items]."""
        if not self.settings.momentum:
            return self.steps[numbers - self.first_step]
        chain = self.settings.momentum >> 16
        items = np.zeros((len(numbers), MAX_QUERIES), QUERY_DTYPE)
        coefficients = np.ascontiguousarray(self.steps["coefficient"])
        for row, step in zip(items, numbers.tolist(), strict=True):
            recorded = coefficients[step - self.first_step].ctypes.data
            _library().zo_control_items(ctypes.byref(self.settings), step, recorded, row.ctypes.data)
        return items[:, : chain * self.settings.queries]


class _Records:
    """Takes a log's records in their order: those of the steps, and the measurements among them.

    Attributes:
        size: bytes of a step's record.
        step: steps taken.
    """

    def __init__(self, settings: CSettings, every: int, checksum: int) -> None:
        self._settings, self._every, self._checksum = settings, every, checksum
        self.size, self.step = int(_library().zo_log_record_bytes(settings.queries)), 0
        self._measured = 0

    def take(self, data: bytes) -> tuple[list[tuple[int, int, list[int]]], list[Measurement], int]:
        """Goes on with what follows the records so far.

        Returns:
            Mean loss, mean square and coefficients of each step, and the measurements, up to a record that is
            not whole or not in its place; the bytes that they take.
        """
        record, at, total = _Record(), 0, self._settings.steps
        steps: list[tuple[int, int, list[int]]] = []
        measurements: list[Measurement] = []
        while True:
            if is_due(self._every, total, self.step, self._measured):
                end = at + MEASUREMENT_BYTES
                measurement = Measurement.from_bytes(data[at:end], self._checksum)
                if measurement is None or measurement.step != self.step:
                    break
                measurements.append(measurement)
                self._measured += 1
            else:
                end = at + self.size
                if end > len(data) or _library().zo_log_read_record(
                    data[at:end], ctypes.byref(self._settings), self._checksum, ctypes.byref(record)
                ):
                    break
                if record.step != self.step:
                    break
                coefficients = record.coefficients[: self._settings.queries]
                steps.append((record.mean_loss, record.mean_square, coefficients))
                self.step += 1
            self._checksum, at = _checksum(data[at:end]), end
        return steps, measurements, at


def _with_seeds(settings: CSettings, coefficients: list[list[int]], first: int) -> NDArray[np.void]:
    """(seed, coefficient) pairs of the steps from `first` on, [steps, queries]."""
    steps = np.zeros((len(coefficients), settings.queries), QUERY_DTYPE)
    if coefficients:
        seed, run = core.library().zo_query_seed, settings.run_seed
        steps["coefficient"] = coefficients
        numbers = range(first, first + len(steps))
        steps["seed"] = [[seed(run, t, q) for q in range(settings.queries)] for t in numbers]
    return steps


class LogWriter:
    """Appends records, each with one write to the operating system before the run goes on.

    A killed program therefore loses no whole step. A power failure loses what the operating system had not
    brought to the disk yet: at most the steps of the last `sync_every` seconds. What it leaves behind is a
    log up to some whole step, since every record has a checksum.

    Args:
        path: of the log.
        control: of the run; its settings go into the header.
        mark: fingerprint of the model.
        resume: whole bytes to keep of an existing log, which are followed by the next record (0: it is
            written anew, header and all); None starts a new log.
        replace: whether a new log may replace an existing one.
        sync_every: seconds after which the log is brought to the disk; 0: after each step; None: only at the
            end.
        measure_every: steps between measurements; 0: never.

    Raises:
        FileExistsError: a new log exists.
        FileInUseError: another run is writing it.
        OSError: it cannot be written, e.g. the disk is full; a new log is then not left behind.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        control: Control,
        mark: bytes,
        resume: int | None = None,
        *,
        replace: bool = False,
        sync_every: float | None = 1.0,
        measure_every: int = 0,
    ) -> None:
        self._control, self._path, self._sync_every = control, os.fspath(path), sync_every
        size = int(_library().zo_log_record_bytes(control.settings.queries))
        self._record = ctypes.create_string_buffer(size)
        self._whole = 0
        if resume:
            self._file = io.FileIO(path, "r+")
            try:
                lock_file(self._file, path)
                self._cut(resume)
            except BaseException:
                self._file.close()
                raise
        else:
            bytes_ = ctypes.create_string_buffer(HEADER_BYTES)
            header = _Header((ctypes.c_uint8 * FINGERPRINT_BYTES)(*mark), measure_every)
            settings = control.settings
            _library().zo_log_write_header(ctypes.byref(header), ctypes.byref(settings), bytes_)
            with new_log(path) as new:
                self._file = new.file
                self._cut(0)
                self._write(bytes_.raw)
                new.publish(replace=replace or resume is not None)
        self._synced = time.monotonic()

    def _cut(self, size: int) -> None:
        """Leaves the first bytes, which end with a whole record, and goes on behind them."""
        self._file.truncate(size)
        self._file.seek(max(0, size - 4))
        self._checksum = int.from_bytes(self._file.read(4) or b"", "little")
        self._whole = self._file.seek(size)

    def _write(self, data: bytes) -> None:
        """Appends all of it or nothing."""
        try:
            written = self._file.write(data) or 0
            while written < len(data):  # a disk that is almost full takes a part
                written += self._file.write(data[written:]) or 0
        except OSError as error:
            self._file.truncate(self._whole)
            self._file.seek(self._whole)
            raise self._failure(error) from error
        self._whole += len(data)
        self._checksum = _checksum(data)

    def _sync(self) -> None:
        try:
            os.fsync(self._file.fileno())
        except OSError as error:
            raise self._failure(error) from error

    def _failure(self, error: OSError) -> OSError:
        what = error.strerror or str(error)
        if self._whole > HEADER_BYTES:
            what += "; the log keeps the whole steps before, and the run can be resumed from it"
        return OSError(error.errno, what, self._path)

    def append(self) -> None:
        """Writes the step that the control unit has just finished.

        Raises:
            OSError: e.g. the disk is full; the log ends with the step before, or, where the disk failed to
                keep what was written already, with this one.
        """
        mean_loss, checksum = self._control.mean_loss, self._checksum
        _library().zo_log_write_record(self._control.address, mean_loss, checksum, self._record)
        self._write(self._record.raw)
        self._sync_where_due()

    def append_measurement(self, measurement: Measurement) -> None:
        """Writes a measurement, which belongs behind the last whole step.

        Raises:
            OSError: as for `append`.
        """
        self._write(measurement.to_bytes(self._checksum))
        self._sync_where_due()

    def _sync_where_due(self) -> None:
        if self._sync_every is not None and time.monotonic() - self._synced >= self._sync_every:
            self._sync()
            self._synced = time.monotonic()

    def _size(self, steps: int, measurements: int) -> int:
        return HEADER_BYTES + steps * len(self._record) + measurements * MEASUREMENT_BYTES

    def whole(self, steps: int, measurements: int) -> bytes:
        """The log's bytes up to so many whole steps, of which so many measurements were made."""
        return Path(self._path).read_bytes()[: self._size(steps, measurements)]

    def keep(self, steps: int, measurements: int) -> None:
        """Cuts off what follows so many whole steps of the run, of which so many measurements were made."""
        size = self._size(steps, measurements)
        if os.fstat(self._file.fileno()).st_size > size:
            self._cut(size)

    def close(self) -> None:
        """Brings the log to the disk and closes it."""
        if not self._file.closed:
            try:
                self._sync()
            finally:
                self._file.close()


@contextlib.contextmanager
def new_log(path: str | os.PathLike[str]) -> Iterator[NewFile]:
    """A log that is being made beside what it may replace, which stays until this one is on the disk.

    Errors name the log; after one nothing is left of it.
    """
    try:
        with new_file(Path(path)) as new:
            yield new
    except FileExistsError:
        what = f"{path} exists; choose another name, or resume from it or replace it"
        raise FileExistsError(what) from None
    _sync_folder(Path(path).parent)


def _sync_folder(folder: Path) -> None:
    """Brings a new file's name to the disk, where the system can."""
    try:
        handle = os.open(folder, os.O_RDONLY)
    except OSError:
        return
    try:
        os.fsync(handle)
    except OSError:
        pass  # some file systems have no such thing
    finally:
        os.close(handle)
