"""Layers, tasks, rules and losses of a layer-wise run, as the C core takes them (``ops/core/nodes/zo_node_layer.h``,
``ops/core/run/zo_node_settings.h``).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, fields
from enum import IntEnum
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .arguments import address
from .loader import Struct, call, constants, library, structs


class NodeForm(IntEnum):
    """Kind of the operators between a layer and its nodes (``zo_node_form``)."""

    PLAIN = constants.ZO_NODES_PLAIN
    MAX_POOL = constants.ZO_NODES_MAX_POOL
    MEAN = constants.ZO_NODES_MEAN


def _computed(function: str) -> cached_property[int]:
    """Returns a property of a layer that a function of the C core computes."""
    return cached_property(lambda layer: int(getattr(library(), function)(layer.struct)))


@dataclass(frozen=True)
class NodeLayer:
    """The geometry of a CONV_2D, DEPTHWISE_CONV_2D or FULLY_CONNECTED (with sizes of 1) that carries nodes,
    ``zo_node_layer``.

    Attributes:
        form: kind of the operators between the layer and its nodes.
        in_h, in_w, in_c: input of one sample.
        out_h, out_w, out_c: output of one sample.
        k_h, k_w: size of the filter, [out_c, k_h, k_w, in_c], for a depthwise layer [1, k_h, k_w, out_c].
        stride_h, stride_w, dilation_h, dilation_w, pad_top, pad_left: window of the convolution.
        node_h, node_w: size of the nodes of one sample, [node_h, node_w, out_c]; 0: derived from the form.
        pool_h, pool_w, pool_stride_h, pool_stride_w, pool_pad_top, pool_pad_left: window of form MAX_POOL.
        input_zero_point: zero point of the input.
        low: outputs <= low are clamped by the activation; -129: none are.
        high: outputs >= high are clamped; 128: none are.
        unmasked: True to include nodes at the clamp of the activation.
        depthwise: 1 if output channel c reads only input channel c / (out_c / in_c), else 0.

    Raises:
        NativeError: the sizes do not fit each other; the status is ARGUMENT.
    """

    in_c: int
    out_c: int
    form: NodeForm = NodeForm.PLAIN
    in_h: int = 1
    in_w: int = 1
    k_h: int = 1
    k_w: int = 1
    stride_h: int = 1
    stride_w: int = 1
    dilation_h: int = 1
    dilation_w: int = 1
    pad_top: int = 0
    pad_left: int = 0
    out_h: int = 1
    out_w: int = 1
    node_h: int = 0
    node_w: int = 0
    pool_h: int = 1
    pool_w: int = 1
    pool_stride_h: int = 1
    pool_stride_w: int = 1
    pool_pad_top: int = 0
    pool_pad_left: int = 0
    input_zero_point: int = 0
    low: int = -129
    high: int = 128
    unmasked: bool = False
    depthwise: int = 0

    def __post_init__(self) -> None:
        if self.node_h == 0 and self.form != NodeForm.MAX_POOL:
            mean = self.form == NodeForm.MEAN
            object.__setattr__(self, "node_h", 1 if mean else self.out_h)
            object.__setattr__(self, "node_w", 1 if mean else self.out_w)
        call("zo_node_layer_check", self.struct)

    @cached_property
    def struct(self) -> Struct:
        """``zo_node_layer``."""
        return structs.zo_node_layer(**{f.name: int(getattr(self, f.name)) for f in fields(self)})

    nodes = _computed("zo_node_count")  #: number of nodes of one sample.
    input_bytes = _computed("zo_node_input_bytes")  #: size of one sample's input, bytes.
    #: size of one sample's route, bytes. A device keeps input and route of each sample until the update.
    route_bytes = _computed("zo_node_route_bytes")
    scratch_values = _computed("zo_node_scratch_values")  #: size of an update's scratch memory, int32 values.

    @property
    def weights(self) -> int:
        """Number of weights of the filter."""
        return self.out_c * self.k_h * self.k_w * (1 if self.depthwise else self.in_c)


@dataclass
class NodeState:
    """State of a layer's updates: the running mean of the squared gradient, mantissa 2^exponent."""

    mantissa: int = 0
    exponent: int = 0

    @property
    def struct(self) -> Struct:
        """``zo_scale``."""
        return structs.zo_scale(self.mantissa, self.exponent)

    @classmethod
    def of(cls, struct: Any) -> NodeState:
        """Returns the state of a ``zo_scale``."""
        return cls(struct.mantissa, struct.exponent)


class TaskKind(IntEnum):
    """Kind of a task (``zo_task_kind``)."""

    NODES = constants.ZO_TASK_NODES
    WEIGHTS = constants.ZO_TASK_WEIGHTS
    SHARED_NODES = constants.ZO_TASK_SHARED_NODES


