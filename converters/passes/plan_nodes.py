"""Finds the layers that can be trained by node perturbation, and where the model is cut for them."""

from __future__ import annotations

import functools
from collections.abc import Callable
from fnmatch import fnmatchcase
from typing import Final

from ..errors import ConversionError, InjectError
from ..kernels import macs
from ..model import Model, Operator, Subgraph, Tensor
from ..model.schema import BuiltinOperator as B
from ..selections import Last
from ..settings import LAYERS, InjectSettings
from .cut_segments import crosses_alone, cut_reason, possible_cuts
from .layer_geometry import (
    NO_CLAMPS,
    REDUCTIONS,
    SAME_BYTES,
    UnfitError,
    check_sizes,
    clamps_of,
    layer_geometry,
    pool_geometry,
    same_bytes,
)
from .plan import NodeLayer, Plan, Trainable
from .select_trainable import chosen_by

# Bound of zo_node_layer.c.
_LARGEST_WINDOW: Final = 254

#: Operators on whose outputs the nodes of a layer before them may lie.
POOLINGS: Final = (*REDUCTIONS, B.AVERAGE_POOL_2D, B.MAX_POOL_2D)

# Fields of a pooling whose sides are exchanged.
_SIDES: Final = ("in_h in_w", "out_h out_w", "k_h k_w", "stride_h stride_w", "pad_top pad_left")
_TURNED: Final = {a: b for pair in _SIDES for a, b in (pair.split(), pair.split()[::-1])}

# Nodes of a layer times the share of the network behind them, at most: about the forward passes a sample that
# it takes to tell its nodes apart. LeNet-5 has 56 (conv2), 3, 0 and 0, an autoencoder of dense layers 88 at
# most, the last block of a ResNet-8, behind a global average, 0. Inner layers of its blocks, of 800 and more,
# gain nothing within 100,000 forward passes. A MobileNetV2 whose blocks of 110 to 580 were trained, too, made
# 14 steps of 10,000 forward passes, and 22 % instead of 29 to 31 % in fog.
_MOST_PASSES: Final = 100.0


def plan_nodes(model: Model, settings: InjectSettings, plan: Plan) -> None:
    """Fills ``plan.nodes`` and adds to ``plan.cuts`` the cuts that these layers need: input, output and nodes of a
    layer (the output, or a pooling of it) are boundaries, so that a run can keep them and re-run the network from the
    nodes on.

    "auto" chooses the trainable layers for which that is possible and that have fewer nodes than weights, for the
    variance of an estimate grows with the number of perturbed values (Poor Man's Training, sec. 3.2). It leaves out
    depthwise layers, and layers whose nodes take too many passes to be told apart (`_MOST_PASSES`).
    """
    plan.cuts = _wanted_cuts(model, settings, plan)
    if settings.nodes == ():
        return
    if plan.loss is None:
        raise ConversionError("nodes need a loss of each sample")
    graph = model.subgraphs[0]
    layers, reasons = node_layers(graph, plan)
    chosen = _choose(settings, plan, layers, reasons)
    plan.nodes = [layers[t] for t in plan.trainable if t in chosen]
    plan.cut_at(graph, [t for n in plan.nodes for t in (n.input, n.output, n.nodes)])


def _wanted_cuts(model: Model, settings: InjectSettings, plan: Plan) -> list[str]:
    """Returns the cuts that were asked for; "layers" cuts before every trainable layer that allows it."""
    if LAYERS not in settings.cuts:
        return list(settings.cuts)
    possible, graph = possible_cuts(model, settings.loss_output), model.subgraphs[0]
    entering = [op.inputs[0] for t in plan.trainable for op in t.operators[:1]]
    before = [same_bytes(graph, tensor) for tensor in entering if tensor is not None]
    layers = [tensor.name for tensor in before if tensor.name in possible]
    others = [name for name in settings.cuts if name != LAYERS]
    return list(dict.fromkeys([*others, *layers]))


