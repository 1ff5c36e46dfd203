"""What a report says, as data: the JSON that its page is drawn from, and that is in the page, too.

docs/reports.md describes it for those who read it. A field that is added keeps `VERSION`; one that is removed
or means something else raises it.
"""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass
from typing import Any, Final

VERSION: Final = 1


@dataclass(frozen=True)
class Fact:
    """A line of what was run: its name and its value, for people."""

    name: str
    value: str


@dataclass(frozen=True)
class Curve:
    """Mean losses of a run's steps, in equal ranges of consecutive steps; one entry a range.

    Attributes:
        steps: number of whole steps at the end of the range.
        equivalents: forward equivalents of the run until then.
        mean, least, most: mean, smallest and largest loss of the range's steps.
    """

    steps: tuple[int, ...]
    equivalents: tuple[float, ...]
    mean: tuple[float, ...]
    least: tuple[float, ...]
    most: tuple[float, ...]


@dataclass(frozen=True)
class Measured:
    """A measurement of the run's weights on data that are always the same.

    Attributes:
        step: number of whole steps before it.
        equivalents: forward equivalents of the run until then.
        loss: mean loss, nats (cross-entropies) or the output's unit squared.
        accuracy: share of right classes, 0..1; None where the loss is not of classes.
        samples: number of labelled samples.
        kept: True for the one whose weights the run has handed over.
    """

    step: int
    equivalents: float
    loss: float
    accuracy: float | None
    samples: int
    kept: bool


@dataclass(frozen=True)
class Histogram:
    """How far the weights of a layer moved.

    Attributes:
        first: smallest move of the first bin, LSB.
        width: moves of a bin, LSB; odd, so that weights that stay are in the middle of theirs.
        counts: weights in each bin.
    """

    first: int
    width: int
    counts: tuple[int, ...]


@dataclass(frozen=True)
class TensorChange:
    """What a run has changed in a trainable tensor of a layer.

    Attributes:
        layer: name of the layer, for people.
        tensor: "weights" or "biases".
        trained_by: "node perturbation", "exact gradient", "weight perturbation", or "" where the run left the
            tensor as it was.
        size: number of its values.
        moved: number of values that are not what they were.
        mean_move: mean of the moves' magnitudes, over all values, LSB.
        largest_move: largest magnitude of a move, LSB.
        bound: largest magnitude that a weight may have, LSB; None for biases, which have no such bound.
        at_bound_before, at_bound: number of weights of that magnitude before and after.
        histogram: how far the values moved; None where none did.
    """

    layer: str
    tensor: str
    trained_by: str
    size: int
    moved: int
    mean_move: float
    largest_move: int
    bound: int | None
    at_bound_before: int
    at_bound: int
    histogram: Histogram | None


@dataclass(frozen=True)
class Evaluated:
    """Weights on data: mean loss and, unless that is the mean squared error, the share of right outputs."""

    loss: float
    accuracy: float | None


@dataclass(frozen=True)
class Classes:
    """Results by class: one entry for each class that has samples, in columns, since there may be thousands.

    Attributes:
        numbers: numbers of the classes.
        samples: number of samples of each.
        right_before, right: how many of them were right before and after.
    """

    numbers: tuple[int, ...]
    samples: tuple[int, ...]
    right_before: tuple[int, ...]
    right: tuple[int, ...]


@dataclass(frozen=True)
class Mistake:
    """Samples of one class that were taken for another one after the run, and before it."""

    is_of: int
    taken_for: int
    samples_before: int
    samples: int


@dataclass(frozen=True)
class Evaluation:
    """The model before and after the run, on data that the report was given.

    Attributes:
        data: name of the data.
        samples: number of labelled samples.
        before, after: loss and accuracy with the weights before the first step and with those kept.
        classes: results by class; None where the loss is not of classes.
        confusion_before, confusion: number of samples by class [true][predicted]; empty where there are more
            than 32 classes, or the loss is not of classes.
        mistakes: the 30 most frequent mistakes after the run.
    """

    data: str
    samples: int
    before: Evaluated
    after: Evaluated
    classes: Classes | None
    confusion_before: tuple[tuple[int, ...], ...]
    confusion: tuple[tuple[int, ...], ...]
    mistakes: tuple[Mistake, ...]


