# SPDX-License-Identifier: Apache-2.0
"""Decisions of the passes, which later passes and the metadata read."""

from __future__ import annotations

import dataclasses
from typing import Literal

import numpy as np
import numpy.typing as npt

from ..model import Operator, Subgraph, Tensor

Role = Literal["boundary", "input", "label", "command", "output", "loss", "status"]


@dataclasses.dataclass(eq=False)
class Trainable:
    """A filter that becomes trainable.

    Attributes:
        tensor: the filter, as the original graph has it.
        operators: who reads it, in execution order; more than one where layers share their weights.
        layer: short name, unique in the model.
        stream: number in execution order.
        block: number of its block.
        segment: number of its segment.
        requantized: scales that reserving headroom changed.
        variable: the variable tensor that takes its place.
        multiplier: constant factors of the update step, if any.
        selected: True for each weight that is trained, bool [size]; None: all.
        mask: constant tensor of the bits of `selected`.
        int16: True if the forward pass reads its weights with their fractions.
    """

    tensor: Tensor
    operators: list[Operator]
    layer: str
    stream: int = 0
    block: int = 0
    segment: int = 0
    requantized: int = 0
    variable: Tensor | None = None
    multiplier: Tensor | None = None
    selected: npt.NDArray[np.bool_] | None = None
    mask: Tensor | None = None
    int16: bool = False

    @property
    def name(self) -> str:
        """Name of the filter tensor in the original model."""
        return (self.variable or self.tensor).name

    @property
    def axis(self) -> int:
        """Dimension of the output channels: last for a depthwise filter, else first."""
        return 3 if self.operators[0].code.name == "DEPTHWISE_CONV_2D" else 0

    @property
    def channels(self) -> int:
        """Number of output channels."""
        return self.tensor.shape[self.axis]

    @property
    def inner(self) -> int:
        """Consecutive weights of one channel, see zo_tensor."""
        return 1 if self.axis == 3 else self.tensor.size // self.channels


@dataclasses.dataclass(eq=False)
class Loss:
    """The loss.

    Attributes:
        kind: "cross_entropy", "floor_log2", "binary_cross_entropy" or "mse".
        tensor: the int8 tensor it reads.
        elements: values per sample.
        scale: scale of the tensor, times softmax's beta for the cross-entropy.
        zero_point: zero point of the tensor.
        output: number of the output that it belongs to.
        squashed: True if a SOFTMAX or LOGISTIC lies between the tensor and that output.
    """

    kind: str
    tensor: Tensor
    elements: int
    scale: float
    zero_point: int
    output: int
    squashed: bool


@dataclasses.dataclass(eq=False)
class NodeLayer:
    """A layer that is trained by perturbing its nodes, see ops/core/nodes/zo_node_layer.h.

    Attributes:
        trainable: its filter.
        form: operators between the layer and its nodes: "plain", "max_pool" or "mean".
        geometry: the fields of ``zo_node_layer`` but the form.
        input: the activation that it reads, as the uncut graph has it.
        output: what it computes.
        nodes: what is perturbed.
        count: nodes per sample.
        is_head: True if the loss reads its nodes.
    """

    trainable: Trainable
    form: str
    geometry: dict[str, int]
    input: Tensor
    output: Tensor
    nodes: Tensor
    count: int
    is_head: bool


@dataclasses.dataclass(eq=False)
class Port:
    """An input or output of a segment: role, tensor, signature name, and which original one it is."""

    role: Role
    tensor: Tensor
    name: str
    index: int | None = None


@dataclasses.dataclass(eq=False)
class Segment:
    """A segment.

    Attributes:
        subgraph: its operators and tensors.
        inputs: in the subgraph's order.
        outputs: in the subgraph's order.
        initial: the constant initial weights of its trainable tensors, one after the other; None without any.
        fraction: the variable fractions in the same order, 16-bit update only.
    """

    subgraph: Subgraph
    inputs: list[Port] = dataclasses.field(default_factory=list)
    outputs: list[Port] = dataclasses.field(default_factory=list)
    initial: Tensor | None = None
    fraction: Tensor | None = None

    def port(self, role: Role) -> Tensor | None:
        """The tensor of the first input or output of that role."""
        return next((p.tensor for p in [*self.inputs, *self.outputs] if p.role == role), None)


@dataclasses.dataclass(eq=False)
class Plan:
    """Decisions of earlier passes, for later ones and for the metadata.

    Attributes:
        inputs: names of the original inputs, made unique.
        outputs: names of the original outputs, made unique.
        trainable: in execution order, over the whole model.
        unread: filters that could be trained but that the loss does not depend on, in execution order.
        blocks: their names; ``Trainable.block`` is an index here.
        loss: None where there is none.
        cuts: names of the tensors where the model is cut.
        nodes: layers that carry nodes, in execution order.
        boundaries: tensors of the uncut graph that lie between the segments, in order.
        segments: at least one once the model has been cut.
    """

    inputs: list[str] = dataclasses.field(default_factory=list)
    outputs: list[str] = dataclasses.field(default_factory=list)
    trainable: list[Trainable] = dataclasses.field(default_factory=list)
    unread: list[Trainable] = dataclasses.field(default_factory=list)
    blocks: list[str] = dataclasses.field(default_factory=list)
    loss: Loss | None = None
    cuts: list[str] = dataclasses.field(default_factory=list)
    nodes: list[NodeLayer] = dataclasses.field(default_factory=list)
    boundaries: list[Tensor] = dataclasses.field(default_factory=list)
    segments: list[Segment] = dataclasses.field(default_factory=list)
