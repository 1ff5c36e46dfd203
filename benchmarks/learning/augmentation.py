# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""Pre-training on spectrograms that are augmented."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["pretrain_on_spectrograms", "shifted"]

Array = NDArray[np.float32]


def shifted(x: Array, random: np.random.Generator) -> Array:
    """Computes log-mel features of recordings that begin up to 4 frames later, or one earlier, each at its
    own time.

    Args:
        x: [recordings, frames, bands, 1], 0..1, silence 0, as `log_mel` makes them.
        random: the source of the times.

    Returns:
        Likewise, new; between two frames it is interpolated, beyond both ends there is silence.
    """
    count, frames, _, _ = x.shape
    return _sampled(x, np.arange(frames) - random.uniform(-1, 4, (count, 1))).astype(np.float32)


def _sampled(values: Array, at: NDArray[np.float64]) -> NDArray[np.float64]:
    """Interpolates [n, length, m, 1] at positions [n, k] between its frames, which are 0 beyond both ends."""
    left = np.floor(at).astype(int)
    share, length, own = at - left, values.shape[1], np.arange(len(values))[:, None]
    result = np.zeros((*at.shape, *values.shape[2:]))
    for row, weight in ((left, 1 - share), (left + 1, share)):
        inside = (row >= 0) & (row < length)
        result += values[own, np.clip(row, 0, length - 1)] * (weight * inside)[..., None, None]
    return result


def pretrain_on_spectrograms(model: Any, x: Array, y: NDArray[Any], *, epochs: int = 20, seed: int = 0) -> None:
    """Trains a classifier of log-mel features, in place: every epoch on recordings shifted anew, with label
    smoothing and a rate that falls to zero.

    Args:
        model: a Keras model that ends in softmax.
        x: [recordings, frames, bands, 1], see `shifted`.
        y: class indices.
        epochs: passes over the recordings.
        seed: of shifts and the order of samples.
    """
    import keras

    keras.utils.set_random_seed(seed)
    random = np.random.default_rng(seed)
    rate = keras.optimizers.schedules.CosineDecay(2e-3, epochs * -(-len(y) // 32))
    loss = keras.losses.CategoricalCrossentropy(label_smoothing=0.1)
    model.compile(optimizer=keras.optimizers.Adam(rate), loss=loss)
    targets = keras.utils.to_categorical(y, model.output_shape[-1])
    for _ in range(epochs):
        model.fit(shifted(x, random), targets, batch_size=32, verbose=0)
