# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""A network of one-dimensional convolutions for motion sensors."""

from __future__ import annotations

from typing import Any


def activity_cnn(input_shape: tuple[int, int] = (128, 6), classes: int = 6) -> Any:
    """Activities from an accelerometer and a gyroscope: 9,376 weights for 128 readings and 6 classes.

    Four `Conv1D` layers of 16 and 32 filters, with batch norm, the first three with a pooling to half the
    readings, an average over time, and one dense layer. Windows are those of the UCI data set of activities
    by smartphones (2.56 s at 50 Hz).

    Args:
        input_shape: readings of a window and channels of the sensors.
        classes: outputs of the softmax.
    """
    from keras import Input, Model, layers

    inputs = Input(input_shape, name="window")
    x = inputs
    for i, (filters, size) in enumerate(((16, 5), (32, 5), (32, 3), (32, 3)), 1):
        x = layers.Conv1D(filters, size, padding="same", name=f"conv{i}")(x)
        x = layers.BatchNormalization(name=f"conv{i}_bn")(x)
        x = layers.ReLU(name=f"conv{i}_relu")(x)
        if i < 4:
            x = layers.MaxPooling1D(2, name=f"pool{i}")(x)
    x = layers.GlobalAveragePooling1D(name="average")(x)
    return Model(inputs, layers.Dense(classes, activation="softmax", name="fc")(x), name="activity_cnn")
