# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""Requantization: from accumulators to int8 as TFLite's reference kernels do it."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["Clamp", "Multiplier", "clamp_of", "round_half_away"]


def round_half_away(value: float) -> int:
    """Rounds to the nearest integer, halves away from zero (C's `round`)."""
    return int(math.copysign(math.floor(abs(value) + 0.5), value))


class Multiplier:
    """Fixed-point form of one real factor, or of one per channel: factor = value * 2^(left - right - 31).

    Args:
        factors: real factors >= 0.
    """

    def __init__(self, factors: list[float]) -> None:
        values, shifts = [], []
        for factor in factors:
            mantissa, shift = math.frexp(factor)
            value = round_half_away(mantissa * 2**31)
            if value == 2**31:
                value, shift = 2**30, shift + 1
            if shift < -31:
                value, shift = 0, 0
            values.append(value)
            shifts.append(shift)
        shift_array = np.array(shifts)
        # A shift to the left comes before the product, so it may as well be part of the factor.
        self._value = np.array(values, np.int64) << np.maximum(shift_array, 0)
        self._right = np.maximum(-shift_array, 0).astype(np.int32)
        # Half of the last bit that is kept; one less for negative values: halves go away from zero.
        self._half = ((1 << self._right.astype(np.int64)) >> 1).astype(np.int32)
        self._halves_exist = bool((self._right > 0).all())

    def apply(self, accumulators: NDArray[np.int64]) -> NDArray[np.int32]:
        """Multiplies accumulators by the factors (along the last axis), rounded twice as in TFLite.

        Args:
            accumulators: int64 [..., channels] of int32 values; overwritten.
        """
        accumulators *= self._value
        accumulators += 1 << 30
        accumulators >>= 31
        high = accumulators.astype(np.int32)
        below_zero = high >> 31
        if not self._halves_exist:
            below_zero *= self._right > 0
        high += below_zero
        high += self._half
        high >>= self._right
        return high


@dataclass(frozen=True)
class Clamp:
    """Output range of a fused activation, with the output's zero point: all int8 values."""

    zero_point: int
    low: int
    high: int

    def finish(self, values: NDArray[np.int32]) -> NDArray[np.int8]:
        """Adds the zero point, clamps; the argument is overwritten."""
        values += self.zero_point
        return np.clip(values, self.low, self.high, out=values).astype(np.int8)


def clamp_of(activation: int, scale: float, zero_point: int) -> Clamp:
    """Returns the range of a fused activation.

    Args:
        activation: TFLite's ActivationFunctionType: 0 none, 1 ReLU, 2 ReLU from -1 to 1, 3 ReLU6.
        scale: of the output.
        zero_point: of the output.
    """
    real_low, real_high = {0: (-math.inf, math.inf), 1: (0.0, math.inf), 2: (-1.0, 1.0), 3: (0.0, 6.0)}[activation]
    low, high = -128, 127
    if math.isfinite(real_low):
        low = max(low, zero_point + round_half_away(float(np.float32(real_low) / np.float32(scale))))
    if math.isfinite(real_high):
        high = min(high, zero_point + round_half_away(float(np.float32(real_high) / np.float32(scale))))
    return Clamp(zero_point, low, high)
