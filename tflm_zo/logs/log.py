"""The log (``.zolog``) of a run.

Weight perturbation writes a seed log, which has every step. A layer-wise run, whose updates depend on data,
writes a snapshot log, which has the loss of every step and the weights after some of them. Both formats:
``docs/file-formats.md``.
"""

from __future__ import annotations

import io
import itertools
import os
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from ..converters import Model, load_model, read_metadata
from ..core import (
    BEST_SLOT,
    MEASUREMENT_BYTES,
    QUERY_DTYPE,
    SEED_LOG_HEADER_BYTES,
    CSettings,
    Distribution,
    Measurement,
    NodeRules,
    SeedLogHeader,
    Snapshot,
    SnapshotLogHeader,
    StepRecord,
    TaskEntry,
    best_of,
    distribution_at,
    query_seeds,
)
from ..io.files import write_output
from .layout import (
    SEED_LOG,
    SNAPSHOT_LOG,
    IncompleteHeaderError,
    LogError,
    Records,
    ending,
    fingerprint,
    is_snapshot_log,
    no_log,
    read_header,
    unit_of,
    unpadded,
)

_STEPS_AT_ONCE = 8192  # of a seed log that is read in parts


def data_checksum(arrays: Sequence[NDArray[Any]]) -> int:
    """Returns the CRC-32 of prepared training samples and labels, one array after the other."""
    crc = 0
    for array in arrays:
        crc = zlib.crc32(np.ascontiguousarray(array).tobytes(), crc)
    return crc


