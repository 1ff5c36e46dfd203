# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""The plan of a run that trains layers one by one: its tasks, spread over the model's tensors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Final

from ..converters import ZoBackwardStep, ZoMetadata, ZoNodes
from ..converters.settings import blocks_number, last_number
from ..core import MAX_QUERIES
from .checks import SettingsError
from .settings import Settings
from .tasks import Exact, Nodes, Task, Weights

__all__ = [
    "PlannedTask",
    "backward_steps",
    "credited",
    "exact_tail",
    "is_exact_head",
    "own_layers",
    "plan_tasks",
    "trained_tensors",
]

# Cost of a layer's queries, as a share of a forward pass, where their number is chosen.
_QUERY_BUDGET: Final = 0.1
_FEWEST_QUERIES: Final = 2


@dataclass(frozen=True)
class PlannedTask:
    """A task's part in a layer, or, of `Weights` with scope "model", in consecutive layers.

    Attributes:
        kind: class of the task.
        tensors: consecutive numbers of the trainable tensors; of a layer its filter, its bias or both.
        start_segment: first segment that a query runs.
        queries: queries whose differences make the estimate, per step; 0: `Exact`.
        dimensions: number of values that are perturbed: nodes, or weights and biases.
        nodes: `Nodes` and `Exact`: of the layer.
        following: `Exact`: number of the planned task through which errors come back; None: they come from
            the loss, or by the steps of `backward_steps`.
        shared: True if the nodes are those of the last planned task before that asks for queries.
        trains_filter: False if biases alone are trained.
    """

    kind: type[Task]
    tensors: tuple[int, ...]
    start_segment: int
    queries: int
    dimensions: int
    nodes: ZoNodes | None = None
    following: int | None = None
    shared: bool = False
    trains_filter: bool = True

    @property
    def asked(self) -> int:
        """Queries that the task has done itself."""
        return 0 if self.shared else self.queries

    @property
    def first_segment(self) -> int:
        """The first segment whose input the task reads."""
        return self.start_segment if self.nodes is None else self.nodes.input_segment


def is_exact_head(nodes: ZoNodes) -> bool:
    """Returns whether a layer's nodes are its outputs and the loss's input, as its exact gradient needs."""
    return nodes.head and nodes.form == "plain"


def credited(nodes: ZoNodes) -> int:
    """Number of outputs of a channel that get a share of a sample's error."""
    g, side = nodes.geometry, "out" if nodes.form == "mean" else "node"
    return g[f"{side}_h"] * g[f"{side}_w"]


def own_layers(settings: Settings, metadata: ZoMetadata) -> list[tuple[ZoNodes, tuple[int, ...]]]:
    """Layers that a task trains by their nodes or exact gradients, each with the tensors that it trains;
    `Weights` trains other filters.
    """
    tail, found = exact_tail(settings, metadata), []
    carrying = [n for n in metadata.nodes if settings.has(Nodes) or n in tail]
    for n in [*carrying, *(n for n in tail[::-1] if n not in carrying)]:
        task = settings.exact if n in tail else settings.nodes
        if tensors := metadata.tensors_of(n.trainable, task.parameters):
            found.append((n, tensors))
    return found


def trained_tensors(settings: Settings, metadata: ZoMetadata) -> list[int]:
    """Numbers of the trainable tensors that a run trains, in execution order.

    Args:
        settings: settings of the run; a name in `layers` that is a layer's is no pattern.
        metadata: metadata of the ZO model.

    Raises:
        SettingsError: `layers` names a layer that the run would not train in any case; the message lists the
            layers that it would.
    """
    possible = _trainable_layers(settings, metadata)
    if settings.layers is None:
        return [i for tensors in possible for i in tensors]
    if isinstance(settings.layers, str):
        return [i for tensors in possible[-(last_number(settings.layers) or 0) :] for i in tensors]
    names = [metadata.trainable[tensors[0]].layer for tensors in possible]
    found: set[tuple[int, ...]] = set()
    for pattern in settings.layers:
        fitting = {
            tensors
            for tensors, name in zip(possible, names, strict=True)
            if name == pattern or (pattern not in names and fnmatchcase(name, pattern))
        }
        if not fitting:
            raise SettingsError(
                f"layers: no layer that is trained fits {pattern!r}; there are {', '.join(names)}"
            )
        found |= fitting
    return sorted(i for tensors in found for i in tensors)


def _trainable_layers(settings: Settings, metadata: ZoMetadata) -> list[tuple[int, ...]]:
    """Numbers of the tensors that a run can train of each layer, in execution order."""
    by_nodes = {n.trainable: tensors for n, tensors in own_layers(settings, metadata)}
    found = []
    for first, *_ in metadata.layers:
        if first in by_nodes:
            found.append(by_nodes[first])
        elif settings.has(Weights) and (own := metadata.tensors_of(first, settings.weights.parameters)):
            found.append(own)
    return found


def exact_tail(settings: Settings, metadata: ZoMetadata) -> list[ZoNodes]:
    """Layers that are trained by their exact gradients, as many as the model has and the task asks for: the
    last one, and, back from it, those of the model's tail or, in a model without one, dense layers with nodes
    that feed each other.

    Raises:
        SettingsError: the task asks for blocks, and the model was made for others or for none.
    """
    if not settings.has(Exact):
        return []
    last, tail = settings.exact.last, metadata.tail
    if isinstance(last, str):
        asked = f"{blocks_number(last)} blocks"
        if tail is None or tail.asked != asked:
            was = "without a tail" if tail is None else f"with tail={tail.asked!r}"
            raise SettingsError(f"last: the model was injected {was}; inject the original with tail={last!r}")
        return list(tail.layers[::-1])
    if tail is not None:
        return list(tail.layers[::-1][:last])
    found = [n for n in metadata.nodes if is_exact_head(n)]
    while found and len(found) < last:
        behind = found[-1]
        before = [
            n
            for n in metadata.nodes
            if n.form == "plain"
            and n.node_segment == behind.input_segment
            and n.count == behind.geometry["in_c"]
        ]
        if not before or behind.geometry["in_h"] * behind.geometry["in_w"] != 1:
            break
        found.append(before[0])
    return found


