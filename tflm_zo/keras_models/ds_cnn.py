# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""A depthwise-separable CNN for keyword spotting."""

from __future__ import annotations

from typing import Any


def ds_cnn(
    input_shape: tuple[int, int, int] = (49, 10, 1),
    classes: int = 12,
    *,
    filters: int = 64,
    blocks: int = 4,
    stride: tuple[int, int] = (2, 2),
    embedding: int | None = None,
) -> Any:
    """MLPerf Tiny's keyword spotter: 22,016 weights for 49 x 10 features and 12 classes, batch norm folded.

    A 10 x 4 convolution of 64 filters with stride 2, four depthwise-separable blocks of 64 filters, average
    pooling over the image, and one dense layer. Source: github.com/mlcommons/tiny (keyword spotting), after
    Zhang et al., Hello Edge, 2017. Its dropout, which does nothing in inference, is left out.

    Args:
        input_shape: frames, bands and channels of the features.
        classes: outputs of the softmax.
        filters: filters of every convolution.
        blocks: number of depthwise-separable blocks.
        stride: stride of the first convolution, over frames and bands.
        embedding: filters of the last pointwise convolution, whose averages over the image are all that the
            dense layer sees; None: as many as of the others.
    """
    from keras import Input, Model, layers

    def block(x: Any, name: str) -> Any:
        x = layers.BatchNormalization(name=f"{name}_bn")(x)
        return layers.ReLU(name=f"{name}_relu")(x)

    inputs = Input(input_shape, name="features")
    x = layers.Conv2D(filters, (10, 4), strides=stride, padding="same", name="conv")(inputs)
    x = block(x, "conv")
    for i in range(1, blocks + 1):
        x = layers.DepthwiseConv2D(3, padding="same", name=f"dw{i}")(x)
        x = block(x, f"dw{i}")
        width = filters if embedding is None or i < blocks else embedding
        x = layers.Conv2D(width, 1, name=f"pw{i}")(x)
        x = block(x, f"pw{i}")
    x = layers.AveragePooling2D((x.shape[1], x.shape[2]), name="average")(x)
    x = layers.Flatten(name="flatten")(x)
    return Model(inputs, layers.Dense(classes, activation="softmax", name="fc")(x), name="ds_cnn")
