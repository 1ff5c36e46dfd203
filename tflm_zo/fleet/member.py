"""Members of a fleet, servers and clients: their steps, weights, and answers for a step."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Final

import numpy as np
from numpy.typing import NDArray

from ..converters import Model, read_metadata
from ..core import SEED_LOG_HEADER_BYTES, Control, CSettings, SeedLogHeader, StepRecord
from ..data import Labels, Samples, prepare
from ..logs import MAGIC, Log, fingerprint
from ..logs.layout import SEED_LOG, Records, ending
from ..logs.replay import Arrays, Replay, checksum_of
from ..runtime import load
from ..training.costs import block_segments
from ..training.evaluation import Evaluation, evaluate
from ..training.executors import LocalExecutor

# Of a snapshot: step, checksum of the records so far, of the weights, and the running mean of d^2; then
# weights and fractions of each trainable tensor.
_SNAPSHOT: Final = struct.Struct("<IIIq")


class Position:
    """The weights after some steps of a run, with the state for the next step. Raises FleetError if the header is no
    seed log's, or belongs to another model.

    Args:
        model: the ZO model.
        header: header of the run's seed log, 132 bytes.
        weights: weights and fractions, which are updated in place; None: copies of the model's.

    Attributes:
        takes_snapshots: True if it accepts snapshots.
        settings: settings of the run.
        steps: number of steps of the whole run.
        record_bytes: bytes of a record.
        snapshot_bytes: bytes of a snapshot.
        weights: weights and fractions, arrays by tensor name.
        step: number of complete steps.
        checksum: checksum of the header and the records so far.
        mean_square: the control unit's running mean of d^2, unit 2^-32.
    """

    takes_snapshots: ClassVar[bool] = True

    def __init__(self, model: Model, header: bytes, weights: tuple[Arrays, Arrays] | None = None) -> None:
        found = SeedLogHeader.from_bytes(header)
        if found is None or len(header) != SEED_LOG_HEADER_BYTES:
            raise FleetError(f"the run's header is {_why_no_header(header)}")
        if found.fingerprint != fingerprint(model):
            raise FleetError(
                f"the run is of model {found.fingerprint.hex()}, this one is {fingerprint(model).hex()}: all "
                "members of a fleet need the same ZO model"
            )
        self.header, self._header, self.settings = header, found, found.settings
        self._trainable, self._replay = read_metadata(model).trainable, Replay(model, weights)
        self.weights = self._replay.weights, self._replay.fractions
        self.snapshot_bytes = _SNAPSHOT.size + sum(a.nbytes for part in self.weights for a in part.values())
        self.steps, self.record_bytes = int(found.settings.steps), found.record_bytes
        self.step, self.mean_square, self.checksum = 0, 0, ending(header)

    @property
    def weights_checksum(self) -> int:
        """Checksum of all weights and fractions, 0..2^32-1."""
        return checksum_of(self._trainable, *self.weights)

    def take(self, records: bytes) -> int:
        """Applies complete records of the seed log, of the next steps, to the weights, and returns the number of steps.
        FleetError: a record does not continue the log; the message has the reason. No record was applied.
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
        """Returns the records at the beginning of some bytes that continue the steps so far."""
        parser = Records(self._header, self.checksum)
        parser.step = self.step
        return parser.take(records)[0]

    def _why_not(self, data: bytes, wanted: int) -> str:
        """Returns the reason why bytes do not begin with the record of step `wanted`."""
        if len(data) < self.record_bytes:
            return f"a record of {len(data)} bytes, those of this run have {self.record_bytes}"
        step = int.from_bytes(data[:4], "little")
        if step < wanted:
            return f"an old message: the record of step {step}, where that of step {wanted} follows"
        if step > wanted:
            return f"the record of step {step}, where those from step {wanted} on are missing"
        if step == self.steps:
            return f"the record of step {step} of a run of {step} steps"
        return f"the record of step {step} is damaged or of another run: its checksum does not follow from ours"

    def snapshot(self) -> bytes:
        """Returns the complete state as bytes, for a member that is far behind."""
        head = _SNAPSHOT.pack(self.step, self.checksum, self.weights_checksum, self.mean_square)
        return head + b"".join(a.tobytes() for part in self.weights for a in part.values())

    def take_snapshot(self, data: bytes) -> None:
        """Restores the state of a snapshot, earlier or later. Raises FleetError if the snapshot is damaged or belongs
        to another model. Nothing has changed.
        """
        if len(data) != self.snapshot_bytes:
            raise FleetError(f"a snapshot of {len(data)} bytes, those of this model have {self.snapshot_bytes}")
        step, checksum, wanted, mean_square = _SNAPSHOT.unpack_from(data)
        before, at = self.snapshot(), _SNAPSHOT.size
        self._set(data[at:])
        if self.weights_checksum != wanted or step > self.steps or mean_square < 0:
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


class RecordedPosition(Position):
    """A position that has all records of its steps, for members that lack them. See `Position`."""

    def __init__(self, model: Model, header: bytes) -> None:
        super().__init__(model, header)
        self._records = bytearray()

    def take(self, records: bytes) -> int:
        """Applies and stores the records of the next steps; see `Position.take`."""
        steps = super().take(records)
        self._records += records
        return steps

    def records(self, first: int) -> bytes:
        """Returns the records of the steps from `first` on."""
        return bytes(self._records[first * self.record_bytes :])

    def checksum_after(self, step: int) -> int:
        """Returns the checksum of the header and the records of the first steps."""
        return ending(bytes(self._records[: step * self.record_bytes]) if step else self.header)

    def resume(self, path: Path) -> bool:
        """Applies the steps of the run's log. Returns whether the file exists and has a complete header. Raises
        FleetError if the log belongs to another run.
        """
        data = path.read_bytes() if path.is_file() else b""
        head, records = data[:SEED_LOG_HEADER_BYTES], data[SEED_LOG_HEADER_BYTES:]
        if len(head) < SEED_LOG_HEADER_BYTES:
            return False
        if head != self.header:
            raise FleetError(
                f"{path} is the log of another run, with other settings, model or number of steps: choose another log"
            )
        # Bytes after the last complete record come from an interrupted write.
        RecordedPosition.take(self, records[: len(self._following(records)) * self.record_bytes])
        return True


