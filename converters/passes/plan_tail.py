"""Finds the layers of an exact tail, and where the model is cut for them."""

from __future__ import annotations

from collections.abc import Sequence

from ..errors import InjectError
from ..model import Model, Operator, Subgraph, Tensor
from ..model.schema import BuiltinOperator as B
from ..selections import ALL, TailChoice
from ..settings import InjectSettings
from ..states import is_streaming
from .backward_program import ProgramBuilder
from .cut_segments import cut_reason
from .layer_geometry import UnfitError, check_sizes, clamps_of, layer_geometry, same_bytes
from .plan import NodeLayer, Plan, Tail, Trainable
from .plan_nodes import node_layers


def plan_tail(model: Model, settings: InjectSettings, plan: Plan) -> None:
    """Fills ``plan.tail`` and adds to ``plan.cuts`` the cuts that it needs; its layers carry no nodes. A dense head
    alone needs no program: it becomes a layer with nodes, which node perturbation can train as well.
    """
    if settings.tail is None:
        return
    if plan.loss_input is None:
        raise InjectError("tail", "be None without a loss", settings.tail)
    graph, logits = model.subgraphs[0], plan.loss_input
    chosen = _chosen(graph, logits, settings.tail, plan)
    only = chosen[0].operators[0] if settings.tail == 1 else None
    if only is not None and only.builtin == B.FULLY_CONNECTED and only.outputs[0] is logits:
        head = node_layers(graph, plan)[0].get(chosen[0])
        if head is not None:
            plan.nodes = [*(n for n in plan.nodes if n.trainable is not head.trainable), head]
            plan.cut_at(graph, [head.input, head.output, head.nodes])
            return
    try:
        plan.tail = _tail(graph, logits, chosen)
    except UnfitError as unfit:
        most, _ = _reached(graph, logits, plan.trainable[len(plan.trainable) - len(chosen) + 1 :])
        advice = f"Use the last {most} layers" if most else ""
        if is_streaming(model):
            advice = "Use algorithm `weight`, which trains sequences and needs no cut"
        raise InjectError("tail", f"have exact gradients: {unfit}", settings.tail, advice) from unfit
    plan.nodes = [n for n in plan.nodes if n.trainable not in chosen]
    layers, program = plan.tail.layers, plan.tail.program
    looks_at = [t for t in program.looks_at if t is not None]
    plan.cut_at(graph, [*(n.input for n in layers), layers[-1].output, *looks_at])


def _chosen(graph: Subgraph, logits: Tensor, wanted: TailChoice, plan: Plan) -> list[Trainable]:
    if wanted == ALL:
        return plan.trainable[-max(_reached(graph, logits, plan.trainable)[0], 1) :]
    if isinstance(wanted, int):
        if wanted > len(plan.trainable):
            raise InjectError("tail", f"be at most {len(plan.trainable)}, the number of trainable layers", wanted)
        return plan.trainable[-wanted:]
    forks = _forks(graph, logits)
    if wanted.n > len(forks):
        have = f"{len(forks)} residual blocks (an ADD that joins two branches)"
        raise InjectError("tail", f"be a number of layers in a model with {have}", wanted)
    behind = _depending_on(graph, forks[wanted.n - 1])
    return [t for t in plan.trainable if t.operators[0] in behind]


def _depending_on(graph: Subgraph, tensor: Tensor) -> set[Operator]:
    tensors, found = {tensor}, set[Operator]()
    for op in graph.operators:
        if any(t in tensors for t in op.inputs):
            found.add(op)
            tensors.update(op.outputs)
    return found


def _forks(graph: Subgraph, logits: Tensor) -> list[Tensor]:
    """Returns the beginnings of residual blocks, the last first: the last common tensor of an ADD's summands."""
    order = [*graph.inputs, *(t for op in graph.operators for t in op.outputs)]
    on_path = graph.upstream(logits)
    forks: list[Tensor] = []
    for op in reversed(graph.operators):
        summands = [t for t in op.inputs if t is not None and t in order]
        if op.builtin != B.ADD or len(summands) != 2 or op not in on_path:
            continue
        first, second = ({t, *(i for o in graph.upstream(t) for i in o.inputs)} for t in summands)
        if common := [t for t in order if t in first and t in second]:
            forks.append(common[-1])
    return list(dict.fromkeys(forks))


def _reached(graph: Subgraph, logits: Tensor, layers: Sequence[Trainable]) -> tuple[int, str]:
    """Returns how many of the layers, counted from the last one, errors reach, and the reason why not more."""
    reason = ""
    for first in range(len(layers)):
        try:
            _tail(graph, logits, layers[first:])
        except UnfitError as unfit:
            reason = str(unfit)
        else:
            return len(layers) - first, reason
    return 0, reason


def unreached(graph: Subgraph, logits: Tensor, plan: Plan) -> dict[Trainable, str]:
    """Returns the layers that errors do not reach, with the reason."""
    count, reason = _reached(graph, logits, plan.trainable)
    return dict.fromkeys(plan.trainable[: len(plan.trainable) - count], reason)


def _tail(graph: Subgraph, logits: Tensor, chosen: Sequence[Trainable]) -> Tail:
    layers = [_layer(graph, t) for t in chosen]
    operators = [t.operators[0] for t in chosen]
    program = ProgramBuilder(graph, logits, operators, [n.geometry for n in layers]).build()
    layers[-1].is_head = True
    for tensor in [n.input for n in layers] + [layers[-1].output, *program.looks_at]:
        if tensor is None or tensor is graph.inputs[0]:
            continue
        if (reason := cut_reason(graph, tensor, logits)) is not None:
            raise UnfitError(f"`{tensor.name}`, which the tail keeps, cannot be a boundary: {reason}")
    return Tail(layers, program)


def _layer(graph: Subgraph, trainable: Trainable) -> NodeLayer:
    """Returns a layer of a tail, whose nodes are its output; only the head's output is kept."""
    op = trainable.operators[0]
    try:
        if len(trainable.operators) > 1:
            raise UnfitError("shares its filter with another layer")
        geometry = layer_geometry(op)
        geometry["low"], geometry["high"] = clamps_of(op, op.outputs[0])
        geometry |= {"node_h": geometry["out_h"], "node_w": geometry["out_w"]}
        check_sizes(geometry)
    except UnfitError as unfit:
        raise UnfitError(f"layer `{trainable.layer}` {unfit}") from unfit
    source, output = op.inputs[0], op.outputs[0]
    assert source is not None
    count = geometry["out_h"] * geometry["out_w"] * geometry["out_c"]
    return NodeLayer(trainable, "plain", geometry, same_bytes(graph, source), output, output, count, False)
