# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""Costs of a run in forward equivalents, from its log and its model alone."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

from ..converters import Model, ZoMetadata, ZoNodes, read_metadata
from ..core import CSettings, TaskEntry, TaskKind
from ..logs import SeedLog, SnapshotLog
from .costs import Costs, PassCosts, TaskCosts, later_starts
from .plan import PlannedTask
from .settings import ESTIMATORS
from .tasks import Exact, Nodes, Weights

__all__ = ["recorded_costs", "recorded_task_costs", "recorded_tasks", "task_of"]


def recorded_costs(model: Model, log: SeedLog | SnapshotLog) -> Callable[[int], float]:
    """Returns the function from a number of steps to what they cost, in forward equivalents.

    What a run has paid for measuring its learning rate, before the first step, is in no log, and not counted.

    Args:
        model: the ZO model that the log was recorded on.
        log: the log, or any part of it.
    """
    settings = log.settings
    if isinstance(log, SeedLog):
        metadata = read_metadata(model)
        queries = int(settings.queries)
        passes = queries + 1 if _sides(settings) == 1 else queries * (4 if settings.sharpness else 2)
        starts = later_starts(metadata, bool(settings.blocks), int(settings.parts))
        return PassCosts(Costs(model, metadata), _minibatch(settings), passes, starts).until
    tasks, samples = recorded_task_costs(model, log), int(settings.samples)
    return lambda steps: tasks.until(steps, samples)


def recorded_task_costs(model: Model, log: SnapshotLog) -> TaskCosts:
    """Returns the costs of the tasks of a layer-wise run, in forward equivalents.

    Args:
        model: the ZO model that the log was recorded on.
        log: the log, or any part of it.
    """
    metadata = read_metadata(model)
    tasks = recorded_tasks(log.tasks, metadata)
    return TaskCosts(Costs(model, metadata), tasks, metadata, _minibatch(log.settings), _sides(log.settings))


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
