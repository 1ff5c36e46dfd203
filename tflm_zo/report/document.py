"""The data of a report: the JSON in its page, from which the page is drawn.

docs/reports.md describes it for users. A new field keeps `VERSION`; a removed or changed field raises it.
"""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass
from typing import Any, Final

from .._version import __version__

VERSION: Final = 1
MADE_BY: Final = f"tflm-zo {__version__}"


@dataclass(frozen=True)
class Fact:
    """A fact about a run: its name and its formatted value."""

    name: str
    value: str


@dataclass(frozen=True)
class Curve:
    """Mean losses of a run's steps, one entry for each range of consecutive steps."""

    steps: tuple[int, ...]  # number of complete steps at the end of the range
    equivalents: tuple[float, ...]  # forward equivalents of the run until then
    mean: tuple[float, ...]  # mean loss of the range's steps
    least: tuple[float, ...]  # smallest loss of them
    most: tuple[float, ...]  # largest loss of them


@dataclass(frozen=True)
class Measured:
    """A measurement of the run's weights on a fixed data set."""

    step: int  # number of complete steps before it
    equivalents: float  # forward equivalents of the run until then
    loss: float  # mean loss, nats (cross-entropies) or the output's unit squared
    accuracy: float | None  # share of correct classes, 0..1; None without classes
    samples: int  # number of labelled samples
    kept: bool  # True for the measurement of the run's final weights


@dataclass(frozen=True)
class Histogram:
    """A histogram of the weight changes of a layer."""

    first: int  # smallest change of the first bin, LSB
    width: int  # width of a bin, LSB; odd, so that weights that stay are in the middle of theirs
    counts: tuple[int, ...]  # weights in each bin


@dataclass(frozen=True)
class TensorChange:
    """The changes of a trainable tensor in a run."""

    layer: str  # name of the layer
    tensor: str  # "weights" or "biases"
    trained_by: str  # "node perturbation", "exact gradient", "weight perturbation", or "" if it was not trained
    size: int  # number of its values
    moved: int  # number of changed values
    mean_move: float  # mean magnitude of the changes of all values, LSB
    largest_move: int  # largest magnitude of a change, LSB
    bound: int | None  # largest allowed magnitude of a weight, LSB; None for biases
    at_bound_before: int  # number of weights of that magnitude before the run
    at_bound: int  # number of weights of that magnitude after the run
    histogram: Histogram | None  # histogram of the changes; None without changes


@dataclass(frozen=True)
class Evaluated:
    """The evaluation of weights."""

    loss: float  # mean loss
    accuracy: float | None  # share of correct outputs; None for the mean squared error


@dataclass(frozen=True)
class Classes:
    """Results by class, in columns: one entry for each class with samples."""

    numbers: tuple[int, ...]  # numbers of the classes
    samples: tuple[int, ...]  # number of samples of each
    right_before: tuple[int, ...]  # number of right samples of each before the run
    right: tuple[int, ...]  # number of right samples of each after the run


@dataclass(frozen=True)
class Mistake:
    """A frequent mistake: numbers of samples of a class that were classified as another one."""

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
    classes: Classes | None  # results by class; None without classes
    confusion_before: tuple[tuple[int, ...], ...]  # samples [true][predicted]; empty without or of over 32 classes
    confusion: tuple[tuple[int, ...], ...]  # the same after the run
    mistakes: tuple[Mistake, ...]  # the 30 most frequent mistakes after the run


@dataclass(frozen=True)
class Landscape:
    """A loss landscape: losses around the kept weights, along two directions of random signs."""

    seeds: tuple[int, int]  # seeds of the two directions
    offsets: tuple[int, ...]  # distances along either direction, LSB of every weight
    losses: tuple[tuple[float, ...], ...]  # mean losses [second direction][first direction]
    samples: int  # number of samples in each mean


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
    ram_bytes: int  # total RAM, bytes
    arena_is_measured: bool  # False if the arena is an upper bound
    flash_bytes: int  # upper bound of the flash that training adds to inference, without the model, bytes
    batch: int  # number of samples in an invoke
    minibatch: int  # number of samples in a step


@dataclass(frozen=True)
class Replayed:
    """The replay that reproduces the run's model."""

    command: str  # command line of the replay
    sha256: str  # SHA-256 of the written file, hexadecimal


@dataclass(frozen=True)
class RunReport:
    """A run."""

    name: str  # name of the run: the log's name without the ending
    log: str  # path of the log, as it was given or found
    model: str  # path of the ZO model, as it was given or found
    fingerprint: str  # fingerprint of the ZO model, hexadecimal
    kind: str  # "seed log" or "snapshot log"
    steps: int  # number of complete steps in the log
    planned_steps: int  # number of steps of the whole run
    kept_step: int  # step of the weights in this report
    equivalents: float  # forward equivalents of the steps in the log
    notes: tuple[str, ...]  # remarks on missing parts of the log
    facts: tuple[Fact, ...]  # settings and size of the run
    curve: Curve  # losses of the steps
    loss_unit: str  # unit of the losses
    measurements: tuple[Measured, ...]  # measurements of the run, in order
    layers: tuple[TensorChange, ...]  # changes of each trainable tensor
    evaluation: Evaluation | None  # the model before and after on data; None without data
    landscape: Landscape | None  # losses around the kept weights, or None
    memory: Memory | None  # memory of the run on a device; None if no device can train the model
    replay: Replayed  # command that reproduces the model


@dataclass(frozen=True)
class RunsReport:
    """A report of several runs, which share pictures where possible."""

    runs: tuple[RunReport, ...]
    made_by: str = MADE_BY
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

    segment: int  # number of its subgraph
    name: str  # name of the operator
    output: str  # name of its output
    shape: tuple[int, ...]  # shape of its output
    weights: int  # number of its weights
    trainable: bool  # True if the weights can be trained
    macs: int  # number of multiply-accumulates in an invoke


@dataclass(frozen=True)
class TrainableLayer:
    """A trainable tensor of a ZO model, or an untrained layer."""

    layer: str  # name of the layer
    operator: str  # name of its operator
    values: int  # number of its weights or biases
    tensor: str  # "weights" or "biases"
    trained_by: str  # as in `TensorChange`; "" if it is not trained
    reason: str  # reason why it is not trained, or ""


@dataclass(frozen=True)
class ModelReport:
    """A report of a model."""

    name: str  #: path of the model
    facts: tuple[Fact, ...]  #: properties of the model
    ports: tuple[ModelPort, ...]  #: its inputs and outputs
    operators: tuple[Operator, ...]  #: its operators, in execution order
    layers: tuple[TrainableLayer, ...]  #: trainable and untrained layers; empty for a plain model
    made_by: str = MADE_BY  #: program that created the report
    version: int = VERSION
    kind: str = "model"


def as_json(report: RunsReport | ModelReport) -> str:
    """Returns a report as JSON, on one line."""
    return json.dumps(as_data(report), ensure_ascii=False, separators=(",", ":"), allow_nan=False)


def as_data(report: RunsReport | ModelReport) -> dict[str, Any]:
    """Returns a report as numbers, strings, lists and dictionaries."""
    return dataclasses.asdict(report)
