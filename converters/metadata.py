"""The metadata of a ZO model: its entry ``tflm_zo``, UTF-8 JSON."""

from __future__ import annotations

import dataclasses
import functools
import json
from collections.abc import Iterable
from typing import Annotated, Any, Final

import numpy as np
from pydantic import Field, TypeAdapter, ValidationError

from .check_graph import check_graph
from .constants import METADATA_NAME
from .errors import ConversionError
from .kernels import WITH_FILTERS
from .metadata_checks import LOOKING, NUMBERS, WITH_FACTORS, faults, misfits
from .model import Buffer, Model
from .model.schema import OPERATOR_NAMES
from .settings import MAX_QUERIES, SMALLEST_LIMIT, Parameters, parameters_of

#: Version of the metadata; readers refuse others.
METADATA_VERSION: Final = 1

#: Losses of a vector of logits and one class.
SOFTMAX_KINDS: Final = ("cross_entropy", "floor_log2")

# Operator of models that tflm_zo 0.1 made.
_INT16_LAYER: Final = "TFLM_ZO_FULLY_CONNECTED_16"
# Name that ends such a tensor of models whose weights were trained in part.
_MASK: Final = "/zo_mask"

# Keys of the JSON that differ from the fields' names.
_HEADROOM: Final = "head_room"

# Ranges for single values; `faults` checks relations between them.
_Index = Annotated[int, Field(ge=0, lt=2**31)]
_Count = Annotated[int, Field(ge=1, lt=2**31)]
_Number = Annotated[int, Field(ge=-(2**31), lt=2**31)]
_Int8 = Annotated[int, Field(ge=-128, le=127)]
_Scale = Annotated[float, Field(gt=0, allow_inf_nan=False)]
_Factor = Annotated[float, Field(allow_inf_nan=False)]
# Values of a loss that are not written.
_LOSS_DEFAULTS: Final = (("unit", 1.0), ("places", 1), ("over", "sum"), ("parts", ()))
_KINDS: Final = ("layer", "add", *dict.fromkeys((*NUMBERS, *LOOKING, *WITH_FACTORS)))


@dataclasses.dataclass(frozen=True)
class ZoLossPart:
    """A part of a loss "sum": the loss of some channels of an output, at each of its places."""

    key: str  #: name of its labels: the output, with a range if it has not all channels.
    kind: Annotated[str, Field(pattern="^(cross_entropy|binary_cross_entropy|mse|mae|huber)$")]
    output: _Index  #: number of the original output.
    weight: _Scale  #: factor of its loss.
    scale: _Scale  #: as of `ZoLoss`.
    zero_point: _Int8  #: as of `ZoLoss`.
    first: _Index  #: number of its first value in the loss's input.
    stride: _Count  #: values from one place to the next.
    places: _Count  #: number of places.
    begin: _Index  #: number of its first channel in the output's last dimension.
    channels: _Count  #: values of a place: classes, binary outputs, or values of a regression.
    squashed: bool  #: as of `ZoLoss`.

    @property
    def labels(self) -> int:
        """Number of labels or targets of a place."""
        return 1 if self.kind == "cross_entropy" else self.channels

    @property
    def delta(self) -> int:
        """Level from which on an error counts linearly: Huber's loss has it at a real value of 1."""
        return {"mse": 255, "mae": 0, "huber": min(254, max(1, round(1 / self.scale)))}.get(self.kind, 0)

    @property
    def of_value(self) -> float:
        """Real loss of a place per unit of its integer value, of a regression: the mean over its channels."""
        return {"mse": self.scale**2, "mae": self.scale, "huber": self.scale**2 / 2}[self.kind] / self.channels

    @property
    def largest(self) -> float:
        """Largest real loss of a place, of a regression."""
        d = self.delta
        return self.of_value * self.channels * (255 if d == 0 else d * (510 - d))

    @property
    def unit(self) -> float:
        """Real loss that is worth 1: 1 nat, or an error of 8 levels, as of the mean squared error alone."""
        return {"mse": (8 * self.scale) ** 2, "mae": 8 * self.scale, "huber": 32 * self.scale**2}.get(self.kind, 1.0)

    @property
    def gain(self) -> float:
        """Derivative by the real output per unit of an integer error, see ops/core/loss/zo_loss.h."""
        of_level = {"mse": 2 * self.scale / 128, "mae": 1 / 32640, "huber": self.scale / 128}
        return of_level[self.kind] / self.channels if self.kind in of_level else 2.0**-15


