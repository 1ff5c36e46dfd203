# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""MobileNet, version 1."""

from __future__ import annotations

from typing import Any, Final

# Filters and stride of the pointwise convolutions.
_BLOCKS: Final = (
    (64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2), *[(512, 1)] * 5, (1024, 2), (1024, 1),
)  # fmt: skip


def mobilenet_v1(
    input_shape: tuple[int, int, int] = (96, 96, 3), classes: int = 2, alpha: float = 0.25
) -> Any:
    """MLPerf Tiny's visual wake words: 208,112 weights for 96 x 96 x 3, 2 classes and a width of 0.25.

    Batch norm is folded into the convolutions, without which there are none but the dense layer's biases.
    Sources: github.com/mlcommons/tiny (visual wake words); Howard et al., MobileNets, 2017.
    """
    from keras import Input, Model, layers

    def finish(x: Any, name: str) -> Any:
        x = layers.BatchNormalization(name=f"{name}_bn")(x)
        return layers.ReLU(name=f"{name}_relu")(x)

    inputs = Input(input_shape, name="image")
    first = layers.Conv2D(int(32 * alpha), 3, strides=2, padding="same", use_bias=False, name="conv")
    x = finish(first(inputs), "conv")
    for i, (filters, stride) in enumerate(_BLOCKS, 1):
        x = layers.DepthwiseConv2D(3, strides=stride, padding="same", use_bias=False, name=f"dw{i}")(x)
        x = finish(x, f"dw{i}")
        x = layers.Conv2D(int(filters * alpha), 1, use_bias=False, name=f"pw{i}")(x)
        x = finish(x, f"pw{i}")
    x = layers.AveragePooling2D((x.shape[1], x.shape[2]), name="average")(x)
    x = layers.Flatten(name="flatten")(x)
    return Model(inputs, layers.Dense(classes, activation="softmax", name="fc")(x), name="mobilenet_v1")
