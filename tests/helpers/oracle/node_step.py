# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""A step of a layer from what a minibatch says of its nodes, of given root mean square, weight by weight.

All numbers are Python's integers, and so is the running mean: 32 significant bits, truncated (zo_scale.h).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from . import nodes

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Scale:
    """mantissa 2^exponent; 0 or 32 bits."""

    mantissa: int
    exponent: int

    @classmethod
    def of(cls, value: int, exponent: int = 0) -> Scale:
        shift = value.bit_length() - 32
        if value == 0:
            return cls(0, 0)
        return cls(value >> shift if shift > 0 else value << -shift, exponent + shift)

    def blend(self, value: Scale, bits: int) -> Scale:
        """self + (value - self) / 2^bits."""
        a = Scale.of(self.mantissa * (2**bits - 1), self.exponent - bits)
        b = Scale(value.mantissa, value.exponent - bits)
        if 0 in (a.mantissa, b.mantissa):
            return a if b.mantissa == 0 else b
        if a.exponent < b.exponent:
            a, b = b, a
        low = (b.mantissa << 31) >> (a.exponent - b.exponent)
        return Scale.of((a.mantissa << 31) + low, a.exponent - 31)

    def root(self) -> Scale:
        odd = self.exponent % 2
        return Scale.of(math.isqrt(self.mantissa << (30 + odd)), (self.exponent - 30 - odd) // 2)

    def over(self, divisor: Scale) -> Scale:
        quotient = (self.mantissa << 32) // divisor.mantissa
        return Scale.of(quotient, self.exponent - divisor.exponent - 32)


def rounded(value: int, scale: Scale) -> int:
    """value * scale, half up."""
    product = value * scale.mantissa
    if scale.exponent >= 0:
        return product << scale.exponent
    return (product + (1 << (-scale.exponent - 1))) >> -scale.exponent


def steps(g: Array, shift: int, mean: Scale, rate: int, clip: int) -> tuple[list[int] | None, Scale]:
    """Steps, unit 2^-16 LSB, of a gradient estimate in units of 2^shift; None: no step. And the new mean."""
    squares = sum(int(v) ** 2 for v in np.clip(g.reshape(-1) // 256, -(2**21), 2**21))
    now = Scale.of(squares, 2 * (8 + shift)).over(Scale.of(g.size))
    if mean.mantissa == 0:
        mean = now
    if mean.mantissa == 0:
        return None, mean
    unit = mean.root()
    factor = Scale.of(rate).over(Scale(unit.mantissa, unit.exponent - shift))
    found = [max(-clip, min(clip, rounded(-int(v), factor))) for v in g.reshape(-1)]
    return found, mean.blend(now, 5)


def move_16(weights: Array, fraction: Array, found: list[int], limit: int) -> None:
    """Moves flat weights and their fractions, in place."""
    for i, v in enumerate(found):
        moved = 256 * int(weights[i]) + int(fraction[i]) + ((v + 128) >> 8)
        moved = max(-256 * limit, min(256 * limit, moved))
        weights[i] = (moved + 128) >> 8
        fraction[i] = moved - 256 * int(weights[i])


def move_8(weights: Array, found: list[int], limit: int, seed: int, stream: int, channels: int) -> None:
    """Moves flat weights, rounding at random, in place."""
    r = nodes.rounding_terms(seed, stream, len(weights) // channels, channels).reshape(-1)
    for i, v in enumerate(found):
        weights[i] = max(-limit, min(limit, int(weights[i]) + ((v + int(r[i])) >> 16)))
