# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""Writes the seed log of a run."""

from __future__ import annotations

import os
import time

from ..core import (
    MEASUREMENT_BYTES,
    SEED_LOG_HEADER_BYTES,
    Control,
    Measurement,
    SeedLogHeader,
    SeedLogRecord,
)
from .beginning import ending
from .log_file import LogFile

__all__ = ["SeedLogWriter"]


class SeedLogWriter(LogFile):
    """Appends records, each with one write to the operating system before the run goes on.

    A killed program therefore loses no whole step. A power failure loses what the operating system had not
    brought to the disk yet: at most the steps of the last `sync_every` seconds. What it leaves behind is a
    log up to some whole step, since every record has a checksum.

    Args:
        path: path of the log.
        control: control unit of the run; its settings go into the header.
        mark: fingerprint of the model.
        resume: number of bytes of an existing log that stay, which the next record follows; 0 writes the log
            anew, its header included. None starts a new log.
        replace: True if a new log may replace an existing one.
        sync_every: seconds after which the log is brought to the disk; 0: after each step; None: only at the
            end.
        measure_every: steps between measurements; 0: never.

    Raises:
        FileExistsError: the log is to be new, and its file exists.
        FileInUseError: another run is writing the log.
        OSError: the log cannot be written, e.g. because the disk is full; a new log is then not left behind.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        control: Control,
        mark: bytes,
        resume: int | None = None,
        *,
        replace: bool = False,
        sync_every: float | None = 1.0,
        measure_every: int = 0,
    ) -> None:
        super().__init__(path)
        self._control, self._sync_every = control, sync_every
        self._record_bytes = SeedLogRecord.size(control.settings)
        if resume:
            with self._resumed():
                self._cut(resume)
        else:
            with self._new(replace=replace or resume is not None):
                self._cut(0)
                self._write(SeedLogHeader(control.settings, mark, measure_every).to_bytes())
        self._synced = time.monotonic()

    def _cut(self, size: int) -> None:
        """Leaves the first bytes, which end with a whole record, and goes on behind them."""
        self._file.truncate(size)
        self._file.seek(max(0, size - 4))
        self._checksum = ending(self._file.read(4) or b"")
        self._whole = size

    @property
    def _kept(self) -> str:
        if self._whole <= SEED_LOG_HEADER_BYTES:
            return ""
        return "; the log keeps the whole steps before, and the run can be resumed from it"

    def _write(self, data: bytes) -> None:
        """Appends a record whole or not at all."""
        try:
            self._write_at(self._whole, data)
        except OSError:
            self._file.truncate(self._whole)
            raise
        self._whole += len(data)
        self._checksum = ending(data)

    def append(self) -> None:
        """Writes the step that the control unit has just finished.

        Raises:
            OSError: the step cannot be written, e.g. because the disk is full; the log ends with the step
                before, or, where the disk failed to keep what was written already, with this one.
        """
        self._write(SeedLogRecord.write(self._control, self._checksum))
        self._sync_where_due()

    def append_measurement(self, measurement: Measurement) -> None:
        """Writes a measurement, which belongs behind the last whole step.

        Raises:
            OSError: the measurement cannot be written, as for `append`.
        """
        self._write(measurement.to_bytes(self._checksum))
        self._sync_where_due()

    def _sync_where_due(self) -> None:
        if self._sync_every is not None and time.monotonic() - self._synced >= self._sync_every:
            self._sync()
            self._synced = time.monotonic()

    def size(self, steps: int, measurements: int) -> int:
        """Bytes of the log up to so many whole steps and measurements."""
        return SEED_LOG_HEADER_BYTES + steps * self._record_bytes + measurements * MEASUREMENT_BYTES

    def keep(self, steps: int, measurements: int) -> None:
        """Cuts off what follows so many whole steps of the run, of which so many measurements were made."""
        size = self.size(steps, measurements)
        if os.fstat(self._file.fileno()).st_size > size:
            self._cut(size)
