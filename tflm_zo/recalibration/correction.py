# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""How far a layer's channels have moved, how much of it is more than chance, and what leads them back."""

from __future__ import annotations

import dataclasses
from typing import Final

import numpy as np
from numpy.typing import NDArray

from ..converters.channel_statistics import ChannelStatistics, Layout
from .moments import Moments

__all__ = ["Shift", "is_uneven", "shift_between"]

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

_Floats = NDArray[np.float64]


@dataclasses.dataclass(frozen=True)
class Shift:
    """The shift of a layer's channels from old data to new, [channels] each.

    Attributes:
        alive: channels that are constant neither in the old data nor in the new; the others stay as they are.
        mean: mean that the channels are to have, from the output's zero point, LSB: the old one, but for the
            part of the shift that may be chance.
        deviation: standard deviation that they are to have, LSB, likewise.
        mean_shift: root mean square over channels of the means' shift, in old deviations.
        deviation_shift: root mean square over channels of the logarithm of new deviation / old deviation.
        mean_share: share of the means' shift that is taken back, 0..1.
        deviation_share: share of the deviations' shift that is taken back, 0..1.
    """

    alive: NDArray[np.bool_]
    mean: _Floats
    deviation: _Floats
    mean_shift: float
    deviation_shift: float
    mean_share: float
    deviation_share: float

    def correction(
        self, now: Moments, zero_point: int, *, shared: bool, before: _Floats
    ) -> tuple[_Floats, _Floats] | None:
        """Returns factors and shifts, LSB, [channels] each, that lead the channels to where they are to be.

        Args:
            now: moments of the layer's output as it is now.
            zero_point: zero point of the output.
            shared: True if all channels have one factor, the geometric mean.
            before: product of the factors that the channels have had already, which counts in the largest.

        Returns:
            None where the channels are close enough.
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


def shift_between(
    old: ChannelStatistics, old_samples: int, new: Moments, new_samples: int, zero_point: int
) -> Shift:
    """Returns the shift of a layer's channels.

    Of the squared shifts, in units of their standard errors, chance alone makes 1 on average over the
    channels; the excess t is signal, and the share t / (t + 1) of each shift is taken back. A sample is an
    image, not a pixel, and the standard errors are those of the old data, so they are known however few new
    samples there are.
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


def is_uneven(
    old: Layout, old_samples: int, statistics: ChannelStatistics, cells: _Floats, new_samples: int
) -> bool:
    """Returns whether the first layer has moved by much, and differently in different places more than as a
    whole.

    A scale and a bias move a channel everywhere alike. What a rotation does is no such thing, nor what tells
    the samples of one class from those of all: the shift that the channels have as a whole is then a
    by-product, and taking it back does harm.

    Args:
        old: layout on the old data.
        old_samples: number of its samples.
        statistics: statistics of the first layer on the old data.
        cells: means of cells and channels on the new data, from the output's zero point, LSB, [16, channels].
        new_samples: number of their samples.
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
