# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""A host's end of the link to a device: it asks, and asks again until it has an answer."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable
from types import TracebackType
from typing import Final, Protocol, TypeVar

from ..core import fnv1a
from ..core.loader import constants
from .protocol import (
    VERSION,
    Answer,
    FleetState,
    FrameReader,
    Hello,
    LinkError,
    NoAnswerError,
    Operation,
    Place,
    RefusedError,
    StepAnswer,
    request,
    to_frame,
)

__all__ = ["Link", "Port", "open_port"]

# Seconds for which an answer is waited for before the request is repeated: at first, at least, at most.
_FIRST_WAIT, _LEAST_WAIT, _MOST_WAIT = 0.5, 0.1, 2.0
# By how much more a device has whose answers come, but damaged.
_PATIENCE: Final = 4
# Of an activation, in which a device may replay a log.
_ACTIVATION: Final = 120.0
# Bytes of data of a request or answer, at least; by how much they grow on a good line; how often longer ones
# are tried before they are halved.
_LEAST_DATA, _GROWTH, _TRIES = 32, 16, 2
# By how much longer records may be than a WRITE's data, before which there are two words more.
_RECORDS_MORE: Final = 8
# For which a read waits for the next byte.
_POLL: Final = 0.02

_T = TypeVar("_T")


class Port(Protocol):
    """The part of ``serial.Serial`` that a link uses."""

    @property
    def in_waiting(self) -> int:
        """Bytes that have come."""

    def read(self, size: int = 1, /) -> bytes:
        """Reads up to so many bytes; waits for the first one for a moment."""

    def write(self, data: bytes, /) -> int | None:
        """Sends bytes."""

    def close(self) -> None:
        """Closes the port."""


def open_port(name: str, baud: int) -> Port:
    """Opens what pyserial knows by a name: a device file, or a URL like ``socket://host:port``.

    Raises:
        OSError: it cannot be opened.
        ValueError: it is no such name.
    """
    import serial

    port: Port = serial.serial_for_url(name, baudrate=baud, timeout=_POLL, write_timeout=_MOST_WAIT)
    return port


def _read(read: Callable[[bytes], _T], data: bytes) -> _T:
    """Reads an answer."""
    try:
        return read(data)
    except ValueError as error:
        raise LinkError(f"the device answers something else: {error}") from error


