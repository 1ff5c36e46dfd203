"""The tasks of a layer-wise run, layer by layer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any, Final

from ..converters import ZoBackwardStep, ZoLoss, ZoMetadata, ZoNodes
from ..converters.passes.loss import loss_parts
from ..converters.selections import Last
from ..core import MAX_QUERIES, ModelLoss, NodeLayer, NodeState, NodeTask, TaskEntry, TaskKind
from ..core.node_layer import NodeForm
from ..logs import LogError
from .checks import SettingsError, needs_injection
from .settings import Settings
from .tasks import Exact, Nodes, Task, Weights

# Cost of a layer's queries, as a share of a forward pass, where their number is chosen.
_QUERY_BUDGET: Final = 0.1
_FEWEST_QUERIES: Final = 2
# Exact gradients perturb nothing; logs have the number of the task Nodes for them or, without one, this.
_MU_WITHOUT_NODES: Final = 2


def node_layer(nodes: ZoNodes, *, unmasked: bool = False) -> NodeLayer:
    """Returns the geometry of a layer that carries nodes; `unmasked` includes nodes at the clamp of the activation."""
    return NodeLayer(form=NodeForm[nodes.form.upper()], unmasked=unmasked, **nodes.geometry)


def model_loss(loss: ZoLoss) -> ModelLoss:
    """Returns the loss of a ZO model."""
    return ModelLoss(loss.kind, loss.scale, loss.zero_point, len(loss.parts) or loss.places, loss_parts(loss))


@dataclass(frozen=True, kw_only=True)
class LoweredTask(NodeTask):
    """A task in one layer (or of `Weights` with scope "model" in several), in the control unit's integers."""

    # consecutive numbers of the trainable tensors; for a layer its filter, its bias or both
    tensors: tuple[int, ...]
    dimensions: int  # number of values that are perturbed: nodes, or weights and biases
    nodes: ZoNodes | None = None  # nodes of the layer; None where weights are perturbed
    sharing: int = 0  # queries of the task whose nodes this layer shares; 0 if it shares none

    @property
    def first_segment(self) -> int:
        """The first segment whose input the task reads."""
        return self.start_segment if self.nodes is None else self.nodes.input_segment

    @property
    def setting(self) -> type[Task]:
        """Class of the task in the settings."""
        return Weights if self.perturbs_weights else Exact if self.is_exact else Nodes

    @property
    def estimates(self) -> int:
        """Number of queries for the estimate; 0 if the gradient is exact."""
        return self.queries or self.sharing


def node_task(nodes: ZoNodes, tensors: Sequence[int], metadata: ZoMetadata, queries: int, **values: Any) -> LoweredTask:
    """Returns a task that trains tensors of a layer by its nodes or, without queries, by its exact gradient; `values`
    are further attributes of `LoweredTask`, and `unmasked` of `node_layer`.
    """
    exact = not queries and not values.get("shared", False)
    return LoweredTask(
        layer=node_layer(nodes, unmasked=values.pop("unmasked", False)),
        start_segment=nodes.node_segment,
        queries=queries,
        keeps_inputs=not metadata.trainable[tensors[0]].bias,
        in_tail=exact and metadata.tail is not None and not nodes.head,
        tensors=tuple(tensors),
        dimensions=nodes.count,
        nodes=nodes,
        **values,
    )


def weight_task(
    tensors: Sequence[int], metadata: ZoMetadata, queries: int, rate: int = 65536, gain: NodeState | None = None
) -> LoweredTask:
    """Returns a task that perturbs tensors together."""
    own = [metadata.trainable[i] for i in tensors]
    return LoweredTask(
        layer=None,
        start_segment=own[0].segment,
        queries=queries,
        mu=0,
        rate=rate,
        gain=gain or NodeState(),
        tensors=tuple(tensors),
        dimensions=sum(t.size for t in own),
    )


def is_exact_head(nodes: ZoNodes) -> bool:
    """Returns whether the loss reads a layer's outputs directly, so that its exact gradient is known."""
    return nodes.head and nodes.form == "plain"


