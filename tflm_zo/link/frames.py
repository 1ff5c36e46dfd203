# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""Frames on a stream of bytes that may lose, double or change some of them.

Their bytes are specified in ``ops/core/link/zo_frame.h``: content and CRC-32, in COBS, between zeros.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from typing import Final

__all__ = ["FrameReader", "to_frame"]

_CHECKSUM_BYTES: Final = 4
# A piece of this many bytes has no zero behind it.
_LONGEST: Final = 254


def _stuffed(data: bytes) -> bytes:
    """Bytes in COBS: without zeros."""
    out = bytearray()
    runs = data.split(b"\0")
    for last, run in ((i + 1 == len(runs), run) for i, run in enumerate(runs)):
        while len(run) >= _LONGEST and not (last and len(run) == _LONGEST):
            out += bytes([_LONGEST + 1]) + run[:_LONGEST]
            run = run[_LONGEST:]
        out += bytes([len(run) + 1]) + run
    return bytes(out)


def _unstuffed(data: bytes) -> bytes | None:
    """What was put in COBS; None where that cannot have made the bytes."""
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
    """The bytes of a frame."""
    return b"\0" + _stuffed(content + zlib.crc32(content).to_bytes(_CHECKSUM_BYTES, "little")) + b"\0"


class FrameReader:
    """Finds the frames in what a line brings.

    Attributes:
        damaged: how much lay between two zeros and was no whole frame: damaged ones, and text.
    """

    def __init__(self) -> None:
        self._open = b""
        self.damaged = 0

    def take(self, received: bytes) -> Iterator[bytes]:
        """Takes the next bytes of the line, and yields the contents of the frames that they end."""
        *pieces, self._open = (self._open + received).split(b"\0")
        for piece in pieces:
            data = _unstuffed(piece) if piece else None
            content = data[:-_CHECKSUM_BYTES] if data else b""
            if content and data and zlib.crc32(content).to_bytes(4, "little") == data[-_CHECKSUM_BYTES:]:
                yield content
            elif piece:
                self.damaged += 1
