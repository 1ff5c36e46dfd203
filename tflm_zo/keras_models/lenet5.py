# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""LeNet-5."""

from __future__ import annotations

from typing import Any


def lenet5(input_shape: tuple[int, int, int] = (28, 28, 1), classes: int = 10) -> Any:
    """LeNet-5 with ReLU and max pooling: 61,470 weights and 236 biases for 28 x 28 x 1 and 10 classes.

    Convolutions of 6 (same padding) and 16 (valid) 5 x 5 filters, dense layers of 120, 84 and ``classes``.
    Source: LeCun et al., Gradient-based learning applied to document recognition, 1998, whose 32 x 32 inputs
    are the 28 x 28 of MNIST with padding.
    """
    from keras import Input, Model, layers

    inputs = Input(input_shape, name="image")
    x = layers.Conv2D(6, 5, padding="same", activation="relu", name="conv1")(inputs)
    x = layers.MaxPooling2D(name="pool1")(x)
    x = layers.Conv2D(16, 5, activation="relu", name="conv2")(x)
    x = layers.MaxPooling2D(name="pool2")(x)
    x = layers.Flatten(name="flatten")(x)
    x = layers.Dense(120, activation="relu", name="fc1")(x)
    x = layers.Dense(84, activation="relu", name="fc2")(x)
    return Model(inputs, layers.Dense(classes, activation="softmax", name="fc3")(x), name="lenet5")
