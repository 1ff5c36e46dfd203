# SPDX-License-Identifier: Apache-2.0
"""The layers of a ZO model that are trained one by one, as its metadata describe them."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Final

from pydantic import Field

if TYPE_CHECKING:
    from .metadata import ZoMetadata

# The fields of zo_node_layer but the form.
_GEOMETRY: Final = frozenset(
    "in_h in_w in_c out_h out_w out_c k_h k_w stride_h stride_w dilation_h dilation_w pad_top pad_left "
    "node_h node_w pool_h pool_w pool_stride_h pool_stride_w pool_pad_top pool_pad_left "
    "input_zero_point low high depthwise".split()
)

Index = Annotated[int, Field(ge=0, lt=2**31)]
_Count = Annotated[int, Field(ge=1, lt=2**31)]
_Number = Annotated[int, Field(ge=-(2**31), lt=2**31)]
_Factor = Annotated[float, Field(allow_inf_nan=False)]


@dataclasses.dataclass(frozen=True)
class ZoNodes:
    """A layer that carries nodes, see ops/core/nodes/zo_node_layer.h.

    Attributes:
        trainable: number of its filter, or of its bias where that alone is trainable.
        form: "plain", "max_pool" or "mean".
        input_segment: number of the segment that the layer's input enters; 0 stands for original input 0.
        output_segment: number of the segment that the layer's output, before any pooling, enters.
        node_segment: number of the segment that the nodes enter, the first one that queries re-run.
        count: number of nodes of a sample.
        head: True if the loss reads the nodes.
        geometry: the fields of ``zo_node_layer`` but the form.
    """

    trainable: Index
    form: Annotated[str, Field(pattern="^(plain|max_pool|mean)$")]
    input_segment: Index
    output_segment: Index
    node_segment: Index
    count: _Count
    head: bool
    geometry: dict[str, _Number]

    @property
    def row(self) -> int:
        """Weights of an output channel."""
        g = self.geometry
        return g["k_h"] * g["k_w"] * (1 if g.get("depthwise") else g["in_c"])


@dataclasses.dataclass(frozen=True)
class ZoField:
    """Errors of a tensor, or of several that have the same, see ops/core/backward/zo_backward.h.

    Attributes:
        count: number of errors of a sample.
        at: place in the memory that fields share while a sample is led back, in errors; None: the field is
            kept for each sample of the minibatch.
    """

    count: _Count
    at: Index | None = None


# Numbers that a kind of step has.
_POOL: Final = frozenset("in_h in_w channels out_h out_w k_h k_w stride_h stride_w pad_top pad_left".split())
_BLOCKS: Final = frozenset("blocks pitch offset length".split())
_NUMBERS: Final = {
    "mask": frozenset(("low", "high")),
    "max_pool": _POOL,
    "average_pool": _POOL,
    "slice": _BLOCKS,
    "place": _BLOCKS,
    "product": frozenset("repeat length other_repeat other_length zero_point".split()),
    "sum": frozenset(("repeat", "length")),
}

# Kinds that look at an activation, and those that have real factors.
_LOOKING: Final = ("mask", "max_pool", "levels", "product")
_WITH_FACTORS: Final = ("factors", "levels", "product", "sum")
_KINDS: Final = ("layer", "add", *dict.fromkeys((*_NUMBERS, *_LOOKING, *_WITH_FACTORS)))


@dataclasses.dataclass(frozen=True)
class ZoBackwardStep:
    """A step of a backward program, one operator.

    Attributes:
        kind: "mask", "layer", "max_pool", "average_pool", "factors", "levels", "product", "sum", "slice",
            "place" or "add", see ``zo_backward_kind``.
        source: number of the field of the operator's output.
        target: number of the field of its input.
        segment: number of the segment that the activation enters that the step looks at: the operator's
            output ("mask"), its input ("max_pool"), one of both ("levels") or the other factor ("product");
            of other kinds None.
        layer: "layer": number of the layer in the tail, else None.
        numbers: fields of ``zo_backward_step`` ("mask", "slice", "place"), ``zo_pool``, ``zo_error_product``
            that the kind has.
        factors: real factors: of the channels ("factors"), of the levels of an activation from -128 on
            ("levels"), of all ("product": the other factor's scale; "sum": 1 or -1).
    """

    kind: Annotated[str, Field(pattern=f"^({'|'.join(_KINDS)})$")]
    source: Index
    target: Index
    segment: Index | None = None
    layer: Index | None = None
    numbers: dict[str, _Number] = dataclasses.field(default_factory=dict)
    factors: tuple[_Factor, ...] = ()

    @property
    def looks(self) -> bool:
        """True if the step looks at an activation."""
        return self.kind in _LOOKING


@dataclasses.dataclass(frozen=True)
class ZoTail:
    """Layers that can be trained by their exact gradients, and the program that leads errors back to them.

    Attributes:
        asked: number of layers, or "N blocks", that the tail was made for.
        layers: layers in execution order, in form "plain"; the last one is the head. Of the others the input
            alone is kept: their output and nodes are said to enter segment 0.
        of_layers: number of the field of each layer's outputs.
        fields: fields of errors; number 0 is the head's.
        steps: steps in the order in which they are done.
    """

    asked: Annotated[str, Field(pattern="^[0-9]+( blocks)?$")]
    layers: Annotated[tuple[ZoNodes, ...], Field(min_length=1)]
    of_layers: tuple[Index, ...]
    fields: Annotated[tuple[ZoField, ...], Field(min_length=1)]
    steps: tuple[ZoBackwardStep, ...]


def layer_faults(m: ZoMetadata) -> Iterator[str]:
    """Yields the contradictions between the layers with nodes or of a tail and the rest of the metadata."""
    last = len(m.segments) - 1
    for i, n in enumerate(m.nodes):
        yield from _faults_of(m, n, f"nodes.{i}")
        if not n.input_segment < n.output_segment <= n.node_segment <= last:
            yield f"nodes.{i}: its segments are not in order"
    if len({n.trainable for n in m.nodes}) < len(m.nodes):
        yield "nodes: a layer is listed twice"
    if m.tail is not None:
        yield from _tail_faults(m, m.tail)


def _faults_of(m: ZoMetadata, n: ZoNodes, what: str) -> Iterator[str]:
    if n.trainable >= len(m.trainable) or m.loss is None:
        yield f"{what}: there is no trainable {n.trainable}, or no loss"
        return
    t, g, last = m.trainable[n.trainable], n.geometry, len(m.segments) - 1
    if n.input_segment > t.segment or (n.output_segment and n.output_segment <= t.segment):
        yield f"{what}: its segments are not in order"
    if not {"in_c", "out_c", "k_h", "k_w", "node_h", "node_w"} <= g.keys() <= _GEOMETRY:
        yield f"{what}.geometry: a field is missing or unknown"
    elif g["out_c"] * (1 if t.bias else n.row) != t.size:
        of = f"{t.size} biases" if t.bias else f"a filter of {t.size} weights"
        yield f"{what}.geometry: it is not that of {of}"
    elif g["node_h"] * g["node_w"] * g["out_c"] != n.count:
        yield f"{what}.geometry: it is not that of {n.count} nodes"
    if n.head and (n.count, n.node_segment) != (m.loss.elements, last):
        yield f"{what}.head: the loss does not read these nodes"


def _tail_faults(m: ZoMetadata, tail: ZoTail) -> Iterator[str]:
    last, fields = len(m.segments) - 1, tail.fields
    for i, n in enumerate(tail.layers):
        yield from _faults_of(m, n, f"tail.layers.{i}")
        if n.trainable >= len(m.trainable):
            return
        if n.form != "plain" or n.head != (i == len(tail.layers) - 1):
            yield f"tail.layers.{i}: the last layer alone is the head, and all are plain"
        if m.trainable[n.trainable].bias:
            yield f"tail.layers.{i}: errors come back through filters, not through biases"
        if max(n.output_segment, n.node_segment) > last:
            yield f"tail.layers.{i}: its segments do not exist"
    numbers = [n.trainable for n in tail.layers]
    if numbers != sorted(set(numbers)):
        yield "tail.layers: they are not in order"
    of_layers = [fields[i] if i < len(fields) else None for i in tail.of_layers]
    wanted = [ZoField(n.count) for n in tail.layers]
    if of_layers != wanted or tail.of_layers[-1] != 0:
        yield "tail.of_layers: these fields are not kept, or have other sizes"
    for i, s in enumerate(tail.steps):
        if s.source >= len(fields) or s.target >= len(fields) or s.kind != "mask" and s.target == s.source:
            yield f"tail.steps.{i}: its fields do not exist, or are one"
        if s.looks != (s.segment is not None) or not 0 <= (s.segment or 0) <= last or s.segment == 0:
            yield f"tail.steps.{i}: its segment does not exist"
        if (s.kind == "layer") != (s.layer is not None) or (s.layer or 0) >= len(tail.layers):
            yield f"tail.steps.{i}: its layer does not exist"
        if s.numbers.keys() != _NUMBERS.get(s.kind, frozenset()) or (s.kind in _WITH_FACTORS) != bool(
            s.factors
        ):
            yield f"tail.steps.{i}: a number is missing or unknown"
        if not _sizes_fit(tail, s):
            yield f"tail.steps.{i}: its fields have not the sizes of its operator"
    yield from _memory_faults(tail)


def _sizes_fit(tail: ZoTail, s: ZoBackwardStep) -> bool:
    """Whether a step takes errors of the sizes that its fields have, as zo_backward_check asks."""
    source, target, n = tail.fields[s.source].count, tail.fields[s.target].count, s.numbers
    if s.layer is not None:
        layer = tail.layers[s.layer]
        g = layer.geometry
        return (source, target) == (layer.count, g.get("in_h", 1) * g.get("in_w", 1) * g["in_c"])
    if s.kind.endswith("_pool"):
        sizes = (n["out_h"] * n["out_w"] * n["channels"], n["in_h"] * n["in_w"] * n["channels"])
        return (source, target) == sizes
    if s.kind in ("slice", "place"):
        whole, part = (source, target) if s.kind == "slice" else (target, source)
        end = n["offset"] + (n["blocks"] - 1) * n["pitch"] + n["length"]
        fits = min(n["offset"], n["blocks"] - 1, n["length"] - 1, n["pitch"] - n["length"]) >= 0
        return fits and n["blocks"] * n["length"] == part and end <= whole
    if s.kind in ("product", "sum"):
        periods = [n["repeat"] * n["length"], n.get("other_repeat", 1) * n.get("other_length", 1)]
        whole = all(number >= 1 for name, number in n.items() if name != "zero_point")
        return (
            whole and n["length"] == target and not any(source % p for p in periods) and len(s.factors) == 1
        )
    if s.kind == "levels":
        return source == target and len(s.factors) == 256
    return source == target and source % max(1, len(s.factors)) == 0


def _memory_faults(tail: ZoTail) -> Iterator[str]:
    """Yields the steps that read a field before errors are in it, or after another field took its memory."""
    fields = tail.fields

    def overlap(a: int, b: int) -> bool:
        (at, m), (other, n) = ((fields[i].at, fields[i].count) for i in (a, b))
        return a != b and at is not None and other is not None and at < other + n and other < at + m

    filled = {0}
    for i, s in enumerate(tail.steps):
        if s.source not in filled or s.kind == "add" and s.target not in filled:
            yield f"tail.steps.{i}: no errors are in its fields yet, or others have taken their place"
        if overlap(s.source, s.target):
            yield f"tail.steps.{i}: its fields share memory"
        filled = {f for f in filled if not overlap(f, s.target)} | {s.target}
    used = {0, *(s.target for s in tail.steps)}
    shared = sum(f.count for f in fields if f.at is not None)
    for i, f in enumerate(fields):
        if i not in used or f.at is not None and f.at + f.count > shared:
            yield f"tail.fields.{i}: no step leads errors to it, or its place lies beyond all fields"
