# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""The bytes of a seed log (``ops/core/log/zo_log.h``): written and read by the C core."""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Final

from .control import Control
from .declarations import CSettings
from .loader import constants, library, structs

__all__ = [
    "FINGERPRINT_BYTES",
    "SEED_LOG_HEADER_BYTES",
    "STORE_UNIT_MOST",
    "UNIT_AT",
    "SeedLogHeader",
    "StepRecord",
]

SEED_LOG_HEADER_BYTES: Final[int] = constants.ZO_LOG_HEADER_BYTES
FINGERPRINT_BYTES: Final[int] = constants.ZO_LOG_FINGERPRINT_BYTES
STORE_UNIT_MOST: Final[int] = constants.ZO_STORE_UNIT_MOST
UNIT_AT: Final[int] = constants.ZO_LOG_UNIT_AT
"""Offset of the byte of a header that says how its log is padded (``ops/core/log/zo_store_units.h``)."""


@functools.lru_cache
def _record_bytes(queries: int) -> int:
    # Kept: asking for each record takes a fifth of the time of reading a log.
    return int(library().zo_log_record_bytes(queries))


@dataclass(frozen=True)
class StepRecord:
    """Record of a step in a log.

    Attributes:
        step: number of the step.
        mean_loss: mean loss, unit 2^-16 nat.
        mean_square: running mean of the control unit after the step; 0 in a snapshot log.
        coefficients: coefficient of each query; none in a snapshot log.
    """

    step: int
    mean_loss: int
    mean_square: int = 0
    coefficients: Sequence[int] = ()

    @staticmethod
    def size_of(queries: int) -> int:
        """Returns the bytes of each record of a seed log with so many queries a step."""
        return _record_bytes(queries)

    @staticmethod
    def write(control: Control, checksum: int) -> bytes:
        """Returns the seed log's record of the last finished step, whose checksum continues `checksum`."""
        data = ctypes.create_string_buffer(_record_bytes(control.settings.queries))
        library().zo_log_write_record(control.struct, control.mean_loss, checksum, data)
        return data.raw


@dataclass(frozen=True)
class SeedLogHeader:
    """Header of a seed log.

    It has the attributes of a `SnapshotLogHeader`, too: a seed log has no tasks and no slots for snapshots.

    Attributes:
        settings: settings of the run.
        fingerprint: fingerprint of the base model, 16 bytes.
        measure_every: steps between measurements; 0: never.
        size: bytes of the header.
        is_chained: True: the checksum of a record continues that of the record before it.
    """

    settings: CSettings
    fingerprint: bytes
    measure_every: int
    size: ClassVar[int] = SEED_LOG_HEADER_BYTES
    is_chained: ClassVar[bool] = True
    tasks: ClassVar[tuple[()]] = ()
    interval: ClassVar[int] = 0
    slots: ClassVar[int] = 0
    slot_bytes: ClassVar[int] = 0

    @property
    def record_bytes(self) -> int:
        """Bytes of a step's record."""
        return _record_bytes(self.settings.queries)

    def to_bytes(self) -> bytes:
        """Returns the header, which ends with its checksum."""
        header = structs.zo_log_header(tuple(self.fingerprint), self.measure_every)
        data = ctypes.create_string_buffer(SEED_LOG_HEADER_BYTES)
        library().zo_log_write_header(header, self.settings, data)
        return data.raw

    @classmethod
    def from_bytes(cls, data: bytes) -> SeedLogHeader | None:
        """Returns the header in some bytes; None if it is cut short, damaged, or has settings of no run."""
        header, settings = structs.zo_log_header(), CSettings()
        if len(data) < SEED_LOG_HEADER_BYTES or library().zo_log_read_header(data, header, settings):
            return None
        return cls(settings, bytes(header.fingerprint), int(header.measure_every))

    def read_record(self, data: bytes, checksum: int) -> StepRecord | None:
        """Returns the record in some bytes; None if it is not whole or its checksum is wrong."""
        record, settings = structs.zo_log_record(), self.settings
        if len(data) < self.record_bytes or library().zo_log_read_record(data, settings, checksum, record):
            return None
        coefficients = record.coefficients[: settings.queries]
        return StepRecord(record.step, record.mean_loss, record.mean_square, coefficients)
