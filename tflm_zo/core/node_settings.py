# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""Tasks and settings of a layer-wise run (``ops/core/run/zo_node_settings.h``), from Python."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from enum import IntEnum
from typing import Any, Final

from .loader import constants
from .node_layer import NodeLayer, NodeState

__all__ = ["NODE_HEAD", "NODE_TAIL", "NodeRules", "NodeTask", "TaskKind"]

NODE_HEAD: Final[int] = constants.ZO_NODE_HEAD
"""Number of the task that follows one that the loss follows."""

NODE_TAIL: Final[int] = constants.ZO_NODE_TAIL
"""The same of a task to which a backward program leads errors."""


class TaskKind(IntEnum):
    """Kind of a task (``zo_task_kind``)."""

    NODES = constants.ZO_TASK_NODES
    WEIGHTS = constants.ZO_TASK_WEIGHTS
    SHARED_NODES = constants.ZO_TASK_SHARED_NODES


@dataclass(frozen=True)
class NodeTask:
    """Task of a run: a layer, by its nodes or its exact gradient, or tensors that are perturbed together.

    Attributes:
        layer: geometry of the layer; None for tensors that are perturbed.
        start_segment: first segment that reads the nodes, or that has one of the tensors.
        queries: perturbations per sample and step, 1..32; 0 trains by the exact gradient, or by those of
            the task before, whose nodes the layer shares.
        mu: perturbation of a node, LSB.
        rate: factor of the run's rate, unit 2^-16.
        following: number of the exact task that reads the nodes of this one; None if the loss does.
        gain: gain of a "gradient" rule, see ``zo_node_task``.
        boundary_bytes: bytes of a sample's activation that enters the first segment of perturbed tensors; 0
            for the network's inputs.
        shared: True if the layer's nodes are those of the last task before that has nodes of its own.
        keeps_inputs: True if the layer's inputs are kept, as a step of its filter needs; a step of its biases
            alone does not.
        in_tail: True if a backward program leads errors to the task.
    """

    layer: NodeLayer | None
    start_segment: int
    queries: int
    mu: int = 2
    rate: int = 65536
    following: int | None = None
    gain: NodeState = field(default_factory=NodeState)
    boundary_bytes: int = 0
    shared: bool = False
    keeps_inputs: bool = True
    in_tail: bool = False

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

    @property
    def following_number(self) -> int:
        """The number `following` as the core takes it."""
        if self.in_tail:
            return NODE_TAIL
        return NODE_HEAD if self.following is None else self.following


@dataclass(frozen=True)
class NodeRules:
    """Settings that ``zo_node_settings`` has beyond those of every run.

    Attributes:
        weight_clip: clip of perturbed weights' differences, unit 2^-16.
        rule: rule of node tasks, 0: RMS, 1: fixed.
        exact_rule: rule of exact tasks, 0: RMS, 2: bits, 3: standardized.
        exact_bits: bits of updates by rule 2, in each of three stages, 1..7.
        weight_bits: bits of updates of perturbed weights, if the run's rule rounds them, 1..7.
        rows_least, rows_most: shares of exact tasks' outputs that a step updates, unit 1/65535; both 0: all.
    """

    weight_clip: int = 0
    rule: int = 0
    exact_rule: int = 0
    exact_bits: tuple[int, ...] = (0, 0, 0)
    weight_bits: int = 0
    rows_least: int = 0
    rows_most: int = 0

    @classmethod
    def of(cls, struct: Any) -> NodeRules:
        """Returns the rules of a ``zo_node_settings``."""
        numbers = struct.numbers()
        return cls(**{field.name: numbers[field.name] for field in fields(cls)})

    def numbers(self) -> dict[str, int | tuple[int, ...]]:
        """Returns the fields of ``zo_node_settings`` that the rules set, by name, in order."""
        return {field.name: getattr(self, field.name) for field in fields(self)}
