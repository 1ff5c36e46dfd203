# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""Costs of a run in forward equivalents, from its log and its model alone."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

from ..converters import Model, ZoMetadata, ZoNodes, read_metadata
from ..core import CSettings, TaskEntry, TaskKind
from ..logs import Log
from .costs import SampleCosts, costs_of_passes, costs_of_tasks, later_starts, task_costs
from .plan import PlannedTask
from .settings import ESTIMATORS
from .tasks import Exact, Nodes, Weights

__all__ = ["recorded_costs", "recorded_task_costs", "recorded_tasks", "task_of"]


def recorded_costs(model: Model, log: Log) -> Callable[[int], float]:
    """Returns the function from a number of steps to their cost, in forward equivalents.

    The cost of measuring the learning rate, before the first step, is in no log, and not counted.

    Args:
        model: the ZO model that the log was recorded on.
        log: the log, or any part of it.
    """
    settings, metadata = log.settings, read_metadata(model)
    costs, minibatch, sides = SampleCosts(model, metadata), _minibatch(settings), _sides(settings)
    if not log.is_layerwise:
        queries = int(settings.queries)
        passes = queries + 1 if sides == 1 else queries * (4 if settings.sharpness else 2)
        starts = later_starts(metadata, bool(settings.blocks), int(settings.parts))
        found = costs_of_passes(costs, minibatch, passes, starts)
    else:
        found = costs_of_tasks(costs, recorded_tasks(log.tasks, metadata), metadata, minibatch, sides)
    return lambda steps: found.until(steps, int(settings.samples))


def recorded_task_costs(model: Model, log: Log) -> list[tuple[PlannedTask, float]]:
    """Returns the tasks of a layer-wise run, each with its cost for a sample beyond the forward pass, in
    forward equivalents.

    Args:
        model: the ZO model that the log was recorded on.
        log: the log, or any part of it.
    """
    metadata = read_metadata(model)
    tasks = recorded_tasks(log.tasks, metadata)
    costs = task_costs(SampleCosts(model, metadata), tasks, _sides(log.settings))
    return list(zip(tasks, costs, strict=True))


def task_of(entry: TaskEntry) -> type[Nodes | Exact | Weights]:
    """Returns the kind of the task that a log's entry records."""
    if entry.kind == TaskKind.WEIGHTS:
        return Weights
    return Exact if entry.kind == TaskKind.NODES and not entry.queries else Nodes


def _minibatch(settings: CSettings) -> int:
    return int(settings.batch) * int(settings.parts)


def _sides(settings: CSettings) -> int:
    """Returns the forward passes of a query."""
    return 1 if ESTIMATORS[int(settings.estimator)] == "one-sided" else 2


def recorded_tasks(entries: Sequence[TaskEntry], metadata: ZoMetadata) -> list[PlannedTask]:
    """Returns the tasks of a layer-wise run, from their entries in its log."""
    tasks = []
    for entry in entries:
        kind, tensors = task_of(entry), [metadata.trainable[i] for i in entry.tensors]
        nodes = None if kind is Weights else _nodes_of(entry.tensors[0], metadata, exact=kind is Exact)
        tasks.append(
            PlannedTask(
                kind,
                entry.tensors,
                tensors[0].segment if nodes is None else nodes.node_segment,
                entry.queries,
                sum(t.trained for t in tensors) if nodes is None else nodes.count,
                nodes,
                shared=entry.kind == TaskKind.SHARED_NODES,
                trains_filter=not tensors[0].bias,
            )
        )
    if metadata.tail is None:  # errors come back through the exact layer that follows in the network
        exact = sorted((i for i, t in enumerate(tasks) if t.kind is Exact), key=lambda i: tasks[i].tensors)
        for i, following in zip(exact[:-1], exact[1:], strict=True):
            tasks[i] = dataclasses.replace(tasks[i], following=following)
    return tasks


def _nodes_of(tensor: int, metadata: ZoMetadata, *, exact: bool) -> ZoNodes:
    layers = [*(metadata.tail.layers if exact and metadata.tail is not None else ()), *metadata.nodes]
    return next(n for n in layers if n.trainable == tensor)
