# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""The plan of a run that trains layers one by one: its tasks, spread over the model's tensors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Final

from ..converters import ZoMetadata, ZoNodes
from ..converters.settings import last_number
from ..core import MAX_QUERIES
from .checks import SettingsError
from .settings import Settings
from .tasks import Exact, Nodes, Task, Weights

__all__ = ["PlannedTask", "credited", "exact_tail", "is_exact_head", "plan_tasks", "trained_tensors"]

# Cost of a layer's queries, as a share of a forward pass, where their number is chosen.
_QUERY_BUDGET: Final = 0.1
_FEWEST_QUERIES: Final = 2


@dataclass(frozen=True)
class PlannedTask:
    """A task's part in a layer, or, of `Weights` with scope "model", in consecutive layers.

    Attributes:
        kind: class of the task.
        tensors: consecutive numbers of the trainable tensors; of a layer with nodes its filter, its bias or
            both.
        start_segment: first segment that a query runs.
        queries: per step; 0: `Exact`, or nodes that are shared.
        dimensions: number of values that are perturbed: nodes or weights.
        nodes: `Nodes` and `Exact`: of the layer.
        following: `Exact`: number of the planned task through which errors come back; None: the loss.
        shared: True if the nodes are those of the last planned task before that asks for queries.
        trains_filter: False if a layer's bias alone is trained.
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


def _with_own_nodes(settings: Settings, metadata: ZoMetadata) -> dict[int, tuple[int, ...]]:
    """Tensors that a task trains by a layer's nodes, by its number; `Weights` trains other filters."""
    tail = exact_tail(settings, metadata.nodes)
    found = {}
    for i, n in enumerate(metadata.nodes):
        task = settings.exact if i in tail else settings.nodes
        if i in tail or settings.has(Nodes):
            found[i] = metadata.tensors_of(n.trainable, task.parameters)
    return {i: tensors for i, tensors in found.items() if tensors}


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
    own = _with_own_nodes(settings, metadata)
    by_nodes = {metadata.nodes[i].trainable: tensors for i, tensors in own.items()}
    found = []
    for first, *_ in metadata.layers:
        if first in by_nodes:
            found.append(by_nodes[first])
        elif settings.has(Weights) and not metadata.trainable[first].bias:
            found.append((first,))
    return found


def exact_tail(settings: Settings, nodes: Sequence[ZoNodes]) -> list[int]:
    """Numbers of the layers that are trained by their exact gradients: the last one, and, back from it, dense
    layers that feed each other, as far as they go and the task asks for.
    """
    found = [i for i, n in enumerate(nodes) if is_exact_head(n)] if settings.has(Exact) else []
    while found and len(found) < settings.exact.last:
        last = nodes[found[-1]]
        before = [
            i
            for i, n in enumerate(nodes)
            if n.form == "plain" and n.node_segment == last.input_segment and n.count == last.geometry["in_c"]
        ]
        if not before or last.geometry["in_h"] * last.geometry["in_w"] != 1:
            break
        found.append(before[0])
    return found


def _sharing_together(own: Sequence[int], metadata: ZoMetadata) -> list[int]:
    """Returns numbers of layers with nodes in execution order, those that share nodes behind the first."""
    segments = list(dict.fromkeys(metadata.nodes[i].node_segment for i in own))
    return sorted(own, key=lambda i: segments.index(metadata.nodes[i].node_segment))


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
    by_nodes = _with_own_nodes(settings, metadata)
    own = [i for i, tensors in by_nodes.items() if tensors[0] in chosen]
    tail = _trained_tail(settings, metadata, own)
    own = _sharing_together(own, metadata)
    tasks: list[PlannedTask] = []
    for i in own:
        n, exact = metadata.nodes[i], i in tail
        shared = (
            bool(tasks) and tasks[-1].nodes is not None and tasks[-1].nodes.node_segment == n.node_segment
        )
        names = tuple(
            metadata.trainable[m.trainable].layer for m in metadata.nodes if m.node_segment == n.node_segment
        )
        asks = not exact and not shared
        tasks.append(
            PlannedTask(
                Exact if exact else Nodes,
                by_nodes[i],
                n.node_segment,
                _node_queries(settings.nodes, names, suffix(n.node_segment)) if asks else 0,
                n.count,
                n,
                own.index(tail[tail.index(i) - 1]) if i in tail[1:] else None,
                shared,
                trains_filter=not metadata.trainable[by_nodes[i][0]].bias,
            )
        )
    nodal = {i for tensors in by_nodes.values() for i in tensors}
    return tasks + _weight_tasks(settings.weights, metadata, [i for i in chosen if i not in nodal])


def _trained_tail(settings: Settings, metadata: ZoMetadata, own: Sequence[int]) -> list[int]:
    """The layers of `exact_tail` that are trained: errors come back only through layers that are."""
    whole = exact_tail(settings, metadata.nodes)
    tail = [i for i in whole if i in own]
    if tail != whole[: len(tail)]:
        missing = next(i for i in whole if i not in own)
        behind = next(i for i in tail if whole.index(i) > whole.index(missing))
        names = [metadata.trainable[metadata.nodes[i].trainable].layer for i in (behind, missing)]
        raise SettingsError(
            f"layers: the exact gradient of layer {names[0]} comes back through layer {names[1]}, which is "
            "left out; train that, too, or leave out the task Exact"
        )
    return tail


def _weight_tasks(task: Weights, metadata: ZoMetadata, chosen: Sequence[int]) -> list[PlannedTask]:
    groups: list[list[int]] = []
    for i in chosen:
        # The log knows a task's tensors by the first one and their number.
        if task.scope == "model" and groups and groups[-1][-1] == i - 1:
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
            )
        )
    return tasks
