# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""Shifts of images and of spectrograms that a network was not trained for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.ndimage import rotate

__all__ = ["IMAGES", "contrast", "noise"]

Images = NDArray[np.uint8]
Floats = NDArray[np.float32]


def impulse(x: Images, seed: int) -> Images:
    """Makes three pixels of a hundred black or white."""
    drawn = np.random.default_rng(seed).random(x.shape[:3])
    result = x.copy()
    result[drawn < 0.015] = 0
    result[drawn > 0.985] = 255
    return result


def dark(x: Images, seed: int) -> Images:
    """Raises the brightness to the fourth power."""
    return np.round(255 * (x / 255) ** 4).astype(np.uint8)


def fog(x: Images, seed: int) -> Images:
    """Reduces the contrast to two fifths, on grey."""
    return np.round(0.4 * x + 120).astype(np.uint8)


def rotation(x: Images, seed: int) -> Images:
    """Turns images counter-clockwise by 30 degrees. Means and deviations of channels hardly change."""
    turned_by_30 = rotate(x.astype(np.float32), 30, axes=(2, 1), reshape=False, order=1)
    return np.round(turned_by_30).astype(np.uint8)


#: Of colour images, uint8 [samples, height, width, 3], by name; the seed counts if something is drawn.
IMAGES: dict[str, Callable[[Images, int], Images]] = {
    "impulse": impulse,
    "dark": dark,
    "fog": fog,
    "rotation": rotation,
}


def noise(x: NDArray[Any], deviation: float, seed: int) -> Floats:
    """Samples of 0..1 with normal noise, cut to 0..1."""
    drawn = np.random.default_rng(seed).normal(0, deviation, x.shape)
    return np.clip(x + drawn, 0, 1).astype(np.float32)


def contrast(x: NDArray[Any], share: float, grey: float) -> Floats:
    """Samples of 0..1 of which a share is left, on grey."""
    return (share * x + (1 - share) * grey).astype(np.float32)