def node_layers(graph: Subgraph, plan: Plan) -> tuple[dict[Trainable, NodeLayer], dict[Trainable, str]]:
    """Returns the trainable layers that could carry nodes, and why each of the others cannot."""
    layers: dict[Trainable, NodeLayer] = {}
    reasons: dict[Trainable, str] = {}

    @functools.cache  # the output of a layer is the input of the next one
    def reason_at(tensor: Tensor) -> str | None:
        return cut_reason(graph, tensor, plan.loss_input)

    for trainable in plan.trainable:
        try:
            layers[trainable] = _node_layer(graph, trainable, plan, reason_at)
        except UnfitError as unfit:
            reasons[trainable] = str(unfit)
    return layers, reasons


def _share_behind(graph: Subgraph, tensor: Tensor) -> float:
    """Returns the multiply-accumulates behind a tensor, in execution order, as a share of all."""
    costs = [macs(op) for op in graph.operators]
    last = max((i for i, op in enumerate(graph.operators) if tensor in op.outputs), default=-1)
    return sum(costs[last + 1 :]) / max(1, sum(costs))


def left_out(layer: NodeLayer) -> str | None:
    """Returns why "auto" leaves a layer out that could carry nodes, or None where it chooses the layer."""
    if layer.count >= layer.trainable.tensor.size:
        return "has no fewer nodes than weights"
    if layer.count * layer.share_behind > _MOST_PASSES:
        share = f"{layer.share_behind:.2g}"
        return f"has {layer.count:,} nodes, too many for queries of {share} passes; trained where nodes name it"
    if layer.geometry.get("depthwise"):
        return "is a DEPTHWISE_CONV_2D, and is trained where nodes name it"
    return None


def _choose(
    settings: InjectSettings, plan: Plan, layers: dict[Trainable, NodeLayer], reasons: dict[Trainable, str]
) -> set[Trainable]:
    wanted = settings.nodes
    possible = ", ".join(t.layer for t in layers) or "none"
    if wanted == "auto":
        found = {t for t, n in layers.items() if left_out(n) is None}
        if not found and settings.tail is None:
            named = [f"`{t.layer}` {reason}" for t, reason in reasons.items()]
            same = set(reasons.values())
            why = f"each one {same.pop()}" if len(same) == 1 < len(named) else "; ".join(named)
            more = f": {why}" if why else f" (possible with more nodes: {possible})"
            raise ConversionError(f"no trainable layer can carry fewer nodes than it has weights{more}")
        return found
    if isinstance(wanted, Last):
        if wanted.n > len(layers):
            raise InjectError("nodes", f"be at most {len(layers)} layers, which can carry nodes: {possible}", wanted)
        return set([t for t in plan.trainable if t in layers][-wanted.n :])

    def fits(t: Trainable, pattern: str) -> bool:
        return t.layer == pattern or fnmatchcase(t.layer, pattern)

    patterns = (wanted,) if isinstance(wanted, str) else wanted
    chosen = chosen_by("nodes", patterns, plan.trainable, plan, fits=fits)
    for t in chosen:
        if t not in layers:
            raise InjectError("nodes", f"not include layer `{t.layer}`, which {reasons[t]}. Possible: {possible}")
    return set(chosen)


def _node_layer(
    graph: Subgraph, trainable: Trainable, plan: Plan, reason_at: Callable[[Tensor], str | None]
) -> NodeLayer:
    if len(trainable.operators) > 1:
        raise UnfitError("shares its filter with another layer")
    op = trainable.operators[0]
    geometry = layer_geometry(op)
    source = op.inputs[0]
    assert source is not None
    output, (geometry["low"], geometry["high"]) = _summed(graph, op, plan.loss_input, reason_at)
    form, nodes = _nodes_of(graph, output, geometry)
    before = same_bytes(graph, source)
    if before in graph.inputs[1:]:
        raise UnfitError(f"reads the input `{before.name}`; of the model's inputs only the first is possible")
    check_sizes(geometry)
    layer = NodeLayer(
        trainable=trainable,
        form=form,
        geometry=geometry,
        input=before,
        output=output,
        nodes=nodes,
        count=geometry["node_h"] * geometry["node_w"] * geometry["out_c"],
        is_head=nodes is plan.loss_input,
        share_behind=_share_behind(graph, nodes),
    )
    batch = graph.inputs[0].shape[:1]
    for what, tensor in (("input", layer.input), ("output", layer.output), ("nodes", layer.nodes)):
        its = f"has its {what} `{tensor.name}`"
        if tensor.shape[:1] != batch:
            raise UnfitError(f"{its} in shape {list(tensor.shape)}, which does not begin with the batch {batch[0]}")
        reason = None if tensor in graph.inputs else reason_at(tensor)
        if reason is not None:
            raise UnfitError(f"{its} where the model cannot be cut: {reason}")
    return layer


