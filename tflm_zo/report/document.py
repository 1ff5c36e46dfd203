"""The data of a report: the JSON in its page, from which the page is drawn.

docs/reports.md describes it for users. A new field keeps `VERSION`; a removed or changed field raises it.
"""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass
from typing import Any, Final

VERSION: Final = 1


@dataclass(frozen=True)
class Fact:
    """A fact about a run: its name and its formatted value."""

    name: str
    value: str


@dataclass(frozen=True)
class Curve:
    """Mean losses of a run's steps, one entry for each range of consecutive steps."""

    steps: tuple[int, ...]  # number of whole steps at the end of the range
    equivalents: tuple[float, ...]  # forward equivalents of the run until then
    mean: tuple[float, ...]  # mean loss of the range's steps
    least: tuple[float, ...]  # smallest loss of them
    most: tuple[float, ...]  # largest loss of them


@dataclass(frozen=True)
class Measured:
    """A measurement of the run's weights on a fixed data set."""

    step: int  # number of whole steps before it
    equivalents: float  # forward equivalents of the run until then
    loss: float  # mean loss, nats (cross-entropies) or the output's unit squared
    accuracy: float | None  # share of right classes, 0..1; None where the loss is not of classes
    samples: int  # number of labelled samples
    kept: bool  # True for the one whose weights the run has handed over


@dataclass(frozen=True)
class Histogram:
    """A histogram of the weight changes of a layer."""

    first: int  # smallest move of the first bin, LSB
    width: int  # moves of a bin, LSB; odd, so that weights that stay are in the middle of theirs
    counts: tuple[int, ...]  # weights in each bin


@dataclass(frozen=True)
class TensorChange:
    """The changes of a trainable tensor in a run."""

    layer: str  # name of the layer, for people
    tensor: str  # "weights" or "biases"
    # "node perturbation", "exact gradient", "weight perturbation", or "" where the run left the tensor as it
    # was
    trained_by: str
    size: int  # number of its values
    moved: int  # number of values that are not what they were
    mean_move: float  # mean of the moves' magnitudes, over all values, LSB
    largest_move: int  # largest magnitude of a move, LSB
    # largest magnitude that a weight may have, LSB; None for biases, which have no such bound
    bound: int | None
    at_bound_before: int  # number of weights of that magnitude before the run
    at_bound: int  # number of weights of that magnitude after the run
    histogram: Histogram | None  # how far the values moved; None where none did


@dataclass(frozen=True)
class Evaluated:
    """The evaluation of weights: mean loss and, except for the mean squared error, the share of correct
    outputs.
    """

    loss: float
    accuracy: float | None


@dataclass(frozen=True)
class Classes:
    """Results by class, in columns: one entry for each class with samples."""

    numbers: tuple[int, ...]  # numbers of the classes
    samples: tuple[int, ...]  # number of samples of each
    right_before: tuple[int, ...]  # number of right samples of each before the run
    right: tuple[int, ...]  # number of right samples of each after the run


@dataclass(frozen=True)
class Mistake:
    """A frequent mistake: numbers of samples of a class that were classified as another one, after and before
    the run.
    """

    is_of: int
    taken_for: int
    samples_before: int
    samples: int


@dataclass(frozen=True)
class Evaluation:
    """The evaluation of the model before and after the run."""

    data: str  # name of the data
    samples: int  # number of labelled samples
    before: Evaluated  # loss and accuracy with the weights before the first step
    after: Evaluated  # loss and accuracy with the kept weights
    classes: Classes | None  # results by class; None where the loss is not of classes
    # samples by class [true][predicted]; empty for more than 32 classes or another loss
    confusion_before: tuple[tuple[int, ...], ...]
    confusion: tuple[tuple[int, ...], ...]  # the same after the run
    mistakes: tuple[Mistake, ...]  # the 30 most frequent mistakes after the run


@dataclass(frozen=True)
class Landscape:
    """A loss landscape: losses around the kept weights, along two directions of random signs."""

    seeds: tuple[int, int]  # seeds of the two directions
    offsets: tuple[int, ...]  # distances along either direction, LSB of every weight
    losses: tuple[tuple[float, ...], ...]  # mean losses [second direction][first direction]
    samples: int  # number of samples that each loss is the mean of