def _why_no_header(data: bytes) -> str:
    if not data.startswith(MAGIC):
        return "none of a seed log"
    if data[: len(SEED_LOG)] == SEED_LOG:
        return "damaged: its checksum is wrong"
    version = int.from_bytes(data[len(MAGIC) : len(SEED_LOG)], "little")
    return (
        f"of version {version} of logs, this tflm_zo reads {SEED_LOG[-1]}: use the same version of tflm_zo everywhere"
    )


class FleetError(ValueError):
    """A message is damaged or belongs to another model, run, version or step. Nothing has changed."""


# Largest magnitude of a sample's loss, unit 2^-16: the range of the loss operator's int32.
_MOST_LOSS = 1 << 31


def evaluations(settings: CSettings) -> int:
    """Returns the number of forward passes of each sample in a step."""
    return int(settings.queries) + 1 if settings.estimator else 2 * int(settings.queries)


@dataclass(frozen=True)
class Answer:
    """A client's answer for a step."""

    step: int  #: number of the step.
    #: L(w + z) - L(w - z) of each query, summed over the client's minibatch (for a one-sided estimator L(w + z) -
    #: L(w)), int64 [queries], unit 2^-16 nat.
    differences: NDArray[np.int64]
    loss: int  #: sum of the losses of all evaluations of the step, unit 2^-16 nat.
    samples: int  #: number of samples in the minibatch, >= 1.

    def check(self, settings: CSettings, step: int) -> None:
        """Raises FleetError if an answer is not possible for a step."""
        if self.step != step:
            raise FleetError(f"an answer for step {self.step}, where step {step} is asked for")
        if self.differences.shape != (settings.queries,):
            raise FleetError(f"an answer of {self.differences.size} differences for {settings.queries} queries")
        if self.samples < 1:
            raise FleetError(f"an answer of {self.samples} samples")
        most = 2 * _MOST_LOSS * self.samples
        wrong = [int(d) for d in self.differences if not -most <= d <= most]
        if wrong:
            raise FleetError(f"a difference of {wrong[0] / 65536:g} nats of {self.samples} samples")
        if abs(self.loss) > _MOST_LOSS * self.samples * evaluations(settings):
            raise FleetError(f"a sum of losses of {self.loss / 65536:g} nats of {self.samples} samples")


def sum_of(answers: Sequence[Answer]) -> Answer:
    """Adds up the answers of several clients for the same step."""
    return Answer(
        answers[0].step,
        np.sum([a.differences for a in answers], axis=0, dtype=np.int64),
        sum(a.loss for a in answers),
        sum(a.samples for a in answers),
    )


def mean_of(answer: Answer, settings: CSettings) -> NDArray[np.float64]:
    """Returns the mean differences and, at the end, the mean loss of an answer, nats, float64 [queries + 1]."""
    loss = answer.loss / evaluations(settings)
    return np.array([*answer.differences, loss]) / 65536 / answer.samples


class Replica(Position):
    """A client's copy of a fleet's run, which answers for each step with its own data.

    Args:
        model: the ZO model.
        header: header of the run's seed log, 132 bytes.
        x: samples, as for `Trainer.fit`.
        y: labels, as for `Trainer.fit`.
        runtime: name of the runtime that runs the model.
        threads: number of threads. Does not affect results.

    Raises:
        FleetError: see `Position`.
        DataError: the data do not fit the model.
    """

    def __init__(
        self,
        model: Model,
        header: bytes,
        x: Samples,
        y: Labels | None = None,
        runtime: str = "litert",
        threads: int = 1,
    ) -> None:
        self.runtime = load(model, runtime, threads=threads)
        metadata = self.runtime.metadata
        super().__init__(model, header, self.runtime.all_weight_views())
        self._control = Control(self.settings, metadata.command_words, block_segments(metadata))
        self._executor = LocalExecutor(self.runtime, self._control, prepare(self.runtime, x, y))

    def answer(self) -> Answer:
        """Evaluates the next step's queries, without changing weights. Raises ValueError if the run has ended."""
        control = self._control
        control.resume(self.step, self.mean_square)
        loss, report, executed = 0, None, False
        try:
            while report is None:
                request = control.next()
                if request is None:
                    raise ValueError("the run is over")
                executed = True
                losses = self._executor.losses(request, request.start_segment)
                loss += int(losses.sum(dtype=np.int64))
                report, executed = control.report(losses), False
        except BaseException:
            self.runtime.execute(control.abandon(executed=executed))
            raise
        finally:
            self._executor.end_step()
        self.runtime.execute(control.withdraw(self.mean_square))
        s = self.settings
        return Answer(self.step, control.differences, loss, int(s.batch * s.parts))

    def evaluate(self, x: Samples, y: Labels | None = None) -> Evaluation:
        """Evaluates the weights on samples, see `Trainer.evaluate`."""
        return evaluate(self.runtime, prepare(self.runtime, x, y))
