"""Makes a ZO model of an int8 model."""

from __future__ import annotations

import dataclasses
import glob
import os
from typing import TYPE_CHECKING

from .errors import ConversionError
from .model import Model, load_model
from .passes import PASSES, Plan
from .passes.plan_nodes import left_out, node_layers, plan_nodes
from .passes.plan_tail import plan_tail, unreached
from .passes.select_trainable import UNREAD
from .settings import NODES, InjectChanges, InjectSettings

if TYPE_CHECKING:
    from typing_extensions import Unpack


def inject(
    model: Model | str | os.PathLike[str] | bytes,
    settings: InjectSettings | None = None,
    **overrides: Unpack[InjectChanges],
) -> Model:
    """Makes an int8 model trainable.

    Args:
        model: the model, its path, or its bytes; it is not changed.
        settings: settings of the rewriter; None: the defaults of ``InjectSettings``, for node perturbation.
        **overrides: settings that replace those of ``settings``, e.g. ``batch=32``.

    Returns:
        The ZO model that converters/README.md describes.

    Raises:
        ConversionError: the model or the settings cannot be used; the message says which of them, and why.
        OSError: the file cannot be read.

    Example:
        >>> inject("model.tflite", nodes="last:2", batch=16).save("model_zo.tflite")  # doctest: +SKIP
    """
    chosen = InjectSettings() if settings is None else settings
    if overrides:
        known = {f.name for f in dataclasses.fields(InjectSettings)}
        unknown = sorted(set(overrides) - known)
        if unknown:
            raise ConversionError(f"unknown setting `{unknown[0]}`; there are: {', '.join(sorted(known))}")
        chosen = dataclasses.replace(chosen, **overrides)
    result = model.copy() if isinstance(model, Model) else load_model(model)
    if chosen.trainable == NODES:
        chosen = dataclasses.replace(chosen, trainable=_node_layers(result, chosen))
    before = result.referenced_buffers()
    plan = Plan()
    for apply in PASSES:
        apply(result, chosen, plan)
    # Buffers that requantization replaced would waste flash. Buffers that the original did not use are kept.
    after = result.referenced_buffers()
    result.buffers = [b for i, b in enumerate(result.buffers) if i == 0 or b not in before or b in after]
    return result


def _node_layers(model: Model, settings: InjectSettings) -> list[str]:
    """Returns patterns of the layers that would carry nodes, or be of the tail, if all were trainable."""
    probe, plan = model.copy(), Plan()
    wanted = dataclasses.replace(settings, trainable="all")
    for apply in PASSES[: PASSES.index(plan_tail) + 1]:
        apply(probe, wanted, plan)
    tail = [] if plan.tail is None else plan.tail.layers
    return [glob.escape(n.trainable.layer) for n in [*plan.nodes, *tail]]


@dataclasses.dataclass(frozen=True)
class NodeChoice:
    """A layer that could be trained."""

    layer: str  # short name of the layer
    operator: str  # kind of the operator, e.g. "CONV_2D".
    weights: int  # number of weights of its filter
    # operators between the layer and its nodes, "plain", "max_pool" or "mean"; None if it can carry no nodes
    form: str | None
    count: int | None  # nodes per sample; None if it can carry no nodes
    auto: bool  # True if ``nodes="auto"`` takes it
    reason: str  # reason why it can carry none, or why "auto" leaves it out; "" if "auto" takes it
    unreached: str  # reason why it has no exact gradient; "" if it has one


def node_choices(model: Model, loss_output: int | str | None = None) -> list[NodeChoice]:
    """Returns the choice that `inject` has for each layer of a plain model that could be trained, in execution order.
    `loss_output` is that of ``InjectSettings``. Raises ConversionError where the model cannot be injected at all.
    """
    own = model.subgraphs[0].inputs[0].shape[:1] if model.subgraphs and model.subgraphs[0].inputs else ()
    settings = InjectSettings(trainable="all", batch=max(own[0] if own else 1, 1), loss_output=loss_output)
    copy, plan = model.copy(), Plan()
    for apply in PASSES[: PASSES.index(plan_nodes)]:
        apply(copy, settings, plan)
    if plan.loss is None:
        raise ConversionError("nodes need a loss, and this model's tail has none that is known")
    possible, reasons = node_layers(copy.subgraphs[0], plan)
    assert plan.loss_input is not None  # it has a loss
    no_errors = unreached(copy.subgraphs[0], plan.loss_input, plan) | dict.fromkeys(plan.unread, UNREAD)
    choices = []
    operators = copy.subgraphs[0].operators
    for t in sorted([*plan.trainable, *plan.unread], key=lambda t: operators.index(t.operators[0])):
        nodes = possible.get(t)
        reason = UNREAD if t in plan.unread else reasons[t] if nodes is None else left_out(nodes) or ""
        form, count = (None, None) if nodes is None else (nodes.form, nodes.count)
        choices.append(
            NodeChoice(
                t.layer, t.operators[0].code.name, t.tensor.size, form, count, not reason, reason, no_errors.get(t, "")
            )
        )
    return choices
