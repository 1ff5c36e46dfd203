# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""Updates of a few bits (zo_pseudo_stochastic.h, zo_update_bits.h), in Python integers."""

from __future__ import annotations

from .scalar import direction
from .stream import Dist


def pseudo_stochastic(value: int, shift: int) -> int:
    """value / 2^shift, rounded by its own low bits."""
    quotient, dropped = divmod(abs(value), 2**shift)
    probability, random = divmod(dropped, 2 ** (shift // 2))
    if shift % 2 == 1:
        random *= 2
    rounded = quotient + (1 if probability > random else 0)
    return rounded if value >= 0 else -rounded


def subtract(weights: list[int], values: list[int], shift: int, limit: int) -> tuple[list[int], int]:
    """New weights and how many were clipped."""
    moved = [w - pseudo_stochastic(v, shift) for w, v in zip(weights, values, strict=True)]
    clipped = [max(-limit, min(limit, w)) for w in moved]
    return clipped, sum(a != b for a, b in zip(moved, clipped, strict=True))


def update(
    weights: list[int], dist: Dist, seed: int, stream: int, sign: int, bits: int, limit: int
) -> tuple[list[int], int]:
    """zo_update_bits_s8."""
    z = direction(dist.kind, dist.mu, dist.p_zero, seed, stream, len(weights))
    shift = max(0, dist.z_max.bit_length() - bits)
    return subtract(weights, [sign * v for v in z], shift, limit)
