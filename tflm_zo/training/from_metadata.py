# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""Layers and losses that a ZO model's metadata describe, as the core takes them."""

from __future__ import annotations

from ..converters import ZoLoss, ZoNodes
from ..core import ModelLoss, NodeLayer
from ..core.node_layer import NodeForm

__all__ = ["model_loss", "node_layer"]


def node_layer(nodes: ZoNodes, *, unmasked: bool = False) -> NodeLayer:
    """Returns the layer that carries nodes.

    Args:
        nodes: nodes of the metadata.
        unmasked: True if nodes at the clamp of the activation are perturbed and credited like the others.

    Raises:
        NativeError: the sizes do not fit each other.
    """
    return NodeLayer(form=NodeForm[nodes.form.upper()], unmasked=unmasked, **nodes.geometry)


def model_loss(loss: ZoLoss) -> ModelLoss:
    """Returns the loss of a ZO model."""
    return ModelLoss(loss.kind, loss.scale, loss.zero_point)
