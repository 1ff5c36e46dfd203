"""The server's state of a fleet: a seed log."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ..converters import Model, read_metadata
from ..core import Control, SeedLogHeader, StepRecord
from ..logs import LogWriter, fingerprint
from ..training.checks import SettingsError
from ..training.costs import block_segments
from ..training.lowering import weight_integers
from ..training.settings import Settings
from .member import Answer, FleetError, RecordedPosition, evaluations, sum_of

# Of a mean difference or loss that a record has room for, unit 2^-16.
_MOST_MEAN = 1 << 30


class FleetLog(RecordedPosition):
    """The run of a fleet at its server, which computes each step from the clients' answers. Its log is a
    normal seed log, for `tflm-zo replay`. With the mean of all answers it equals, bit for bit, the log of one
    run on all minibatches together.

    Args:
        model: the ZO model.
        settings: settings of weight perturbation; the minibatch is that of each client.
        steps: number of steps of the whole run.
        samples: largest number of training samples of a client.
        path: path of the log.
        resume: True to resume the run of an existing log, which must be the same run.
        replace: True to overwrite an existing log.

    Raises:
        SettingsError: the settings are not those of weight perturbation alone.
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
            weights=sum(t.size for t in metadata.trainable),
            blocks=len(metadata.blocks),
        )
        header = SeedLogHeader(integers, fingerprint(model), 0)
        super().__init__(model, header.to_bytes())
        self._control = Control(self.settings, metadata.command_words, block_segments(metadata))
        exists = resume and self.resume(Path(path))
        self._control.resume(self.step, self.mean_square)
        self._writer = LogWriter(path, header, keep=(self.step, 0) if exists else None, replace=replace or resume)

    def lacking(self, first: int, *, records_only: bool = False) -> tuple[bytes, bytes]:
        """Returns the data that a client after step `first` lacks, the records since or a smaller snapshot, and b"" for
        the other. With `records_only`, always the records.
        """
        records = self.records(first)
        return (records, b"") if records_only or len(records) <= self.snapshot_bytes else (b"", self.snapshot())

    def decide(self, answers: Sequence[Answer]) -> bytes:
        """Computes the next step from one answer or more, in which all samples have the same weight, and returns its
        record. FleetError: an answer belongs to another step or is out of range, see `Answer.check`; nothing has
        changed. OSError: the record cannot be written; the step is not complete.
        """
        if not answers:
            raise FleetError("no client has answered")
        for answer in answers:
            answer.check(self.settings, self.step)
        whole = sum_of(answers)
        return self._decide([*whole.differences.tolist(), whole.loss], whole.samples)

    def decide_mean(self, mean: NDArray[np.float64], samples: int) -> bytes:
        """Computes the next step from an aggregator's result, and returns its record. `mean`, of so many samples, has a
        difference for each query and, at the end, the loss, nats, float64 [queries + 1]. The exact integer sum is
        recovered from it by rounding, so the step equals that of one run on all samples. FleetError: `mean` has another
        shape or is not finite. Other errors are those of `decide`.
        """
        values = np.asarray(mean, np.float64)
        if values.shape != (self.settings.queries + 1,) or not np.isfinite(values).all():
            raise FleetError(f"`mean` must have {self.settings.queries + 1} finite numbers. Received: {mean!r}.")
        return self._decide(
            [round(v * n * 65536) for v, n in zip(values.tolist(), self._counts(samples), strict=True)], samples
        )

    def _counts(self, samples: int) -> list[int]:
        """Returns the numbers of values in the mean of each query's difference and in that of the losses."""
        return [samples] * int(self.settings.queries) + [samples * evaluations(self.settings)]

    def _decide(self, sums: Sequence[int], samples: int) -> bytes:
        """Computes the next step from sums of differences and, at the end, of losses."""
        if self.step == self.steps:
            raise FleetError(f"the run is over: it has {self.steps} steps")
        # Half away from zero, as the core's ``zo_divide``.
        means = [
            (2 * abs(value) + count) // (2 * count) * (1 if value > 0 else -1)
            for value, count in zip(sums, self._counts(samples), strict=True)
        ]
        *d, loss = (max(-_MOST_MEAN, min(v, _MOST_MEAN)) for v in means)
        self._control.decide(np.array(d, np.int64), loss)
        record = StepRecord.write(self._control, self.checksum)
        try:
            self._writer.append(lambda _: record)
        except OSError:
            self._control.resume(self.step, self.mean_square)
            raise
        self.take(record)
        return record

    def close(self) -> None:
        """Syncs the log to the disk and closes it."""
        self._writer.close()
