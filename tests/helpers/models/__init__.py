# SPDX-License-Identifier: Apache-2.0
"""Random-weight int8 models for the tests, built without TensorFlow.

``MODELS`` maps a name to a function that returns the bytes of a .tflite model; the functions take an optional
``seed``. All models have batch size 1.
"""

from __future__ import annotations

from collections.abc import Callable

from .graph_builder import GraphBuilder
from .networks import (
    autoencoder,
    dense_after_4d,
    dense_per_tensor,
    depth_multiplier,
    depthwise_separable,
    float_edges,
    lenet5,
    logistic_head,
    residual,
    shared_filters,
    small_cnn,
    two_inputs,
    two_outputs,
    uint8_edges,
)

MODELS: dict[str, Callable[..., bytes]] = {
    "lenet5": lenet5,
    "small_cnn": small_cnn,
    "depthwise_separable": depthwise_separable,
    "depth_multiplier": depth_multiplier,
    "residual": residual,
    "dense_per_tensor": dense_per_tensor,
    "two_inputs": two_inputs,
    "autoencoder": autoencoder,
    "logistic_head": logistic_head,
    "dense_after_4d": dense_after_4d,
    "float_edges": float_edges,
    "two_outputs": two_outputs,
    "uint8_edges": uint8_edges,
}

__all__ = ["MODELS", "GraphBuilder", "shared_filters", *(f.__name__ for f in MODELS.values())]
