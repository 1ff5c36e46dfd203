"""The evaluation of a loaded model on a data set: mean loss, accuracy, outputs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..converters.metadata import ZoLoss
from ..data import Data, labelled, part_scores, to_real
from ..runtime import Runtime

Watch = Callable[[Sequence[int]], Iterable[int]]
"""Passes the numbers of the batches on, one by one: the place for a progress bar."""


@dataclass(frozen=True)
class Evaluation:
    """The result of an evaluation."""

    samples: int  # number of all samples
    labelled: int  # number of samples with a label, the ones that count
    loss_sum: int  # sum of the labelled samples' losses, of which 2^16 are worth `unit`
    correct: int  # number of correct classes, or of correct 0/1 outputs; 0 for the mean squared error
    counts: int  # number of labelled classes or 0/1 outputs; 0 for the mean squared error
    unit: float  # real value of a loss of 1, see `ZoLoss`
    #: of a loss of several parts by key: sum and number of scores, see `tflm_zo.data.part_scores`
    scores: Mapping[str, tuple[float, float]] = field(default_factory=dict)

    @property
    def parts(self) -> dict[str, float]:
        """The accuracy of each part of a loss by its key, or the mean absolute error of a regression."""
        return {key: total / count for key, (total, count) in self.scores.items() if count}

    def __add__(self, other: Evaluation) -> Evaluation:
        """Returns the result on both sets of samples."""
        scores = {
            key: (total + other.scores[key][0], count + other.scores[key][1])
            for key, (total, count) in self.scores.items()
        }
        return Evaluation(
            samples=self.samples + other.samples,
            labelled=self.labelled + other.labelled,
            loss_sum=self.loss_sum + other.loss_sum,
            correct=self.correct + other.correct,
            counts=self.counts + other.counts,
            unit=self.unit,
            scores=scores,
        )

    @property
    def loss(self) -> float:
        """The mean loss of the labelled samples, in nats (cross-entropies) or the output's unit squared."""
        return self.loss_sum / 65536 / self.labelled * self.unit

    @property
    def accuracy(self) -> float | None:
        """Share of correct outputs, 0..1; None for the mean squared error."""
        return self.correct / self.counts if self.counts else None

    def values(self) -> dict[str, float]:
        """Returns the "loss" and, if there is one, the "accuracy", for a history; of several parts each part's value
        by its key.
        """
        accuracy = {} if self.accuracy is None else {"accuracy": self.accuracy}
        return {"loss": self.loss, **accuracy, **self.parts}


def _batches(samples: int, batch: int, watch: Watch | None) -> Iterator[tuple[NDArray[np.intp], int]]:
    """Yields the sample numbers of each batch, and how many of them are no padding of the last batch."""
    starts = range(0, samples, batch)
    for at in starts if watch is None else watch(starts):
        rows = np.arange(at, at + batch)
        used = min(batch, samples - at)
        rows[used:] = at
        yield rows, used


def evaluate(runtime: Runtime, data: Data, watch: Watch | None = None) -> Evaluation:
    """Evaluates the model with its present weights on samples with at least one label, which replace the runtime's
    inputs and labels. `watch` wraps the iterator of batches, for a progress bar.
    """
    loss, labels = runtime.metadata.known_loss, data.labels
    total, right = 0, 0
    scores = np.zeros((len(loss.parts), 2))
    for losses, hits in _measured(runtime, data, watch):
        total += int(losses.sum(dtype=np.int64))
        if hits is not None and loss.parts:
            scores += hits
        elif hits is not None:
            right += int(hits.sum())
    counts = int(_known(labels, loss).sum()) if loss.has_answers else 0
    return Evaluation(
        samples=len(labels),
        labelled=int(labelled(labels, loss.kind).sum()),
        loss_sum=total,
        correct=right,
        counts=counts,
        unit=loss.unit,
        scores={part.key: (float(a), float(b)) for part, (a, b) in zip(loss.parts, scores, strict=True)},
    )


