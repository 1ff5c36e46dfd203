# SPDX-License-Identifier: Apache-2.0
"""Makes room for perturbations in the int8 range of trainable weights."""

from __future__ import annotations

import numpy as np

from ..errors import ConversionError
from ..model import Model, Subgraph
from ..rescale_bias import rescale_bias
from ..settings import InjectSettings
from .plan import Plan, Trainable


def reserve_headroom(model: Model, settings: InjectSettings, plan: Plan) -> None:
    """Requantizes trainable filters so that every weight is within +-(127 - headroom).

    Where the largest |weight| of a channel (of the whole tensor, if it has one scale) exceeds that, the scale
    grows by largest / (127 - headroom), and weights and bias, whose scale is input scale * filter scale, are
    rounded anew from their real values. All other channels, and the whole model for a headroom of 0, keep
    every byte, as do filters that stay constants because biases alone are trained. Buffers that are changed
    are replaced, never edited.
    """
    if settings.headroom == 0 or settings.parameters == "biases":
        return
    for trainable in plan.trainable:
        _requantize(model.subgraphs[0], trainable, 127 - settings.headroom)


def _requantize(graph: Subgraph, trainable: Trainable, limit: int) -> None:
    tensor, quantization = trainable.tensor, trainable.tensor.quantization
    assert quantization is not None  # check_supported
    channels_first = np.moveaxis(tensor.numpy(), trainable.axis, 0).astype(np.float64)
    largest = np.abs(channels_first.reshape(trainable.channels, -1)).max(axis=1)
    if not quantization.is_per_channel:
        largest = largest.max(keepdims=True)
    changed = largest > limit
    trainable.requantized = int(np.count_nonzero(changed))
    if not trainable.requantized:
        return

    old = quantization.scales.astype(np.float64)
    scales = quantization.scales.copy()
    scales[changed] = (old * largest / limit)[changed].astype(np.float32)
    # What a weight or a bias is multiplied by: exactly 1 where nothing changes. From the float32 scales that
    # the file stores, so that real values are as close as they can be.
    ratio = np.broadcast_to(old / scales.astype(np.float64), trainable.channels)

    weights = np.rint(channels_first * ratio.reshape(-1, *[1] * (channels_first.ndim - 1)))
    weights = np.moveaxis(np.clip(weights, -limit, limit), 0, trainable.axis)
    tensor.set_data(np.ascontiguousarray(weights, np.int8))
    quantization.scales = scales
    for op in trainable.operators:
        bias = op.input(2)
        if bias is not None and not bias.is_constant:
            raise ConversionError(
                f"{op.label}: bias `{bias.name}` is not a constant, so its filter cannot be requantized; "
                "leave this layer out of the trainable ones or use headroom=0"
            )
        rescale_bias(graph, op, scales, ratio, np.broadcast_to(changed, trainable.channels))
