# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""The bytes of a seed log (``ops/core/log/zo_log.h``): written and read by the C core."""

from __future__ import annotations

import ctypes
import functools
from dataclasses import dataclass
from typing import Final

from .control import Control
from .declarations import CSettings
from .loader import constants, library, structs

__all__ = [
    "FINGERPRINT_BYTES",
    "SEED_LOG_HEADER_BYTES",
    "STORE_UNIT_MOST",
    "UNIT_AT",
    "SeedLogHeader",
    "SeedLogRecord",
]

SEED_LOG_HEADER_BYTES: Final[int] = constants.ZO_LOG_HEADER_BYTES
FINGERPRINT_BYTES: Final[int] = constants.ZO_LOG_FINGERPRINT_BYTES
STORE_UNIT_MOST: Final[int] = constants.ZO_STORE_UNIT_MOST
UNIT_AT: Final[int] = constants.ZO_LOG_UNIT_AT
"""Offset of the byte of a header that says how its log is padded (``ops/core/log/zo_store_units.h``)."""


@dataclass(frozen=True)
class SeedLogHeader:
    """Header of a seed log.

    Attributes:
        settings: settings of the run.
        fingerprint: fingerprint of the base model, 16 bytes.
        measure_every: steps between measurements; 0: never.
    """

    settings: CSettings
    fingerprint: bytes
    measure_every: int

    def to_bytes(self) -> bytes:
        """The header, which ends with its checksum."""
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


@functools.lru_cache
def _record_bytes(queries: int) -> int:
    # Kept: asking for each record takes a fifth of the time of reading a log.
    return int(library().zo_log_record_bytes(queries))


@dataclass(frozen=True)
class SeedLogRecord:
    """A step of a seed log.

    Attributes:
        step: number of the step.
        mean_loss: mean loss, unit 2^-16 nat.
        mean_square: running mean of the control unit after the step.
        coefficients: coefficient of each query.
    """

    step: int
    mean_loss: int
    mean_square: int
    coefficients: list[int]

    @staticmethod
    def size_of(queries: int) -> int:
        """Bytes of each record of a run with so many queries a step."""
        return _record_bytes(queries)

    @classmethod
    def size(cls, settings: CSettings) -> int:
        """Bytes of each record of a run."""
        return cls.size_of(settings.queries)

    @staticmethod
    def write(control: Control, checksum: int) -> bytes:
        """The record of the step that was finished last; its checksum continues that of the record before."""
        data = ctypes.create_string_buffer(SeedLogRecord.size(control.settings))
        library().zo_log_write_record(control.struct, control.mean_loss, checksum, data)
        return data.raw

    @classmethod
    def read(cls, data: bytes, settings: CSettings, checksum: int) -> SeedLogRecord | None:
        """Returns the record in some bytes; None if it is not whole or its checksum is wrong."""
        record = structs.zo_log_record()
        if len(data) < cls.size(settings) or library().zo_log_read_record(data, settings, checksum, record):
            return None
        coefficients = record.coefficients[: settings.queries]
        return cls(record.step, record.mean_loss, record.mean_square, coefficients)