@dataclass(frozen=True)
class MemoryPart:
    """A part of a device's RAM: its name, its size in bytes, and a description."""

    name: str
    bytes: int
    about: str


@dataclass(frozen=True)
class Memory:
    """The memory of the run on a device, as `tflm-zo firmware` computes it."""

    parts: tuple[MemoryPart, ...]  # parts of the RAM
    ram_bytes: int  # bytes of RAM in all
    arena_is_measured: bool  # False where the arena is an upper bound
    flash_bytes: int  # bytes of flash that training takes beyond inference, without the model, at most
    batch: int  # samples of an invoke
    minibatch: int  # samples of a step


@dataclass(frozen=True)
class Replayed:
    """The replay that reproduces the run's model."""

    command: str  # command line that makes it
    sha256: str  # SHA-256 of the file that it writes, hexadecimal


@dataclass(frozen=True)
class RunReport:
    """A run."""

    name: str  # name of the run, that of its log without the ending
    log: str  # path of the log, as it was given or found
    model: str  # path of the ZO model, as it was given or found
    fingerprint: str  # fingerprint of the ZO model, which the log names, hexadecimal
    kind: str  # "seed log" or "snapshot log"
    steps: int  # number of whole steps in the log
    planned_steps: int  # number of steps of the whole run
    kept_step: int  # number of steps after which the weights are those of this report
    equivalents: float  # forward equivalents of the steps in the log
    notes: tuple[str, ...]  # sentences about what the log lacks
    facts: tuple[Fact, ...]  # what was run
    curve: Curve  # losses of the steps
    loss_unit: str  # unit of the losses
    measurements: tuple[Measured, ...]  # measurements of the run, in order
    layers: tuple[TensorChange, ...]  # what changed in each trainable tensor
    evaluation: Evaluation | None  # the model before and after on data; None without data
    landscape: Landscape | None  # losses around the kept weights; None where they were not asked for
    memory: Memory | None  # what a device takes for the run; None where the model has what no device trains
    replay: Replayed  # how the model is made anew


@dataclass(frozen=True)
class RunsReport:
    """A report of several runs, which share pictures where possible."""

    runs: tuple[RunReport, ...]
    made_by: str
    version: int = VERSION
    kind: str = "runs"


@dataclass(frozen=True)
class ModelPort:
    """An input or output of a model; scale and zero point are None if it is not quantized."""

    side: str
    name: str
    type: str
    shape: tuple[int, ...]
    scale: float | None
    zero_point: int | None


@dataclass(frozen=True)
class Operator:
    """An operator of a model."""

    segment: int  # number of the subgraph that it is in
    name: str  # name of the operator
    output: str  # name of its output, for people
    shape: tuple[int, ...]  # shape of its output
    weights: int  # number of its weights
    trainable: bool  # True if these are variable
    macs: int  # multiply-accumulates of one invoke


@dataclass(frozen=True)
class TrainableLayer:
    """A trainable tensor of a ZO model, or an untrained layer."""

    layer: str  # name of the layer, for people
    operator: str  # name of its operator
    values: int  # number of its weights or biases
    tensor: str  # "weights" or "biases"
    trained_by: str  # as in `TensorChange`; "" where it is not trained
    reason: str  # why it is not trained; "" where it is


@dataclass(frozen=True)
class ModelReport:
    """A report of a model.

    Attributes:
        name: path of the model.
        facts: properties of the model.
        ports: its inputs and outputs.
        operators: its operators, in execution order.
        layers: trainable and untrained layers; empty for a plain model.
        made_by: program that created the report.
    """

    name: str
    facts: tuple[Fact, ...]
    ports: tuple[ModelPort, ...]
    operators: tuple[Operator, ...]
    layers: tuple[TrainableLayer, ...]
    made_by: str
    version: int = VERSION
    kind: str = "model"


def as_json(report: RunsReport | ModelReport) -> str:
    """Returns a report as JSON, on one line."""
    return json.dumps(as_data(report), ensure_ascii=False, separators=(",", ":"), allow_nan=False)


def as_data(report: RunsReport | ModelReport) -> dict[str, Any]:
    """Returns a report as numbers, strings, lists and dictionaries."""
    return dataclasses.asdict(report)
