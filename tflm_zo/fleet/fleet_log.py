"""The server's state of a fleet: a seed log."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ..converters import Model, read_metadata
from ..core import SEED_LOG_HEADER_BYTES, Control, SeedLogHeader, StepRecord
from ..logs import LogWriter, fingerprint
from ..training.checks import SettingsError
from ..training.costs import block_segments
from ..training.lowering import weight_integers
from ..training.settings import Settings
from .member import Answer, FleetError, Position, evaluations, sum_of

# Of a mean difference or loss that a record has room for, unit 2^-16.
_MOST_MEAN = 1 << 30


class FleetLog(Position):
    """The run of a fleet at its server, which computes each step from the clients' answers. Its log is a
    normal seed log, for `tflm-zo replay`. With the mean of all answers it equals, bit for bit, the log of one
    run on all minibatches together.

    Args:
        model: the ZO model.
        settings: settings of weight perturbation; `batch_size` is that of each client.
        steps: number of steps of the whole run.
        samples: largest number of training samples of a client.
        path: path of the log.
        resume: True to resume the run of an existing log, which must be the same run.
        replace: True to overwrite an existing log.

    Raises:
        SettingsError: the settings are not those of weight perturbation alone, or are sharpness-aware.
        FleetError: the existing log belongs to another run.
        FileExistsError: the log exists, and neither `resume` nor `replace` is set.
        OSError: the log cannot be written.
    """

    def __init__(
        self,
        model: Model,
        settings: Settings,
        steps: int,
        samples: int,
        path: str | os.PathLike[str],
        *,
        resume: bool = False,
        replace: bool = False,
    ) -> None:
        if settings.is_layerwise:
            raise SettingsError("algorithm", "use weight perturbation alone in a fleet", settings.algorithm)
        metadata = read_metadata(model)
        integers = weight_integers(
            settings,
            steps=steps,
            samples=samples,
            batch=metadata.batch,
            weights=sum(t.trained for t in metadata.trainable),
            blocks=len(metadata.blocks),
        )
        header = SeedLogHeader(integers, fingerprint(model), 0)
        super().__init__(model, header.to_bytes())
        self._control = Control(self.settings, metadata.command_words, block_segments(metadata))
        self._path, self._records = Path(path), bytearray()
        exists = resume and self._path.is_file()
        keep = (self.step, 0) if exists and self._resume() else None
        self._writer = LogWriter(path, header, keep=keep, replace=replace or exists)

    def _resume(self) -> bool:
        """Applies the steps of the log. Returns whether it has a complete header."""
        data = self._path.read_bytes()
        head, records = data[:SEED_LOG_HEADER_BYTES], data[SEED_LOG_HEADER_BYTES:]
        if len(head) < SEED_LOG_HEADER_BYTES:
            return False
        if head != self.header:
            raise FleetError(f"{self._path} is of another run: other settings, model or number of steps")
        # Bytes after the last complete record come from an interrupted write.
        self._records += records[: len(self._following(records)) * self.record_bytes]
        self.take(bytes(self._records))
        self._control.resume(self.step, self.mean_square)
        return True

    @property
    def steps(self) -> int:
        """Number of steps of the whole run."""
        return int(self.settings.steps)

    def records(self, first: int) -> bytes:
        """Returns the records of the steps from `first` on."""
        return bytes(self._records[first * self.record_bytes :])

    def lacking(self, first: int) -> tuple[bytes, bool]:
        """Returns the data that a client after step `first` lacks: the records since, or a snapshot if it is
        smaller.

        Returns:
            The bytes, and True if they are a snapshot.
        """
        records = self.records(first)
        if len(records) > self.snapshot_bytes:
            return self.snapshot(), True
        return records, False

    def decide(self, answers: Sequence[Answer]) -> bytes:
        """Computes the next step from answers, in which all samples have the same weight.

        Args:
            answers: at least one.

        Returns:
            The step's record in the log.

        Raises:
            FleetError: an answer belongs to another step or is out of range, see `Answer.check`. Nothing has
                changed.
            OSError: the record cannot be written; the step is not complete.
        """
        if not answers:
            raise FleetError("no client has answered")
        for answer in answers:
            answer.check(self.settings, self.step)
        whole = sum_of(answers)
        d = [_divide(int(v), whole.samples) for v in whole.differences]
        return self._decide(d, _divide(whole.loss, whole.samples * evaluations(self.settings)))

    def decide_mean(self, mean: NDArray[np.float64]) -> bytes:
        """Computes the next step from an aggregator's result.

        Args:
            mean: a difference for each query and, at the end, the loss, nats, float64 [queries + 1].

        Returns:
            The step's record in the log.

        Raises:
            FleetError: `mean` has another shape or is not finite. Nothing has changed.
            OSError: the record cannot be written; the step is not complete.
        """
        values = np.asarray(mean, np.float64)
        if values.shape != (self.settings.queries + 1,) or not np.isfinite(values).all():
            raise FleetError(f"`mean` must have {self.settings.queries + 1} finite numbers. Received: {mean!r}.")
        # Half away from zero, as the core divides.
        *d, loss = (int(np.copysign(np.floor(abs(v) * 65536 + 0.5), v)) for v in values)
        return self._decide(d, loss)

    def _decide(self, d: Sequence[int], loss: int) -> bytes:
        if self.step == self.steps:
            raise FleetError(f"the run is over: it has {self.steps} steps")
        clamped = [max(-_MOST_MEAN, min(v, _MOST_MEAN)) for v in d]
        self._control.decide(np.array(clamped, np.int64), max(-_MOST_MEAN, min(loss, _MOST_MEAN)))
        record = StepRecord.write(self._control, self.checksum)
        try:
            self._writer.append(lambda _: record)
        except OSError:
            self._control.resume(self.step, self.mean_square)
            raise
        self._records += record
        self.take(record)
        return record

    def close(self) -> None:
        """Syncs the log to the disk and closes it."""
        self._writer.close()


def _divide(value: int, by: int) -> int:
    """Divides and rounds half away from zero, as the core's ``zo_divide``."""
    return (2 * abs(value) + by) // (2 * by) * (1 if value > 0 else -1)
