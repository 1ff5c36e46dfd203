# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""Random weights for a network that is trained as an int8 model from the beginning."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["unit_outputs"]


def unit_outputs(model: Any, x: NDArray[np.float32], deviation: float = 1.0) -> None:
    """Scales the random weights of every layer, in place, until its outputs before the activation have a
    standard deviation.

    Mishkin and Matas, All you need is a good init, 2016. With Keras' own scale the logits of a network with
    random weights are so small that int8 ranges calibrated on them cannot hold those of a trained one.

    Args:
        model: a Keras model, a chain of layers.
        x: samples to measure with.
        deviation: wanted.
    """
    import keras

    values = x
    for layer in model.layers[1:]:
        if layer.weights:
            activation, layer.activation = layer.activation, keras.activations.linear
            before = np.asarray(layer(values))
            layer.kernel.assign(layer.kernel * (deviation / before.std()))
            layer.activation = activation
        values = np.asarray(layer(values))
