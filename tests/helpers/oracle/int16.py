"""Weights of 16 bits: their perturbation and FULLY_CONNECTED (zo_int16_fully_connected.h), in Python's integers."""

from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from . import chain, weights
from .scalar import GAUSSIAN
from .stream import Dist, direction, perturbation

Int8 = NDArray[np.int8]


def joined(whole: Int8, fraction: Int8) -> list[int]:
    return [256 * int(w) + int(f) for w, f in zip(whole.ravel(), fraction.ravel(), strict=True)]


def split(values: list[int]) -> tuple[Int8, Int8]:
    """Splits modulo 2^16, the whole part rounded half up."""
    whole = [((v + 128) // 256 + 128) % 256 - 128 for v in values]
    fraction = [(v + 128) % 256 - 128 for v in values]
    return np.array(whole, np.int8), np.array(fraction, np.int8)


def half_away(value: Fraction) -> int:
    rounded = int(abs(value) + Fraction(1, 2))
    return rounded if value >= 0 else -rounded


def moves(dist: Dist, seeds: list[int], momentum: int, stream: int, size: int, mask, limit: int) -> list[int]:
    """Computes the move of each weight by a direction, unit 2^-8 LSB."""
    if dist.kind != GAUSSIAN:
        z = direction(dist, seeds[0], stream, size, weights.bits(mask, size))
        return [256 * int(p) for p in perturbation(dist, z)]
    total = [0] * size
    for seed, share in zip(seeds, chain.shares(momentum, len(seeds)), strict=True):
        for i, z in enumerate(direction(dist, seed, stream, size)):
            total[i] += share * int(z)
    result = []
    for v in total:
        z = Fraction(min(max(v, -105 * 2**15), 105 * 2**15), 2**15)
        largest = 256 * (127 - limit)
        result.append(min(max(half_away(z * dist.mu / 16), -largest), largest))
    return result


def perturb(
    whole: Int8, fraction: Int8, terms, dist: Dist, stream: int, momentum: int, mask, limit: int
) -> tuple[Int8, Int8]:
    values, selected = joined(whole, fraction), weights.bits(mask, whole.size)
    for k, seeds in weights.grouped(terms):
        by = moves(dist, seeds, momentum, stream, whole.size, mask, limit)
        values = [v + k * d if s else v for v, d, s in zip(values, by, selected, strict=True)]
    return split(values)


def requantize(total: int, value: int, shift: int) -> int:
    """Multiplies an accumulator in units of 1/256 by value * 2^(shift - 31), with TFLite's two roundings."""
    left, right = max(shift, 0), max(-shift, 0)
    high = Fraction(total * 2**left * value, 2**39)
    first = (high + Fraction(1, 2)).__floor__()
    return half_away(Fraction(first, 2**right))


def fully_connected(
    x: Int8, whole: Int8, fraction: Int8, bias, multipliers, in_zero: int, out_zero: int, low: int, high: int
) -> Int8:
    """Computes x [samples, depth], whole and fraction [units, depth], multipliers: (value, shift) of each unit."""
    result = np.empty((len(x), len(whole)), np.int8)
    for s, sample in enumerate(x):
        for u in range(len(whole)):
            row = joined(whole[u], fraction[u])
            total = sum(w * (int(a) - in_zero) for w, a in zip(row, sample, strict=True))
            total += 0 if bias is None else 256 * int(bias[u])
            y = requantize(total, *multipliers[u]) + out_zero
            result[s, u] = min(max(y, low), high)
    return result
