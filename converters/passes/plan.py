"""Holds the decisions of the passes, which later passes and the metadata read."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import Literal

from ..kernels import FILTER_OPERATORS, channel_axis
from ..metadata import ZoLoss
from ..model import Operator, Subgraph, Tensor
from .backward_program import BackwardProgram

Role = Literal["boundary", "skip", "input", "label", "command", "output", "loss", "status"]


@dataclasses.dataclass(eq=False)
class Trainable:
    """A filter that becomes trainable, or a layer's bias."""

    tensor: Tensor  # the filter or bias, as the original graph has it
    # operators that read the filter, in execution order; several where layers share their weights
    operators: list[Operator]
    layer: str  # short name of the layer, unique in the model
    stream: int = 0  # number of the filter in execution order, which chooses its random streams
    block: int = 0  # number of the block that the filter is in
    segment: int = 0  # number of the segment that the filter is in
    requantized: int = 0  # number of scales that reserving headroom changed
    variable: Tensor | None = None  # variable tensor that takes the filter's place, once there is one
    multiplier: Tensor | None = None  # constant factors of the update step, or None
    is_bias: bool = False  # True of a bias

    @property
    def name(self) -> str:
        """Name of the tensor, which is that in the original model."""
        return (self.variable or self.tensor).name

    @property
    def bias(self) -> Tensor | None:
        """The bias that is trained with the filter; None of a layer that has none, of SVDF and of an LSTM."""
        op = self.operators[0]
        return op.input(2) if op.builtin in FILTER_OPERATORS else None

    @property
    def axis(self) -> int:
        """Dimension of the output channels: the last one of a depthwise filter, else the first one."""
        return 0 if self.is_bias else channel_axis(self.operators[0])

    @property
    def channels(self) -> int:
        """Number of output channels."""
        return self.tensor.shape[self.axis]

    @property
    def inner(self) -> int:
        """Number of consecutive weights of one channel, see zo_tensor in ops/core/weights."""
        return 1 if self.axis == 3 else self.tensor.size // self.channels


@dataclasses.dataclass(eq=False)
class NodeLayer:
    """A layer that is trained by perturbing its nodes, see ops/core/nodes/zo_node_layer.h."""

    trainable: Trainable  # filter of the layer
    form: str  # operators between the layer and its nodes: "plain", "max_pool" or "mean"
    geometry: dict[str, int]  # the fields of ``zo_node_layer`` but the form
    input: Tensor  # activation that the layer reads, a tensor of the uncut graph
    output: Tensor  # activation that the layer computes
    nodes: Tensor  # tensor that is perturbed, the output or what a pooling makes of it
    count: int  # number of nodes of a sample
    is_head: bool  # True if the loss reads the nodes
    share_behind: float = 0.0  # multiply-accumulates behind the nodes, as a share of the whole network's


@dataclasses.dataclass(eq=False)
class Tail:
    """The layers that are trained by their exact gradients, and the program that leads errors back to them."""

    layers: list[NodeLayer]  # layers in execution order, in form "plain"; the last one is the head
    program: BackwardProgram  # backward program


@dataclasses.dataclass(eq=False)
class Port:
    """An input or output of a segment. `index`: number in the original model, of a skip its segment."""

    role: Role
    tensor: Tensor
    name: str
    index: int | None = None


@dataclasses.dataclass(eq=False)
class Segment:
    """A part of the graph that is run by itself."""

    subgraph: Subgraph  # subgraph that holds the segment's operators and tensors
    inputs: list[Port] = dataclasses.field(default_factory=list)  # inputs in the subgraph's order
    outputs: list[Port] = dataclasses.field(default_factory=list)  # outputs in the subgraph's order
    # constant with the initial weights of the segment's trainable filters and biases, one after the other;
    # None where the segment has none
    initial: Tensor | None = None
    # variable with the fractions of the filters' weights, in the same order; None without the 16-bit update,
    # and where the segment has no trainable filter
    fraction: Tensor | None = None

    def port(self, role: Role) -> Tensor | None:
        """Returns the tensor of the first input or output of that role, or None."""
        return next((p.tensor for p in [*self.inputs, *self.outputs] if p.role == role), None)


@dataclasses.dataclass(eq=False)
class Plan:
    """The decisions of earlier passes, for later ones and for the metadata."""

    without_softmax: set[Tensor] = dataclasses.field(default_factory=set)  # logits whose SOFTMAX was left out
    inputs: list[str] = dataclasses.field(default_factory=list)  # names of the original inputs, made unique
    outputs: list[str] = dataclasses.field(default_factory=list)  # names of the original outputs, made unique
    # filters and biases that become trainable, in execution order over the whole model; a bias follows the
    # filter of its layer
    trainable: list[Trainable] = dataclasses.field(default_factory=list)
    # filters that could be trained but that the loss does not depend on, in execution order
    unread: list[Trainable] = dataclasses.field(default_factory=list)
    # names of the blocks; ``Trainable.block`` is an index into this list
    blocks: list[str] = dataclasses.field(default_factory=list)
    loss: ZoLoss | None = None  # the loss, or None
    loss_input: Tensor | None = None  # int8 tensor that the loss reads, or None
    # names of the tensors at which the model is cut
    cuts: list[str] = dataclasses.field(default_factory=list)
    # layers that carry nodes, in execution order
    nodes: list[NodeLayer] = dataclasses.field(default_factory=list)
    tail: Tail | None = None  # exact tail of the model, or None
    # tensors of the uncut graph that lie between the segments, in order
    boundaries: list[Tensor] = dataclasses.field(default_factory=list)
    # segments of the model, at least one once the model has been cut
    segments: list[Segment] = dataclasses.field(default_factory=list)

    def cut_at(self, graph: Subgraph, tensors: Iterable[Tensor]) -> None:
        """Adds cuts at tensors of the uncut graph, but at its inputs and where there are cuts already."""
        needed = [t.name for t in tensors if t not in graph.inputs]
        self.cuts += [name for name in dict.fromkeys(needed) if name not in self.cuts]
