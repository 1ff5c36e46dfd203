# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""A copy of the log of a device's run, which the device goes on writing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from ..core.loader import constants
from ..logs.live_log import LiveLog
from .errors import LinkError, RefusedError
from .link import Link
from .protocol import LOG

__all__ = ["LogCopy", "device_log"]

_NAME: Final = "the device's log"
# Bytes that are compared at once where something has changed.
_PIECE: Final = 1024
# How often a copy is mended before it is given up: the run changes its log faster than the line carries it.
_ROUNDS: Final = 25


def device_log(link: Link) -> LiveLog | None:
    """Reads the header of the log that the device's run writes; None where there is no log.

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
    """A copy of the log, as far as it has come.

    Args:
        link: the device.
        log: header of the log.
        known: what an earlier copy had, perhaps of another run. None of it is believed before the device has
            said that it has the same.
        on_bytes: called with an offset and the bytes that have come for it.
        on_steps: called with the losses of steps that have come, nats.

    Attributes:
        data: header, slots and whole records.
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
        """What the header says, and how many steps have come."""
        return self._log

    def _take_known(self) -> None:
        """Cuts off what is no whole record."""
        losses, used = self._log.take(bytes(self.data[self._log.begin :]))
        del self.data[self._log.begin + used :]
        if losses:
            self._on_steps(losses)

    def _append(self, count: int) -> bytes:
        piece = self._link.read(LOG, len(self.data), count)
        self._on_bytes(len(self.data), piece)
        return piece

    def grow(self) -> bool:
        """Brings what the log has behind the copy: the slots of snapshots at first, then records.

        Returns:
            Whether anything new has come.

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
                # A file of the device's may end here, or within what was asked for.
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
        """Whether the log is that of a run that is over."""
        if self._log.step < self._log.steps:
            return False
        self.settle()
        return self._log.is_over(bytes(self.data))

    def settle(self) -> None:
        """Brings the copy to where it is, byte by byte, what the device's log is at one moment.

        Raises:
            LinkError: the device does not answer, has begun another run, or changes its log faster than the
                line carries it.
        """
        for _ in range(_ROUNDS):
            self.grow()
            data = bytes(self.data)
            if self._link.has(LOG, 0, data):
                return
            self._mend()
        raise LinkError(
            "the device changes its log faster than the line carries it: use --follow, which waits for the "
            "end of the run, a faster line, or snapshots that are further apart (snapshot_every)"
        )

    def _mend(self) -> None:
        """Brings anew what the device has otherwise."""
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
