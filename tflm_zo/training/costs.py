"""Costs of a run in forward equivalents (multiply-accumulates, MACs, divided by those of one forward pass),
from its settings or its log.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ..converters import Model, ZoMetadata, ZoNodes, read_metadata
from ..converters.kernels import macs
from ..core import CSettings
from ..logs import Log
from .plan import LoweredTask, backward_steps, credited, plan_tasks, recorded_tasks
from .settings import ESTIMATORS, Settings

__all__ = [
    "RunCosts",
    "SampleCosts",
    "block_segments",
    "costs_of_passes",
    "costs_of_tasks",
    "first_segment",
    "later_starts",
    "recorded_costs",
    "recorded_task_costs",
    "run_costs",
    "task_costs",
]


def block_segments(metadata: ZoMetadata) -> list[int]:
    """Returns the first segment of each block."""
    segments = [0] * len(metadata.blocks)
    for t in reversed(metadata.trainable):
        segments[t.block] = t.segment
    return segments


def later_starts(metadata: ZoMetadata, blocks: bool, parts: int) -> list[int]:
    """Returns the first segments of the forward passes of consecutive steps of weight perturbation, which
    repeat. The first pass of each step is complete and not counted, because its samples are new.

    Args:
        metadata: metadata of the ZO model.
        blocks: True if each step moves one block, in turn.
        parts: number of invokes for a minibatch. With several parts, all passes begin at the network's
            inputs, since a segment's input is kept for the last part only.
    """
    return block_segments(metadata) if blocks and parts == 1 else [0]


class SampleCosts:
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
        """Returns the MACs of a weight update with one sample's nodes; biases take none."""
        return credited(nodes) * nodes.geometry["out_c"] * nodes.row / self.forward


@dataclass(frozen=True)
class RunCosts:
    """Cost of a run in forward equivalents.

    until(n) = prefix * min(samples, n * minibatch) + steps[0] + ... + steps[n - 1]
    """

    minibatch: int  # samples of a minibatch
    steps: tuple[float, ...]  # costs of consecutive steps, which repeat
    # share of a forward pass that lies before the first trained layer; a run computes it once for each sample
    # that it uses
    prefix: float = 0.0
    queries: float = 0.0  # cost of a step's queries, which `steps` includes; 0 for weight perturbation

    def until(self, steps: int, samples: int) -> float:
        """Returns the cost of a number of steps on a training set of `samples` samples."""
        rounds, rest = divmod(steps, len(self.steps))
        used = min(samples, steps * self.minibatch)
        return used * self.prefix + rounds * sum(self.steps) + sum(self.steps[:rest])

    def affordable(self, budget: float, samples: int) -> int:
        """Returns the largest number of steps whose cost is within a budget, possibly 0."""
        low, high = 0, 1
        while self.until(high, samples) <= budget:
            low, high = high, 2 * high
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if self.until(middle, samples) <= budget else (low, middle)
        return low


def run_costs(settings: Settings, model: Model, metadata: ZoMetadata) -> RunCosts:
    """Returns the costs of a run.

    Args:
        settings: settings of the run.
        model: ZO model.
        metadata: metadata of the model.
    """
    costs, minibatch = SampleCosts(model, metadata), settings.batch_size
    if settings.is_layerwise:
        sides = 2 if settings.estimator == "antithetic" else 1
        return costs_of_tasks(costs, plan_tasks(settings, metadata, costs.suffix), metadata, minibatch, sides)
    blocks, parts = settings.weights.scope == "blocks", minibatch // metadata.batch
    return costs_of_passes(costs, minibatch, settings.forwards, later_starts(metadata, blocks, parts))


def costs_of_passes(costs: SampleCosts, minibatch: int, passes: int, starts: Sequence[int]) -> RunCosts:
    """Returns the costs of weight perturbation. Its updates have no multiplications.

    Args:
        costs: costs of a sample.
        minibatch: samples of a minibatch.
        passes: forward passes of each sample in a step.
        starts: segments at which later passes begin, see `later_starts`.
    """
    return RunCosts(minibatch, tuple(minibatch * (1 + (passes - 1) * costs.suffix(k)) for k in starts))


def first_segment(tasks: Sequence[LoweredTask]) -> int:
    """Returns the first segment that forward passes must run: nothing before it is trained."""
    return min(t.first_segment for t in tasks)


def costs_of_tasks(
    costs: SampleCosts, tasks: Sequence[LoweredTask], metadata: ZoMetadata, minibatch: int, sides: int
) -> RunCosts:
    """Returns the costs of a layer-wise run.

    Args:
        costs: costs of a sample.
        tasks: tasks of the run.
        metadata: metadata of the ZO model.
        minibatch: samples of a minibatch.
        sides: forward passes of a query, 1 or 2.
    """
    sample = suffix = costs.suffix(first_segment(tasks))
    for update in (update for t in tasks for update in _updates(costs, t, tasks)):
        sample += update
    for step in backward_steps(tasks, metadata):
        if step.layer is not None and metadata.tail is not None:
            sample += costs.update(metadata.tail.layers[step.layer])
    queries = sum(_queries(costs, t, sides) for t in tasks)
    return RunCosts(minibatch, (minibatch * (sample + queries),), 1 - suffix, minibatch * queries)


def task_costs(costs: SampleCosts, tasks: Sequence[LoweredTask], sides: int) -> list[float]:
    """Returns the cost of each task for one sample, beyond the forward pass.

    The cost of a task has its queries, its update, and errors that pass back through the next layer. For
    arguments see `costs_of_tasks`.
    """
    return [_queries(costs, t, sides) + sum(_updates(costs, t, tasks)) for t in tasks]


def _queries(costs: SampleCosts, task: LoweredTask, sides: int) -> float:
    return sides * task.queries * costs.suffix(task.start_segment)


def _updates(costs: SampleCosts, task: LoweredTask, tasks: Sequence[LoweredTask]) -> list[float]:
    updates = []
    if task.nodes is not None and task.keeps_inputs:
        updates.append(costs.update(task.nodes))
    # Errors come back through the layer that follows: as many products as it has weights.
    if task.following is not None:
        nodes = tasks[task.following].nodes
        assert nodes is not None  # it is exact, too
        updates.append(costs.update(nodes))
    return updates


def recorded_costs(model: Model, log: Log) -> Callable[[int], float]:
    """Returns a function that computes the cost of a number of steps, in forward equivalents.

    It excludes the measurement of the learning rate, which the log does not have.

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


def recorded_task_costs(model: Model, log: Log) -> list[tuple[LoweredTask, float]]:
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


def _minibatch(settings: CSettings) -> int:
    return int(settings.batch) * int(settings.parts)


def _sides(settings: CSettings) -> int:
    """Returns the forward passes of a query."""
    return 1 if ESTIMATORS[int(settings.estimator)] == "one-sided" else 2
