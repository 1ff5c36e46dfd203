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

__all__ = ["is_padded", "unpadded"]


def is_padded(data: bytes) -> bool:
    """Returns whether some bytes begin a padded log."""
    return data[: len(MAGIC)] == MAGIC and _unit(data) > 1


def unpadded(data: bytes) -> bytes:
    """What a padded log has, without padding: the log that a desktop writes.

    A log that is not padded, or another file, is returned as it is. Of a log whose header is not whole, the
    mark of padding alone is taken away.
    """
    if not is_padded(data):
        return data
    unit, data = _unit(data), data[:UNIT_AT] + b"\0" + data[UNIT_AT + 1 :]
    at, pieces = 0, list[bytes]()
    for size in _sizes(data):
        pieces.append(data[at : at + size])
        at += -(-size // unit) * unit
        if at >= len(data):
            break
    return b"".join(pieces) + data[at:]


def _unit(data: bytes) -> int:
    unit = data[UNIT_AT] - 128 if len(data) > UNIT_AT else 0
    return unit if 1 < unit <= STORE_UNIT_MOST and not unit & (unit - 1) else 1


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
