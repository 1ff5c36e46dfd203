"""Messages between host and device, and their errors.

``ops/core/link/zo_link_protocol.h`` specifies requests and answers. ``ops/core/link/zo_frame.h`` specifies
the frames, which detect errors of the line: content and CRC-32, in COBS, between zeros.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

from ..core import library
from ..logs.layout import filled_up, is_store_unit


class LinkError(RuntimeError):
    """The device cannot execute a request, or is not the expected one."""


class NoAnswerError(LinkError):
    """The device does not answer."""


class RefusedError(LinkError):
    """The device has refused a request; `status` is the ``zo_status`` of the answer."""

    def __init__(self, status: int) -> None:
        self.status = status
        super().__init__(f"the device refuses: {library().zo_status_text(status).decode('ascii')}")


_CHECKSUM_BYTES: Final = 4
# A piece of this many bytes has no zero behind it.
_LONGEST: Final = 254


def cobs_encoded(data: bytes) -> bytes:
    """Encodes bytes by COBS; the result has no zeros."""
    out = bytearray()
    runs = data.split(b"\0")
    for last, run in ((i + 1 == len(runs), run) for i, run in enumerate(runs)):
        while len(run) >= _LONGEST and not (last and len(run) == _LONGEST):
            out += bytes([_LONGEST + 1]) + run[:_LONGEST]
            run = run[_LONGEST:]
        out += bytes([len(run) + 1]) + run
    return bytes(out)


def cobs_decoded(data: bytes) -> bytes | None:
    """Decodes bytes of COBS; returns None if they are not valid."""
    out, at = bytearray(), 0
    while at < len(data):
        code = data[at]
        run = data[at + 1 : at + code]
        if len(run) != code - 1:
            return None
        out += run
        at += code
        if code <= _LONGEST and at < len(data):
            out.append(0)
    return bytes(out)


def to_frame(content: bytes) -> bytes:
    """Returns the bytes of a frame."""
    return b"\0" + cobs_encoded(content + zlib.crc32(content).to_bytes(_CHECKSUM_BYTES, "little")) + b"\0"


class FrameReader:
    """Finds the frames in a stream of received bytes. `damaged` counts sequences between zeros that were no frame."""

    def __init__(self) -> None:
        self._open = b""
        self.damaged = 0

    def take(self, received: bytes) -> Iterator[bytes]:
        """Reads received bytes, and yields the contents of the frames that they complete."""
        *pieces, self._open = (self._open + received).split(b"\0")
        for piece in pieces:
            data = cobs_decoded(piece) if piece else None
            content = data[:-_CHECKSUM_BYTES] if data else b""
            if content and data and zlib.crc32(content).to_bytes(4, "little") == data[-_CHECKSUM_BYTES:]:
                yield content
            elif piece:
                self.damaged += 1


VERSION: Final = 1
ANSWER: Final = 0x80
_HELLO: Final = 56  # bytes of an answer that every device sends
LOG: Final = 0
"""The store that is the log of the device's run; places have the numbers 1 and 2."""


class Operation(IntEnum):
    """``zo_link_operation``."""

    HELLO = 1
    READ = 2
    CHECK = 3
    WRITE = 4
    ACTIVATE = 5
    FLEET_STATE = 6
    FLEET_EVALUATE = 7
    FLEET_RECORDS = 8


class PlaceKind(IntEnum):
    """``zo_place_kind``."""

    VOID = 0
    OWN = 1
    WEIGHTS = 2
    LOG = 3


@dataclass(frozen=True)
class Place:
    """The content of a place for a run."""

    kind: PlaceKind
    bytes: int  # number of written bytes, of the weights or of the log
    checksum: int  # FNV-1a of the written bytes


@dataclass(frozen=True)
class Hello:
    """The description of a device."""

    fingerprint: bytes  # fingerprint of its model, 16 bytes
    most_data: int  # largest number of data bytes in a READ or WRITE
    active: int  # number of the place of its run; 0: it has no places, so runs cannot be sent to it
    place_bytes: int
    weight_bytes: int  # bytes of weights at the beginning of a place; the log follows them
    places: tuple[Place, Place]
    unit: int = 1  # programming unit of the store, bytes

    @property
    def log_at(self) -> int:
        """Offset of the log in a place: the first unit after the weights."""
        return filled_up(self.weight_bytes, self.unit)

    @classmethod
    def from_bytes(cls, data: bytes) -> Hello:
        """Reads the answer to a HELLO. Raises ValueError if the bytes are not valid."""
        try:
            mark, most, active, size, weights, *rest = struct.unpack("<16s4I6I", data[:_HELLO])
            # A store of single bytes does not say so.
            (unit,) = struct.unpack("<I", data[_HELLO:]) if data[_HELLO:] else (1,)
            first, second = (Place(PlaceKind(k), n, checksum) for k, n, checksum in (rest[:3], rest[3:]))
        except struct.error as error:
            raise ValueError(f"an answer of {len(data)} bytes") from error
        if not is_store_unit(unit):
            raise ValueError(f"a store that programs {unit} bytes at once")
        return cls(mark, most, active, size, weights, (first, second), unit)


@dataclass(frozen=True)
class FleetState:
    """The state of a device of a fleet."""

    step: int  # number of complete steps
    checksum: int  # checksum of the log before its next record
    weights: int  # checksum of its weights after these steps
    is_evaluating: bool  # True while the device evaluates the next step
    has_answer: bool  # True if the device has evaluated the next step

    @classmethod
    def from_bytes(cls, data: bytes) -> FleetState:
        """Reads the answer to a FLEET_STATE or FLEET_RECORDS. Raises ValueError if the bytes are not valid."""
        if len(data) != 16:
            raise ValueError(f"a state of {len(data)} bytes")
        step, checksum, weights, flags = struct.unpack("<4I", data)
        return cls(step, checksum, weights, bool(flags & 1), bool(flags & 2))


@dataclass(frozen=True)
class StepAnswer:
    """A device's measurement of a step."""

    step: int
    checksum: int  # checksum of the log before the step's record
    samples: int  # number of samples of its minibatch
    loss: int  # sum of all losses of the step, unit 2^-16
    differences: tuple[int, ...]  # difference of losses of each query, summed over the minibatch, unit 2^-16

    @classmethod
    def from_bytes(cls, data: bytes) -> StepAnswer:
        """Reads the answer to a FLEET_EVALUATE. Raises ValueError if the bytes are not valid."""
        queries, rest = divmod(len(data) - 20, 8)
        if queries < 1 or rest:
            raise ValueError(f"an answer of {len(data)} bytes")
        step, checksum, samples, loss, *differences = struct.unpack(f"<3Iq{queries}q", data)
        return cls(step, checksum, samples, loss, tuple(differences))


@dataclass(frozen=True)
class Answer:
    """An answer of the device."""

    version: int  # version of the protocol
    operation: int  # operation of the request
    number: int  # sequence number of the request
    status: int  # ``zo_status``
    data: bytes  # data of the operation

    @classmethod
    def from_bytes(cls, content: bytes) -> Answer | None:
        """Reads the content of a frame; returns None if it is no answer."""
        if len(content) < 8 or not content[1] & ANSWER:
            return None
        version, operation, number, status = struct.unpack("<BBHI", content[:8])
        return cls(version, operation & ~ANSWER, number, status, content[8:])


def request(operation: Operation, number: int, *words: int, data: bytes = b"") -> bytes:
    """Returns the content of a request's frame."""
    return struct.pack(f"<BBH{len(words)}I", VERSION, operation, number, *words) + data