@dataclass(frozen=True)
class Log:
    """A log, or consecutive steps of it."""

    settings: CSettings  #: settings of the run.
    fingerprint: bytes  #: fingerprint of the base model, 16 bytes.
    measure_every: int  #: steps between measurements; 0: never.
    #: mean loss of each complete step, nats or `ZoLoss.unit`, float64 [steps]. In a snapshot log they include steps
    #: after the last snapshot, which can only be repeated with the data.
    losses: NDArray[np.float64]
    measurements: tuple[Measurement, ...] = ()  #: measurements from the first of these steps on, in order.
    first_step: int = 0  #: number of the first of these steps in the run.
    whole_bytes: int = 0  #: size of the header and the complete records of a seed log.
    torn_bytes: int = 0  #: number of bytes after the last complete record of a seed log, from an interrupted write.
    #: (seed, coefficient) pairs of a seed log, `QUERY_DTYPE` [steps, queries].
    steps: NDArray[np.void] = field(default_factory=lambda: np.zeros((0, 0), QUERY_DTYPE))
    #: the control unit's running mean after each step of a seed log, int64 [steps].
    mean_squares: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))
    tasks: tuple[TaskEntry, ...] = ()  #: tasks of a layer-wise run; none in a seed log.
    first_segment: int = 0  #: first segment with a trained layer in a layer-wise run.
    rules: NodeRules = field(default_factory=NodeRules)  #: further settings of a layer-wise run.
    interval: int = 0  #: number of steps between snapshots.
    weight_bytes: int = 0  #: bytes of a snapshot's weights.
    data_checksum: int = 0  #: checksum of the training data of a layer-wise run.
    snapshot: Snapshot | None = None  #: the last complete snapshot; None before the first.
    #: the last complete snapshot of a best state; None if no measurement improved on the first.
    best_slot: Snapshot | None = None
    #: the threshold of an anomaly for the kept weights: `loss_sum` is the threshold, `samples` the number of normal
    #: samples, `correct` the percentile in 0.01, `data_checksum` the checksum of the weights. None: none.
    threshold: Measurement | None = None

    @classmethod
    def read(cls, path: str | os.PathLike[str], *, layerwise: bool | None = None) -> Log:
        """Reads a log of either kind up to its last complete record; `layerwise` True accepts only logs of layer-wise
        runs, False only those of weight perturbation.

        Raises:
            IncompleteHeaderError: the file ends before its first record.
            LogError: the file is no log of this kind, an older version wrote it, or its header is damaged or has
                invalid settings.
            OSError: the file cannot be read.
        """
        parts = list(cls.parts(path, layerwise=layerwise))
        if len(parts) == 1:
            return parts[0]
        return replace(
            parts[-1],
            losses=np.concatenate([p.losses for p in parts]),
            mean_squares=np.concatenate([p.mean_squares for p in parts]),
            steps=np.concatenate([p.steps for p in parts]),
            measurements=tuple(m for p in parts for m in p.measurements),
            first_step=0,
        )

    @classmethod
    def parts(cls, path: str | os.PathLike[str], *, layerwise: bool | None = None) -> Iterator[Log]:
        """Reads a log up to its last complete record, a seed log in parts of some thousand steps to bound the memory.
        Yields consecutive parts, at least one; a snapshot log is one part. Only the last part may be empty or have torn
        bytes. See `read` for arguments and errors.
        """
        if is_snapshot_log(path) if layerwise is None else layerwise:
            yield _read_snapshot_log(path)
        else:
            yield from _parts_of_seed_log(path)

    @classmethod
    def from_steps(cls, settings: CSettings, mark: bytes, coefficients: Sequence[Sequence[int]], first: int = 0) -> Log:
        """Creates a log from the coefficients of complete steps of weight perturbation, from step `first` on."""
        none = np.zeros(len(coefficients))
        steps = _with_seeds(settings, coefficients, first)
        return cls(settings, mark, 0, none, first_step=first, steps=steps, mean_squares=none.astype(np.int64))

    @property
    def kind(self) -> str:
        """Name of the format: "seed log" or "snapshot log"."""
        return "snapshot log" if self.tasks else "seed log"

    @property
    def whole_steps(self) -> int:
        """Number of the last step whose weights the log can restore; 0: none."""
        return self.first_step + len(self.steps) if self.snapshot is None else self.snapshot.step

    def first(self, steps: int) -> Log:
        """Returns the first steps of a log of weight perturbation. Raises LogError if the log has fewer steps."""
        if not 0 <= steps <= len(self.steps):
            raise LogError(f"Steps of the log must be in 0..{len(self.steps)}. Received: {steps}.")
        size = StepRecord.size_of(self.settings.queries)
        measurements = tuple(m for m in self.measurements if m.step <= self.first_step + steps)
        threshold = self.threshold if steps == len(self.steps) else None
        records = len(self.measurements) - len(measurements) + (self.threshold is not threshold)
        cut = (len(self.steps) - steps) * size + MEASUREMENT_BYTES * records
        return replace(
            self,
            threshold=threshold,
            losses=self.losses[:steps],
            mean_squares=self.mean_squares[:steps],
            steps=self.steps[:steps],
            measurements=measurements,
            whole_bytes=max(self.whole_bytes - cut, 0),
            torn_bytes=0,
        )

    def after(self, step: int) -> Snapshot | None:
        """Returns the snapshot after a number of steps, or None."""
        return next((s for s in (self.snapshot, self.best_slot) if s is not None and s.step == step), None)

    def best_until(self, step: int) -> Measurement | None:
        """Returns the best measurement among the first steps whose weights can be restored; a power failure
        may have damaged the best snapshot.
        """
        replayed = self.first_step + len(self.steps)
        known = [m for m in self.measurements if m.step <= step and (m.step <= replayed or self.after(m.step))]
        best, slot = best_of(known), self.best_slot
        if best is not None and not best.step and slot is not None:
            # Written when the loss alone said which state is the best: the one that the run handed over.
            return next((m for m in known if m.step == slot.step), best)
        return best

    @property
    def best(self) -> Measurement | None:
        """The best measurement whose weights can be restored; None without measurements."""
        return self.best_until(int(self.settings.steps))

    def check_model(self, model: Model | bytes) -> None:
        """Raises LogError if the log was recorded on another ZO model."""
        if fingerprint(model) != self.fingerprint:
            raise LogError("the log is of another model: its fingerprint differs from this ZO model's")
        metadata = read_metadata(load_model(model))
        trainable, numbers = metadata.trainable, [i for task in self.tasks for i in task.tensors]
        if beyond := [i for i in numbers if i >= len(trainable)]:
            raise LogError(f"the log is damaged: it is of trainable tensor {beyond[0]}, the model has {len(trainable)}")
        size = metadata.bytes_of(numbers)
        if size != self.weight_bytes:
            raise LogError(
                f"the log is damaged: its snapshots are of {self.weight_bytes} bytes of weights, and the "
                f"tensors that it trains have {size}"
            )

    def steps_of_block(self, block: int) -> list[tuple[Distribution, NDArray[np.void]]]:
        """Returns the steps of a seed log that update a block, by stage, with the distribution of each stage."""
        end_step = self.first_step + len(self.steps)
        numbers = np.arange(self.first_step, end_step)
        if blocks := self.settings.blocks:
            numbers = numbers[numbers % blocks == block % blocks]
        begins = [min(b, end_step) for b in self.settings.stage_steps if b]
        found = []
        for first, end in itertools.pairwise([0, *begins, end_step]):
            own = numbers[(numbers >= first) & (numbers < end)]
            if len(own):
                found.append((distribution_at(self.settings, first), self.steps[own - self.first_step]))
        return found


