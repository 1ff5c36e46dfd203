# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""Measurements of a run (``ops/core/log/zo_measurement.h``): the loss of its weights on data that are always
the same, so that the best state can be kept.

The C core decides when a run measures, and the place and bytes of the records in its log.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

from .loader import constants, library, structs

__all__ = ["MEASUREMENT_BYTES", "Measurement", "best_of", "is_due"]

MEASUREMENT_BYTES: Final[int] = constants.ZO_MEASUREMENT_BYTES


@dataclass(frozen=True)
class Measurement:
    """One measurement.

    Attributes:
        step: number of whole steps before the measurement.
        samples: number of samples that have a label, the ones that count.
        loss_sum: sum of their losses, unit 2^-16.
        correct: number of right outputs; 0 for the mean squared error.
        data_checksum: CRC-32 of samples and labels, as the model reads them.
    """

    step: int
    samples: int
    loss_sum: int
    correct: int
    data_checksum: int

    @property
    def loss(self) -> float:
        """Mean over the labelled samples, in units of the model's loss: nats, or `ZoLoss.unit`."""
        return self.loss_sum / 65536 / max(1, self.samples)

    def _struct(self) -> Any:
        return structs.zo_measurement(
            self.step, self.samples, self.loss_sum, self.correct, self.data_checksum
        )

    def to_bytes(self, checksum: int) -> bytes:
        """Returns the measurement's record, whose checksum continues another one."""
        record = ctypes.create_string_buffer(MEASUREMENT_BYTES)
        library().zo_measurement_write(self._struct(), checksum, record)
        return record.raw

    @classmethod
    def from_bytes(cls, record: bytes, checksum: int) -> Measurement | None:
        """Returns the measurement of a record; None if the checksum is wrong or the record is not whole."""
        m = structs.zo_measurement()
        if len(record) < MEASUREMENT_BYTES:
            return None
        if library().zo_measurement_read(record, checksum, m):
            return None
        return cls(m.step, m.samples, m.loss, m.correct, m.data_checksum)


def is_due(every: int, steps: int, step: int, done: int) -> bool:
    """Returns whether the measurement after `step` whole steps comes next in the log.

    Args:
        every: steps between measurements; 0: never.
        steps: number of steps of the whole run.
        step: number of whole steps done.
        done: number of measurements in the log.
    """
    if not library().zo_measurement_is_due(every, steps, step):
        return False
    return bool(library().zo_measurement_number(every, step) == done)


def best_of(measurements: Iterable[Measurement]) -> Measurement | None:
    """Returns the first with the smallest loss of those with at least as many right outputs as the first one.

    None if there is no measurement.

    Args:
        measurements: measurements of a run, in order.
    """
    first = best = None
    for m in measurements:
        if first is None or best is None:
            first = best = m
        elif library().zo_measurement_is_better(m._struct(), best._struct(), first.correct):
            best = m
    return best
