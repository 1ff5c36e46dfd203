# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""Networks for colour images, and their pre-training; they take pixels of 0..255."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tflm_zo.converters import load_model
from tflm_zo.converters.kernels import FILTER_OPERATORS
from tflm_zo.converters.model import Operator

__all__ = ["made_of_int8", "mobilenet_v2", "pretrain_on_images"]


def mobilenet_v2(input_shape: tuple[int, ...], classes: int, alpha: float = 0.35) -> Any:
    """Builds MobileNetV2 with random weights.

    Source: Sandler et al., MobileNetV2, 2018. Keras' weights for ImageNet are a download.
    """
    import keras

    return keras.applications.MobileNetV2(input_shape=tuple(input_shape), alpha=alpha, weights=None, classes=classes)


def made_of_int8(model: Any, path: Path) -> Any:
    """Gives a Keras network the weights of an int8 model of the same layers, batch norm folded into them.

    Args:
        model: a Keras model of convolutions, each with a batch norm behind it, and a dense layer at the end.
        path: the int8 model, whose input is 0..1.

    Returns:
        The same Keras model.
    """
    import keras

    operators = [op for op in load_model(path).subgraphs[0].operators if op.builtin in FILTER_OPERATORS]
    first, pending = True, iter(operators)
    for layer in model.layers:
        if isinstance(layer, keras.layers.DepthwiseConv2D | keras.layers.Conv2D | keras.layers.Dense):
            filters, biases = _real_weights(next(pending))
            if isinstance(layer, keras.layers.Dense):
                layer.set_weights([filters.T, biases])
                continue
            # OHWI, or 1HWC, as HWIO or HWC1
            depthwise = isinstance(layer, keras.layers.DepthwiseConv2D)
            filters = filters.transpose(1, 2, 3, 0)
            layer.set_weights([filters / 255 if first else filters])
            assert depthwise == (filters.shape[3] == 1)
            first = False
        elif isinstance(layer, keras.layers.BatchNormalization):
            ones, zeros = np.ones_like(biases), np.zeros_like(biases)
            layer.set_weights([ones, biases, zeros, ones - layer.epsilon])
    return model


def _real_weights(op: Operator) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Filter and bias of an int8 operator as real numbers."""
    entering, filters, biases = op.inputs[0], op.inputs[1], op.inputs[2]
    assert entering is not None and filters is not None and biases is not None
    assert entering.quantization is not None and filters.quantization is not None
    scales = filters.quantization.scales
    shape = [1] * len(filters.shape)
    shape[filters.quantization.axis if len(scales) > 1 else 0] = len(scales)
    real = filters.numpy() * scales.reshape(shape)
    return real.astype(np.float32), (biases.numpy() * entering.quantization.scale * scales).astype(np.float32)


def pretrain_on_images(
    model: Any, x: NDArray[np.uint8], y: NDArray[Any], *, epochs: int, rate: float, seed: int, frozen_norm: bool = False
) -> None:
    """Trains a classifier of images, in place: every epoch on images that are mirrored and moved anew, with
    label smoothing and a rate that falls to zero.

    Args:
        model: a Keras model that ends in softmax.
        x: pixels [images, height, width, 3].
        y: class indices.
        epochs: passes over the images.
        rate: at the first step.
        seed: of the changes to the images and of the order of samples.
        frozen_norm: whether batch norm keeps its statistics.
    """
    import keras

    keras.utils.set_random_seed(seed)
    random = np.random.default_rng(seed)
    for layer in model.layers:
        if isinstance(layer, keras.layers.BatchNormalization):
            # With Keras' 0.999 the statistics of a run this short would be those of its beginning.
            layer.trainable, layer.momentum = not frozen_norm, 0.9
    falling = keras.optimizers.schedules.CosineDecay(rate, epochs * -(-len(y) // 32))
    loss = keras.losses.CategoricalCrossentropy(label_smoothing=0.1)
    model.compile(optimizer=keras.optimizers.Adam(falling), loss=loss)
    targets = keras.utils.to_categorical(y, model.output_shape[-1])
    for _ in range(epochs):
        model.fit(_moved(x, random).astype(np.float32), targets, batch_size=32, verbose=0)


def _moved(x: NDArray[np.uint8], random: np.random.Generator) -> NDArray[np.uint8]:
    """Mirrors each image or not, and moves it by up to an eighth of its side. Its edge is repeated."""
    side = x.shape[1]
    most = side // 8
    padded = np.pad(x, ((0, 0), (most, most), (most, most), (0, 0)), mode="edge")
    result = np.empty_like(x)
    for i, (top, left, mirrored) in enumerate(random.integers(0, [2 * most + 1, 2 * most + 1, 2], (len(x), 3))):
        image = padded[i, top : top + side, left : left + side]
        result[i] = image[:, ::-1] if mirrored else image
    return result
