# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""A layer-wise run as the control unit takes it: in integers, without a runtime and without data."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from ..converters import Model, ZoMetadata, step_multipliers, update_masks
from ..core import (
    BackwardProgram,
    BackwardStep,
    ErrorField,
    NodeRules,
    NodeState,
    NodeTask,
)
from .costs import SampleCosts, first_segment
from .from_metadata import model_loss, node_layer
from .gains import channel_scales, task_gain
from .integers import layerwise_integers
from .plan import PlannedTask, backward_steps, plan_tasks
from .settings import Settings
from .tasks import NODE_RULES, Exact, Nodes, Weights

__all__ = ["NodePlan", "backward_program", "placed_task"]

# Exact gradients perturb nothing; logs have the number of the task Nodes for them or, without one, this.
_MU_WITHOUT_NODES: Final = 2


def _relative_scales(scales: NDArray[np.float64]) -> NDArray[np.int16] | None:
    """Filter scales of a layer's outputs relative to the largest, Q15; None where they are one."""
    if len(scales) < 2:
        return None
    relative = np.rint(scales / float(scales.max()) * 2**15)
    return np.minimum(relative, 2**15 - 1).astype(np.int16)


def _mantissas(factors: NDArray[np.float64]) -> tuple[NDArray[np.int16], int]:
    """Returns factors as integers within +-32767 in units of 2^(exponent - 15), and the exponent."""
    exponent = max(-255, min(255, math.frexp(float(np.abs(factors).max()))[1]))
    return np.clip(np.rint(factors * 2.0 ** (15 - exponent)), -32767, 32767).astype(np.int16), exponent


def backward_program(
    tasks: Sequence[PlannedTask], model: Model, metadata: ZoMetadata
) -> BackwardProgram | None:
    """Returns the program that leads errors back to the tasks of an exact tail; None where none is needed."""
    tail, kept = metadata.tail, backward_steps(tasks, metadata)
    exact = {t.nodes.trainable: i for i, t in enumerate(tasks) if t.kind is Exact and t.nodes is not None}
    if tail is None or not exact:
        return None
    steps = []
    for step in kept:
        layer, tensor, factors = None, None, np.array(step.factors)
        if step.layer is not None:
            nodes = tail.layers[step.layer]
            layer, tensor = node_layer(nodes), nodes.trainable
            scales = channel_scales(model, metadata, tensor)
            factors = np.broadcast_to(scales, nodes.geometry["out_c"])
        mantissas, exponent = _mantissas(factors) if factors.size else (None, 0)
        own = step.kind, step.source, step.target, step.numbers
        steps.append(BackwardStep(*own, layer, mantissas, exponent, tensor, step.segment))
    fields = zip(tail.layers, tail.of_layers, strict=True)
    return BackwardProgram(
        tuple(steps),
        tuple(ErrorField(f.count, f.at) for f in tail.fields),
        {exact[n.trainable]: f for n, f in fields if n.trainable in exact},
    )


def _rules(settings: Settings) -> NodeRules:
    all_rows = settings.exact.rows == (1.0, 1.0)
    least, most = (0 if all_rows else round(share * 65535) for share in settings.exact.rows)
    return NodeRules(
        weight_clip=round(settings.weights.clip * 65536),
        rule=NODE_RULES.index(settings.nodes.rule),
        exact_rule={"rms": 0, "bits": 2, "standardized": 3}[settings.exact.rule],
        exact_bits=settings.exact.bits,
        weight_bits=settings.weights.bits,
        rows_least=least,
        rows_most=most,
    )


def _boundary_bytes(model: Model, metadata: ZoMetadata, segment: int) -> int:
    """Returns the bytes of a sample's activation that enters a segment; 0 for the first segment."""
    if segment == 0:
        return 0
    port = metadata.segments[segment].input_index("boundary")
    assert port is not None
    return math.prod(model.subgraphs[segment].inputs[port].shape) // metadata.batch