def credited(nodes: ZoNodes) -> int:
    """Returns the number of outputs of a channel that share a sample's error."""
    g, side = nodes.geometry, "out" if nodes.form == "mean" else "node"
    return g[f"{side}_h"] * g[f"{side}_w"]


def own_layers(settings: Settings, metadata: ZoMetadata) -> list[tuple[ZoNodes, tuple[int, ...]]]:
    """Returns the layers that `Nodes` or `Exact` can train, each with its tensors. `Weights` trains other filters."""
    tail, found = exact_tail(settings, metadata), []
    carrying = [n for n in metadata.nodes if settings.has(Nodes) or n in tail]
    for n in [*carrying, *(n for n in tail[::-1] if n not in carrying)]:
        task = settings.exact if n in tail else settings.nodes
        if tensors := metadata.tensors_of(n.trainable, task.parameters):
            found.append((n, tensors))
    return found


def trained_tensors(settings: Settings, metadata: ZoMetadata) -> list[int]:
    """Returns the numbers of the tensors that a run trains, in execution order. The name of a layer is not read as a
    pattern. Raises SettingsError if `layers` names a layer that the run cannot train; the message lists the others.
    """
    possible = _trainable_layers(settings, metadata)
    if settings.layers is None:
        return [i for tensors in possible for i in tensors]
    if isinstance(settings.layers, Last):
        return [i for tensors in possible[-settings.layers.n :] for i in tensors]
    names = [metadata.trainable[tensors[0]].layer for tensors in possible]
    found: set[tuple[int, ...]] = set()
    for pattern in settings.layers:
        fitting = {
            tensors
            for tensors, name in zip(possible, names, strict=True)
            if name == pattern or (pattern not in names and fnmatchcase(name, pattern))
        }
        if not fitting:
            raise SettingsError("layers", f"name trained layers ({', '.join(names)})", pattern)
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
    """Returns the layers with exact gradients, the last one first: those of the model's tail or, without one, the last
    layer, if it has nodes. Raises SettingsError if the task asks for blocks, and the model was made for others or for
    none.
    """
    if not settings.has(Exact):
        return []
    last, tail = settings.exact.last, metadata.tail
    if not isinstance(last, int):
        if tail is None or tail.asked != str(last):
            own = "has none" if tail is None else f"has {tail.asked!r}"
            raise needs_injection("last", f"be the tail of the model, which {own}", last, tail=last)
        return list(tail.layers[::-1])
    if tail is not None:
        return list(tail.layers[::-1][:last])
    return [n for n in metadata.nodes if is_exact_head(n)][-1:]


def backward_steps(tasks: Sequence[LoweredTask], metadata: ZoMetadata) -> list[ZoBackwardStep]:
    """Returns the steps of the model's backward program that the tasks of a run need."""
    tail = metadata.tail
    if tail is None:
        return []
    exact = [t.nodes for t in tasks if t.is_exact]
    needed = {field for field, n in zip(tail.of_layers, tail.layers, strict=True) if n in exact}
    steps = []
    for step in reversed(tail.steps):
        if step.target in needed:
            needed.add(step.source)
            steps.append(step)
    return steps[::-1]


def _sharing_together(own: Sequence[ZoNodes]) -> list[ZoNodes]:
    """Returns layers in execution order; layers that share nodes follow the first of them."""
    segments = list(dict.fromkeys(n.node_segment for n in own))
    return sorted(own, key=lambda n: segments.index(n.node_segment))


def _node_queries(task: Nodes, layers: Sequence[str], suffix: float) -> int:
    """Returns the queries of layers with the same nodes; `suffix` is the cost of the network after the nodes."""
    if given := task.queries_of(layers):
        return given
    affordable = int(_QUERY_BUDGET / (2 * suffix)) if suffix > 0 else MAX_QUERIES
    return min(MAX_QUERIES, max(_FEWEST_QUERIES, affordable))