class Link:
    """Asks a device. What the line loses, doubles or changes is asked for again.

    Args:
        connect: opens the port; called again where it was lost, as it is when a device on USB is reset.
        timeout: seconds for which the device may stay silent.

    Attributes:
        repeated: number of requests that were sent again.
        most_data: bytes of data that go with a request or an answer at most; known after `hello`.
    """

    def __init__(self, connect: Callable[[], Port], timeout: float = 10.0) -> None:
        self._connect, self._timeout = connect, timeout
        self._port: Port | None = connect()
        self._frames = FrameReader()
        # What is answered late, to a program that ran before, has another number.
        self._number = int.from_bytes(os.urandom(2), "little")
        self._wait = _FIRST_WAIT
        self.repeated = 0
        self.most_data = self._size = 0

    def __enter__(self) -> Link:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Closes the port; the next request opens it again."""
        if self._port is not None:
            with contextlib.suppress(OSError):
                self._port.close()
        self._port = None

    @property
    def damaged(self) -> int:
        """Number of pieces that have come and were no whole frames."""
        return self._frames.damaged

    # --- requests -----------------------------------------------------------------------------------

    def hello(self) -> Hello:
        """Asks what the device is.

        Raises:
            LinkError: it does not answer, or with something else.
        """
        try:
            hello = Hello.from_bytes(self._answer(Operation.HELLO))
        except ValueError as error:
            raise LinkError(f"the device does not say what it is: {error}") from error
        if not hello.most_data:
            raise LinkError("the device says that its answers have no room for data")
        self.most_data = self._size = hello.most_data
        return hello

    def read(self, store: int, offset: int, count: int) -> bytes:
        """Reads bytes of a store, in as many requests as that takes."""
        data = b""
        while len(data) < count:
            size = min(self._size, count - len(data))
            words = (store, offset + len(data), size)
            piece = self._ask(Operation.READ, *words, tries=self._tries(size))
            if piece is not None and len(piece) != size:
                raise LinkError(f"the device has sent {len(piece)} bytes where {size} were asked for")
            data += piece or b""
            self._adapt(size, piece is not None)
        return data

    def check(self, store: int, offset: int, count: int) -> int:
        """Asks for the FNV-1a of bytes of a store, all as they are at one moment."""
        return int.from_bytes(self._answer(Operation.CHECK, store, offset, count), "little")

    def has(self, store: int, offset: int, data: bytes) -> bool:
        """Whether a store has these bytes, by their checksum."""
        try:
            return self.check(store, offset, len(data)) == fnv1a(data)
        except RefusedError as error:
            if error.status != constants.ZO_ERROR_LOG:
                raise
            return False

    def write(self, place: int, offset: int, data: bytes, unit: int = 1) -> None:
        """Writes bytes into a place that is not active, in as many requests as that takes.

        Args:
            place: number of the place.
            offset: within it, a multiple of ``unit``.
            data: the bytes, whole units.
            unit: bytes that the device's store programs at once; less than the shortest request has.
        """
        at = 0
        while at < len(data):
            piece = data[at : at + self._size // unit * unit]
            tries = self._tries(len(piece))
            done = self._ask(Operation.WRITE, place, offset + at, data=piece, tries=tries) is not None
            at += len(piece) if done else 0
            self._adapt(len(piece), done)

    def _tries(self, size: int) -> int | None:
        return _TRIES if size > _LEAST_DATA else None

    def _adapt(self, size: int, done: bool) -> None:
        """A bad line carries short frames where it loses long ones."""
        wanted = self._size + _GROWTH if done else size // 2
        self._size = min(max(wanted, _LEAST_DATA), self.most_data)

    def activate(self, number: int, place: Place) -> None:
        """Makes a place active with what was written there; of kind VOID, with what it had before."""
        words = (number, place.kind, place.bytes, place.checksum)
        self._answer(Operation.ACTIVATE, *words, timeout=max(self._timeout, _ACTIVATION))

    # --- a fleet ------------------------------------------------------------------------------------

    def fleet_state(self, timeout: float | None = None) -> FleetState:
        """Asks a device of a fleet where it is.

        Args:
            timeout: seconds for which it may stay silent; None: those of the link.

        Raises:
            NoAnswerError: it does not answer.
            RefusedError: it is no member of a fleet.
            LinkError: it answers with something else.
        """
        return _read(FleetState.from_bytes, self._answer(Operation.FLEET_STATE, timeout=timeout))

    def fleet_evaluate(self, step: int, checksum: int, timeout: float | None = None) -> StepAnswer | None:
        """Asks a device to evaluate a step; None: it is at it.

        Args:
            step: number of the step, the next one of the device.
            checksum: checksum that the step's record is to go on from.
            timeout: seconds for which it may stay silent; None: those of the link.

        Raises:
            NoAnswerError: it does not answer.
            RefusedError: it is elsewhere, or cannot evaluate the step.
            LinkError: it answers with something else.
        """
        data = self._answer(Operation.FLEET_EVALUATE, step, checksum, timeout=timeout)
        return _read(StepAnswer.from_bytes, data) if data else None

    def fleet_records(self, records: bytes, size: int, timeout: float | None = None) -> FleetState:
        """Sends records of steps, as the log has them, in as many requests as that takes.

        Args:
            records: whole records, at least one.
            size: bytes of a record.
            timeout: seconds for which the device may stay silent; None: those of the link.

        Returns:
            Where the device is after them.

        Raises:
            NoAnswerError: it does not answer.
            RefusedError: a record does not go on from what it has, or cannot be logged. Those before it are
                taken.
            LinkError: a request has no room for a record, or the answer is something else.
        """
        room = (self.most_data + _RECORDS_MORE) // size * size
        if room == 0:
            raise LinkError(
                f"a request has no room for a record of {size} bytes: give the device's link a larger buffer"
            )
        state = None
        for at in range(0, len(records), room):
            data = self._ask(Operation.FLEET_RECORDS, data=records[at : at + room], timeout=timeout)
            state = _read(FleetState.from_bytes, data or b"")
        if state is None:
            raise ValueError("no record")
        return state

    # --- the line -----------------------------------------------------------------------------------

    def _answer(self, operation: Operation, *words: int, timeout: float | None = None) -> bytes:
        answer = self._ask(operation, *words, timeout=timeout)
        assert answer is not None  # there is no limit of tries
        return answer

    def _ask(
        self,
        operation: Operation,
        *words: int,
        data: bytes = b"",
        timeout: float | None = None,
        tries: int | None = None,
    ) -> bytes | None:
        """Asks until there is an answer; None: there was none in so many tries.

        Raises:
            NoAnswerError: there was none in time.
            RefusedError: the answer is no.
        """
        begin = time.monotonic()
        limit = self._timeout if timeout is None else timeout
        end = begin + limit
        sent: dict[int, float] = {}  # when, by the sequence number
        wait, damaged = self._wait, self.damaged
        while True:
            self._number = (self._number + 1) & 0xFFFF
            sent[self._number] = now = time.monotonic()
            lost = None
            try:
                answer = self._exchange(
                    request(operation, self._number, *words, data=data), operation, sent, min(now + wait, end)
                )
            except OSError as error:
                self.close()
                lost, answer = error, None
                time.sleep(max(0.0, min(wait, 0.2, end - time.monotonic())))
            if answer is not None:
                break
            if time.monotonic() >= end and lost is not None:
                raise NoAnswerError(f"the line to the device is lost: {lost}") from lost
            if time.monotonic() >= end:
                raise NoAnswerError(self._silence(time.monotonic() - begin))
            self.repeated += 1
            if len(sent) == tries:
                return None
            # A device that is at work has more time; one whose answers are damaged needs none.
            wait = wait if self.damaged > damaged else min(2 * wait, _MOST_WAIT)
            if self.damaged > damaged:
                end = begin + _PATIENCE * limit
            damaged = self.damaged
        taken = time.monotonic() - sent[answer.number]
        self._wait = min(max(4 * taken, _LEAST_WAIT), _MOST_WAIT)
        if answer.status != constants.ZO_OK:
            raise RefusedError(answer.status)
        return answer.data

    def _exchange(
        self, content: bytes, operation: Operation, sent: dict[int, float], until: float
    ) -> Answer | None:
        """Sends a request, and waits for the answer to it or to one that it repeats."""
        if self._port is None:
            self._port = self._connect()
        self._port.write(to_frame(content))
        is_late = False
        while not is_late:
            # What has come while this program slept is read, though it is late.
            is_late = time.monotonic() >= until
            received = self._port.read(1)
            if received and (waiting := self._port.in_waiting):
                received += self._port.read(waiting)
            for found in map(Answer.from_bytes, self._frames.take(received)):
                if found is None or found.number not in sent or found.operation != operation:
                    continue
                if found.version != VERSION:
                    raise LinkError(
                        f"the device speaks version {found.version} of the protocol, this tflm-zo version "
                        f"{VERSION}: generate its firmware with this one, or use the one that generated it"
                    )
                return found
        return None

    def _silence(self, seconds: float) -> str:
        what = f"no answer in {seconds:.0f} s"
        if self.damaged:
            return (
                f"{what}, but {self.damaged} pieces that are no answers: is it the baud rate, or a port that "
                "prints text?"
            )
        return f"{what}: is it the device's port and baud rate, and does its program call zo_link_serve?"
