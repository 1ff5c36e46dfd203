# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""A residual network with eight layers."""

from __future__ import annotations

from typing import Any


def resnet8(input_shape: tuple[int, int, int] = (32, 32, 3), classes: int = 10) -> Any:
    """MLPerf Tiny's image classifier: 77,360 weights for 32 x 32 x 3 and 10 classes, batch norm folded.

    Three residual stacks of 16, 32 and 64 filters. Source: github.com/mlcommons/tiny (image classification),
    after He et al., Deep residual learning, 2015.
    """
    from keras import Input, Model, layers

    def conv(x: Any, filters: int, name: str, size: int = 3, stride: int = 1) -> Any:
        return layers.Conv2D(filters, size, strides=stride, padding="same", name=name)(x)

    def norm(x: Any, name: str) -> Any:
        return layers.BatchNormalization(name=f"{name}_bn")(x)

    inputs = Input(input_shape, name="image")
    x = layers.ReLU(name="conv_relu")(norm(conv(inputs, 16, "conv"), "conv"))
    for i, filters in enumerate((16, 32, 64), 1):
        stride = 1 if i == 1 else 2
        y = norm(conv(x, filters, f"stack{i}_conv1", stride=stride), f"stack{i}_conv1")
        y = layers.ReLU(name=f"stack{i}_relu1")(y)
        y = norm(conv(y, filters, f"stack{i}_conv2"), f"stack{i}_conv2")
        if i > 1:
            x = conv(x, filters, f"stack{i}_shortcut", size=1, stride=stride)
        x = layers.ReLU(name=f"stack{i}_relu")(layers.Add(name=f"stack{i}_add")([x, y]))
    x = layers.AveragePooling2D((x.shape[1], x.shape[2]), name="average")(x)
    x = layers.Flatten(name="flatten")(x)
    return Model(inputs, layers.Dense(classes, activation="softmax", name="fc")(x), name="resnet8")