@dataclass(frozen=True)
class Landscape:
    """Losses around the kept weights, along two directions of random signs.

    Attributes:
        seeds: seeds of the two directions.
        offsets: distances along either direction, LSB of every weight.
        losses: mean losses [second direction][first direction].
        samples: number of samples that each loss is the mean of.
    """

    seeds: tuple[int, int]
    offsets: tuple[int, ...]
    losses: tuple[tuple[float, ...], ...]
    samples: int


@dataclass(frozen=True)
class MemoryPart:
    """A part of a device's RAM: what it is called, its bytes, and a line about it for people."""

    name: str
    bytes: int
    about: str


@dataclass(frozen=True)
class Memory:
    """The memory that a device takes for the run, as `tflm-zo firmware` says it.

    Attributes:
        parts: parts of the RAM.
        ram_bytes: bytes of RAM in all.
        arena_is_measured: False where the arena is an upper bound.
        flash_bytes: bytes of flash that training takes beyond inference, without the model, at most.
        batch: samples of an invoke.
        minibatch: samples of a step.
    """

    parts: tuple[MemoryPart, ...]
    ram_bytes: int
    arena_is_measured: bool
    flash_bytes: int
    batch: int
    minibatch: int


@dataclass(frozen=True)
class Replayed:
    """How the run's model is made anew.

    Attributes:
        command: command line that makes it.
        sha256: SHA-256 of the file that it writes, hexadecimal.
    """

    command: str
    sha256: str


@dataclass(frozen=True)
class RunReport:
    """A run.

    Attributes:
        name: name of the run, that of its log without the ending.
        log, model: paths of the log and of the ZO model, as they were given or found.
        fingerprint: fingerprint of the ZO model, which the log names, hexadecimal.
        kind: "seed log" or "snapshot log".
        steps: number of whole steps in the log.
        planned_steps: number of steps of the whole run.
        kept_step: number of steps after which the weights are those of this report.
        equivalents: forward equivalents of the steps in the log.
        notes: sentences about what the log lacks.
        facts: what was run.
        curve: losses of the steps.
        loss_unit: unit of the losses.
        measurements: measurements of the run, in order.
        layers: what changed in each trainable tensor.
        evaluation: the model before and after on data; None without data.
        landscape: losses around the kept weights; None where they were not asked for.
        memory: what a device takes for the run; None where the model has what no device trains.
        replay: how the model is made anew.
    """

    name: str
    log: str
    model: str
    fingerprint: str
    kind: str
    steps: int
    planned_steps: int
    kept_step: int
    equivalents: float
    notes: tuple[str, ...]
    facts: tuple[Fact, ...]
    curve: Curve
    loss_unit: str
    measurements: tuple[Measured, ...]
    layers: tuple[TensorChange, ...]
    evaluation: Evaluation | None
    landscape: Landscape | None
    memory: Memory | None
    replay: Replayed


@dataclass(frozen=True)
class RunsReport:
    """A report of runs, which are laid over each other where they can be."""

    runs: tuple[RunReport, ...]
    made_by: str
    version: int = VERSION
    kind: str = "runs"


@dataclass(frozen=True)
class ModelPort:
    """An input or output of a model; scale and zero point are None where it is not quantized."""

    side: str
    name: str
    type: str
    shape: tuple[int, ...]
    scale: float | None
    zero_point: int | None


@dataclass(frozen=True)
class Operator:
    """An operator of a model.

    Attributes:
        segment: number of the subgraph that it is in.
        name: name of the operator.
        output: name of its output, for people.
        shape: shape of its output.
        weights: number of its weights.
        trainable: True if these are variable.
        macs: multiply-accumulates of one invoke.
    """

    segment: int
    name: str
    output: str
    shape: tuple[int, ...]
    weights: int
    trainable: bool
    macs: int


@dataclass(frozen=True)
class TrainableLayer:
    """A trainable tensor of a ZO model, or a layer that it does not train.

    Attributes:
        layer: name of the layer, for people.
        operator: name of its operator.
        values: number of its weights or biases.
        tensor: "weights" or "biases".
        trained_by: as in `TensorChange`; "" where it is not trained.
        reason: why it is not trained; "" where it is.
    """

    layer: str
    operator: str
    values: int
    tensor: str
    trained_by: str
    reason: str


@dataclass(frozen=True)
class ModelReport:
    """A report of a model.

    Attributes:
        name: path of the model, as it was given.
        facts: what the model is.
        ports: its inputs and outputs.
        operators: its operators, in execution order.
        layers: layers that it trains, and those that it does not; empty for a plain model.
        made_by: program that made the report.
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