def losses_of(runtime: Runtime, data: Data) -> tuple[NDArray[np.float64], NDArray[np.float64] | None]:
    """Evaluates the model on labelled samples. Returns the loss of each, see `Evaluation.loss`, and, unless the loss is
    the mean squared error, the share of its labelled outputs that are right.
    """
    kept = labelled(data.labels, runtime.metadata.known_loss.kind)
    found = list(_measured(runtime, data, None))
    losses = np.concatenate([losses for losses, _ in found])[kept] / 65536 * runtime.metadata.loss_unit
    if not runtime.metadata.known_loss.has_answers:
        return losses, None
    hits = np.concatenate([hits.reshape(len(hits), -1) for _, hits in found if hits is not None])[kept]
    known = _known(data.labels, runtime.metadata.known_loss).reshape(len(data), -1)[kept]
    return losses, hits.sum(1) / known.sum(1)


def integer_losses(runtime: Runtime, data: Data, watch: Watch | None = None) -> NDArray[np.int32]:
    """Returns the loss of each sample as a device has it, of which 2^16 are worth `ZoLoss.unit`, int32 [samples]."""
    return np.concatenate([losses for losses, _ in _measured(runtime, data, watch)])


def _measured(runtime: Runtime, data: Data, watch: Watch | None) -> Iterator[tuple[NDArray[Any], NDArray[Any] | None]]:
    """Yields each batch's losses, unit 2^-16, and which outputs are right; None with the mean squared error, and
    `part_scores` of a sum.
    """
    labels, command, loss = data.labels, runtime.command(), runtime.metadata.known_loss
    for rows, used in _batches(len(labels), runtime.samples_at_once, watch):
        runtime.feed([x[rows] for x in data.inputs], labels[rows])
        runtime.invoke(command)
        if loss.parts:
            outputs = [output[:used] for output in runtime.outputs()]
            details = [runtime.output_details(i)[2:] for i in range(len(outputs))]
            yield runtime.losses()[:used].copy(), part_scores(outputs, details, labels[rows][:used], loss)
        else:
            hits = _hits(runtime, labels[rows])[:used] if loss.has_answers else None
            yield runtime.losses()[:used].copy(), hits


def _known(labels: NDArray[Any], loss: ZoLoss) -> NDArray[np.bool_]:
    """Returns which answers have a label; of a sequence whose largest output counts, it is one answer."""
    return np.asarray((labels.max(1) if _of_largest(labels, loss) else labels) >= 0)


def _of_largest(labels: NDArray[Any], loss: ZoLoss) -> bool:
    return loss.over == "largest" and labels.ndim > 2


def _hits(runtime: Runtime, labels: NDArray[Any]) -> NDArray[np.bool_]:
    """Returns which classes, or 0 and 1, of the output that the loss reads are right, in the shape of `_known`."""
    loss = runtime.metadata.known_loss
    output = runtime.outputs()[loss.output]
    if loss.of_classes:
        # A guess is never -1, so a sample without a label is never correct.
        return np.asarray(output.reshape(*labels.shape, loss.classes).argmax(-1) == labels)
    _, _, scale, zero_point = runtime.output_details(loss.output)
    guesses = to_real(output.reshape(labels.shape), scale, zero_point) > (0.5 if loss.squashed else 0.0)
    if _of_largest(labels, loss):
        return np.asarray((guesses & (labels >= 0)).any(1) == labels.max(1))
    return np.asarray(guesses == labels)


def predict(runtime: Runtime, inputs: list[NDArray[Any]], watch: Watch | None = None) -> NDArray[Any]:
    """Returns the output that the loss reads (without a loss the first output), in the model's own dtype, [samples,
    ...]. Inputs are those that `tflm_zo.data.prepare_samples` returns; they replace the runtime's. `watch` is as for
    `evaluate`.
    """
    loss = runtime.metadata.loss
    return every_output(runtime, inputs, watch)[0 if loss is None else loss.output]


def every_output(runtime: Runtime, inputs: list[NDArray[Any]], watch: Watch | None = None) -> list[NDArray[Any]]:
    """Returns all outputs for all samples, [samples, ...] each. For arguments see `predict`."""
    outputs = []
    for rows, used in _batches(len(inputs[0]), runtime.samples_at_once, watch):
        runtime.feed([x[rows] for x in inputs], None)
        runtime.invoke()
        outputs.append([output[:used] for output in runtime.outputs()])
    return [np.concatenate(column) for column in zip(*outputs, strict=True)]
