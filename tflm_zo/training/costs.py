# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""Costs of a run in forward equivalents: multiply-accumulates (MACs) relative to one forward pass."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ..converters import Model, ZoMetadata, ZoNodes
from ..converters.operator_costs import macs
from .plan import PlannedTask, backward_steps, credited, plan_tasks
from .settings import Settings

__all__ = [
    "Costs",
    "NodeCosts",
    "PassCosts",
    "RunCosts",
    "TaskCosts",
    "WeightCosts",
    "block_segments",
    "later_starts",
]


def block_segments(metadata: ZoMetadata) -> list[int]:
    """Returns the first segment of each block."""
    segments = [0] * len(metadata.blocks)
    for t in reversed(metadata.trainable):
        segments[t.block] = t.segment
    return segments


def later_starts(metadata: ZoMetadata, blocks: bool, parts: int) -> list[int]:
    """Returns the segments at which the forward passes of consecutive steps of weight perturbation begin,
    over and over, but for the first pass of each step, which is whole: its samples are new.

    Args:
        metadata: metadata of the ZO model.
        blocks: True if each step moves one block, in turn.
        parts: invokes that pass a minibatch forward. What enters a segment is that of the last of them, so
            several parts begin at the network's inputs.
    """
    return block_segments(metadata) if blocks and parts == 1 else [0]


class Costs:
    """Costs of one sample, as shares of its whole forward pass.

    Attributes:
        forward: MACs of a forward pass.
    """

    def __init__(self, model: Model, metadata: ZoMetadata) -> None:
        self._segments = [sum(macs(op) for op in g.operators) / metadata.batch for g in model.subgraphs]
        self.forward = sum(self._segments)

    def suffix(self, start: int) -> float:
        """Returns the MACs of running the network from a segment on."""
        return sum(self._segments[start:]) / self.forward if self.forward else 1.0

    def update(self, nodes: ZoNodes) -> float:
        """Returns the MACs of crediting a layer's weights with one sample's nodes; biases take none."""
        return credited(nodes) * nodes.geometry["out_c"] * nodes.row / self.forward


class PassCosts:
    """Costs of steps that are forward passes alone.

    Args:
        costs: costs of a sample.
        samples: samples of a minibatch.
        passes: forward passes of each of them in a step.
        starts: where they begin, see `later_starts`.
    """

    def __init__(self, costs: Costs, samples: int, passes: int, starts: Sequence[int]) -> None:
        self._steps = [samples * (1 + (passes - 1) * costs.suffix(k)) for k in starts]

    def until(self, steps: int) -> float:
        """Returns the cost of a number of steps."""
        rounds, rest = divmod(steps, len(self._steps))
        return rounds * sum(self._steps) + sum(self._steps[:rest])


class WeightCosts(PassCosts):
    """Costs of weight perturbation, whose updates multiply nothing."""

    def __init__(self, costs: Costs, settings: Settings, metadata: ZoMetadata) -> None:
        blocks, parts = settings.weights.scope == "blocks", settings.batch_size // metadata.batch
        super().__init__(costs, settings.batch_size, settings.forwards, later_starts(metadata, blocks, parts))


class TaskCosts:
    """Costs of a run of planned tasks.

    Args:
        costs: costs of a sample.
        tasks: tasks of the run.
        metadata: metadata of the ZO model.
        batch_size: samples of a minibatch.
        sides: forward passes of a query, 1 or 2.

    Attributes:
        tasks: tasks of the run.
        of_tasks: what each task takes of a sample beyond the forward pass: its queries, its update, and
            errors that come back through the layer that follows.
        first_segment: segment at which forward passes begin, since nothing before it is trained.
    """

    def __init__(
        self, costs: Costs, tasks: list[PlannedTask], metadata: ZoMetadata, batch_size: int, sides: int
    ) -> None:
        self._costs, self.tasks = costs, tasks
        self.first_segment = min(t.first_segment for t in self.tasks)
        sample, queries, self.of_tasks = costs.suffix(self.first_segment), 0.0, list[float]()
        for t in self.tasks:
            asked, updates = sides * t.asked * costs.suffix(t.start_segment), list[float]()
            if t.nodes is not None and t.trains_filter:
                updates.append(costs.update(t.nodes))
            # Errors come back through the layer that follows: as many products as it has weights.
            if t.following is not None:
                nodes = self.tasks[t.following].nodes
                assert nodes is not None  # it is exact, too
                updates.append(costs.update(nodes))
            queries += asked
            for update in updates:
                sample += update
            self.of_tasks.append(asked + sum(updates))
        for step in backward_steps(self.tasks, metadata):
            if step.layer is not None and metadata.tail is not None:
                sample += costs.update(metadata.tail.layers[step.layer])
        self._batch, self._step = batch_size, batch_size * (sample + queries)
        self._queries = batch_size * queries

    def queries(self, nodes: ZoNodes) -> int:
        """Returns the queries that a layer asks for; 0 for one that is trained by its exact gradient, or by
        the queries of a layer that shares its nodes.
        """
        return next(t.asked for t in self.tasks if t.nodes == nodes)

    def until(self, steps: int, samples: int) -> float:
        """Returns the cost of a number of steps, and of the prefix for each training sample that they use."""
        used = min(samples, steps * self._batch)
        return used * (1 - self._costs.suffix(self.first_segment)) + steps * self._step

    def without_queries(self, steps: int, samples: int) -> float:
        """Returns the cost of `until` of steps that run no query."""
        return self.until(steps, samples) - steps * self._queries


class NodeCosts(TaskCosts):
    """Costs of a layer-wise run; see `TaskCosts`."""

    def __init__(self, costs: Costs, settings: Settings, metadata: ZoMetadata) -> None:
        tasks = plan_tasks(settings, metadata, costs.suffix)
        sides = 2 if settings.estimator == "antithetic" else 1
        super().__init__(costs, tasks, metadata, settings.batch_size, sides)


class RunCosts:
    """Costs of a run of either kind.

    Args:
        settings: settings of the run.
        model: ZO model.
        metadata: metadata of the model.
        samples: number of training samples.
    """

    def __init__(self, settings: Settings, model: Model, metadata: ZoMetadata, samples: int) -> None:
        costs, self._samples = Costs(model, metadata), samples
        kind = NodeCosts if settings.is_layerwise else WeightCosts
        self._costs = kind(costs, settings, metadata)

    def until(self, steps: int) -> float:
        """Returns the cost of a number of steps."""
        if isinstance(self._costs, WeightCosts):
            return self._costs.until(steps)
        return self._costs.until(steps, self._samples)

    def steps(self, budget: float) -> int:
        """Returns the number of steps that a budget pays for."""
        return _largest(budget, self.until)


def _largest(budget: float, cost: Callable[[int], float]) -> int:
    """Returns the most steps whose cost is within the budget; 0 if one step costs more."""
    low, high = 0, 1
    while cost(high) <= budget:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if cost(middle) <= budget else (low, middle)
    return low
