"""Collects the log of a device's run piece by piece. The file is a complete log at any time."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from ..io.errors import ExistsError
from ..io.files import write_output
from ..logs.layout import LiveLog, padded, unpadded
from .link import Link
from .protocol import LOG, LinkError

_NAME: Final = "the device's log"
# Bytes that are compared at once where something has changed.
_PIECE: Final = 1024
# How often a copy is mended before it is given up: the run changes its log faster than the line carries it.
_ROUNDS: Final = 25
# Seconds between two looks at the log of a run that goes on, and between two files.
_LOOK: Final = 0.3
_WRITE: Final = 10.0


def device_log(link: Link) -> LiveLog | None:
    """Reads the header of the device's log; None if the device has no log. LinkError: the device does not answer.
    LogError: the header is damaged, or of another version.
    """
    size = LiveLog.header_bytes(link.find(LOG, 0, LiveLog.BEGINNING) or b"")
    header = None if size is None else link.find(LOG, 0, size)
    return None if header is None else LiveLog(header, _NAME)


class _Collection:
    """The part of a log that has arrived. ``FILE.part`` holds it, too, so a killed program loses none; the file itself
    is only replaced by complete logs, which equal the device's without the padding of its store. Bytes of an earlier
    collection are used only where the device confirms their checksums.
    """

    def __init__(
        self, link: Link, log: LiveLog, path: Path, force: bool, on_steps: Callable[[list[float]], None]
    ) -> None:
        self._link, self.log, self._path, self._on_steps = link, log, path, on_steps
        self._part = path.with_name(f"{path.name}.part")
        own, left = _content(path, log.unit), _content(self._part, log.unit)
        if own is not None and not force and own[: len(log.header)] != log.header:
            raise ExistsError(path, "is not the log of the device's run")
        same = (data for data in (own, left) if data and data[: len(log.header)] == log.header)
        self._data = bytearray(max(same, key=len, default=log.header))  # header, slots and complete records
        self._part.write_bytes(self._data)
        self._file = self._part.open("r+b", buffering=0)
        self._steps_of_file = 0
        if own is not None and not force:
            file = LiveLog(log.header, "the file")
            file.take(own[file.begin :])
            self._steps_of_file = file.step
        self._written: bytes | None = None
        if losses := self._whole_records():
            on_steps(losses)

    def _whole_records(self) -> list[float]:
        """Removes incomplete records at the end. Returns the losses of the others."""
        losses, used = self.log.take(bytes(self._data[self.log.begin :]))
        del self._data[self.log.begin + used :]
        return losses

    def _keep(self, offset: int, data: bytes) -> None:
        self._file.seek(offset)
        self._file.write(data)

    def grow(self) -> None:
        """Fetches the part of the log that the copy lacks: first the slots of snapshots, then records."""
        most, log = self._link.most_data, self.log
        while (left := log.begin - len(self._data)) > 0:
            piece = self._link.read(LOG, len(self._data), min(most, left))
            self._keep(len(self._data), piece)
            self._data += piece
        sizes = [max(most, *log.record_bytes), *log.record_bytes]
        while sizes and (left := log.end - len(self._data)) > 0:
            found = self._link.find(LOG, len(self._data), min(sizes[0], left))
            if found is None:
                del sizes[0]  # The device's log may end here, or within the requested bytes.
                continue
            self._keep(len(self._data), found)
            losses, used = log.take(found)
            self._data += found[:used]
            if losses:
                self._on_steps(losses)
            if not used:
                break

    def is_over(self) -> bool:
        """Returns whether the run of the log has ended."""
        if self.log.step < self.log.steps:
            return False
        self._settle()
        return self.log.is_over(bytes(self._data))

    def _settle(self) -> None:
        """Repeats the transfer until the copy equals the device's log at one moment."""
        for _ in range(_ROUNDS):
            self.grow()
            if self._link.has(LOG, 0, bytes(self._data)):
                return
            self._mend()
        raise LinkError(
            "the device changes its log faster than the line carries it: use --follow, which waits for the "
            "end of the run, a faster line, or snapshots that are further apart"
        )

    def _mend(self) -> None:
        """Fetches the bytes again that differ from the device's."""
        for at in range(0, len(self._data), _PIECE):
            piece = bytes(self._data[at : at + _PIECE])
            if self._link.has(LOG, at, piece):
                continue
            read = self._link.read if at < self.log.begin else self._link.find
            found = read(LOG, at, len(piece))
            if found is None:
                del self._data[at:]
                break
            self._data[at : at + len(found)] = found
            self._keep(at, found)
        header = self.log.header
        if self._data[: len(header)] != header:
            raise LinkError("the device has begun another run while its log was collected; collect it anew")
        self.log = LiveLog(header, _NAME)
        self._whole_records()

    def write(self) -> None:
        """Writes the device's log at one moment to the file, unless the file has more steps of the run."""
        self._settle()
        data, log = bytes(self._data), self.log
        if data == self._written:
            return
        missing = self._steps_of_file - log.step
        if missing > log.repeated:
            raise LinkError(
                f"the device's log has {log.step:,} steps, and {self._path} {self._steps_of_file:,}: the run was "
                "begun anew. Choose another name, or delete the file"
            )
        if missing > 0:
            return  # power has failed while a record of a step that was repeated was written over itself
        write_output(self._path, unpadded(data), force=True)
        self._written, self._steps_of_file = data, log.step

    def close(self) -> None:
        """Closes ``FILE.part`` and removes it if the file has all of it."""
        self._file.close()
        if self._written is not None and len(self._written) >= len(self._data):
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

    If the file holds part of the same run, or an interrupted collection left ``FILE.part``, the collection resumes.

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
    copy, written = _Collection(link, log, path, force, on_steps), time.monotonic()
    try:
        copy.grow()
        while follow and not copy.is_over():
            if time.monotonic() - written > _WRITE:
                copy.write()
                written = time.monotonic()
            time.sleep(_LOOK)
            copy.grow()
        copy.write()
    except KeyboardInterrupt:
        if not follow:
            raise
        copy.write()
        raise KeyboardInterrupt(f"{path} has {copy.log.step:,} of the run's {copy.log.steps:,} steps") from None
    finally:
        copy.close()
    return copy.log


def _content(path: Path, unit: int) -> bytes | None:
    """Returns a file's content, padded to the programming unit of a store."""
    try:
        return padded(path.read_bytes(), unit)
    except FileNotFoundError:
        return None
