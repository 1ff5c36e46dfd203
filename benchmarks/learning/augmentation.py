# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""Pre-training on spectrograms that are augmented."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["augmented", "pretrain_on_spectrograms"]

Array = NDArray[np.float32]


def augmented(x: Array, random: np.random.Generator) -> Array:
    """Log-mel features as other voices, rooms and microphones might have made them.

    Each recording gets a speed (0.8 to 1.25) and a beginning (up to 4 frames later, or one earlier) of its
    own, a warp and a shift of the mel axis (by up to 12 % and a band: longer and shorter vocal tracts), a
    gain and a spectral tilt where it is not silent, noise, and a mask over up to 8 frames and up to 3 bands
    (SpecAugment, Park et al., 2019).

    Args:
        x: [recordings, frames >= 9, bands >= 4, 1], 0..1, silence 0, as `log_mel` makes them.
        random: where everything is drawn from.

    Returns:
        Likewise, new.
    """
    count, frames, bands, _ = x.shape

    def uniform(low: float, high: float, *axes: int) -> NDArray[np.float64]:
        return random.uniform(low, high, (count, *axes))

    frame, band = np.arange(frames), np.arange(bands)
    speed = np.exp(uniform(np.log(0.8), np.log(1.25), 1))
    values = _sampled(x[..., 0], (frame - uniform(-1, 4, 1)) * speed)
    # What a warp takes from beyond the edges is the outermost band.
    at = np.clip(band * np.exp(uniform(-0.12, 0.12, 1)) + uniform(-1, 1, 1), 0, bands - 1)
    values = _sampled(values.transpose(0, 2, 1), at).transpose(0, 2, 1)
    louder = uniform(-0.1, 0.1, 1, 1) + uniform(-0.1, 0.1, 1, 1) * np.linspace(-1, 1, bands)
    values = np.where(values > 0, np.clip(values + louder, 0, 1), 0)
    values = np.clip(values + uniform(0, 0.05, 1, 1) * random.standard_normal(values.shape), 0, 1)
    values *= ~_mask(frame, 8, count, random)[:, :, None] & ~_mask(band, 3, count, random)[:, None]
    return values.astype(np.float32)[..., None]


def _sampled(values: NDArray[Any], at: NDArray[np.float64]) -> NDArray[np.float64]:
    """[n, length, m] read at positions [n, k] between its rows, which are 0 beyond both ends; [n, k, m]."""
    left = np.floor(at).astype(int)
    share, length, own = at - left, values.shape[1], np.arange(len(values))[:, None]
    result = np.zeros((*at.shape, values.shape[2]))
    for row, weight in ((left, 1 - share), (left + 1, share)):
        inside = (row >= 0) & (row < length)
        result += values[own, np.clip(row, 0, length - 1)] * (weight * inside)[..., None]
    return result


def _mask(positions: NDArray[Any], longest: int, count: int, random: np.random.Generator) -> NDArray[Any]:
    """[count, positions], true over a stretch of up to `longest` of them, anywhere."""
    begin = random.integers(0, len(positions) - longest, (count, 1))
    return (positions >= begin) & (positions < begin + random.integers(0, longest + 1, (count, 1)))


def pretrain_on_spectrograms(
    model: Any, x: Array, y: NDArray[Any], *, epochs: int = 30, seed: int = 0
) -> None:
    """Trains a classifier of log-mel features, in place: every epoch on recordings augmented anew, with label
    smoothing and a rate that falls to zero. Chosen by the validation utterances of speakers that it had not
    heard.

    Args:
        model: a Keras model that ends in softmax.
        x: [recordings, frames, bands, 1], see `augmented`.
        y: class indices.
        epochs: passes over the recordings.
        seed: of augmentation and the order of samples.
    """
    import keras

    keras.utils.set_random_seed(seed)
    random = np.random.default_rng(seed)
    rate = keras.optimizers.schedules.CosineDecay(2e-3, epochs * -(-len(y) // 32))
    loss = keras.losses.CategoricalCrossentropy(label_smoothing=0.1)
    model.compile(optimizer=keras.optimizers.Adam(rate), loss=loss)
    targets = keras.utils.to_categorical(y, model.output_shape[-1])
    for _ in range(epochs):
        model.fit(augmented(x, random), targets, batch_size=32, verbose=0)
