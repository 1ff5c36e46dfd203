# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""A network that was trained in float32, converted to int8 again."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
from networks import Array, FloatNetwork
from task import Task

__all__ = ["int8_accuracy"]


def int8_accuracy(network: FloatNetwork, weights: Array, task: Task) -> float:
    """Returns the test accuracy in percent, after calibration with samples of both domains.

    Args:
        network: the network, whose layers have the order of the Keras model's.
        weights: all of its weights. Batch norm is folded into them.
        task: the task, with its Keras model.
    """
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    import keras

    from tflm_zo.conversion.int8 import accuracy
    from tflm_zo.conversion.keras import convert

    model: Any = keras.models.load_model(task.keras, compile=False)
    own, at = [layer for layer in network.layers if layer.filter is not None], 0
    bias = None
    for layer in model.layers:
        if isinstance(layer, keras.layers.BatchNormalization):
            ones, zeros = np.ones(layer.gamma.shape, np.float32), np.zeros(layer.gamma.shape, np.float32)
            layer.set_weights([ones * np.sqrt(1 + layer.epsilon), zeros if bias is None else bias, zeros, ones])
        elif layer.weights:
            read = own.pop(0)
            assert read.filter is not None and read.bias is not None
            filters = weights[at : at + read.filter.size].reshape(read.filter.shape)
            bias = weights[at + read.filter.size : at + read.filter.size + read.bias.size]
            at += read.filter.size + read.bias.size
            filters = filters.transpose(1, 2, 3, 0) if filters.ndim == 4 else filters.T
            filters = filters.reshape(layer.kernel.shape)
            if layer.use_bias:
                layer.set_weights([filters, bias])
                bias = None
            else:  # The batch norm behind it has the bias.
                layer.set_weights([filters])
    calibration = np.concatenate([task.calibration[:150], task.adapt[0][:150]]).astype(np.float32)
    return 100 * accuracy(convert(model, calibration).model, *task.test)
