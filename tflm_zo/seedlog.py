# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""The seed log (``.zolog``): a complete, append-only checkpoint of a weight-perturbation run.

Its bytes are specified in ``ops/core/zo_log.h`` and written and read by the C core.
"""

from __future__ import annotations

import ctypes
import hashlib
import io
import os
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from . import native
from .control import Control, CSettings
from .converters import Model
from .native import MAX_QUERIES, QUERY_DTYPE, Distribution, DistributionKind

__all__ = ["LogError", "LogWriter", "SeedLog", "fingerprint"]

HEADER_BYTES = 128
FINGERPRINT_BYTES = 16


class LogError(ValueError):
    """The log is damaged, or of another model or run."""


class _Record(ctypes.Structure):
    _fields_ = [
        ("step", ctypes.c_uint32),
        ("mean_loss", ctypes.c_int32),
        ("mean_square", ctypes.c_int64),
        ("coefficients", ctypes.c_int32 * MAX_QUERIES),
    ]


@lru_cache(maxsize=1)
def _library() -> Any:
    library, pointer = native.library(), ctypes.c_void_p
    settings = ctypes.POINTER(CSettings)
    for name, result, arguments in (
        ("zo_log_record_bytes", ctypes.c_uint32, [ctypes.c_uint32]),
        ("zo_log_write_header", None, [settings, ctypes.c_char_p, pointer]),
        ("zo_log_read_header", ctypes.c_int, [ctypes.c_char_p, settings, pointer]),
        ("zo_log_write_record", None, [pointer, ctypes.c_int32, pointer]),
        ("zo_log_read_record", ctypes.c_int, [ctypes.c_char_p, ctypes.c_uint32, ctypes.POINTER(_Record)]),
    ):
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
    return library


def fingerprint(model: Model | bytes) -> bytes:
    """The first 16 bytes of the SHA-256 of a model's file."""
    data = model if isinstance(model, bytes) else model.to_bytes()
    return hashlib.sha256(data).digest()[:FINGERPRINT_BYTES]


@dataclass(frozen=True)
class SeedLog:
    """A log that was read.

    Attributes:
        settings: of the run.
        fingerprint: of the base model, 16 bytes.
        losses: mean loss of each whole step, nats, float64 [steps].
        mean_squares: the control unit's running mean after each step, int64 [steps].
        steps: (seed, coefficient) pairs, `QUERY_DTYPE` [steps, queries].
        whole_bytes: size of header and whole records.
        torn_bytes: what follows the last whole record: the trace of an interrupted write.
    """

    settings: CSettings
    fingerprint: bytes
    losses: NDArray[np.float64]
    mean_squares: NDArray[np.int64]
    steps: NDArray[np.void]
    whole_bytes: int
    torn_bytes: int

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> SeedLog:
        """Reads a log up to its last whole record.

        Raises:
            LogError: no log, or a damaged header.
            OSError: the file cannot be read.
        """
        data = Path(path).read_bytes()
        settings, mark = CSettings(), ctypes.create_string_buffer(FINGERPRINT_BYTES)
        if len(data) < HEADER_BYTES or _library().zo_log_read_header(data, ctypes.byref(settings), mark):
            raise LogError(f"{path} is no seed log of this version, or its header is damaged")
        size = int(_library().zo_log_record_bytes(settings.queries))
        record = _Record()
        losses: list[float] = []
        squares: list[int] = []
        coefficients: list[list[int]] = []
        at = HEADER_BYTES
        while at + size <= len(data):
            chunk = data[at : at + size]
            status = _library().zo_log_read_record(chunk, settings.queries, ctypes.byref(record))
            if status or record.step != len(losses):
                break
            losses.append(record.mean_loss / 65536)
            squares.append(record.mean_square)
            coefficients.append(record.coefficients[: settings.queries])
            at += size
        return cls(
            settings,
            mark.raw,
            np.array(losses, np.float64),
            np.array(squares, np.int64),
            _with_seeds(settings, coefficients),
            at,
            len(data) - at,
        )

    @classmethod
    def from_steps(cls, settings: CSettings, mark: bytes, coefficients: list[list[int]]) -> SeedLog:
        """A log that was never written: the coefficients of a run's whole steps."""
        none = np.zeros(len(coefficients))
        return cls(settings, mark, none, none.astype(np.int64), _with_seeds(settings, coefficients), 0, 0)

    @property
    def distribution(self) -> Distribution:
        """Of the perturbation."""
        z = self.settings.distribution
        return Distribution(DistributionKind(z.kind), z.mu, z.p_zero)

    def check_model(self, model: Model | bytes) -> None:
        """Raises LogError unless the log was recorded on this very ZO model."""
        if fingerprint(model) != self.fingerprint:
            raise LogError("the log is of another model: its fingerprint differs from this ZO model's")

    def steps_of_block(self, block: int) -> NDArray[np.void]:
        """The steps that move a block, in order."""
        if self.settings.blocks == 0:
            return self.steps
        return self.steps[block % self.settings.blocks :: self.settings.blocks]


def _with_seeds(settings: CSettings, coefficients: list[list[int]]) -> NDArray[np.void]:
    """(seed, coefficient) pairs, [steps, queries]."""
    steps = np.zeros((len(coefficients), settings.queries), QUERY_DTYPE)
    if coefficients:
        seed, run = native.library().zo_query_seed, settings.run_seed
        steps["coefficient"] = coefficients
        steps["seed"] = [[seed(run, t, q) for q in range(settings.queries)] for t in range(len(steps))]
    return steps


class LogWriter:
    """Appends records, each flushed to the operating system before the run goes on.

    Args:
        path: of the log.
        control: of the run; its settings go into the header.
        mark: fingerprint of the model.
        resume: whole bytes to keep of an existing log, which are followed by the next record; None starts a
            new log, which must not exist.
    """

    def __init__(
        self, path: str | os.PathLike[str], control: Control, mark: bytes, resume: int | None = None
    ) -> None:
        self._control = control
        size = int(_library().zo_log_record_bytes(control.settings.queries))
        self._record = ctypes.create_string_buffer(size)
        self._file: io.FileIO
        if resume is None:
            header = ctypes.create_string_buffer(HEADER_BYTES)
            settings = control.settings
            _library().zo_log_write_header(ctypes.byref(settings), mark, header)
            self._file = io.FileIO(os.fspath(path), "x")
            self._write(header.raw)
        else:
            self._file = io.FileIO(os.fspath(path), "r+")
            self._file.truncate(resume)
            self._file.seek(resume)

    def _write(self, data: bytes) -> None:
        written = 0
        while written < len(data):
            written += self._file.write(data[written:]) or 0

    def append(self) -> None:
        """Writes the step that the control unit has just finished."""
        _library().zo_log_write_record(self._control.address, self._control.mean_loss, self._record)
        self._write(self._record.raw)

    def keep(self, steps: int) -> None:
        """Cuts off what follows so many whole steps of the run."""
        size = HEADER_BYTES + steps * len(self._record)
        if os.fstat(self._file.fileno()).st_size > size:
            self._file.truncate(size)
            self._file.seek(size)

    def close(self) -> None:
        """Brings the log to the disk and closes it."""
        if not self._file.closed:
            os.fsync(self._file.fileno())
            self._file.close()
