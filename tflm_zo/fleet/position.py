# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""How far a member of a fleet, server or client, has come: it takes the records of steps."""

from __future__ import annotations

import struct
from typing import ClassVar, Final

import numpy as np

from .. import core
from ..converters import Model, read_metadata
from ..core import SEED_LOG_HEADER_BYTES, SeedLogHeader, StepRecord
from ..logs import MAGIC, Log, fingerprint
from ..logs.layout import SEED_LOG, ending
from ..logs.replay import Arrays, Replay
from .answer import FleetError

__all__ = ["Position"]

# Of a snapshot: step, checksum of the records so far, of the weights, and the running mean of d^2; then
# weights and fractions of each trainable tensor.
_SNAPSHOT: Final = struct.Struct("<IIIq")


class Position:
    """The weights after some steps of a run, and what the next step goes on from.

    Args:
        model: the ZO model.
        header: header of the run's seed log, 132 bytes.
        weights: weights and fractions that are moved in place; None: copies of the model's.

    Attributes:
        takes_snapshots: whether `take_snapshot` may bring it further.
        settings: settings of the run.
        step: whole steps.
        checksum: checksum of the header and the records so far, which the next record's continues.
        mean_square: running mean of d^2 of the control unit, unit 2^-32.

    Raises:
        FleetError: the header is none of a seed log, or of another model.
    """

    takes_snapshots: ClassVar[bool] = True

    def __init__(self, model: Model, header: bytes, weights: tuple[Arrays, Arrays] | None = None) -> None:
        found = SeedLogHeader.from_bytes(header)
        if found is None or len(header) != SEED_LOG_HEADER_BYTES:
            raise FleetError(_why_no_header(header))
        if found.fingerprint != fingerprint(model):
            raise FleetError(
                f"the run is of model {found.fingerprint.hex()}, this one is {fingerprint(model).hex()}: all "
                "members of a fleet need the same ZO model"
            )
        if found.settings.sharpness:
            raise FleetError("sharpness-aware steps: what is uphill differs between clients")
        self.header, self._header, self.settings = header, found, found.settings
        self._replay = Replay(model, weights)
        self._streams = {t.name: t.stream for t in read_metadata(model).trainable}
        self.step, self.mean_square, self.checksum = 0, 0, ending(header)

    @property
    def record_bytes(self) -> int:
        """Bytes of a record."""
        return self._header.record_bytes

    @property
    def weights(self) -> tuple[Arrays, Arrays]:
        """Weights and fractions, arrays by tensor name."""
        return self._replay.weights, self._replay.fractions

    @property
    def weights_checksum(self) -> int:
        """Checksum of all weights and fractions, 0..2^32-1: equal on all members that have equal weights."""
        weights, fractions = self.weights
        sums = (core.checksum(w, fractions.get(n), self._streams[n]) for n, w in weights.items())
        return sum(sums) & 0xFFFFFFFF

    def take(self, records: bytes) -> int:
        """Moves the weights by the records of the steps that follow.

        Args:
            records: whole records, as the seed log has them.

        Returns:
            Number of steps.

        Raises:
            FleetError: a record does not follow, which the message says why. None has been taken.
        """
        steps = self._following(records)
        rest = records[len(steps) * self.record_bytes :]
        if rest:
            raise FleetError(self._why_not(rest, self.step + len(steps)))
        if steps:
            coefficients = [s.coefficients for s in steps]
            self._replay.add(Log.from_steps(self.settings, b"", coefficients, self.step))
            self.step, self.mean_square = self.step + len(steps), steps[-1].mean_square
            self.checksum = ending(records)
        return len(steps)

    def _following(self, records: bytes) -> list[StepRecord]:
        """The records at the beginning of some bytes that follow the steps so far."""
        steps, checksum, size = list[StepRecord](), self.checksum, self.record_bytes
        for at in range(0, len(records), size):
            data, wanted = records[at : at + size], self.step + len(steps)
            record = self._header.read_record(data, checksum)
            if record is None or record.step != wanted or wanted == self.settings.steps:
                break
            steps.append(record)
            checksum = ending(data)
        return steps

    def _why_not(self, data: bytes, wanted: int) -> str:
        """Why bytes do not begin with the record of step `wanted`."""
        if len(data) < self.record_bytes:
            return f"a record of {len(data)} bytes, those of this run have {self.record_bytes}"
        step = int.from_bytes(data[:4], "little")
        if step < wanted:
            return f"an old message: the record of step {step}, where that of step {wanted} follows"
        if step > wanted:
            return f"the record of step {step}, where those from step {wanted} on are missing"
        if step == self.settings.steps:
            return f"the record of step {step} of a run of {step} steps"
        return (
            f"the record of step {step} is damaged or of another run: its checksum does not go on from ours"
        )

    def snapshot(self) -> bytes:
        """All of it as bytes, for a member that is far behind."""
        weights, fractions = self.weights
        head = _SNAPSHOT.pack(self.step, self.checksum, self.weights_checksum, self.mean_square)
        return head + b"".join(a.tobytes() for part in (weights, fractions) for a in part.values())

    @property
    def snapshot_bytes(self) -> int:
        """Bytes of a snapshot."""
        return _SNAPSHOT.size + sum(a.nbytes for part in self.weights for a in part.values())

    def take_snapshot(self, data: bytes) -> None:
        """Goes to where a snapshot was taken, which may be before or behind.

        Raises:
            FleetError: it is damaged or of another model; nothing has changed.
        """
        if len(data) != self.snapshot_bytes:
            raise FleetError(
                f"a snapshot of {len(data)} bytes, those of this model have {self.snapshot_bytes}"
            )
        step, checksum, wanted, mean_square = _SNAPSHOT.unpack_from(data)
        before, at = self.snapshot(), _SNAPSHOT.size
        self._set(data[at:])
        if self.weights_checksum != wanted or step > self.settings.steps or mean_square < 0:
            self._set(before[at:])
            raise FleetError("a damaged snapshot: its checksum is wrong")
        self.step, self.checksum, self.mean_square = step, checksum, mean_square

    def _set(self, data: bytes) -> None:
        at = 0
        for part in self.weights:
            for array in part.values():
                own = np.frombuffer(data, array.dtype, array.size, at)
                array[...] = own.reshape(array.shape)
                at += array.nbytes


def _why_no_header(data: bytes) -> str:
    """Why bytes are no header of a seed log."""
    own = SEED_LOG[-1]
    if not data.startswith(MAGIC):
        return "the run's header is none of a seed log"
    if data[: len(SEED_LOG)] != SEED_LOG:
        version = int.from_bytes(data[len(MAGIC) : len(SEED_LOG)], "little")
        return (
            f"the run's header is of version {version} of logs, this tflm_zo reads {own}: use the same "
            "version of tflm_zo everywhere"
        )
    return "the run's header is damaged: its checksum is wrong"
