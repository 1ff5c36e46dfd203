"""Chooses the trainable filters, biases and blocks."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Sequence
from fnmatch import fnmatchcase
from typing import Final

from ..errors import ConversionError, InjectError
from ..kernels import FILTER_OPERATORS, filters_of
from ..model import Model, Subgraph, Tensor
from ..model.schema import TensorType
from ..selections import Last
from ..settings import InjectSettings, Selection
from ..states import upstream_through_states
from .layer_names import filter_names
from .plan import Plan, Trainable

#: Why a layer of ``plan.unread`` is not trained.
UNREAD: Final = "does not feed what the loss reads"


def select_trainable(model: Model, settings: InjectSettings, plan: Plan) -> None:
    """Fills ``plan.trainable`` and ``plan.blocks`` from ``settings.trainable`` and ``settings.blocks``. Candidates are
    the constant int8 filters of layers, SVDF and LSTM on which the tensor that the loss reads depends; the others,
    which would walk at random, go to ``plan.unread``. Layers that read the same filter stay tied.
    """
    if settings.trainable == "none":
        return
    graph = model.subgraphs[0]
    found = candidates = _candidates(graph)
    if plan.loss_input is not None:
        read = upstream_through_states(graph, plan.loss_input)
        candidates = [c for c in found if any(op in read for op in c.operators)]
    plan.unread = [c for c in found if c not in candidates]
    if not candidates:
        behind = "" if plan.loss_input is None else f" before `{plan.loss_input.name}`, which the loss reads"
        kinds = "no operator with a constant int8 filter that can be trained"
        raise ConversionError(f"the model has no layer to train: {kinds}{behind}")
    block_of = _explicit_blocks(candidates, settings, plan)
    chosen = _choose(candidates, block_of, settings.trainable, plan)
    for candidate in chosen:
        _check_readers(candidate, graph)
    names = [c.tensor.name for c in chosen]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise ConversionError(f"two trainable filters are called `{twice}`; give them different names")

    numbers: dict[str, int] = {}
    for stream, candidate in enumerate(chosen):
        name = block_of.get(candidate, candidate.layer)
        candidate.stream = stream
        candidate.block = numbers.setdefault(name, len(numbers))
    plan.trainable = chosen
    plan.blocks = list(numbers)


def _candidates(graph: Subgraph) -> list[Trainable]:
    found: dict[Tensor, Trainable] = {}
    names = filter_names(graph.operators)
    for op in graph.operators:
        for weights in filters_of(op):
            own = weights.is_constant and weights.type == TensorType.INT8
            # Those of SVDF and LSTM have a scale of one operator.
            alone = op.builtin in FILTER_OPERATORS or sum(o.inputs.count(weights) for o in graph.operators) == 1
            if own and alone:
                found.setdefault(weights, Trainable(weights, [], names[weights])).operators.append(op)
    return list(found.values())


def matches(candidate: Trainable, pattern: str) -> bool:
    """Returns whether a name or glob pattern fits a layer."""
    names = [candidate.layer, candidate.tensor.name, *(op.outputs[0].name for op in candidate.operators)]
    return any(name == pattern or fnmatchcase(name, pattern) for name in names)


def chosen_by(
    setting: str,
    patterns: Sequence[str],
    candidates: Sequence[Trainable],
    plan: Plan,
    kind: str = "trainable layer",
    fits: Callable[[Trainable, str], bool] = matches,
    others: Iterable[str] = (),
) -> list[Trainable]:
    """Returns the candidates that names or patterns fit, in their order.

    Raises ConversionError where a pattern fits none of them; the message lists the layers and other names.
    """
    for pattern in patterns:
        if any(fits(c, pattern) for c in candidates):
            continue
        unread = next((c for c in plan.unread if matches(c, pattern)), None)
        if unread is not None and plan.loss_input is not None:
            why = f"not include layer `{unread.layer}`, which {UNREAD} (`{plan.loss_input.name}`)"
            raise InjectError(setting, why, pattern, "Choose another output with", give={"loss_output": ...})
        raise InjectError(setting, f"fit a {kind}: {', '.join([*(c.layer for c in candidates), *others])}", pattern)
    return [c for c in candidates if any(fits(c, pattern) for pattern in patterns)]


def _explicit_blocks(candidates: Sequence[Trainable], settings: InjectSettings, plan: Plan) -> dict[Trainable, str]:
    block_of: dict[Trainable, str] = {}
    blocks = settings.blocks or {}
    for name, patterns in blocks.items():
        for c in chosen_by("blocks", list(patterns), candidates, plan, "layer"):
            if block_of.setdefault(c, name) != name:
                raise ConversionError(f"layer `{c.layer}` is in two blocks, `{block_of[c]}` and `{name}`")
    for c in candidates:
        if c not in block_of and c.layer in blocks:
            raise ConversionError(f"block `{c.layer}` has the name of a layer that is not in it; call it otherwise")
    return block_of


def _choose(
    candidates: list[Trainable], block_of: dict[Trainable, str], wanted: Selection, plan: Plan
) -> list[Trainable]:
    if wanted == "all":
        return candidates
    if isinstance(wanted, Last):
        if wanted.n > len(candidates):
            raise InjectError("trainable", f"be at most the {len(candidates)} layers of the model", wanted)
        return candidates[-wanted.n :]

    def fits(c: Trainable, pattern: str) -> bool:
        return matches(c, pattern) or (c in block_of and fnmatchcase(block_of[c], pattern))

    patterns = (wanted,) if isinstance(wanted, str) else wanted
    return chosen_by("trainable", patterns, candidates, plan, "layer", fits, dict.fromkeys(block_of.values()))


def _check_readers(candidate: Trainable, graph: Subgraph) -> None:
    tensor, refused = candidate.tensor, f"filter `{candidate.tensor.name}` cannot be trained"
    for op in graph.operators:
        if tensor in op.inputs and (op not in candidate.operators or op.inputs.count(tensor) > 1):
            raise ConversionError(f"{refused}: {op.label} reads it too, as something else")
    if tensor in graph.outputs or tensor in graph.inputs:
        raise ConversionError(f"{refused}: it is an input or output of the model")
    if len({op.builtin for op in candidate.operators}) > 1:
        raise ConversionError(f"{refused}: operators of two kinds read it")


def train_biases(model: Model, settings: InjectSettings, plan: Plan) -> None:
    """Puts the bias of each trainable layer behind its filter in ``plan.trainable`` or, where ``settings.parameters``
    is "biases", in its place, and numbers the streams anew. Only a constant that no other operator reads can be
    trained. Of a layer without such a bias the filter is trained, or, where biases alone are, nothing.
    """
    if settings.parameters == "weights":
        return
    biases: dict[Trainable, Trainable] = {}
    reasons: list[str] = []
    if plan.tail is not None and settings.parameters == "biases":
        why = "errors of a tail come back through filters, which must be trainable, too"
        raise ConversionError(f"parameters `biases`: {why}: take `all`")
    for layer in plan.trainable:
        bias = layer.bias
        reason = _unfit(model.subgraphs[0], layer, bias)
        if bias is None or reason is not None:
            reasons.append(f"`{layer.layer}` {reason}")
        else:
            biases[layer] = dataclasses.replace(layer, tensor=bias, is_bias=True, requantized=0)
    if not biases:
        why = "; ".join(reasons)
        raise ConversionError(f"parameters `{settings.parameters}`: no layer has a bias to train: {why}")
    if settings.parameters == "all":
        plan.trainable = [t for own in plan.trainable for t in (own, biases.get(own)) if t is not None]
    else:
        plan.nodes = [n for n in plan.nodes if n.trainable in biases]
        for node in plan.nodes:
            node.trainable = biases[node.trainable]
        plan.trainable = list(biases.values())
    for stream, trainable in enumerate(plan.trainable):
        trainable.stream = stream
    for trainable in biases.values():
        if [t.name for t in plan.trainable].count(trainable.name) > 1:
            raise ConversionError(f"two trainable tensors are called `{trainable.name}`; give them different names")


def _unfit(graph: Subgraph, layer: Trainable, bias: Tensor | None) -> str | None:
    """Returns why a layer's bias cannot be trained, or None where it can."""
    if bias is None:
        return "has none"
    if not bias.is_constant:
        return f"has one that is computed, `{bias.name}`"
    if len(layer.operators) > 1:
        return "has one for each reader of its filter"
    if len([op for op in graph.operators if bias in op.inputs]) > 1 or bias in graph.outputs:
        return f"has one that others read, too, `{bias.name}`"
    if bias.type != TensorType.INT32:
        return f"has one of {bias.type_name}, `{bias.name}`"
    if bias.shape != (layer.channels,):
        return f"has one of shape {list(bias.shape)}, `{bias.name}`"
    return None
