"""Moments of a layer's output, their statistics, and the correction of shifted channels."""

from __future__ import annotations

import dataclasses
import math
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from ..converters.channel_statistics import CELLS, ChannelStatistics, Layout

_SIDE: Final = 4  # CELLS is its square
_PART: Final = 64  # samples that are widened to 64 bits at once

_Sums = NDArray[np.int64]
_Floats = NDArray[np.float64]


@dataclasses.dataclass(frozen=True)
class Moments:
    """Sums over the samples and positions of a layer's output. Sums of several sets of samples can be added."""

    positions: int  #: number of values of a channel in all samples.
    sums: _Sums  #: sum of each channel's int8 values, [channels].
    squares: _Sums  #: sum of their squares, [channels].

    def __add__(self, other: Moments) -> Moments:
        return Moments(self.positions + other.positions, self.sums + other.sums, self.squares + other.squares)

    @property
    def mean(self) -> _Floats:
        """Mean of each channel, LSB, [channels]."""
        return self.sums / self.positions

    @property
    def deviation(self) -> _Floats:
        """Standard deviation of each channel, LSB, [channels]; exactly 0 for a constant channel."""
        # n * squares - sums^2 is the sum over pairs of values of their squared difference: an integer.
        n = self.positions
        pairs = [n * q - s * s for s, q in zip(self.sums.tolist(), self.squares.tolist(), strict=True)]
        return np.sqrt(np.array([p / (n * n) for p in pairs], np.float64))


def sample_sums(values: NDArray[np.int8]) -> tuple[_Sums, _Sums]:
    """Returns sums and sums of squares of a layer's output [samples, ..., channels], int64 [samples, channels] each."""
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
    """Returns the statistics of a layer's output, [samples, ..., channels], of 2 samples at least."""
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
    """Returns sums over 4 x 4 cells of images [samples, height, width, channels], int64 [samples, 16, channels], and
    each cell's pixels, [16]; None for other ranks, or images of fewer than 4 x 4 pixels.
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


#: Factor by which a channel's deviation is corrected at most.
LARGEST_FACTOR: Final = 3.0
#: Share of a channel's deviation by which its mean may differ from its aim, and its deviation likewise.
CLOSE: Final = 0.01
#: Uneven shifts are taken for real from so many times their sampling variance on, and count from so many
#: squared deviations of a channel on. Chosen on validation data: rotated CIFAR-10 has 0.07 to 0.09 and loses
#: 10 points where it is corrected, samples of one class have 0.09 to 0.13 and lose 30; new speakers'
#: spectrograms mostly have 0.02 to 0.03, rotated digits 0.03, and both gain.
_SIGNIFICANT: Final = 2.0
_LARGE: Final = 0.05


@dataclasses.dataclass(frozen=True)
class Shift:
    """The shift of a layer's channels from old data to new, [channels] each."""

    # True for channels that vary in both the old and the new data; the others are not corrected
    alive: NDArray[np.bool_]
    # target mean, relative to the output's zero point, LSB: the old mean plus the part of the shift that may be chance
    mean: _Floats
    deviation: _Floats  # target standard deviation, LSB, likewise
    mean_shift: float  # root mean square over channels of the means' shift, in old deviations
    deviation_shift: float  # root mean square over channels of the logarithm of new deviation / old deviation
    mean_share: float  # share of the means' shift that is corrected, 0..1
    deviation_share: float  # share of the deviations' shift that is corrected, 0..1

    @property
    def size(self) -> float:
        """The part of both shifts that is not chance, in old deviations."""
        return math.sqrt(self.mean_share * self.mean_shift**2 + self.deviation_share * self.deviation_shift**2)

    def correction(
        self, now: Moments, zero_point: int, *, shared: bool, before: _Floats
    ) -> tuple[_Floats, _Floats] | None:
        """Returns the factors and offsets, LSB, [channels] each, that give the channels their target mean and
        deviation; None if they are close enough.

        Args:
            now: moments of the layer's present output.
            zero_point: zero point of the output.
            shared: True if all channels have one factor, the geometric mean.
            before: product of earlier factors of the channels; the limit of a factor includes it.
        """
        mean, deviation = now.mean - zero_point, now.deviation
        alive = self.alive & (deviation > 0)
        unit = np.where(alive, deviation, 1.0)
        factors = np.where(alive, self.deviation / unit, 1.0)
        away = np.where(alive, np.maximum(np.abs(factors - 1), np.abs(self.mean - mean) / unit), 0.0)
        if not (away > CLOSE).any():
            return None
        if shared:
            factors[:] = np.exp(np.log(factors[alive]).mean())
        factors = np.clip(before * factors, 1 / LARGEST_FACTOR, LARGEST_FACTOR) / before
        return factors, np.where(alive, self.mean - factors * mean, 0.0)


def shift_between(old: ChannelStatistics, old_samples: int, new: Moments, new_samples: int, zero_point: int) -> Shift:
    """Returns the shift of a layer's channels.

    Without a real shift, the squared shifts divided by their squared standard errors have a mean of 1 over the
    channels. The excess t is signal, and the share t / (t + 1) of each shift is corrected. The standard errors are
    those of the old data, per image and not per pixel, so they do not depend on the number of new samples.
    """
    mean, deviation = new.mean - zero_point, new.deviation
    alive = np.asarray((old.deviation > 0) & (deviation > 0))
    unit = np.where(alive, old.deviation, 1.0)
    moved = np.where(alive, (mean - old.mean) / unit, 0.0)
    stretched = np.where(alive, np.log(np.where(alive, deviation, 1.0) / unit), 0.0)
    error = np.sqrt(1 / new_samples + 1 / old_samples)
    mean_share = _signal_share(moved[alive], (old.spread / unit)[alive] * error)
    deviation_share = _signal_share(stretched[alive], old.log_spread[alive] * error)
    return Shift(
        alive,
        np.where(alive, old.mean + (1 - mean_share) * moved * unit, mean),
        np.where(alive, old.deviation * np.exp((1 - deviation_share) * stretched), deviation),
        _root_mean_square(moved[alive]),
        _root_mean_square(stretched[alive]),
        mean_share,
        deviation_share,
    )


def _signal_share(shifts: _Floats, errors: _Floats) -> float:
    known = errors > 0
    if not known.any():
        return 0.0
    signal = max(float(np.mean((shifts[known] / errors[known]) ** 2)) - 1, 0.0)
    return signal / (signal + 1)


def _root_mean_square(values: _Floats) -> float:
    return float(np.sqrt(np.mean(values**2))) if values.size else 0.0


def is_uneven(old: Layout, old_samples: int, statistics: ChannelStatistics, cells: _Floats, new_samples: int) -> bool:
    """Returns whether the first layer's shift is large and differs more between places of the image than it is common
    to them.

    A scale and a bias shift a channel equally everywhere. A rotation does not, nor does a change of the classes:
    correcting the mean shift then does harm. `cells` has means of the new data, from the output's zero point, LSB,
    [16, channels].
    """
    alive = statistics.deviation > 0
    if not alive.any():
        return False
    at = (cells - statistics.mean)[:, alive] / statistics.deviation[alive]
    moved = at - old.cells[:, alive]
    even = moved.mean(axis=0)
    chance = (1 / new_samples + 1 / old_samples) * np.square(old.spread)
    everywhere, uneven = float(np.mean(even**2)), float(np.mean((moved - even) ** 2))
    significant = uneven > _SIGNIFICANT * chance[1]
    return bool(significant and uneven - chance[1] > max(_LARGE, everywhere - chance[0]))