def _summed(
    graph: Subgraph, op: Operator, logits: Tensor | None, reason_at: Callable[[Tensor], str | None]
) -> tuple[Tensor, tuple[int, int]]:
    """Returns the tensor that is perturbed or pooled, with its clamps: the layer's output or, in a residual block, the
    sum of the output and the other branch. An error of the sum is one of the output, in real units, where the sum is
    not clamped. So layers on both branches share the sum's nodes, and nothing crosses a cut at it but itself.
    """
    output, clamps = op.outputs[0], clamps_of(op, op.outputs[0])
    while clamps == NO_CLAMPS and reason_at(output) is None:
        summand, addition = _reader_of_bytes(graph, output)
        if addition is None or addition.builtin != B.ADD or crosses_alone(graph, output, logits):
            break
        if addition.inputs.count(summand) != 1 or addition.outputs[0].shape != summand.shape:
            break
        output = addition.outputs[0]
        clamps = clamps_of(addition, output)
    return output, clamps


def _nodes_of(graph: Subgraph, output: Tensor, geometry: dict[str, int]) -> tuple[str, Tensor]:
    """Returns form and tensor of the nodes: those behind a pooling (and reshapes), if any, for they are fewer."""
    height, width = geometry["out_h"], geometry["out_w"]
    geometry |= {"node_h": height, "node_w": width}
    source, pooling = _reader_of_bytes(graph, output)
    if pooling is None or height * width == 1 or pooling.builtin not in POOLINGS:
        return "plain", output
    try:
        pool = pool_geometry(pooling, source)
    except UnfitError:
        if pooling.builtin in REDUCTIONS:  # along other axes
            return "plain", output
        raise
    if (pool["in_w"], pool["in_h"]) == (height, width) and 1 in (height, width):
        # Sequences lie along either side.
        pool = {_TURNED.get(name, name): size for name, size in pool.items()}
    if (pool["in_h"], pool["in_w"], pool["channels"]) != (height, width, geometry["out_c"]):
        return "plain", output
    if pooling.builtin not in REDUCTIONS and pooling.option("fusedActivationFunction", 0):
        return "plain", output
    if pooling.builtin in (B.MEAN, B.AVERAGE_POOL_2D):
        if pool["out_h"] * pool["out_w"] > 1 or (pool["k_h"], pool["k_w"]) != (height, width):
            return "plain", output
        geometry |= {"node_h": 1, "node_w": 1}
        return "mean", pooling.outputs[0]
    if pool["k_h"] * pool["k_w"] > _LARGEST_WINDOW:
        return "plain", output
    for side, pad in (("h", "pad_top"), ("w", "pad_left")):
        geometry |= {
            f"node_{side}": pool[f"out_{side}"],
            f"pool_{side}": pool[f"k_{side}"],
            f"pool_stride_{side}": pool[f"stride_{side}"],
            f"pool_{pad}": pool[pad],
        }
    return "max_pool", pooling.outputs[0]


def _reader_of_bytes(graph: Subgraph, tensor: Tensor) -> tuple[Tensor, Operator | None]:
    """Returns a tensor behind its reshapes, and its only reader, or None."""
    while True:
        readers = graph.consumers().get(tensor, [])
        if len(readers) != 1 or tensor in graph.outputs:
            return tensor, None
        if readers[0].builtin not in SAME_BYTES:
            return tensor, readers[0]
        tensor = readers[0].outputs[0]
