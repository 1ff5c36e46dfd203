"""The writer of a log: it locks the file, syncs it to the disk, and keeps it valid after any error."""

from __future__ import annotations

import contextlib
import io
import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from ..core import BEST_SLOT, MEASUREMENT_BYTES, NodeControl, Snapshot
from ..io.errors import ExistsError
from ..io.files import lock_file, new_file, write_output
from .layout import Header, ending, unit_of, unpadded

_MARKED: Final = 16  # bytes that say whether a log is padded


def log_exists(path: str | os.PathLike[str]) -> FileExistsError:
    """Returns the error for a new log whose file exists."""
    return ExistsError(path, switches=("resume", "replace"))


class LogWriter:
    """Writes a log. It is a context manager.

    Each record is one write to the operating system, so a killed program loses no complete record. Every
    record has a checksum, so incomplete records after a power failure are detected.

    * After a power failure, a seed log lacks at most the steps of the last `sync_every` seconds.
    * A snapshot log is synced with each snapshot. Steps after the last complete snapshot are repeated with the data.

    Args:
        path: path of the log.
        header: header of the log.
        keep: numbers of steps and measurements to keep of an existing log with the same header; later records
            are removed. None creates a new log.
        replace: True if a new log may replace an existing one.
        sync_every: seconds between syncs of a seed log; 0: after each record; None: only at the end.

    Attributes:
        snapshot_step: step of the last complete snapshot; 0 before the first.
        best_step: step of the last complete snapshot of a best state; 0 before the first.

    Raises:
        FileExistsError: the file of a new log exists.
        FileInUseError: another run is writing the log.
        OSError: the log cannot be written, e.g. because the disk is full; a new log is then removed.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        header: Header,
        *,
        keep: tuple[int, int] | None = None,
        replace: bool = False,
        sync_every: float | None = 1.0,
    ) -> None:
        self._path, self._header = os.fspath(path), header
        self._file: io.FileIO
        data = header.to_bytes() + bytes(header.slots * header.slot_bytes)
        self._begin = len(data)
        self._owner = ending(data[: header.size])
        self._sync_every = sync_every if header.is_chained else None
        self.snapshot_step, self.best_step = 0 if keep is None else keep[0], 0
        self._end, self._checksum = 0, self._owner
        if keep is not None:
            self._open(keep)
        else:
            self._create(data, replace=replace)
        self._synced = time.monotonic()

    def _open(self, keep: tuple[int, int]) -> None:
        """Opens and locks an existing log. A padded log is first rewritten without padding."""
        with open(self._path, "rb") as file:
            data = file.read(_MARKED)
            padded = data + file.read() if unit_of(data) > 1 else None
        if padded is not None:
            write_output(Path(self._path), unpadded(padded), force=True)
        self._file = io.FileIO(self._path, "r+")
        try:
            lock_file(self._file, self._path)
            self.keep(*keep)
        except BaseException:
            self._file.close()
            raise

    def _create(self, data: bytes, *, replace: bool) -> None:
        """Creates a log under a temporary name. An older file is replaced when the new one is on the disk."""
        try:
            with new_file(Path(self._path)) as new:
                self._file = new.file
                self._write_at(0, data)
                self._end = len(data)
                new.publish(replace=replace)
        except FileExistsError:
            raise log_exists(self._path) from None
        _sync_folder(Path(self._path).parent)

    # --- records --------------------------------------------------------------------------------------------

    def append(self, record: Callable[[int], bytes]) -> None:
        """Appends the record of a step or a measurement, completely or not at all. `record` takes the checksum of the
        previous record and returns the bytes of this one. OSError: it cannot be written, e.g. because the disk is full;
        the log then ends with the previous record or, if only the sync failed, with this one.
        """
        data = record(self._checksum)
        try:
            self._write_at(self._end, data)
        except OSError:
            self._file.truncate(self._end)
            raise
        self._end += len(data)
        if self._header.is_chained:
            self._checksum = ending(data)
        if self._sync_every is not None and time.monotonic() - self._synced >= self._sync_every:
            self._sync()
            self._synced = time.monotonic()

    def size(self, steps: int, measurements: int) -> int:
        """Returns the size of the log up to a number of complete steps and measurements, bytes."""
        return self._begin + steps * self._header.record_bytes + measurements * MEASUREMENT_BYTES

    def keep(self, steps: int, measurements: int) -> None:
        """Removes all records after some complete steps and measurements. Raises OSError if that fails."""
        try:
            there, wanted = os.fstat(self._file.fileno()).st_size, self.size(steps, measurements)
            self._end = min(there, wanted)
            if there > wanted:
                self._file.truncate(wanted)
            if self._header.is_chained:
                self._file.seek(self._end - 4)
                self._checksum = ending(self._file.read(4) or b"")
        except OSError as error:
            raise self._failure(error) from error

    def whole(self, steps: int, measurements: int) -> bytes:
        """Returns the log's bytes up to a number of complete steps and measurements."""
        return Path(self._path).read_bytes()[: self.size(steps, measurements)]

    # --- snapshots ------------------------------------------------------------------------------------------

    def is_due(self, step: int) -> bool:
        """Returns whether a snapshot is due after a number of complete steps."""
        return step % self._header.interval == 0 or step == self._header.settings.steps

    def snapshot(self, control: NodeControl, weights: Sequence[NDArray[np.int8]]) -> None:
        """Writes a snapshot of the run: the control unit, the tasks' weights, then their fractions. The previous
        snapshot stays valid until this one is complete.
        """
        # One that is taken between two that are due has the number, and so the slot, of the next.
        number = -(-control.step // self._header.interval)
        self._sync()  # its records first, and the best state
        self._write_slot((number - 1) % 2, control, number, weights)
        self._sync()
        self.snapshot_step = control.step

    def best_snapshot(self, control: NodeControl, number: int, weights: Sequence[NDArray[np.int8]]) -> None:
        """Writes the run's best state, before the snapshot of its step. `number` is that of its measurement, counted
        from 0; see `snapshot` for the others.
        """
        self._write_slot(BEST_SLOT, control, number + 1, weights)
        self.best_step = control.step

    def _write_slot(self, slot: int, control: NodeControl, number: int, weights: Sequence[NDArray[np.int8]]) -> None:
        data = Snapshot.write(control, self._owner, number, weights)
        self._write_at(self._header.size + slot * self._header.slot_bytes, data)

    # --- file -----------------------------------------------------------------------------------------------

    def _write_at(self, at: int, data: bytes) -> None:
        self._file.seek(at)
        written = 0
        try:
            while written < len(data):  # a disk that is almost full takes a part
                written += self._file.write(data[written:]) or 0
        except OSError as error:
            raise self._failure(error) from error

    def _sync(self) -> None:
        try:
            os.fsync(self._file.fileno())
        except OSError as error:
            raise self._failure(error) from error

    def _failure(self, error: OSError) -> OSError:
        kept = ""
        if self._header.slots:
            kept = "; the log keeps its last whole snapshot"
        elif self._end > self._begin:
            kept = "; the log keeps all complete steps, and a resumed run continues from them"
        return OSError(error.errno, f"{error.strerror or error}{kept}", self._path)

    def close(self) -> None:
        """Syncs the log to the disk and closes it."""
        if not self._file.closed:
            try:
                self._sync()
            finally:
                self._file.close()

    def __enter__(self) -> LogWriter:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _sync_folder(folder: Path) -> None:
    """Syncs the folder of a new file to the disk, where the system can."""
    with contextlib.suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
