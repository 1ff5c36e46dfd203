# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""What a run costs, in forward equivalents: multiply-accumulates (MACs) relative to one forward pass."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ..converters import Model, ZoMetadata, ZoNodes
from ..converters.operator_costs import macs
from .node_settings import NodeSettings
from .settings import TrainSettings

__all__ = [
    "Costs",
    "NodeCosts",
    "WeightCosts",
    "block_segments",
    "credited",
    "exact_tail",
    "is_exact_head",
]


def block_segments(metadata: ZoMetadata) -> list[int]:
    """The first segment of each block."""
    segments = [0] * len(metadata.blocks)
    for t in reversed(metadata.trainable):
        segments[t.block] = t.segment
    return segments


def is_exact_head(nodes: ZoNodes) -> bool:
    """Whether a layer's nodes are its own outputs and what the loss reads, as an exact head needs it."""
    return nodes.head and nodes.form == "plain"


def credited(nodes: ZoNodes) -> int:
    """Outputs of a channel that get a share of a sample's error."""
    g, side = nodes.geometry, "out" if nodes.form == "mean" else "node"
    return g[f"{side}_h"] * g[f"{side}_w"]


class Costs:
    """Costs of one sample, as shares of its whole forward pass.

    Args:
        model: a ZO model.
        metadata: of it.

    Attributes:
        forward: MACs of a forward pass.
    """

    def __init__(self, model: Model, metadata: ZoMetadata) -> None:
        self._segments = [sum(macs(op) for op in g.operators) / metadata.batch for g in model.subgraphs]
        self.forward = sum(self._segments)

    def suffix(self, start: int) -> float:
        """Of running the network from a segment on."""
        return sum(self._segments[start:]) / self.forward if self.forward else 1.0

    def update(self, nodes: ZoNodes) -> float:
        """Of crediting a layer's weights with one sample's nodes."""
        g = nodes.geometry
        return credited(nodes) * g["out_c"] * g["k_h"] * g["k_w"] * g["in_c"] / self.forward


class WeightCosts:
    """Costs of weight perturbation, whose updates multiply nothing.

    Args:
        costs: of the model.
        settings: of the run.
        metadata: of the model.
    """

    def __init__(self, costs: Costs, settings: TrainSettings, metadata: ZoMetadata) -> None:
        sides = 2 * settings.queries if settings.estimator == "antithetic" else settings.queries + 1
        starts = block_segments(metadata) if settings.scope == "blocks" else [0]
        self._steps = [settings.batch_size * sides * costs.suffix(k) for k in starts]

    def until(self, steps: int) -> float:
        """Of so many steps."""
        rounds, rest = divmod(steps, len(self._steps))
        return rounds * sum(self._steps) + sum(self._steps[:rest])

    def steps(self, budget: float) -> int:
        """Steps that a budget is good for."""
        return _largest(budget, self.until)


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


class NodeCosts:
    """Costs of node perturbation.

    Args:
        costs: of the model.
        settings: of the run.
        metadata: of the model.

    Attributes:
        first_segment: where forward passes begin: before it nothing is trained.
        tail: numbers of the layers that are trained by their exact gradients, the last one first.
    """

    def __init__(self, costs: Costs, settings: NodeSettings, metadata: ZoMetadata) -> None:
        self._costs, self._settings, self._metadata = costs, settings, metadata
        self.first_segment = min(n.input_segment for n in metadata.nodes)
        self.tail = exact_tail(settings, metadata.nodes)
        sample = costs.suffix(self.first_segment)
        for n in metadata.nodes:
            sample += 2 * self.queries(n) * costs.suffix(n.node_segment) + costs.update(n)
        # Errors come back through all of the tail but its first layer: as many products as it has weights.
        sample += sum(costs.update(metadata.nodes[i]) for i in self.tail[:-1])
        self._step = settings.batch_size * sample

    def queries(self, nodes: ZoNodes) -> int:
        """Queries of a layer; 0 for one that is trained by its exact gradient."""
        if self._metadata.nodes.index(nodes) in self.tail:
            return 0
        name = self._metadata.trainable[nodes.trainable].layer
        return self._settings.queries_of(name, self._costs.suffix(nodes.node_segment))

    def until(self, steps: int, samples: int) -> float:
        """Of so many steps, and of running the prefix of so many training samples once."""
        return samples * (1 - self._costs.suffix(self.first_segment)) + steps * self._step

    def steps(self, budget: float, samples: int) -> int:
        """Steps that a budget is good for."""
        return _largest(budget, lambda steps: self.until(steps, samples))


def _largest(budget: float, cost: Callable[[int], float]) -> int:
    """The most steps whose cost is within the budget; 0 where one is too dear."""
    low, high = 0, 1
    while cost(high) <= budget:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if cost(middle) <= budget else (low, middle)
    return low