def backward_steps(tasks: Sequence[PlannedTask], metadata: ZoMetadata) -> list[ZoBackwardStep]:
    """Returns the steps of the model's backward program that errors of a run's tasks need; none where the
    tail is one of dense layers alone, or the model has no such program.
    """
    tail = metadata.tail
    if tail is None:
        return []
    exact = [t.nodes for t in tasks if t.kind is Exact]
    needed = {field for field, n in zip(tail.of_layers, tail.layers, strict=True) if n in exact}
    steps = []
    for step in reversed(tail.steps):
        if step.target in needed:
            needed.add(step.source)
            steps.append(step)
    return steps[::-1]


def _sharing_together(own: Sequence[ZoNodes]) -> list[ZoNodes]:
    """Returns layers in execution order, those that share nodes behind the first."""
    segments = list(dict.fromkeys(n.node_segment for n in own))
    return sorted(own, key=lambda n: segments.index(n.node_segment))


def _node_queries(task: Nodes, layers: Sequence[str], suffix: float) -> int:
    """Queries of layers with the same nodes, which enter a suffix of the network of that cost."""
    if isinstance(task.queries, int):
        return task.queries
    given = (
        [task.queries[name] for name in layers if name in task.queries] if task.queries is not None else []
    )
    if given:
        return max(given)
    affordable = int(_QUERY_BUDGET / (2 * suffix)) if suffix > 0 else MAX_QUERIES
    return min(MAX_QUERIES, max(_FEWEST_QUERIES, affordable))


def plan_tasks(settings: Settings, metadata: ZoMetadata, suffix: Callable[[int], float]) -> list[PlannedTask]:
    """The tasks of a run: layers that are trained by their nodes, then the others, each in execution order.

    Args:
        settings: settings of the run.
        metadata: metadata of the ZO model.
        suffix: cost of running the network from a segment on, as a share of a forward pass.

    Raises:
        SettingsError: `layers` names a layer that the model lacks, or cuts an exact tail in two.
    """
    chosen = trained_tensors(settings, metadata)
    layers, whole = own_layers(settings, metadata), exact_tail(settings, metadata)
    tensors_of = {n.trainable: tensors for n, tensors in layers}
    own = [n for n, tensors in layers if tensors[0] in chosen]
    tail = [n for n in whole if n in own]
    # Through the layers of a program errors come back whether they are trained or not, but they begin with
    # those of the last one.
    _check_tail(whole if metadata.tail is None else whole[:1], tail, metadata)
    if metadata.tail is None:
        own = _sharing_together(own)
    else:
        own = _sharing_together([n for n in own if n not in tail]) + tail[::-1]
    tasks: list[PlannedTask] = []
    for n in own:
        exact = n in tail
        before = tasks[-1].nodes if tasks else None
        shared = not exact and before is not None and before.node_segment == n.node_segment
        names = tuple(
            metadata.trainable[m.trainable].layer for m in metadata.nodes if m.node_segment == n.node_segment
        )
        follows = n in tail[1:] and metadata.tail is None
        tasks.append(
            PlannedTask(
                Exact if exact else Nodes,
                tensors_of[n.trainable],
                n.node_segment,
                0 if exact else _node_queries(settings.nodes, names, suffix(n.node_segment)),
                n.count,
                n,
                own.index(tail[tail.index(n) - 1]) if follows else None,
                shared,
                trains_filter=not metadata.trainable[tensors_of[n.trainable][0]].bias,
            )
        )
    nodal = {i for tensors in tensors_of.values() for i in tensors}
    return tasks + _weight_tasks(settings.weights, metadata, [i for i in chosen if i not in nodal])


def _check_tail(whole: Sequence[ZoNodes], trained: Sequence[ZoNodes], metadata: ZoMetadata) -> None:
    """Checks that layers are trained without which errors do not come back to the others."""
    if missing := next((n for n in whole[: len(trained)] if n not in trained), None):
        behind = next(n for n in trained if n not in whole or whole.index(n) > whole.index(missing))
        names = [metadata.trainable[n.trainable].layer for n in (behind, missing)]
        raise SettingsError(
            f"layers: the exact gradient of layer {names[0]} comes back through layer {names[1]}, which is "
            "left out; train that, too, or leave out the task Exact"
        )


def _weight_tasks(task: Weights, metadata: ZoMetadata, chosen: Sequence[int]) -> list[PlannedTask]:
    groups: list[list[int]] = []
    for i in chosen:
        # The log knows a task's tensors by the first one and their number.
        follows = bool(groups) and groups[-1][-1] == i - 1
        if follows and (
            task.scope == "model" or metadata.trainable[i].layer == metadata.trainable[i - 1].layer
        ):
            groups[-1].append(i)
        else:
            groups.append([i])
    tasks = []
    for group in groups:
        tensors = [metadata.trainable[i] for i in group]
        tasks.append(
            PlannedTask(
                Weights,
                tuple(group),
                tensors[0].segment,
                task.queries_of(tuple(t.layer for t in tensors)),
                sum(t.trained for t in tensors),
                trains_filter=not all(t.bias for t in tensors),
            )
        )
    return tasks
