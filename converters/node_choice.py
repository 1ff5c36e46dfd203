# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""The layers of a plain model that could carry nodes, and reasons why the others cannot."""

from __future__ import annotations

import dataclasses

from .errors import ConversionError
from .model import Model
from .passes import PASSES, Plan
from .passes.plan_nodes import left_out, node_layers, plan_nodes
from .passes.select_trainable import UNREAD
from .settings import InjectSettings

__all__ = ["NodeChoice", "node_choices"]


@dataclasses.dataclass(frozen=True)
class NodeChoice:
    """A layer that could be trained.

    Attributes:
        layer: short name of the layer.
        operator: kind of the operator, e.g. "CONV_2D".
        weights: number of weights of its filter.
        form: operators between the layer and its nodes, "plain", "max_pool" or "mean"; None if it can carry
            no nodes.
        count: nodes per sample; None if it can carry no nodes.
        auto: True if ``nodes="auto"`` takes it.
        reason: reason why it can carry none, or why "auto" leaves it out; "" if "auto" takes it.
    """

    layer: str
    operator: str
    weights: int
    form: str | None
    count: int | None
    auto: bool
    reason: str


def node_choices(model: Model, loss_output: int | str | None = None) -> list[NodeChoice]:
    """Returns the choice that `inject` has for each layer that could be trained, in execution order.

    Args:
        model: a plain model; it is not changed.
        loss_output: name or number of the output that the loss belongs to, as in ``InjectSettings``.

    Raises:
        ConversionError: the model cannot be injected at all.
    """
    own = model.subgraphs[0].inputs[0].shape[:1] if model.subgraphs and model.subgraphs[0].inputs else ()
    settings = InjectSettings(trainable="all", batch=max(own[0] if own else 1, 1), loss_output=loss_output)
    copy, plan = model.copy(), Plan()
    for apply in PASSES[: PASSES.index(plan_nodes)]:
        apply(copy, settings, plan)
    if plan.loss is None:
        raise ConversionError("nodes need a loss, and this model's tail has none that is known")
    possible, reasons = node_layers(copy.subgraphs[0], plan)
    choices = []
    operators = copy.subgraphs[0].operators
    for t in sorted([*plan.trainable, *plan.unread], key=lambda t: operators.index(t.operators[0])):
        nodes = possible.get(t)
        if t in plan.unread:
            reason = UNREAD
        else:
            reason = reasons[t] if nodes is None else left_out(nodes) or ""
        choices.append(
            NodeChoice(
                layer=t.layer,
                operator=t.operators[0].code.name,
                weights=t.tensor.size,
                form=None if nodes is None else nodes.form,
                count=None if nodes is None else nodes.count,
                auto=not reason,
                reason=reason,
            )
        )
    return choices
