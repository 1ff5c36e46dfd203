"""Chooses the trainable filters, biases and blocks."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase
from typing import Final

from ..errors import ConversionError, InjectError
from ..model import Model, Operator, Subgraph, Tensor
from ..selections import Last
from ..settings import InjectSettings, Selection
from .layer_names import layers_of
from .plan import Plan, Trainable

#: Why a layer of ``plan.unread`` is not trained.
UNREAD: Final = "does not feed what the loss reads"


def select_trainable(model: Model, settings: InjectSettings, plan: Plan) -> None:
    """Fills ``plan.trainable`` and ``plan.blocks`` from ``settings.trainable`` and ``settings.blocks``.

    Candidates are the constant int8 filters of CONV_2D, DEPTHWISE_CONV_2D and FULLY_CONNECTED on which the
    tensor that the loss reads depends. Filters of heads for other outputs would walk at random; they go to
    ``plan.unread``. Layers that read the same filter tensor stay tied: the filter is one trainable tensor.

    Raises:
        ConversionError: a name or pattern fits no layer (the message lists them) or none that feeds the loss,
            a layer is in two blocks, or an operator reads a filter in another role as well.
    """
    if settings.trainable == "none":
        return
    found = _candidates(model.subgraphs[0])
    candidates = [c for c in found if plan.loss_input is None or _feeds(model.subgraphs[0], c, plan.loss_input)]
    plan.unread = [c for c in found if c not in candidates]
    if not candidates:
        behind = "" if plan.loss_input is None else f" before `{plan.loss_input.name}`, which the loss reads"
        raise ConversionError(
            "the model has no layer to train: no CONV_2D, DEPTHWISE_CONV_2D or FULLY_CONNECTED with a "
            f"constant int8 filter{behind}"
        )
    block_of = _explicit_blocks(candidates, settings, plan)
    chosen = _choose(candidates, block_of, settings.trainable, plan)
    for candidate in chosen:
        _check_readers(candidate, model.subgraphs[0])
    if len({c.tensor.name for c in chosen}) < len(chosen):
        names = [c.tensor.name for c in chosen]
        twice = next(n for n in names if names.count(n) > 1)
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
    for op, layer in layers_of(graph.operators).items():
        weights = op.inputs[1]
        if weights is not None and weights.is_constant:
            found.setdefault(weights, Trainable(weights, [], layer)).operators.append(op)
    return list(found.values())


def _feeds(graph: Subgraph, candidate: Trainable, wanted: Tensor) -> bool:
    """Returns whether a tensor depends on the filter."""
    producers = graph.producers()
    seen: set[Operator] = set()
    pending: list[Tensor | None] = [wanted]
    while pending:
        tensor = pending.pop()
        op = None if tensor is None else producers.get(tensor)
        if op is not None and op not in seen:
            seen.add(op)
            pending += op.inputs
    return any(op in seen for op in candidate.operators)


def matches(candidate: Trainable, pattern: str) -> bool:
    """Returns whether a name or glob pattern fits a layer."""
    names = [candidate.layer, candidate.tensor.name, *(op.outputs[0].name for op in candidate.operators)]
    return any(name == pattern or fnmatchcase(name, pattern) for name in names)


def unknown_layer(setting: str, pattern: str, names: Iterable[str], plan: Plan, kind: str = "layer") -> ConversionError:
    """Returns the error of a pattern that fits none of the layers with these names."""
    unread = next((c for c in plan.unread if matches(c, pattern)), None)
    if unread is not None and plan.loss_input is not None:
        return InjectError(
            setting,
            f"not include layer `{unread.layer}`, which {UNREAD} (`{plan.loss_input.name}`)",
            pattern,
            "Choose another output with",
            give={"loss_output": ...},
        )
    return InjectError(setting, f"fit a {kind}: {', '.join(names)}", pattern)


def _explicit_blocks(candidates: Sequence[Trainable], settings: InjectSettings, plan: Plan) -> dict[Trainable, str]:
    block_of: dict[Trainable, str] = {}
    for name, patterns in (settings.blocks or {}).items():
        for pattern in patterns:
            found = [c for c in candidates if matches(c, pattern)]
            if not found:
                raise unknown_layer("blocks", pattern, (c.layer for c in candidates), plan)
            for candidate in found:
                if block_of.setdefault(candidate, name) != name:
                    raise ConversionError(
                        f"layer `{candidate.layer}` is in two blocks, `{block_of[candidate]}` and `{name}`"
                    )
    for candidate in candidates:
        if candidate not in block_of and candidate.layer in (settings.blocks or {}):
            raise ConversionError(
                f"block `{candidate.layer}` has the name of a layer that is not in it; call it otherwise"
            )
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
    chosen: set[Trainable] = set()
    for pattern in (wanted,) if isinstance(wanted, str) else wanted:
        found = [c for c in candidates if matches(c, pattern) or (c in block_of and fnmatchcase(block_of[c], pattern))]
        if not found:
            names = [*(c.layer for c in candidates), *dict.fromkeys(block_of.values())]
            raise unknown_layer("trainable", pattern, names, plan)
        chosen.update(found)
    return [c for c in candidates if c in chosen]


def _check_readers(candidate: Trainable, graph: Subgraph) -> None:
    tensor, kinds = candidate.tensor, {op.builtin for op in candidate.operators}
    for op in graph.operators:
        if tensor in op.inputs and (op not in candidate.operators or op.inputs.count(tensor) > 1):
            raise ConversionError(
                f"filter `{tensor.name}` cannot be trained: {op.label} reads it too, as something else"
            )
    if tensor in graph.outputs or tensor in graph.inputs:
        raise ConversionError(f"filter `{tensor.name}` cannot be trained: it is an input or output of the model")
    if len(kinds) > 1:
        raise ConversionError(f"filter `{tensor.name}` cannot be trained: operators of two kinds read it")


def train_biases(model: Model, settings: InjectSettings, plan: Plan) -> None:
    """Puts the bias of each trainable layer behind its filter in ``plan.trainable`` or, where
    ``settings.parameters`` is "biases", in its place, and numbers the streams anew.

    Only a constant that no other operator reads can be trained, because a change of a shared bias would
    affect the others. Of a
    layer without such a bias the filter is trained, or, where biases alone are, nothing.

    Raises:
        ConversionError: no trainable layer has such a bias, or two trainable tensors have one name.
    """
    if settings.parameters == "weights":
        return
    biases: dict[Trainable, Trainable] = {}
    reasons: list[str] = []
    tail = [] if plan.tail is None else plan.tail.layers
    if tail and settings.parameters == "biases":
        raise ConversionError(
            "parameters `biases`: errors of a tail come back through filters, which must be trainable, too: take `all`"
        )
    for layer in plan.trainable:
        bias = layer.operators[0].input(2)
        reason = _unfit(model.subgraphs[0], layer, bias)
        if bias is None or reason is not None:
            reasons.append(f"`{layer.layer}` {reason}")
        else:
            biases[layer] = dataclasses.replace(layer, tensor=bias, is_bias=True, requantized=0)
    if not biases:
        raise ConversionError(
            f"parameters `{settings.parameters}`: no layer has a bias to train: " + "; ".join(reasons)
        )
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
    if len([op for op in graph.operators if bias in op.inputs]) > 1 or bias in graph.outputs:
        return f"has one that others read, too, `{bias.name}`"
    if bias.shape != (layer.channels,):
        return f"has one of shape {list(bias.shape)}, `{bias.name}`"
    return None