def plan_tasks(settings: Settings, metadata: ZoMetadata, suffix: Callable[[int], float]) -> list[LoweredTask]:
    """Plans the tasks of a layer-wise run: first layers that are trained by their nodes, then the others, in execution
    order; none for weight perturbation alone. `lower` adds the values that depend on weights and scales. `suffix` is
    the cost of running the network from a segment on, as a share of a forward pass. Raises SettingsError if `layers`
    names a layer that the model lacks, or leaves out the last layer of an exact tail.
    """
    if not settings.is_layerwise:
        return []
    chosen = trained_tensors(settings, metadata)
    layers, whole = own_layers(settings, metadata), exact_tail(settings, metadata)
    tensors_of = {n.trainable: tensors for n, tensors in layers}
    own = [n for n, tensors in layers if tensors[0] in chosen]
    tail = [n for n in whole if n in own]
    # Errors come back through layers whether these are trained or not, but they begin with those of the last one.
    if tail and tail[0] is not whole[0]:
        layer, last = (metadata.trainable[n.trainable].layer for n in (tail[0], whole[0]))
        problem = f"include {last}, because the exact gradient of layer {layer} comes back through it"
        raise SettingsError("layers", problem, fix="Add it, or remove the task Exact")
    own = _sharing_together([n for n in own if n not in tail]) + tail[::-1]
    unmasked = not settings.nodes.masked
    mu = settings.nodes.perturbation if settings.has(Nodes) else _MU_WITHOUT_NODES
    tasks: list[LoweredTask] = []
    for n in own:
        exact = n in tail
        before = tasks[-1] if tasks else None
        queries, sharing = 0, 0
        if not exact and before is not None and before.start_segment == n.node_segment:
            sharing = before.estimates
        elif not exact:
            names = tuple(
                metadata.trainable[m.trainable].layer for m in metadata.nodes if m.node_segment == n.node_segment
            )
            queries = _node_queries(settings.nodes, names, suffix(n.node_segment))
        tasks.append(
            node_task(
                n,
                tensors_of[n.trainable],
                metadata,
                queries,
                sharing=sharing,
                shared=sharing > 0,
                mu=mu,
                unmasked=unmasked,
            )
        )
    nodal = {i for tensors in tensors_of.values() for i in tensors}
    return tasks + _weight_tasks(settings, metadata, [i for i in chosen if i not in nodal])


def _weight_tasks(settings: Settings, metadata: ZoMetadata, chosen: Sequence[int]) -> list[LoweredTask]:
    task, groups = settings.weights, list[list[int]]()
    for i in chosen:
        # The log knows a task's tensors by the first one and their number.
        follows = bool(groups) and groups[-1][-1] == i - 1
        if follows and (task.scope == "model" or metadata.trainable[i].layer == metadata.trainable[i - 1].layer):
            groups[-1].append(i)
        else:
            groups.append([i])
    rate = round(65536 * settings.share_of_weights)
    return [
        weight_task(own, metadata, task.queries_of(metadata.trainable[i].layer for i in own), rate) for own in groups
    ]


def recorded_tasks(entries: Sequence[TaskEntry], metadata: ZoMetadata) -> list[LoweredTask]:
    """Returns the tasks of a layer-wise run, from their entries in its log. Raises LogError if an earlier version led
    errors to a layer without a backward program.
    """
    layers = () if metadata.tail is None else metadata.tail.layers
    tasks = []
    for entry in entries:
        if entry.kind == TaskKind.WEIGHTS:
            tasks.append(weight_task(entry.tensors, metadata, entry.queries, entry.rate, entry.gain))
            continue
        shared = entry.kind == TaskKind.SHARED_NODES
        known = [*(() if entry.queries or shared else layers), *metadata.nodes]
        nodes = next(n for n in known if n.trainable == entry.tensors[0])
        values = {"shared": shared, "mu": entry.mu, "rate": entry.rate, "gain": entry.gain}
        task = node_task(nodes, entry.tensors, metadata, entry.queries, **values)
        if task.is_exact and nodes not in layers and not is_exact_head(nodes):
            layer = metadata.trainable[nodes.trainable].layer
            raise LogError(
                f"the log is of an earlier version: layer {layer} has an exact gradient, and the model has no tail "
                "that leads errors to it; inject the original model again, and train it again"
            )
        tasks.append(task)
    return tasks
