# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""A small CNN for 8 x 8 digits."""

from __future__ import annotations

from typing import Any


def digits_cnn(input_shape: tuple[int, int, int] = (8, 8, 1), classes: int = 10) -> Any:
    """A CNN for scikit-learn's 8 x 8 digits: 3,784 weights and 34 biases for 10 classes.

    Two 3 x 3 convolutions of 8 and 16 filters, the second behind a 2 x 2 max pooling, and one dense layer on
    their 4 x 4 x 16 activations.
    """
    from keras import Input, Model, layers

    inputs = Input(input_shape, name="image")
    x = layers.Conv2D(8, 3, padding="same", activation="relu", name="conv1")(inputs)
    x = layers.MaxPooling2D(name="pool1")(x)
    x = layers.Conv2D(16, 3, padding="same", activation="relu", name="conv2")(x)
    x = layers.Flatten(name="flatten")(x)
    return Model(inputs, layers.Dense(classes, activation="softmax", name="fc")(x), name="digits_cnn")
