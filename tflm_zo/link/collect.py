# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""The log of a device's run comes home, in pieces, into a file that is always a whole log."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from ..io.files import write_output
from ..logs.layout import padded, unpadded
from ..logs.live_log import LiveLog
from .errors import LinkError
from .link import Link
from .log_copy import LogCopy, device_log

__all__ = ["Collection", "collect"]

# Seconds between two looks at the log of a run that goes on, and between two files.
_LOOK: Final = 0.3
_WRITE: Final = 10.0


class Collection:
    """A log on its way into a file.

    Beside the file lies ``FILE.part`` while the log comes: what has come, of which nothing is lost when the
    program is killed. The file itself is replaced by whole logs alone, each equal to the device's but for the
    padding of the device's store.

    Args:
        link: the device.
        log: header of its log.
        path: path of the file.
        force: True if the file may be of another run, or have more steps than the device's log.
        on_steps: called with the losses of steps as they come, nats.

    Raises:
        FileExistsError: the file is none of this run, and ``force`` is not set.
        OSError: a file cannot be read or written.
    """

    def __init__(
        self,
        link: Link,
        log: LiveLog,
        path: Path,
        *,
        force: bool = False,
        on_steps: Callable[[list[float]], None] = lambda losses: None,
    ) -> None:
        self._path, self._force = path, force
        self._part = path.with_name(f"{path.name}.part")
        own, left = _content(path, log.unit), _content(self._part, log.unit)
        if own is not None and not force and own[: len(log.header)] != log.header:
            raise FileExistsError(
                f"{path} is no log of the run that the device does; choose another name or replace it with "
                "force=True"
            )
        known = max(
            (data for data in (own, left) if data and data[: len(log.header)] == log.header),
            key=len,
            default=b"",
        )
        self._steps_of_file = 0 if own is None or force else _steps(own, log)
        self._part.write_bytes(known or log.header)
        self._file = self._part.open("r+b", buffering=0)
        self.copy = LogCopy(link, log, known, self._keep, on_steps)
        self._written: bytes | None = None

    def _keep(self, offset: int, data: bytes) -> None:
        self._file.seek(offset)
        self._file.write(data)

    def write(self) -> None:
        """Writes the file: the device's log as it is at one moment. A file that has more steps stays as it is
        while the device repeats them.

        Raises:
            LinkError: the log does not come, or has fewer steps than the file.
            OSError: the file cannot be written.
        """
        self.copy.settle()
        data = bytes(self.copy.data)
        if data == self._written:
            return
        missing = self._steps_of_file - self.copy.log.step
        if missing > self.copy.log.repeated:
            raise LinkError(
                f"the device's log has {self.copy.log.step:,} steps, and {self._path} "
                f"{self._steps_of_file:,}: the run was begun anew; choose another name or replace the file "
                "with force=True"
            )
        if missing > 0:
            return  # power has failed while a record of a step that was repeated was written over itself
        write_output(self._path, unpadded(data), force=True)
        self._written, self._steps_of_file = data, self.copy.log.step

    def close(self) -> None:
        """Ends; ``FILE.part`` is removed where the file has all of it."""
        self._file.close()
        if self._written is not None and len(self._written) >= len(self.copy.data):
            with contextlib.suppress(OSError):
                self._part.unlink()


def collect(
    link: Link,
    path: Path,
    *,
    follow: bool = False,
    force: bool = False,
    on_log: Callable[[LiveLog], None] = lambda log: None,
    on_steps: Callable[[list[float]], None] = lambda losses: None,
) -> LiveLog:
    """Brings the log of a device's run into a file.

    A file of the same run, or what a collection that was killed has left, is gone on from: what the device
    still has is not sent again.

    Args:
        link: the device, which has said `Link.hello`.
        path: path of the file.
        follow: True to wait for the end of the run, and for its beginning where the device has no log.
        force: True if the file may be of another run, or have more steps than the device's log.
        on_log: called once, with the log before the first record.
        on_steps: called with the losses of steps as they come, nats.

    Returns:
        The log, as far as it has come.

    Raises:
        FileExistsError: the file is none of this run, and ``force`` is not set.
        KeyboardInterrupt: while following; the file has what had come.
        LinkError: the device does not answer, or has no log.
        LogError: the header of its log is damaged, or of another version.
        OSError: a file cannot be read or written.
    """
    while (log := device_log(link)) is None:
        if not follow:
            raise LinkError("the device has no log: its run has done no step yet, or writes none (SetLog)")
        time.sleep(_LOOK)
    on_log(log)
    collection = Collection(link, log, path, force=force, on_steps=on_steps)
    copy, written = collection.copy, time.monotonic()
    try:
        copy.grow()
        while follow and not copy.is_over():
            if time.monotonic() - written > _WRITE:
                collection.write()
                written = time.monotonic()
            time.sleep(_LOOK)
            copy.grow()
        collection.write()
    except KeyboardInterrupt:
        if not follow:
            raise
        collection.write()
        raise KeyboardInterrupt(
            f"{path} has {copy.log.step:,} of the run's {copy.log.steps:,} steps"
        ) from None
    finally:
        collection.close()
    return copy.log


def _content(path: Path, unit: int) -> bytes | None:
    """A file as a store that programs so many bytes at once has it."""
    try:
        return padded(path.read_bytes(), unit)
    except FileNotFoundError:
        return None


def _steps(data: bytes, log: LiveLog) -> int:
    """Whole steps that a file of this run has."""
    own = LiveLog(log.header, "the file")
    own.take(data[own.begin :])
    return own.step
