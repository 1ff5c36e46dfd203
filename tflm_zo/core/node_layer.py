# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""Layers that carry nodes (``ops/core/nodes/zo_node_layer.h``), and the state of their updates."""

from __future__ import annotations

import dataclasses
from enum import IntEnum
from functools import cached_property
from typing import Any

from .declarations import Struct
from .loader import call, constants, library, structs

__all__ = ["NodeForm", "NodeLayer", "NodeState"]


class NodeForm(IntEnum):
    """Kind of the operators between a layer and its nodes (``zo_node_form``)."""

    PLAIN = constants.ZO_NODES_PLAIN
    MAX_POOL = constants.ZO_NODES_MAX_POOL
    MEAN = constants.ZO_NODES_MEAN


@dataclasses.dataclass(frozen=True)
class NodeLayer:
    """A CONV_2D, DEPTHWISE_CONV_2D or FULLY_CONNECTED (1 x 1 everywhere) that carries nodes; see
    ``zo_node_layer``.

    Attributes:
        form: kind of the operators between the layer and its nodes.
        in_h, in_w, in_c: input of one sample.
        out_h, out_w, out_c: output of one sample.
        k_h, k_w: filter, [out_c, k_h, k_w, in_c], of a depthwise layer [1, k_h, k_w, out_c].
        stride_h, stride_w, dilation_h, dilation_w, pad_top, pad_left: window of the convolution.
        node_h, node_w: nodes of one sample, [node_h, node_w, out_c]; 0: derived from the form.
        pool_h, pool_w, pool_stride_h, pool_stride_w, pool_pad_top, pool_pad_left: window of MAX_POOL, which
            no other form has.
        input_zero_point: zero point of the input.
        low: outputs <= low are clamped by the activation; -129: none are.
        high: outputs >= high are clamped; 128: none are.
        unmasked: True if nodes at the clamp of the activation are perturbed and credited like the others.
        depthwise: 1 if output channel c reads input channel c / (out_c / in_c) alone, else 0.

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
        fields: Struct = structs.zo_node_layer(
            **{f.name: int(getattr(self, f.name)) for f in dataclasses.fields(self)}
        )
        return fields

    @cached_property
    def nodes(self) -> int:
        """Nodes of one sample."""
        return int(library().zo_node_count(self.struct))

    @cached_property
    def input_bytes(self) -> int:
        """Bytes of one sample's input."""
        return int(library().zo_node_input_bytes(self.struct))

    @cached_property
    def route_bytes(self) -> int:
        """Bytes of one sample's route; with the input, what is kept of a sample until the update."""
        return int(library().zo_node_route_bytes(self.struct))

    @cached_property
    def scratch_values(self) -> int:
        """int32 values of scratch memory that an update needs (``zo_node_scratch_values``)."""
        return int(library().zo_node_scratch_values(self.struct))

    @property
    def weights(self) -> int:
        """Weights of the filter."""
        return self.out_c * self.k_h * self.k_w * (1 if self.depthwise else self.in_c)


@dataclasses.dataclass
class NodeState:
    """State of a layer's updates: the running mean of the squared gradient, mantissa 2^exponent."""

    mantissa: int = 0
    exponent: int = 0

    @property
    def struct(self) -> Struct:
        """``zo_scale``."""
        struct: Struct = structs.zo_scale(self.mantissa, self.exponent)
        return struct

    @classmethod
    def of(cls, struct: Any) -> NodeState:
        """Returns the state of a ``zo_scale``."""
        return cls(struct.mantissa, struct.exponent)