@dataclasses.dataclass(frozen=True)
class ZoLoss:
    """The loss of a ZO model."""

    #: "cross_entropy", "floor_log2", "binary_cross_entropy", "mse", or "sum" of the losses of its parts.
    kind: Annotated[str, Field(pattern="^(cross_entropy|floor_log2|binary_cross_entropy|mse|sum)$")]
    elements: Annotated[int, Field(ge=1, le=2**20)]  #: values per sample (classes, outputs).
    scale: _Scale  #: real value of one LSB of the loss's input; softmax's beta is part of it.
    zero_point: _Int8  #: zero point of the loss's input.
    # Metadata written before these keys existed do not have them.
    #: number of the original output that the loss belongs to. The loss of a classifier reads the logits before a
    #: SOFTMAX or LOGISTIC; the output that people see stays the probabilities.
    output: _Index = 0
    squashed: bool = True  #: True if a SOFTMAX or LOGISTIC lies between the loss's input and that output.
    #: real value of a loss of 1 of the loss operator, 2^16 in integers: 1 nat, or, of the mean squared error, (8
    #: scale)^2, the error of 8 levels, so that no output's scale makes losses vanish.
    unit: _Scale = 1.0
    #: loss of a sequence of invokes, of a model with states: "sum" of its steps with a label, or "largest": that of the
    #: step with the largest output.
    over: Annotated[str, Field(pattern="^(sum|largest)$")] = "sum"
    places: _Count = 1  #: places of a sample, each with its classes and its label: pixels or steps of a cross-entropy.
    #: parts of a "sum", in the order of their labels. Their values follow each other in the loss's input.
    parts: tuple[ZoLossPart, ...] = ()

    @property
    def of_classes(self) -> bool:
        """True if labels are classes: a cross-entropy of softmax, or the floor-log2 loss in its place."""
        return self.kind in SOFTMAX_KINDS

    @property
    def has_answers(self) -> bool:
        """True if outputs are right or wrong answers, which an accuracy counts."""
        return self.kind not in ("mse", "sum")

    @property
    def of_samples(self) -> bool:
        """True if the label of a sample is one class."""
        return self.of_classes and self.places == 1

    @property
    def classes(self) -> int:
        """Number of classes of a label, or 2 of binary outputs."""
        return self.elements // self.places if self.of_classes else 2

    @property
    def labels(self) -> int:
        """Number of labels or targets of a sample."""
        if self.parts:
            return sum(p.places * p.labels for p in self.parts)
        return self.places if self.of_classes else self.elements


