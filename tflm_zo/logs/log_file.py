# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""A log as a file that a run writes: locked, brought to the disk, and whole after any error."""

from __future__ import annotations

import contextlib
import io
import os
from abc import ABC, abstractmethod
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from ..io.files import lock_file, new_file, write_output
from .padding import is_padded, unpadded

__all__ = ["LogFile", "log_exists"]

_MARKED: Final = 16  # bytes that say whether a log is padded


def log_exists(path: str | os.PathLike[str]) -> FileExistsError:
    """The error of a new log whose file exists."""
    return FileExistsError(
        f"{path} exists; choose another name, go on from it with resume=True or replace it with replace=True"
    )


class LogFile(ABC):
    """A log that a run writes."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._path = os.fspath(path)
        self._file: io.FileIO

    @abstractmethod
    def size(self, steps: int, measurements: int) -> int:
        """Bytes of the log up to so many whole steps and measurements."""

    @property
    @abstractmethod
    def _kept(self) -> str:
        """Returns the end of an error's message, which says what the log keeps."""

    @abstractmethod
    def keep(self, steps: int, measurements: int) -> None:
        """Cuts off what follows so many whole steps of the run and so many measurements.

        Raises:
            OSError: the file cannot be cut.
        """

    @contextlib.contextmanager
    def _resumed(self) -> Iterator[None]:
        """Opens and locks an existing log, and closes it after an error; one that is padded is written anew
        before, without padding.
        """
        with open(self._path, "rb") as file:
            data = file.read(_MARKED)
            padded = data + file.read() if is_padded(data) else None
        if padded is not None:
            write_output(Path(self._path), unpadded(padded), force=True)
        self._file = io.FileIO(self._path, "r+")
        try:
            lock_file(self._file, self._path)
            yield
        except BaseException:
            self._file.close()
            raise

    @contextlib.contextmanager
    def _new(self, *, replace: bool) -> Iterator[None]:
        """Makes a log beside what it may replace, which stays until this one is on the disk.

        Errors name the log; after one nothing is left of it.
        """
        try:
            with new_file(Path(self._path)) as new:
                self._file = new.file
                yield
                new.publish(replace=replace)
        except FileExistsError:
            raise log_exists(self._path) from None
        _sync_folder(Path(self._path).parent)

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
        return OSError(error.errno, f"{error.strerror or error}{self._kept}", self._path)

    def whole(self, steps: int, measurements: int) -> bytes:
        """The log's bytes up to so many whole steps, of which so many measurements were made."""
        return Path(self._path).read_bytes()[: self.size(steps, measurements)]

    def close(self) -> None:
        """Brings the log to the disk and closes it."""
        if not self._file.closed:
            try:
                self._sync()
            finally:
                self._file.close()


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
