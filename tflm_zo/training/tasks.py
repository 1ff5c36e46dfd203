# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""What a layer-wise run trains, and how each part of it is estimated."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from ..converters import ZoMetadata, ZoNodes
from .node_settings import NodeSettings
from .settings import SettingsError
from .task_kind import TaskKind

__all__ = ["Task", "TaskKind", "credited", "exact_tail", "is_exact_head", "plan_tasks", "trained_tensors"]


@dataclass(frozen=True)
class Task:
    """One task.

    Attributes:
        kind: NODES: by perturbing a layer's nodes; EXACT: by a dense layer's exact gradient; WEIGHTS: by
            perturbing tensors together.
        tensors: consecutive numbers of its trainable tensors, one but for WEIGHTS.
        start_segment: first segment that a query runs.
        queries: per step; 0: EXACT.
        dimensions: of what is perturbed: nodes or weights.
        nodes: NODES and EXACT: of the layer.
        following: EXACT: number of the task through which errors come back; None: the loss.
    """

    kind: TaskKind
    tensors: tuple[int, ...]
    start_segment: int
    queries: int
    dimensions: int
    nodes: ZoNodes | None = None
    following: int | None = None

    @property
    def first_segment(self) -> int:
        """The first segment that matters to it."""
        return self.start_segment if self.nodes is None else self.nodes.input_segment


def is_exact_head(nodes: ZoNodes) -> bool:
    """Whether a layer's nodes are its own outputs and what the loss reads, as an exact head needs it."""
    return nodes.head and nodes.form == "plain"


def credited(nodes: ZoNodes) -> int:
    """Outputs of a channel that get a share of a sample's error."""
    g, side = nodes.geometry, "out" if nodes.form == "mean" else "node"
    return g[f"{side}_h"] * g[f"{side}_w"]


def trained_tensors(settings: NodeSettings, metadata: ZoMetadata) -> list[int]:
    """Numbers of the trainable tensors that a run trains, in execution order.

    Args:
        settings: of the run; a name in `only` that is a layer's is no pattern.
        metadata: of the ZO model.

    Raises:
        SettingsError: `only` names what the run would not train anyway; the message lists the layers.
    """
    with_nodes = {n.trainable for n in metadata.nodes}
    possible = [i for i in range(len(metadata.trainable)) if settings.others != "frozen" or i in with_nodes]
    if settings.only is None:
        return possible
    names = [metadata.trainable[i].layer for i in possible]
    found: set[int] = set()
    for pattern in settings.only:
        fitting = {
            i
            for i, name in zip(possible, names, strict=True)
            if name == pattern or (pattern not in names and fnmatchcase(name, pattern))
        }
        if not fitting:
            raise SettingsError(
                f"only: no layer that is trained fits {pattern!r}; there are {', '.join(names)}"
            )
        found |= fitting
    return sorted(found)


def exact_tail(settings: NodeSettings, nodes: Sequence[ZoNodes]) -> list[int]:
    """Numbers of the layers that are trained by their exact gradients: the head, and, back from it, dense
    layers that feed each other, as far as they go and the settings ask for.
    """
    found = [i for i, n in enumerate(nodes) if is_exact_head(n)] if settings.head == "exact" else []
    while found and len(found) < settings.tail:
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


def plan_tasks(settings: NodeSettings, metadata: ZoMetadata, suffix: Callable[[int], float]) -> list[Task]:
    """The tasks of a run: layers that carry nodes, then the others, each in execution order.

    Args:
        settings: of the run.
        metadata: of the ZO model.
        suffix: what running from a segment on costs, as a share of a forward pass.

    Raises:
        SettingsError: `only` names layers that there are not, or cuts an exact tail in two.
    """
    chosen = trained_tensors(settings, metadata)
    own = [i for i, n in enumerate(metadata.nodes) if n.trainable in chosen]
    tail = _trained_tail(settings, metadata, own)
    tasks = []
    for i in own:
        n, exact = metadata.nodes[i], i in tail
        name = metadata.trainable[n.trainable].layer
        tasks.append(
            Task(
                TaskKind.EXACT if exact else TaskKind.NODES,
                (n.trainable,),
                n.node_segment,
                0 if exact else settings.queries_of(name, suffix(n.node_segment)),
                n.count,
                n,
                own.index(tail[tail.index(i) - 1]) if i in tail[1:] else None,
            )
        )
    return tasks + _weight_tasks(settings, metadata, chosen)


def _trained_tail(settings: NodeSettings, metadata: ZoMetadata, own: Sequence[int]) -> list[int]:
    """Of `exact_tail` the layers that are trained: errors come back only through layers that are."""
    whole = exact_tail(settings, metadata.nodes)
    tail = [i for i in whole if i in own]
    if tail != whole[: len(tail)]:
        missing = next(i for i in whole if i not in own)
        behind = next(i for i in tail if whole.index(i) > whole.index(missing))
        names = [metadata.trainable[metadata.nodes[i].trainable].layer for i in (behind, missing)]
        raise SettingsError(
            f"only: the exact gradient of layer {names[0]} comes back through layer {names[1]}, which is "
            'left out; train that, too, or give head="zo"'
        )
    return tail


def _weight_tasks(settings: NodeSettings, metadata: ZoMetadata, chosen: Sequence[int]) -> list[Task]:
    with_nodes = {n.trainable for n in metadata.nodes}
    groups: list[list[int]] = []
    for i in chosen:
        if i in with_nodes:
            continue
        # The log knows a task's tensors by the first one and how many there are.
        if settings.others == "together" and groups and groups[-1][-1] == i - 1:
            groups[-1].append(i)
        else:
            groups.append([i])
    tasks = []
    for group in groups:
        tensors = [metadata.trainable[i] for i in group]
        tasks.append(
            Task(
                TaskKind.WEIGHTS,
                tuple(group),
                tensors[0].segment,
                settings.weight_queries_of([t.layer for t in tensors]),
                sum(t.trained for t in tensors),
            )
        )
    return tasks
