# SPDX-License-Identifier: Apache-2.0
"""Makes biases of the trainable layers trainable, beside their filters or instead of them."""

from __future__ import annotations

import dataclasses

from ..errors import ConversionError
from ..model import Model, Subgraph, Tensor
from ..settings import InjectSettings
from .plan import Plan, Trainable


def train_biases(model: Model, settings: InjectSettings, plan: Plan) -> None:
    """Puts the bias of each trainable layer behind its filter in ``plan.trainable`` or, where
    ``settings.parameters`` is "biases", in its place, and numbers the streams anew.

    Only a constant that the layer reads alone is taken: what else reads a bias would change with it. Of a
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
            "parameters `biases`: errors of a tail come back through filters, which must be trainable, too: "
            "take `all`"
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
            raise ConversionError(
                f"two trainable tensors are called `{trainable.name}`; give them different names"
            )


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