def placed_task(
    task: PlannedTask,
    model: Model,
    metadata: ZoMetadata,
    program: BackwardProgram | None,
    *,
    unmasked: bool = False,
) -> NodeTask:
    """Returns a task as the control unit takes it, but for the sizes of its perturbations and updates.

    Args:
        task: the task.
        model: the ZO model.
        metadata: the model's metadata.
        program: program of the run, see `backward_program`.
        unmasked: True if nodes at the clamp of the activation are perturbed like the others.
    """
    weights = task.kind is Weights
    return NodeTask(
        None if task.nodes is None else node_layer(task.nodes, unmasked=unmasked),
        task.start_segment,
        task.asked,
        following=task.following,
        boundary_bytes=_boundary_bytes(model, metadata, task.start_segment) if weights else 0,
        shared=task.shared,
        keeps_inputs=weights or task.trains_filter,
        in_tail=program is not None
        and task.kind is Exact
        and (task.nodes is not None and not task.nodes.head),
    )


class NodePlan:
    """Plan of a layer-wise run, made of its settings and the model alone.

    Args:
        model: a ZO model with nodes or, for a run that perturbs weights layer by layer, without.
        metadata: the model's metadata.
        settings: settings of the run, which `check_model` has checked.
        total: number of steps.
        samples: number of samples in the training set.

    Attributes:
        tasks: tasks of the run, spread over the layers.
        first_segment: segment at which a forward pass begins, since nothing before it changes.
        program: program that leads errors back to the tasks of an exact tail; None without one, or for one of
            dense layers alone.
        node_tasks: the tasks for `NodeControl`, in the same order.
        rules: rules for `NodeControl`.
        settings: settings for `NodeControl`.
        tensors: trainable tensors of all tasks, in the order of snapshots.
        limit: largest magnitude of weights between steps, LSB.
        multipliers: factors of the update, int32 [channels] Q31 by tensor name; None: 1.
        masks: masks of the update by tensor name, for the tensors that have one.
        filter_scales: scales of exact tasks, int16 [outputs] Q15 relative to the largest; None for one scale,
            or another kind of task.
        loss: the model's loss.

    Raises:
        SettingsError: the settings do not fit the model.
    """

    def __init__(
        self, model: Model, metadata: ZoMetadata, settings: Settings, total: int, samples: int
    ) -> None:
        self._settings = settings
        self.tasks = plan_tasks(settings, metadata, SampleCosts(model, metadata).suffix)
        self.first_segment = first_segment(self.tasks)
        self.tensors = [metadata.trainable[i] for task in self.tasks for i in task.tensors]
        self.limit = 127 - metadata.headroom
        own, self.masks = step_multipliers(model), update_masks(model)
        self.multipliers = {t.name: own.get(t.name) for t in self.tensors}
        self.settings = layerwise_integers(settings, steps=total, samples=samples, batch=metadata.batch)
        self.program = backward_program(self.tasks, model, metadata)
        self.node_tasks = [self._task(task, model, metadata) for task in self.tasks]
        self.rules = _rules(settings)
        self.filter_scales = [
            None if task.kind is not Exact else _relative_scales(channel_scales(model, metadata, i))
            for task in self.tasks
            for i in task.tensors[:1]
        ]
        loss = metadata.loss
        assert loss is not None  # a trainer or generator has refused such a model
        self.loss = model_loss(loss)

    def _task(self, task: PlannedTask, model: Model, metadata: ZoMetadata) -> NodeTask:
        settings, weights = self._settings, task.kind is Weights
        rule = settings.weights.rule if weights else settings.nodes.rule
        gain = NodeState()
        if rule == "gradient" and task.kind is not Exact:
            found = task_gain(task, settings, model, metadata)
            gain = found.gain
            for i, multipliers in zip(task.tensors, found.multipliers, strict=True):
                self.multipliers[metadata.trainable[i].name] = multipliers
        rate = 65536
        if weights and settings.weights.learning_rate is not None:
            rate = round(65536 * settings.weights.learning_rate / settings.chosen_rate(1))
        placed = placed_task(task, model, metadata, self.program, unmasked=not settings.nodes.masked)
        mu = settings.nodes.perturbation if settings.has(Nodes) else _MU_WITHOUT_NODES
        return dataclasses.replace(placed, mu=0 if weights else mu, rate=rate, gain=gain)