def keep_threshold(path: str | os.PathLike[str], threshold: Measurement) -> None:
    """Writes the threshold of an anomaly behind the last record of a log, in the place of an older one."""
    data = unpadded(Path(path).read_bytes())
    header = read_header(data)
    if header is None:
        raise no_log(path, data)
    begin = header.size + header.slots * header.slot_bytes
    records = Records(header, ending(data[: header.size]))
    end = begin + records.take(data[begin:])[2] - (MEASUREMENT_BYTES if records.threshold else 0)
    write_output(Path(path), data[:end] + threshold.to_bytes(records.checksum), force=True)


def _parts_of_seed_log(path: str | os.PathLike[str]) -> Iterator[Log]:
    with _open_unpadded(path) as file:
        data = file.read(SEED_LOG_HEADER_BYTES)
        if len(data) < SEED_LOG_HEADER_BYTES and data[: len(SEED_LOG)] == SEED_LOG[: len(data)]:
            raise IncompleteHeaderError(f"{path} ends within its header: there is no step in it")
        header = SeedLogHeader.from_bytes(data)
        if header is None:
            raise no_log(path, data, "seed")
        records, size = Records(header, ending(data)), header.record_bytes
        length, at, data = file.seek(0, os.SEEK_END), SEED_LOG_HEADER_BYTES, b""
        file.seek(at)
        at_once = _STEPS_AT_ONCE * size
        while True:
            more, first = file.read(at_once), records.step
            steps, measurements, used = records.take(data + more)
            data = (data + more)[used:]
            at += used
            is_last = len(more) < at_once or len(data) >= size + MEASUREMENT_BYTES
            yield Log(
                header.settings,
                header.fingerprint,
                header.measure_every,
                np.array([s.mean_loss / 65536 for s in steps], np.float64),
                tuple(measurements),
                first_step=first,
                whole_bytes=at,
                torn_bytes=length - at if is_last else 0,
                steps=_with_seeds(header.settings, [s.coefficients for s in steps], first),
                mean_squares=np.array([s.mean_square for s in steps], np.int64),
                threshold=records.threshold,
            )
            if is_last:
                return


def _read_snapshot_log(path: str | os.PathLike[str]) -> Log:
    data = unpadded(Path(path).read_bytes())
    header = SnapshotLogHeader.from_bytes(data)
    if header is None and _is_cut_short(data):
        raise IncompleteHeaderError(f"{path} ends within its header: there is no step in it")
    if header is None:
        raise no_log(path, data, "snapshot")
    begin, slots, slot = header.size, header.slots, header.slot_bytes
    records = begin + slots * slot
    if len(data) < records:
        raise IncompleteHeaderError(f"{path} ends within its first snapshots: there is no step in it")
    owner = ending(data[:begin])
    found = [Snapshot.read(data[at : at + slot], owner, header) for at in range(begin, records, slot)]
    parser = Records(header, owner)
    steps, measurements, _ = parser.take(data[records:])
    # Where records before a snapshot are damaged, an older one with all of its records counts.
    snapshots = [s for s in found[:BEST_SLOT] if s is not None and s.step <= len(steps)]
    return Log(
        header.settings,
        header.fingerprint,
        header.measure_every,
        np.array([s.mean_loss / 65536 for s in steps], np.float64),
        tuple(measurements),
        tasks=header.tasks,
        first_segment=int(header.node_settings.first_segment),
        rules=NodeRules.of(header.node_settings),
        interval=header.interval,
        weight_bytes=header.weight_bytes,
        data_checksum=header.data_checksum,
        snapshot=max(snapshots, key=lambda s: s.step, default=None),
        best_slot=found[BEST_SLOT] if slots > BEST_SLOT else None,
        threshold=parser.threshold,
    )


def _is_cut_short(data: bytes) -> bool:
    if data[: len(SNAPSHOT_LOG)] != SNAPSHOT_LOG[: len(data)]:
        return False
    if len(data) < SnapshotLogHeader.size_of(0):
        return True
    size, _, tasks = (int.from_bytes(data[at : at + 2], "little") for at in (10, 12, 14))
    return len(data) < size == SnapshotLogHeader.size_of(tasks)


def _open_unpadded(path: str | os.PathLike[str]) -> BinaryIO:
    """Opens a log. A padded log, which is small, is read completely."""
    file = open(path, "rb")  # noqa: SIM115 - the caller closes it
    if unit_of(file.read(SEED_LOG_HEADER_BYTES)) > 1:
        with file:
            file.seek(0)
            return io.BytesIO(unpadded(file.read()))
    file.seek(0)
    return file


def _with_seeds(settings: CSettings, coefficients: Sequence[Sequence[int]], first: int) -> NDArray[np.void]:
    """Returns (seed, coefficient) pairs of the steps from `first` on, [steps, queries]."""
    steps = np.zeros((len(coefficients), settings.queries), QUERY_DTYPE)
    if coefficients:
        steps["coefficient"] = coefficients
        steps["seed"] = query_seeds(settings.run_seed, first, len(steps), settings.queries)
    return steps