@dataclass(frozen=True)
class NodeTask:
    """Task of a run: a layer with its nodes or its exact gradient, or tensors that are perturbed together."""

    layer: NodeLayer | None  #: geometry of the layer; None for tensors that are perturbed.
    start_segment: int  #: first segment that reads the nodes, or has one of the tensors.
    #: perturbations per sample and step, 1..32; 0 for the exact gradient, or for shared nodes, which use the queries of
    #: the task before.
    queries: int
    mu: int = 2  #: perturbation of a node, LSB.
    rate: int = 65536  #: factor of the run's rate, unit 2^-16.
    gain: NodeState = field(default_factory=NodeState)  #: gain of a "gradient" rule, see ``zo_node_task``.
    #: size of a sample's input activation of the first segment with perturbed tensors, bytes; 0 for the network's
    #: inputs.
    boundary_bytes: int = 0
    shared: bool = False  #: True if the layer shares the nodes of an earlier task.
    #: True if the layer's inputs are kept; an update of the filter needs them, one of the biases does not.
    keeps_inputs: bool = True
    in_tail: bool = False  #: True if an exact task receives errors from a backward program, False if from the loss.

    @property
    def kind(self) -> TaskKind:
        """The kind of the task."""
        if self.layer is None:
            return TaskKind.WEIGHTS
        return TaskKind.SHARED_NODES if self.shared else TaskKind.NODES

    @property
    def perturbs_weights(self) -> bool:
        """True if tensors are perturbed rather than nodes."""
        return self.layer is None

    @property
    def is_exact(self) -> bool:
        """True if the layer is trained by its exact gradient."""
        return self.layer is not None and not self.shared and not self.queries


@dataclass(frozen=True)
class NodeRules:
    """Further settings of layer-wise runs, in ``zo_node_settings``."""

    weight_clip: int = 0  #: clip of perturbed weights' differences, unit 2^-16.
    rule: int = 0  #: rule of node tasks, 0: RMS, 1: fixed.
    exact_rule: int = 0  #: rule of exact tasks, 0: RMS of errors of 1, 2: bits, 3: standardized, 4: RMS.
    exact_bits: tuple[int, ...] = (0, 0, 0)  #: bits of updates by rule 2, in each of three stages, 1..7.
    weight_bits: int = 0  #: bits of updates of perturbed weights, if the run's rule rounds them, 1..7.
    #: bounds of the share of an exact task's outputs that a step updates, unit 1/65535; both 0: all.
    rows_least: int = 0
    rows_most: int = 0

    @classmethod
    def of(cls, struct: Any) -> NodeRules:
        """Returns the rules of a ``zo_node_settings``."""
        numbers = struct.numbers()
        return cls(**{field.name: numbers[field.name] for field in fields(cls)})

    def numbers(self) -> dict[str, int | tuple[int, ...]]:
        """Returns the fields of ``zo_node_settings`` with these rules, by name, in order."""
        return {field.name: getattr(self, field.name) for field in fields(self)}


def logit_scale(scale: float) -> Struct:
    """Returns ``zo_logit_scale``, the fixed point of a scale of logits, 2^-20..64."""
    if not 2.0**-20 <= scale <= 64.0:
        raise ValueError(f"`scale` must be in 2^-20..64. Received: {scale}.")
    return structs.zo_logit_scale(round(scale * math.log2(math.e) * 2**24), round(scale * 2**24))


@dataclass(frozen=True)
class ModelLoss:
    """``zo_model_loss``."""

    kind: str  #: "cross_entropy", "binary_cross_entropy", "mse", "floor_log2" or "sum".
    scale: float  #: scale of the loss's input; for logits 2^-20..64.
    zero_point: int  #: zero point of the loss's input, -128..127.
    places: int = 1  #: places of a sample, each with a label, of a cross-entropy; parts of a sum.
    parts: bytes = b""  #: parts of a sum, see ops/core/loss/zo_loss.h.

    @property
    def _address(self) -> int | None:
        return address("parts", self._parts, np.uint8) if self.parts else None

    @cached_property
    def _parts(self) -> NDArray[np.uint8]:
        return np.frombuffer(self.parts, np.uint8)

    @property
    def number(self) -> int:
        """``zo_loss_kind``."""
        return ("cross_entropy", "binary_cross_entropy", "mse", "floor_log2", "sum").index(self.kind)

    def labels(self, outputs: int) -> tuple[int, type[np.generic]]:
        """Returns the number of labels of a sample and their type, for a loss of `outputs` outputs."""
        if self.parts:
            return library().zo_part_labels(self._address, self.places, outputs), np.int32
        one = self.kind not in ("binary_cross_entropy", "mse")
        return self.places if one else outputs, np.int8 if self.kind == "mse" else np.int32

    @property
    def struct(self) -> Struct:
        """``zo_model_loss``, valid as long as this object."""
        scale = structs.zo_logit_scale() if self.kind in ("mse", "sum") else logit_scale(self.scale)
        zero_point = self.zero_point if self.kind == "binary_cross_entropy" else 0
        return structs.zo_model_loss(self.number, zero_point, scale, self.places, self._address)
