# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""Sums over a layer's output, exact integers, and the statistics that follow from them."""

from __future__ import annotations

import dataclasses
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from ..converters.channel_statistics import CELLS, ChannelStatistics, Layout

__all__ = ["Moments", "cell_sums", "channel_statistics", "layout_of", "moments_of", "sample_sums"]

_SIDE: Final = 4  # CELLS is its square
_PART: Final = 64  # samples that are widened to 64 bits at once

_Sums = NDArray[np.int64]
_Floats = NDArray[np.float64]


@dataclasses.dataclass(frozen=True)
class Moments:
    """Sums over the samples and positions of a layer's output, which add up over sets of samples.

    Attributes:
        positions: number of values that a channel has, over all samples.
        sums: sum of each channel's int8 values, [channels].
        squares: sum of their squares, [channels].
    """

    positions: int
    sums: _Sums
    squares: _Sums

    def __add__(self, other: Moments) -> Moments:
        return Moments(self.positions + other.positions, self.sums + other.sums, self.squares + other.squares)

    @property
    def mean(self) -> _Floats:
        """Mean of each channel, LSB, [channels]."""
        return self.sums / self.positions

    @property
    def deviation(self) -> _Floats:
        """Standard deviation of each channel, LSB, [channels]; exactly 0 where it is constant."""
        # n * squares - sums^2 is the sum over pairs of values of their squared difference: an integer.
        n = self.positions
        pairs = [n * q - s * s for s, q in zip(self.sums.tolist(), self.squares.tolist(), strict=True)]
        return np.sqrt(np.array([p / (n * n) for p in pairs], np.float64))


def sample_sums(values: NDArray[np.int8]) -> tuple[_Sums, _Sums]:
    """Returns the sums and the sums of squares of each sample and channel, int64 [samples, channels].

    Args:
        values: output of a layer, [samples, ..., channels].
    """
    sums, squares = [], []
    for at in range(0, len(values), _PART):
        part = values[at : at + _PART]
        wide = part.reshape(len(part), -1, part.shape[-1]).astype(np.int64)
        sums.append(wide.sum(axis=1))
        squares.append((wide * wide).sum(axis=1))
    return np.concatenate(sums), np.concatenate(squares)


def moments_of(values: NDArray[np.int8]) -> Moments:
    """Returns the moments of a layer's output, int8 [samples, ..., channels]."""
    sums, squares = sample_sums(values)
    return Moments(values.size // values.shape[-1], sums.sum(axis=0), squares.sum(axis=0))


def channel_statistics(values: NDArray[np.int8], zero_point: int) -> ChannelStatistics:
    """Returns the statistics of a layer's output.

    Args:
        values: [samples, ..., channels], of 2 samples at least.
        zero_point: zero point of the output.
    """
    sums, squares = sample_sums(values)
    positions = values.size // (len(values) * values.shape[-1])
    moments = Moments(positions * len(values), sums.sum(axis=0), squares.sum(axis=0))
    mean, deviation = moments.mean, moments.deviation
    own_means = sums / positions - mean
    # A sample's part in the variance, whose logarithm is twice that of the deviation.
    about_mean = squares / positions - 2 * mean * (sums / positions) + mean * mean
    with np.errstate(divide="ignore", invalid="ignore"):
        log_spread = about_mean.std(axis=0, ddof=1) / (2 * deviation * deviation)
    return ChannelStatistics(
        mean - zero_point,
        deviation,
        np.asarray(own_means.std(axis=0, ddof=1)),
        np.where(deviation > 0, log_spread, 0.0),
    )


def cell_sums(values: NDArray[Any]) -> tuple[_Sums, NDArray[np.int64]] | None:
    """Returns sums over 4 x 4 cells of images, int64 [samples, 16, channels], and each cell's pixels, [16].

    Args:
        values: [samples, height, width, channels]; anything else, or images of fewer than 4 x 4 pixels, gives
            None.
    """
    if values.ndim != 4 or min(values.shape[1:3]) < _SIDE:
        return None
    rows, columns = (np.array_split(np.arange(size), _SIDE) for size in values.shape[1:3])
    cells = [values[:, r[0] : r[-1] + 1, c[0] : c[-1] + 1] for r in rows for c in columns]
    sums = np.stack([cell.sum(axis=(1, 2), dtype=np.int64) for cell in cells], axis=1)
    return sums, np.array([cell.shape[1] * cell.shape[2] for cell in cells], np.int64)


def layout_of(values: NDArray[np.int8]) -> Layout | None:
    """Returns the layout of a first layer's output, int8 [samples, ..., channels]; see `cell_sums`."""
    found = cell_sums(values)
    if found is None:
        return None
    moments = moments_of(values)
    alive = moments.deviation > 0
    unit = np.where(alive, moments.deviation, 1.0)
    means = np.where(alive, (found[0] / found[1][:, None] - moments.mean) / unit, 0.0)
    whole = means.mean(axis=1)
    rest = means - whole[:, None]

    def spread(a: _Floats) -> float:
        return float(np.sqrt(a.var(axis=0, ddof=1).mean()))

    assert means.shape[1] == CELLS
    return Layout(means.mean(axis=0), (spread(whole), spread(rest)))
