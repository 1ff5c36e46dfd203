"""Factors of a task and of its channels that turn the learning rate of a "gradient" rule into steps in LSB.

A weight of w LSB and scale s has the real value v = s w. Then dL/dw = s dL/dv, and a step of v is s times a step of w,
hence the 1 / s^2 of quantization-aware scaling (Poor Man's Training, sec. 3.1.2). Perturbing a layer's outputs y, of
scale s_y, gives dL/dy per LSB; its inputs of scale s_a turn that into dL/dw = dL/dy s s_a / s_y per LSB of input.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..converters import Model, WeightArray, ZoMetadata, initial_weights
from ..converters.model import Operator, Tensor
from ..converters.segments import entering_tensor
from ..core import NodeState
from .plan import LoweredTask, credited
from .rules import Gradient
from .settings import Settings


@dataclass(frozen=True)
class Gain:
    """Factors of a task's steps."""

    gain: NodeState  # factor of all its steps
    # factors of each of its tensors, int32 [channels], Q31; None: 1
    multipliers: tuple[NDArray[np.int32] | None, ...]


def task_gain(task: LoweredTask, settings: Settings, minibatch: int, model: Model, metadata: ZoMetadata) -> Gain:
    """Returns the factors of a task of `Nodes` or `Weights` under rule `Gradient`, for such a minibatch."""
    weights = initial_weights(model)
    scales = [channel_scales(model, metadata, i) for i in task.tensors]
    biases_alone = all(metadata.trainable[i].bias for i in task.tensors)
    # A channel of zeros has a scale that means nothing; a bias has its filter's.
    known = [
        s if t.bias else s[_used_channels(weights[t.name], t.channels, t.inner, len(s))]
        for s, t in zip(scales, (metadata.trainable[i] for i in task.tensors), strict=True)
        if not t.bias or biases_alone
    ]
    directions, gain = minibatch * task.estimates, 1.0
    rule = settings.weights.rule if task.nodes is None else settings.nodes.rule
    assert isinstance(rule, Gradient)
    if rule.gradient_norm:
        gain = directions / (directions + task.dimensions - 1)
    if task.nodes is None:
        powers = -2 if rule.quantization_aware else 0
    else:
        # Of a channel s s_a / s_y, and 1 / s^2.
        powers = -1 if rule.quantization_aware else 1
        sides = 2 if settings.estimator == "antithetic" else 1
        gain *= _node_chain(task, model, metadata) / (directions * sides * settings.nodes.perturbation)
    extreme = min if powers < 0 else max
    reference = float(extreme((extreme(s) for s in known if len(s)), default=1.0))
    factors = [np.minimum((s / reference) ** powers, 1.0) if powers else np.ones(1) for s in scales]
    return Gain(
        _scale(gain * reference**powers),
        tuple(
            None if bool(np.all(f == 1)) else _q31(np.broadcast_to(f, metadata.trainable[i].channels))
            for i, f in zip(task.tensors, factors, strict=True)
        ),
    )


def _used_channels(weights: WeightArray, channels: int, inner: int, scales: int) -> NDArray[np.bool_]:
    """Returns whether each channel has a nonzero weight, [scales]; with one scale, whether any has."""
    of_channel = np.asarray(weights.reshape(-1, channels, inner) != 0).any(axis=(0, 2))
    assert isinstance(of_channel, np.ndarray)
    return of_channel if scales == channels else np.array([bool(of_channel.any())])


def channel_scales(model: Model, metadata: ZoMetadata, trainable: int) -> NDArray[np.float64]:
    """Returns the scales of the filter of a trainable's layer, per output channel, float64 [channels] or [1]."""
    return _scales(_layer(model, metadata, trainable).inputs[1])


def _layer(model: Model, metadata: ZoMetadata, trainable: int) -> Operator:
    """Returns the first operator that reads a trainable filter or bias."""
    t = metadata.trainable[trainable]
    at = 2 if t.bias else 1
    return next(
        op
        for op in model.subgraphs[t.segment].operators
        if (x := op.input(at)) is not None and x.name == t.name and x.is_variable
    )


def _scales(tensor: Tensor | None) -> NDArray[np.float64]:
    assert tensor is not None and tensor.quantization is not None  # the rewriter has refused others
    return np.asarray(tensor.quantization.scales, np.float64)


def _node_chain(task: LoweredTask, model: Model, metadata: ZoMetadata) -> float:
    """Returns s_a / s_y, divided by H W for nodes that are means over H W outputs."""
    nodes = task.nodes
    assert nodes is not None
    entering = _scales(_layer(model, metadata, task.tensors[0]).inputs[0])[0]
    read = _scales(entering_tensor(model, metadata, nodes.node_segment))[0]
    chain = float(entering / read)
    return chain / credited(nodes) if nodes.form == "mean" else chain


def _scale(value: float) -> NodeState:
    fraction, exponent = math.frexp(value)
    mantissa = round(fraction * 2**32)
    return NodeState(min(mantissa, 2**32 - 1), exponent - 32)


def _q31(factors: NDArray[np.float64]) -> NDArray[np.int32]:
    return np.minimum(np.rint(factors * 2.0**31), 2**31 - 1).astype(np.int32)
