# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""Logs of stores that program several bytes at once. Without its padding, such a log is a desktop's.

Padding is specified in ``ops/core/log/zo_store_units.h``.
"""

from __future__ import annotations

from collections.abc import Iterator

from ..core import (
    MEASUREMENT_BYTES,
    SEED_LOG_HEADER_BYTES,
    SNAPSHOT_RECORD_BYTES,
    STORE_UNIT_MOST,
    UNIT_AT,
    SeedLogHeader,
    SeedLogRecord,
    SnapshotLogHeader,
    is_due,
)
from .beginning import MAGIC

__all__ = ["filled_up", "is_padded", "is_store_unit", "padded", "unit_of", "unpadded"]


def is_store_unit(unit: int) -> bool:
    """Returns whether a store may program so many bytes at once."""
    return 1 <= unit <= STORE_UNIT_MOST and not unit & (unit - 1)


def filled_up(size: int, unit: int) -> int:
    """Bytes, filled up to whole units."""
    return -(-size // unit) * unit


def is_padded(data: bytes) -> bool:
    """Returns whether some bytes begin a padded log."""
    return unit_of(data) > 1


def unit_of(data: bytes) -> int:
    """The unit that a log is padded to, by its beginning; 1: it is not padded, or is no log."""
    unit = data[UNIT_AT] - 128 if data[: len(MAGIC)] == MAGIC and len(data) > UNIT_AT else 1
    return unit if is_store_unit(unit) else 1


def unpadded(data: bytes) -> bytes:
    """What a padded log has, without padding: the log that a desktop writes.

    A log that is not padded, or another file, is returned as it is. Of a log whose header is not whole, the
    mark of padding alone is taken away.
    """
    if not is_padded(data):
        return data
    unit, data = unit_of(data), data[:UNIT_AT] + b"\0" + data[UNIT_AT + 1 :]
    at, pieces = 0, list[bytes]()
    for size in _sizes(data):
        pieces.append(data[at : at + size])
        at += filled_up(size, unit)
        if at >= len(data):
            break
    return b"".join(pieces) + data[at:]


def padded(data: bytes, unit: int) -> bytes:
    """What a store that programs ``unit`` bytes at once has of a log.

    Args:
        data: a log, padded or not. One whose header is not whole is returned as it is.
        unit: 1, 2, 4, 8, 16 or 32.
    """
    data = unpadded(data)
    at, pieces = 0, list[bytes]()
    for size in _sizes(data) if unit > 1 else ():
        if at + size > len(data):
            break  # what is not whole is not filled up either
        pieces.append(data[at : at + size].ljust(filled_up(size, unit), b"\xff"))
        at += size
    if not pieces:
        return data
    pieces[0] = pieces[0][:UNIT_AT] + bytes([128 + unit]) + pieces[0][UNIT_AT + 1 :]
    return b"".join(pieces) + data[at:]


def _sizes(data: bytes) -> Iterator[int]:
    """Bytes of each thing that is padded by itself, in their order; none where there is no whole header."""
    if (seeds := SeedLogHeader.from_bytes(data)) is not None:
        yield SEED_LOG_HEADER_BYTES
        every, steps, record = seeds.measure_every, seeds.settings.steps, SeedLogRecord.size(seeds.settings)
    elif (header := SnapshotLogHeader.from_bytes(data)) is not None:
        yield header.size
        for _ in range(header.slots):
            yield header.slot_bytes
        every, steps, record = header.measure_every, header.settings.steps, SNAPSHOT_RECORD_BYTES
    else:
        return
    step = measured = 0
    while True:
        if is_due(every, steps, step, measured):
            yield MEASUREMENT_BYTES
            measured += 1
        elif step < steps:
            yield record
            step += 1
        else:
            return
