# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""The seed log (``.zolog``): a complete, append-only checkpoint of a weight-perturbation run.

Its bytes are specified in ``ops/core/log/zo_log.h``.
"""

from __future__ import annotations

import io
import itertools
import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from ..converters import Model
from ..core import (
    MAX_QUERIES,
    MEASUREMENT_BYTES,
    QUERY_DTYPE,
    SEED_LOG_HEADER_BYTES,
    CSettings,
    Distribution,
    Measurement,
    SeedLogHeader,
    SeedLogRecord,
    best_of,
    distribution_at,
    query_seeds,
    write_items,
)
from .beginning import SEED_LOG, check_version, ending, fingerprint
from .errors import IncompleteHeaderError, LogError
from .padding import is_padded, unpadded
from .records import SeedRecords

__all__ = ["SeedLog"]

_STEPS_AT_ONCE = 8192  # of a log that is read in parts


@dataclass(frozen=True)
class SeedLog:
    """A log that was read, or consecutive steps of one.

    Attributes:
        settings: settings of the run.
        fingerprint: fingerprint of the base model, 16 bytes.
        measure_every: steps between measurements; 0: never.
        losses: mean loss of each whole step, nats or `ZoLoss.unit`, float64 [steps].
        mean_squares: the control unit's running mean after each step, int64 [steps].
        steps: (seed, coefficient) pairs, `QUERY_DTYPE` [steps, queries].
        measurements: measurements of the run, in order, from the first of these steps on.
        whole_bytes: size of header and whole records, up to the last of these steps and its measurement.
        torn_bytes: number of bytes after the last whole record, the trace of an interrupted write.
        first_step: number of the first of these steps in the run.
    """

    settings: CSettings
    fingerprint: bytes
    measure_every: int
    losses: NDArray[np.float64]
    mean_squares: NDArray[np.int64]
    steps: NDArray[np.void]
    measurements: tuple[Measurement, ...]
    whole_bytes: int
    torn_bytes: int
    first_step: int = 0

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> SeedLog:
        """Reads a log up to its last whole record.

        Raises:
            IncompleteHeaderError: the file is the beginning of a log's header.
            LogError: the file is no seed log or one of an older version, its header is damaged, or no run has
                its settings.
            OSError: the file cannot be read.
        """
        parts = list(cls.parts(path))
        last = parts[-1]
        return cls(
            last.settings,
            last.fingerprint,
            last.measure_every,
            np.concatenate([p.losses for p in parts]),
            np.concatenate([p.mean_squares for p in parts]),
            np.concatenate([p.steps for p in parts]),
            tuple(m for p in parts for m in p.measurements),
            last.whole_bytes,
            last.torn_bytes,
        )

    @property
    def best(self) -> Measurement | None:
        """The best of the measurements; None where nothing was measured."""
        return best_of(self.measurements)

    @classmethod
    def parts(cls, path: str | os.PathLike[str]) -> Iterator[SeedLog]:
        """Reads a log up to its last whole record, some thousand steps at a time: memory does not grow with
        its length.

        Yields:
            Consecutive parts, at least one; the last one alone may be empty, and alone knows torn bytes.

        Raises:
            IncompleteHeaderError: the file is the beginning of a log's header.
            LogError: the file is no seed log, or its header is damaged.
            OSError: the file cannot be read.
        """
        with _open_unpadded(path) as file:
            data = file.read(SEED_LOG_HEADER_BYTES)
            if len(data) < SEED_LOG_HEADER_BYTES and data[: len(SEED_LOG)] == SEED_LOG[: len(data)]:
                raise IncompleteHeaderError(f"{path} ends within its header: there is no step in it")
            check_version(path, data)
            header = SeedLogHeader.from_bytes(data)
            if header is None:
                raise LogError(f"{path} is no seed log of this version, or its header is damaged")
            settings, every = header.settings, header.measure_every
            records = SeedRecords(settings, every, ending(data))
            length, at, data = file.seek(0, os.SEEK_END), SEED_LOG_HEADER_BYTES, b""
            file.seek(at)
            at_once = _STEPS_AT_ONCE * records.size
            while True:
                more, first = file.read(at_once), records.step
                steps, measurements, used = records.take(data + more)
                data = (data + more)[used:]
                at += used
                is_last = len(more) < at_once or len(data) >= records.size + MEASUREMENT_BYTES
                yield cls(
                    settings,
                    header.fingerprint,
                    every,
                    np.array([s.mean_loss / 65536 for s in steps], np.float64),
                    np.array([s.mean_square for s in steps], np.int64),
                    _with_seeds(settings, [s.coefficients for s in steps], first),
                    tuple(measurements),
                    at,
                    length - at if is_last else 0,
                    first,
                )
                if is_last:
                    return

    @classmethod
    def from_steps(
        cls, settings: CSettings, mark: bytes, coefficients: list[list[int]], first: int = 0
    ) -> SeedLog:
        """A log that was never written: the coefficients of a run's whole steps, from step `first` on."""
        none = np.zeros(len(coefficients))
        steps = _with_seeds(settings, coefficients, first)
        return cls(settings, mark, 0, none, none.astype(np.int64), steps, (), 0, 0, first)

    def first(self, steps: int) -> SeedLog:
        """The log as it was after so many steps.

        Raises:
            LogError: the log has fewer steps.
        """
        if not 0 <= steps <= len(self.steps):
            raise LogError(f"steps: the log has {len(self.steps)} whole steps, got {steps}")
        size = SeedLogRecord.size(self.settings)
        measurements = tuple(m for m in self.measurements if m.step <= self.first_step + steps)
        cut = (len(self.steps) - steps) * size + MEASUREMENT_BYTES * (
            len(self.measurements) - len(measurements)
        )
        return SeedLog(
            self.settings,
            self.fingerprint,
            self.measure_every,
            self.losses[:steps],
            self.mean_squares[:steps],
            self.steps[:steps],
            measurements,
            max(self.whole_bytes - cut, 0),
            0,
            self.first_step,
        )

    def check_model(self, model: Model | bytes) -> None:
        """Raises LogError unless the log was recorded on this very ZO model."""
        if fingerprint(model) != self.fingerprint:
            raise LogError("the log is of another model: its fingerprint differs from this ZO model's")

    def steps_of_block(self, block: int) -> list[tuple[Distribution, NDArray[np.void]]]:
        """The steps that move a block, in order: those of each stage with their distribution.

        With momentum a query has one item for each seed of its direction, and items of coefficient 0 where
        the first steps have fewer.
        """
        end_step = self.first_step + len(self.steps)
        numbers = np.arange(self.first_step, end_step)
        if blocks := self.settings.blocks:
            numbers = numbers[numbers % blocks == block % blocks]
        begins = [min(b, end_step) for b in self.settings.stage_steps if b]
        found = []
        for first, end in itertools.pairwise([0, *begins, end_step]):
            own = numbers[(numbers >= first) & (numbers < end)]
            if len(own):
                found.append((distribution_at(self.settings, first), self._items(own)))
        return found

    def _items(self, numbers: NDArray[np.int_]) -> NDArray[np.void]:
        """Returns the (seed, coefficient) pairs by which these steps move the weights, [steps, items]."""
        if not self.settings.chain:
            return self.steps[numbers - self.first_step]
        items = np.zeros((len(numbers), MAX_QUERIES), QUERY_DTYPE)
        coefficients = np.ascontiguousarray(self.steps["coefficient"])
        counts = [
            write_items(self.settings, step, coefficients[step - self.first_step], row)
            for row, step in zip(items, numbers.tolist(), strict=True)
        ]
        return items[:, : max(counts)]


def _open_unpadded(path: str | os.PathLike[str]) -> BinaryIO:
    """Opens a log; one that is padded, which a device's memory had room for, is read as a whole."""
    file = open(path, "rb")  # noqa: SIM115 - the caller closes it
    if is_padded(file.read(SEED_LOG_HEADER_BYTES)):
        with file:
            file.seek(0)
            return io.BytesIO(unpadded(file.read()))
    file.seek(0)
    return file


def _with_seeds(settings: CSettings, coefficients: list[list[int]], first: int) -> NDArray[np.void]:
    """(seed, coefficient) pairs of the steps from `first` on, [steps, queries]."""
    steps = np.zeros((len(coefficients), settings.queries), QUERY_DTYPE)
    if coefficients:
        steps["coefficient"] = coefficients
        steps["seed"] = query_seeds(settings.run_seed, first, len(steps), settings.queries)
    return steps
