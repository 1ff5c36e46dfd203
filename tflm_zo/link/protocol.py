# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""What goes over a link: requests and answers, as ``ops/core/link/zo_link.h`` specifies them."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

from ..logs.padding import filled_up, is_store_unit

__all__ = ["ANSWER", "LOG", "VERSION", "Answer", "Hello", "Operation", "Place", "PlaceKind", "request"]

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


class PlaceKind(IntEnum):
    """``zo_place_kind``."""

    VOID = 0
    OWN = 1
    WEIGHTS = 2
    LOG = 3


@dataclass(frozen=True)
class Place:
    """What a place for a run has.

    Attributes:
        kind: what it is.
        bytes: bytes that were written there: of the weights, or of the log.
        checksum: their FNV-1a.
    """

    kind: PlaceKind
    bytes: int
    checksum: int


@dataclass(frozen=True)
class Hello:
    """What a device says that it is.

    Attributes:
        fingerprint: fingerprint of its model, 16 bytes.
        most_data: bytes of data that go with a READ or WRITE at most.
        active: number of the place of its run; 0: it has no places, so nothing can be sent to it.
        place_bytes: bytes of a place.
        weight_bytes: bytes of weights at the beginning of a place; behind them is the log.
        places: both of them.
        unit: bytes that the store of the places programs at once.
    """

    fingerprint: bytes
    most_data: int
    active: int
    place_bytes: int
    weight_bytes: int
    places: tuple[Place, Place]
    unit: int = 1

    @property
    def log_at(self) -> int:
        """Offset of the log in a place: the first whole unit behind the weights."""
        return filled_up(self.weight_bytes, self.unit)

    @classmethod
    def from_bytes(cls, data: bytes) -> Hello:
        """Reads the answer to a HELLO.

        Raises:
            ValueError: it is none.
        """
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
class Answer:
    """An answer.

    Attributes:
        version: of the protocol.
        operation: operation of the request.
        number: sequence number of the request.
        status: ``zo_status``.
        data: what the operation says.
    """

    version: int
    operation: int
    number: int
    status: int
    data: bytes

    @classmethod
    def from_bytes(cls, content: bytes) -> Answer | None:
        """Reads the content of a frame; None: it is no answer."""
        if len(content) < 8 or not content[1] & ANSWER:
            return None
        version, operation, number, status = struct.unpack("<BBHI", content[:8])
        return cls(version, operation & ~ANSWER, number, status, content[8:])


def request(operation: Operation, number: int, *words: int, data: bytes = b"") -> bytes:
    """The content of a request's frame."""
    return struct.pack(f"<BBH{len(words)}I", VERSION, operation, number, *words) + data
