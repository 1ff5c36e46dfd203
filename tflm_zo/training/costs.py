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


def block_segments(metadata: ZoMetadata) -> list[int]:
    """Returns the first segment of each block."""
    segments = [0] * len(metadata.blocks)
    for t in reversed(metadata.trainable):
        segments[t.block] = t.segment
    return segments


def later_starts(metadata: ZoMetadata, blocks: bool, parts: int) -> list[int]:
    """Returns the first segments of the forward passes of consecutive steps of weight perturbation, which repeat;
    `blocks` is True if each step moves one block, in turn.

    The first pass of each step is complete and not counted, because its samples are new. With several parts (invokes) a
    minibatch, all passes begin at the network's inputs: a segment's input is kept for the last part only.
    """
    return block_segments(metadata) if blocks and parts == 1 else [0]


class SampleCosts:
    """Costs of one sample, as shares of its whole forward pass, which has `forward` MACs."""

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


def step_integers(settings: Settings, batch: int, blocks: int) -> CSettings:
    """Returns the settings of the control unit that tell the passes of a step, for a model of so many blocks."""
    weights = settings.weights
    return CSettings(
        batch=batch,
        parts=settings.parts(batch),
        estimator=ESTIMATORS.index(settings.estimator),
        queries=weights.queries_of(()),
        blocks=blocks if weights.scope == "blocks" else 0,
    )


def run_costs(settings: Settings, model: Model, metadata: ZoMetadata) -> RunCosts:
    """Returns the costs of a run of these settings."""
    own = step_integers(settings, metadata.batch, len(metadata.blocks))
    return costs_of(own, plan_tasks(settings, metadata, SampleCosts(model, metadata).suffix), model, metadata)


def first_segment(tasks: Sequence[LoweredTask]) -> int:
    """Returns the first segment that forward passes must run: nothing before it is trained."""
    return min(t.first_segment for t in tasks)


def sides_of(run: CSettings) -> int:
    """Returns the forward passes of a query."""
    return 1 if ESTIMATORS[int(run.estimator)] == "one-sided" else 2


def passes_of(run: CSettings) -> int:
    """Returns the forward passes of a sample in a step of weight perturbation."""
    queries = int(run.queries)
    return queries + 1 if sides_of(run) == 1 else queries * 2


def costs_of(run: CSettings, tasks: Sequence[LoweredTask], model: Model, metadata: ZoMetadata) -> RunCosts:
    """Returns the costs of a lowered run; without tasks, of weight perturbation, whose updates have no multiplications.
    Settings of rate, length and data are not read.
    """
    costs, minibatch, sides = SampleCosts(model, metadata), int(run.batch) * int(run.parts), sides_of(run)
    if not tasks:
        starts = later_starts(metadata, bool(run.blocks), int(run.parts))
        later = passes_of(run) - 1
        return RunCosts(minibatch, tuple(minibatch * (1 + later * costs.suffix(k)) for k in starts))
    sample = suffix = costs.suffix(first_segment(tasks))
    for task in tasks:
        sample += _update(costs, task)
    for step in backward_steps(tasks, metadata):
        if step.layer is not None and metadata.tail is not None:
            sample += costs.update(metadata.tail.layers[step.layer])
    queries = sum(_queries(costs, t, sides) for t in tasks)
    return RunCosts(minibatch, (minibatch * (sample + queries),), 1 - suffix, minibatch * queries)


def _queries(costs: SampleCosts, task: LoweredTask, sides: int) -> float:
    return sides * task.queries * costs.suffix(task.start_segment)


def _update(costs: SampleCosts, task: LoweredTask) -> float:
    return costs.update(task.nodes) if task.nodes is not None and task.keeps_inputs else 0.0


def recorded_costs(model: Model, log: Log) -> Callable[[int], float]:
    """Returns a function that computes the cost of a number of steps of a log, in forward equivalents, without the
    measurement of the learning rate, which the log does not have.
    """
    metadata = read_metadata(model)
    found = costs_of(log.settings, recorded_tasks(log.tasks, metadata), model, metadata)
    return lambda steps: found.until(steps, int(log.settings.samples))


def recorded_task_costs(model: Model, log: Log) -> list[tuple[LoweredTask, float]]:
    """Returns the tasks of a logged layer-wise run with the cost of a sample beyond its forward pass: its queries of 1
    or 2 passes, and its update.
    """
    metadata = read_metadata(model)
    costs, sides = SampleCosts(model, metadata), sides_of(log.settings)
    return [(t, _queries(costs, t, sides) + _update(costs, t)) for t in recorded_tasks(log.tasks, metadata)]
