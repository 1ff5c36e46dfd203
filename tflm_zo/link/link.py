"""The host's side of the link to a device: it sends requests and repeats them until an answer arrives."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Callable
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
        """Number of received bytes that can be read."""

    def read(self, size: int = 1, /) -> bytes:
        """Reads up to `size` bytes; waits for the first one for a short time."""

    def write(self, data: bytes, /) -> int | None:
        """Sends bytes."""

    def close(self) -> None:
        """Closes the port."""


def open_port(name: str, baud: int) -> Port:
    """Opens a port of pyserial: a device file, or a URL like ``socket://host:port``. OSError: it cannot be opened.
    ValueError: the name is not valid.
    """
    import serial

    port: Port = serial.serial_for_url(name, baudrate=baud, timeout=_POLL, write_timeout=_MOST_WAIT)
    return port


def _check_end(error: RefusedError) -> None:
    """Raises an error again, unless it says that the content of a store ends before these bytes."""
    if error.status != constants.ZO_ERROR_LOG:
        raise error


def _read(read: Callable[[bytes], _T], data: bytes) -> _T:
    """Reads an answer."""
    try:
        return read(data)
    except ValueError as error:
        raise LinkError(f"the device answers something else: {error}") from error


class Link:
    """Sends requests to a device. It repeats a request if the line loses, duplicates or damages bytes. Every request
    raises `NoAnswerError` if no answer arrives in time, `RefusedError` if the device refuses, and another `LinkError`
    if the answer is not valid. The `timeout` of a request, seconds, replaces that of the link.

    Args:
        connect: opens the port; called again if the port is lost, for example when a USB device resets.
        timeout: largest time without an answer, seconds.
        stop: event that ends all requests: they raise `NoAnswerError`. None: there is none.

    Attributes:
        repeated: number of repeated requests.
        most_data: largest number of data bytes in a request or an answer; known after `hello`.
    """

    def __init__(self, connect: Callable[[], Port], timeout: float = 10.0, stop: threading.Event | None = None) -> None:
        self._connect, self._timeout, self._stop = connect, timeout, stop
        self._port: Port | None = connect()
        self._frames = FrameReader()
        # A late answer to an earlier program has another number.
        self._number = int.from_bytes(os.urandom(2), "little")
        self._wait = _FIRST_WAIT
        self.repeated = 0
        self.most_data = self._size = 0

    def __enter__(self) -> Link:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Closes the port; the next request opens it again."""
        if self._port is not None:
            with contextlib.suppress(OSError):
                self._port.close()
        self._port = None

    @property
    def damaged(self) -> int:
        """Number of damaged frames that were received."""
        return self._frames.damaged

    # --- requests -----------------------------------------------------------------------------------

    def hello(self) -> Hello:
        """Requests the device's description."""
        try:
            hello = Hello.from_bytes(self._answer(Operation.HELLO))
        except ValueError as error:
            raise LinkError(f"the device's description is not valid: {error}") from error
        if not hello.most_data:
            raise LinkError("the device says that its answers have no room for data")
        self.most_data = self._size = hello.most_data
        return hello

    def read(self, store: int, offset: int, count: int) -> bytes:
        """Reads bytes of a store, with several requests if needed."""
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

    def find(self, store: int, offset: int, count: int) -> bytes | None:
        """Reads bytes of a store; None if its content ends before them."""
        try:
            return self.read(store, offset, count)
        except RefusedError as error:
            _check_end(error)
            return None

    def check(self, store: int, offset: int, count: int) -> int:
        """Requests the FNV-1a checksum of bytes of a store at one moment."""
        return int.from_bytes(self._answer(Operation.CHECK, store, offset, count), "little")

    def has(self, store: int, offset: int, data: bytes) -> bool:
        """Returns whether a store has these bytes, by their checksum."""
        try:
            return self.check(store, offset, len(data)) == fnv1a(data)
        except RefusedError as error:
            _check_end(error)
            return False

    def write(self, place: int, offset: int, data: bytes, unit: int = 1) -> None:
        """Writes bytes to an offset of an inactive place, with several requests if needed. Offset and number of bytes
        are multiples of the programming unit of the device's store, bytes, which is smaller than a request.
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
        """Chooses shorter frames on a bad line, which loses long ones."""
        wanted = self._size + _GROWTH if done else size // 2
        self._size = min(max(wanted, _LEAST_DATA), self.most_data)

    def activate(self, number: int, place: Place) -> None:
        """Activates a place with the written data or, for kind VOID, with its earlier content."""
        words = (number, place.kind, place.bytes, place.checksum)
        self._answer(Operation.ACTIVATE, *words, timeout=max(self._timeout, _ACTIVATION))

    # --- a fleet ------------------------------------------------------------------------------------

    def fleet_state(self, timeout: float | None = None) -> FleetState:
        """Requests the state of a device of a fleet."""
        return _read(FleetState.from_bytes, self._answer(Operation.FLEET_STATE, timeout=timeout))

    def fleet_evaluate(self, step: int, checksum: int, timeout: float | None = None) -> StepAnswer | None:
        """Requests the evaluation of the device's next step; `checksum` is that of the log before the step's record.
        Returns None while the device evaluates it.
        """
        data = self._answer(Operation.FLEET_EVALUATE, step, checksum, timeout=timeout)
        return _read(StepAnswer.from_bytes, data) if data else None

    def fleet_records(self, records: bytes, size: int, timeout: float | None = None) -> FleetState:
        """Sends complete records of `size` bytes, at least one, with several requests if needed, and returns the state
        of the device after them. If the device refuses a record, it has accepted the earlier ones.
        """
        room = (self.most_data + _RECORDS_MORE) // size * size
        if room == 0:
            raise LinkError(
                f"a request has no room for a record of {size} bytes: give the device's link a larger buffer"
            )
        answer = b""
        for at in range(0, len(records), room):
            answer = self._answer(Operation.FLEET_RECORDS, data=records[at : at + room], timeout=timeout)
        return _read(FleetState.from_bytes, answer)

    # --- the line -----------------------------------------------------------------------------------

    def _answer(self, operation: Operation, *words: int, data: bytes = b"", timeout: float | None = None) -> bytes:
        answer = self._ask(operation, *words, data=data, timeout=timeout)
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
        """Repeats a request until an answer arrives; returns None after `tries` attempts. NoAnswerError: no answer
        arrived in time. RefusedError: the device refused the request.
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

    def _exchange(self, content: bytes, operation: Operation, sent: dict[int, float], until: float) -> Answer | None:
        """Sends a request, and waits for its answer or the answer to an earlier attempt."""
        if self._port is None:
            self._port = self._connect()
        self._port.write(to_frame(content))
        is_late = False
        while not is_late:
            # Bytes that arrived while this program slept are read although the deadline has passed.
            is_late = time.monotonic() >= until
            if self._stop is not None and self._stop.is_set():
                raise NoAnswerError("no answer")
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