@dataclasses.dataclass(frozen=True)
class ZoTrainable:
    """A trainable filter, or the trainable bias of a layer. Each filter of an SVDF or LSTM is a layer."""

    name: str  #: name of the tensor, as in the original.
    #: kind of the operator in the original, e.g. "CONV_2D".
    operator: Annotated[str, Field(pattern=f"^({'|'.join(OPERATOR_NAMES[kind] for kind in WITH_FILTERS)})$")]
    layer: str  #: short name of the layer, unique in the model.
    stream: _Index  #: number in execution order over the whole model: selects the random stream.
    block: _Index  #: index into the blocks.
    segment: _Index  #: index into the segments.
    shape: Annotated[tuple[_Count, ...], Field(min_length=1)]  #: shape of the tensor.
    size: _Count  #: number of weights or biases.
    channels: _Count  #: number of output channels.
    inner: _Count  #: consecutive weights of one channel (the channel of weight i is i // inner % channels).
    requantized_channels: _Index  #: number of scales that headroom changed.
    bias: bool = False  #: True of a bias, int32 [channels], which follows its layer's filter if that is trainable, too.

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of its values: int8, or int32 of biases."""
        return np.dtype(np.int32 if self.bias else np.int8)

    @property
    def nbytes(self) -> int:
        """Bytes of its values, without fractions."""
        return self.size * self.dtype.itemsize


@dataclasses.dataclass(frozen=True)
class ZoNodes:
    """A layer that carries nodes, see ops/core/nodes/zo_node_layer.h."""

    trainable: _Index  #: number of its filter, or of its bias where that alone is trainable.
    form: Annotated[str, Field(pattern="^(plain|max_pool|mean)$")]  #: "plain", "max_pool" or "mean".
    input_segment: _Index  #: number of the segment that the layer's input enters; 0 stands for original input 0.
    output_segment: _Index  #: number of the segment that the layer's output, before any pooling, enters.
    node_segment: _Index  #: number of the segment that the nodes enter, the first one that queries re-run.
    count: _Count  #: number of nodes of a sample.
    head: bool  #: True if the loss reads the nodes.
    geometry: dict[str, _Number]  #: the fields of ``zo_node_layer`` but the form.

    @property
    def row(self) -> int:
        """Weights of an output channel."""
        g = self.geometry
        return g["k_h"] * g["k_w"] * (1 if g.get("depthwise") else g["in_c"])


@dataclasses.dataclass(frozen=True)
class ZoField:
    """Errors of a tensor, or of several that have the same, see ops/core/backward/zo_backward.h."""

    count: _Count  #: number of errors of a sample.


@dataclasses.dataclass(frozen=True)
class ZoBackwardStep:
    """A step of a backward program, one operator."""

    #: "mask", "layer", "max_pool", "average_pool", "factors", "levels", "product", "sum", "slice", "place" or "add",
    #: see ``zo_backward_kind``.
    kind: Annotated[str, Field(pattern=f"^({'|'.join(_KINDS)})$")]
    source: _Index  #: number of the field of the operator's output.
    target: _Index  #: number of the field of its input.
    #: number of the segment that the activation enters that the step looks at: the operator's output ("mask"), its
    #: input ("max_pool"), one of both ("levels") or the other factor ("product"); of other kinds None.
    segment: _Index | None = None
    layer: _Index | None = None  #: "layer": number of the layer in the tail, else None.
    #: fields of ``zo_backward_step`` ("mask", "slice", "place"), ``zo_pool``, ``zo_error_product`` that the kind has.
    numbers: dict[str, _Number] = dataclasses.field(default_factory=dict)
    #: real factors: of the channels ("factors"), of the levels of an activation from -128 on ("levels"), of all
    #: ("product": the other factor's scale; "sum": 1 or -1).
    factors: tuple[_Factor, ...] = ()

    @property
    def looks(self) -> bool:
        """True if the step looks at an activation."""
        return self.kind in LOOKING


@dataclasses.dataclass(frozen=True)
class ZoTail:
    """Layers that can be trained by their exact gradients, and the program that leads errors back to them."""

    #: number of layers, "N blocks" or "all": what the tail was made for.
    asked: Annotated[str, Field(pattern="^(all|[0-9]+|[0-9]+ blocks)$")]
    #: layers in execution order, in form "plain"; the last one is the head. Of the others the input alone is kept:
    #: their output and nodes are said to enter segment 0.
    layers: Annotated[tuple[ZoNodes, ...], Field(min_length=1)]
    of_layers: tuple[_Index, ...]  #: number of the field of each layer's outputs.
    fields: Annotated[tuple[ZoField, ...], Field(min_length=1)]  #: fields of errors; number 0 is the head's.
    steps: tuple[ZoBackwardStep, ...]  #: steps in the order in which they are done.


@dataclasses.dataclass(frozen=True)
class ZoPort:
    """An input or output of a segment, in the order of its subgraph."""

    role: str  #: "boundary", "skip", "input", "label", "command"; "output", "boundary", "loss", "status".
    name: str | None = None  #: signature name for roles "input" and "output", else None.
    #: number of the original input or output for these roles; of a "skip", which is a boundary that entered an earlier
    #: segment, the number of that segment; else None.
    index: _Index | None = None


@dataclasses.dataclass(frozen=True)
class ZoSegment:
    """A segment: subgraph of the same number."""

    inputs: tuple[ZoPort, ...]
    outputs: tuple[ZoPort, ...]

    def input_index(self, role: str) -> int | None:
        """Number of the first input of that role, or None."""
        return next((i for i, p in enumerate(self.inputs) if p.role == role), None)

    @functools.cached_property
    def skips(self) -> dict[int, int]:
        """Numbers of its inputs of role "skip", by the segment that the boundary entered."""
        return {p.index: i for i, p in enumerate(self.inputs) if p.role == "skip" and p.index is not None}

    def output_index(self, role: str) -> int | None:
        """Number of the first output of that role, or None."""
        return next((i for i, p in enumerate(self.outputs) if p.role == role), None)


@dataclasses.dataclass(frozen=True)
class ZoState:
    """A state, which outlives an invoke: the variable tensor of that name."""

    name: str  #: name of the tensor.
    segment: _Index  #: number of the segment that has it.
    nbytes: _Count  #: bytes of the state of a sample.


@dataclasses.dataclass(frozen=True)
class ZoOriginal:
    """Names and batch size of the original model."""

    inputs: tuple[str, ...]  #: names of the original model's inputs, made unique.
    outputs: tuple[str, ...]  #: names of the original model's outputs, made unique.
    #: samples per invoke of the models that are exported; None stands for the ZO model's.
    batch: Annotated[int | None, Field(ge=1, le=2**20)] = None


@dataclasses.dataclass(frozen=True)
class ZoMetadata:
    """The metadata of a ZO model; converters/README.md has their JSON."""

    version: Annotated[int, Field(ge=METADATA_VERSION, le=METADATA_VERSION)]  #: format of the metadata.
    #: largest perturbation of a weight, LSB.
    headroom: Annotated[int, Field(ge=0, le=127 - SMALLEST_LIMIT, alias=_HEADROOM)]
    update_bits: Annotated[int, Field(ge=8, le=16, multiple_of=8)]  #: bits of a weight in an update, 8 or 16.
    max_queries: Annotated[int, Field(ge=1, le=MAX_QUERIES)]  #: largest number of seeds in one UPDATE.
    command_words: Annotated[int, Field(le=2**24)]  #: int32 words of ``zo_command``.
    batch: Annotated[int, Field(ge=1, le=2**20)]  #: samples per invoke.
    replay: bool  #: True if SEED_REPLAY is part of the model.
    loss: ZoLoss | None  #: the model's loss, or None.
    blocks: tuple[str, ...]  #: names of the blocks.
    trainable: tuple[ZoTrainable, ...]  #: trainable filters and biases in the order of their streams.
    segments: Annotated[tuple[ZoSegment, ...], Field(min_length=1)]  #: segments in execution order.
    original: ZoOriginal  #: names and batch of the original model.
    nodes: tuple[ZoNodes, ...] = ()  #: layers that carry nodes, in execution order.
    algorithm: str = ""  #: name of the algorithm that the model was made for; "": none in particular.
    tail: ZoTail | None = None  #: layers to which a backward program leads errors, or None.
    #: settings of the run that the model was made for, as far as they differ from the algorithm's, and its length,
    #: NAME=VALUE each, as ``--set``, ``--epochs`` and ``--steps`` take them.
    run: tuple[Annotated[str, Field(pattern="^[a-z0-9_.-]+=.+$")], ...] = ()
    states: tuple[ZoState, ...] = ()  #: states, in the order in which an invoke resets them.

    @property
    def known_loss(self) -> ZoLoss:
        """The loss of a model that has one, which the caller has checked."""
        assert self.loss is not None
        return self.loss

    @property
    def loss_unit(self) -> float:
        """Real value of a loss of 1 of a log, see `ZoLoss`."""
        return 1.0 if self.loss is None else self.loss.unit

    @property
    def layers(self) -> list[tuple[int, ...]]:
        """Numbers of the trainable tensors of each layer: its filter, its bias or both."""
        found: dict[str, list[int]] = {}
        for i, t in enumerate(self.trainable):
            found.setdefault(t.layer, []).append(i)
        return [tuple(numbers) for numbers in found.values()]

    @property
    def parameters(self) -> Parameters:
        """The trainable parameters of the layers with nodes or of a tail; of all layers if there are none."""
        tail = () if self.tail is None else self.tail.layers
        layers = {self.trainable[n.trainable].layer for n in (*self.nodes, *tail)}
        return parameters_of(t.bias for t in self.trainable if not layers or t.layer in layers)

    def tensors_of(self, trainable: int, parameters: Parameters) -> tuple[int, ...]:
        """Returns the numbers of the trainable tensors of the layer that tensor `trainable` belongs to: its filter
        ("weights"), its bias ("biases") or both ("all").
        """
        kinds = {"weights": (False,), "biases": (True,), "all": (False, True)}[parameters]
        layer = self.trainable[trainable].layer
        return tuple(i for i, t in enumerate(self.trainable) if t.layer == layer and t.bias in kinds)

    def bytes_of(self, numbers: Iterable[int]) -> int:
        """Returns the bytes of trainable tensors with their fractions."""
        tensors = [self.trainable[i] for i in numbers]
        return sum(t.nbytes * (2 if self.update_bits == 16 and not t.bias else 1) for t in tensors)

    def entering(self, segment: int) -> list[int]:
        """Returns the segments whose entering boundaries a run from a segment on reads: that one last."""
        read = {j for s in self.segments[segment:] for j in s.skips if j < segment}
        return [*sorted(read), segment] if segment else []

    def to_json(self) -> str:
        """Returns the metadata as JSON text, deterministic."""
        content = _written(dataclasses.asdict(self), "tail", "run", "states")
        content["original"] = _written(content["original"], "batch")
        if self.loss is not None:
            content["loss"] = {k: v for k, v in content["loss"].items() if (k, v) not in _LOSS_DEFAULTS}
        content["trainable"] = [_written(t, "bias") for t in content["trainable"]]
        for segment in content["segments"]:
            for side in ("inputs", "outputs"):
                segment[side] = [_written(port, "name", "index") for port in segment[side]]
        return json.dumps(content, ensure_ascii=False, separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str | bytes) -> ZoMetadata:
        """Reads JSON text; unknown keys are ignored. Raises ConversionError where the text is malformed or of another
        version, or its parts contradict each other.
        """
        try:
            metadata = _schema().validate_json(text, strict=True)
        except ValidationError as error:
            errors = error.errors(include_url=False, include_context=False)
            other = [e["input"] for e in errors if e["loc"] == ("version",) and e["type"] != "missing"]
            if other:
                advice = "inject the original model again or update tflm_zo"
                versions = f"metadata of this ZO model has version {other[0]!r}, not {METADATA_VERSION}"
                raise ConversionError(f"{versions}; {advice}") from error
            where, said = ".".join(map(str, errors[0]["loc"])), errors[0]["msg"]
            raise _damaged(f"{where}: {said}" if where else said) from error
        for fault in faults(metadata):
            raise _damaged(fault)
        return metadata


def _written(fields: dict[str, Any], *optional: str) -> dict[str, Any]:
    """Returns fields by their keys of the JSON, without optional ones that are empty."""
    empty = {name for name in optional if fields[name] is None or fields[name] is False or fields[name] == ()}
    keys = {"headroom": _HEADROOM}
    return {keys.get(name, name): value for name, value in fields.items() if name not in empty}


@functools.cache
def _schema() -> TypeAdapter[ZoMetadata]:
    """Returns types and ranges of all metadata, read from the annotations of their classes."""
    return TypeAdapter(ZoMetadata)


def _removed(setting: str) -> ConversionError:
    return ConversionError(
        f"this ZO model was made with setting `{setting}`, which this version does not have; "
        "use tflm_zo 0.1, or inject the original model again"
    )


def _damaged(fault: str) -> ConversionError:
    return ConversionError(
        f"metadata `{METADATA_NAME}` of the model is damaged: {fault}; inject the original model again"
    )


def with_metadata(model: Model, metadata: ZoMetadata) -> Model:
    """Returns a ZO model with other metadata, not checked; the model is not changed."""
    result = model.copy()
    entry = result.find_metadata(METADATA_NAME)
    assert entry is not None  # it has been read
    entry.buffer = Buffer(metadata.to_json().encode())
    return result


def read_metadata(model: Model) -> ZoMetadata:
    """Returns the metadata of a ZO model, checked against its graph. Raises ConversionError if the model is no ZO
    model; its metadata is damaged, of another version, or describes another graph; or ``inject`` would refuse the
    graph.
    """
    entry = model.find_metadata(METADATA_NAME)
    if entry is None:
        raise ConversionError("this is no ZO model (it has no metadata `tflm_zo`); inject it first")
    metadata = ZoMetadata.from_json(entry.buffer.data)
    if metadata.algorithm == "qzo-ff-probe" or any(code.custom == _INT16_LAYER for code in model.operator_codes):
        raise _removed("int16")
    if any(t.name.endswith(_MASK) for graph in model.subgraphs for t in graph.tensors):
        raise _removed("sparse")
    for fault in misfits(metadata, model.subgraphs):
        raise ConversionError(f"the model does not fit its metadata: {fault}; inject the original again")
    names = {t.name for t in metadata.trainable}
    for graph in model.subgraphs:
        check_graph(graph, [t for t in graph.all_tensors() if t.is_variable and t.name in names])
    return metadata
