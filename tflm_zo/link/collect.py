"""Collects the log of a device's run piece by piece. The file is a complete log at any time."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from ..core.loader import constants
from ..io.errors import ExistsError
from ..io.files import write_output
from ..logs.layout import LiveLog, padded, unpadded
from .link import Link
from .protocol import LOG, LinkError, RefusedError

_NAME: Final = "the device's log"
# Bytes that are compared at once where something has changed.
_PIECE: Final = 1024
# How often a copy is mended before it is given up: the run changes its log faster than the line carries it.
_ROUNDS: Final = 25


def device_log(link: Link) -> LiveLog | None:
    """Reads the header of the device's log; None if the device has no log.

    Raises:
        LinkError: the device does not answer.
        LogError: the header is damaged, or of another version.
    """
    try:
        size = LiveLog.header_bytes(link.read(LOG, 0, LiveLog.BEGINNING))
        return None if size is None else LiveLog(link.read(LOG, 0, size), _NAME)
    except RefusedError as error:
        if error.status != constants.ZO_ERROR_LOG:
            raise
        return None  # nothing was ever written there


class LogCopy:
    """The part of the log that has arrived.

    Args:
        link: the device.
        log: header of the log.
        known: bytes of an earlier copy, possibly of another run. They are used only where the device confirms
            their checksums.
        on_bytes: called with an offset and the bytes that arrived for it.
        on_steps: called with the losses of steps that arrived, nats.

    Attributes:
        data: header, slots and complete records.
    """

    def __init__(
        self,
        link: Link,
        log: LiveLog,
        known: bytes = b"",
        on_bytes: Callable[[int, bytes], None] = lambda offset, data: None,
        on_steps: Callable[[list[float]], None] = lambda losses: None,
    ) -> None:
        self._link, self._log, self._on_bytes, self._on_steps = link, log, on_bytes, on_steps
        self.data = bytearray(known if known[: len(log.header)] == log.header else log.header)
        self._take_known()

    @property
    def log(self) -> LiveLog:
        """The header of the log, and the number of steps that have arrived."""
        return self._log

    def _take_known(self) -> None:
        """Removes incomplete records at the end."""
        losses, used = self._log.take(bytes(self.data[self._log.begin :]))
        del self.data[self._log.begin + used :]
        if losses:
            self._on_steps(losses)

    def _append(self, count: int) -> bytes:
        piece = self._link.read(LOG, len(self.data), count)
        self._on_bytes(len(self.data), piece)
        return piece

    def grow(self) -> bool:
        """Fetches the part of the log that the copy lacks: first the slots of snapshots, then records.

        Returns:
            True if new bytes arrived.

        Raises:
            LinkError: the device does not answer.
        """
        before = len(self.data)
        while len(self.data) < self._log.begin:
            self.data += self._append(min(self._link.most_data, self._log.begin - len(self.data)))
        sizes = [max(self._link.most_data, *self._log.record_bytes), *self._log.record_bytes]
        while (left := self._log.end - len(self.data)) > 0:
            try:
                piece = self._append(min(sizes[0], left))
            except RefusedError as error:
                if error.status != constants.ZO_ERROR_LOG:
                    raise
                # The device's log may end here, or within the requested bytes.
                del sizes[0]
                if not sizes:
                    break
                continue
            losses, used = self._log.take(piece)
            self.data += piece[:used]
            if losses:
                self._on_steps(losses)
            if not used:
                break
        return len(self.data) > before

    def is_over(self) -> bool:
        """Returns whether the run of the log has ended."""
        if self._log.step < self._log.steps:
            return False
        self.settle()
        return self._log.is_over(bytes(self.data))

    def settle(self) -> None:
        """Repeats the transfer until the copy equals the device's log at one moment.

        Raises:
            LinkError: the device does not answer, has started another run, or changes its log faster than the
                line transfers it.
        """
        for _ in range(_ROUNDS):
            self.grow()
            data = bytes(self.data)
            if self._link.has(LOG, 0, data):
                return
            self._mend()
        raise LinkError(
            "the device changes its log faster than the line carries it: use --follow, which waits for the "
            "end of the run, a faster line, or snapshots that are further apart"
        )

    def _mend(self) -> None:
        """Fetches the bytes again that differ from the device's."""
        for at in range(0, len(self.data), _PIECE):
            piece = bytes(self.data[at : at + _PIECE])
            if self._link.has(LOG, at, piece):
                continue
            try:
                piece = self._link.read(LOG, at, len(piece))
            except RefusedError as error:
                if error.status != constants.ZO_ERROR_LOG or at < self._log.begin:
                    raise
                del self.data[at:]
                break
            self.data[at : at + len(piece)] = piece
            self._on_bytes(at, piece)
        header = self._log.header
        if self.data[: len(header)] != header:
            raise LinkError("the device has begun another run while its log was collected; collect it anew")
        self._log = LiveLog(header, _NAME)
        _, used = self._log.take(bytes(self.data[self._log.begin :]))
        del self.data[self._log.begin + used :]


# Seconds between two looks at the log of a run that goes on, and between two files.
_LOOK: Final = 0.3
_WRITE: Final = 10.0


class Collection:
    """The collection of a log into a file.

    ``FILE.part`` holds the bytes that have arrived, so a killed program loses none. The file itself is only
    replaced by complete logs, which equal the device's log without the padding of its store.

    Args:
        link: the device.
        log: header of its log.
        path: path of the file.
        force: True to replace a log of another run, or one with more steps than the device's log.
        on_steps: called with the losses of steps that arrived, nats.

    Raises:
        FileExistsError: the file does not belong to this run, and ``force`` is not set.
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
            raise ExistsError(path, "is not the log of the device's run")
        known = max(
            (data for data in (own, left) if data and data[: len(log.header)] == log.header), key=len, default=b""
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
        """Writes the device's log at one moment to the file. A file with more steps is kept while the device
        repeats them.

        Raises:
            LinkError: the device does not send its log, or the log has fewer steps than the file.
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
                f"{self._steps_of_file:,}: the run was begun anew. Choose another name, or delete the file"
            )
        if missing > 0:
            return  # power has failed while a record of a step that was repeated was written over itself
        write_output(self._path, unpadded(data), force=True)
        self._written, self._steps_of_file = data, self.copy.log.step

    def close(self) -> None:
        """Closes ``FILE.part`` and removes it if the file has all of it."""
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
    """Collects the log of a device's run into a file.

    If the file holds part of the same run, or an interrupted collection left ``FILE.part``, the collection
    resumes.

    Args:
        link: the device, after `Link.hello`.
        path: path of the file.
        follow: True to wait for the end of the run, and for its start if the device has no log yet.
        force: True to replace a log of another run, or one with more steps than the device's log.
        on_log: called once, with the log before the first record.
        on_steps: called with the losses of steps that arrived, nats.

    Returns:
        The log so far.

    Raises:
        FileExistsError: the file does not belong to this run, and ``force`` is not set.
        KeyboardInterrupt: Ctrl-C ended the collection; the file has all steps that arrived.
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
        raise KeyboardInterrupt(f"{path} has {copy.log.step:,} of the run's {copy.log.steps:,} steps") from None
    finally:
        collection.close()
    return copy.log


def _content(path: Path, unit: int) -> bytes | None:
    """Returns a file's content, padded to the programming unit of a store."""
    try:
        return padded(path.read_bytes(), unit)
    except FileNotFoundError:
        return None


def _steps(data: bytes, log: LiveLog) -> int:
    """Returns the number of complete steps in a file of this run."""
    own = LiveLog(log.header, "the file")
    own.take(data[own.begin :])
    return own.step
