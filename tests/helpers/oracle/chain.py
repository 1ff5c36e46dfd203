"""Directions made of several seeds (zo_chain.h)."""

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from .stream import Dist, direction


def shares(momentum: int, count: int) -> list[int]:
    """Computes a_j, unit 2^-15."""
    powers = [2**16]
    while len(powers) < count:
        powers.append(powers[-1] * momentum // 2**16)
    root = math.isqrt(2**24 * sum(p * p for p in powers))
    return [(2**27 * p + root // 2) // root for p in powers]


def perturbation(dist: Dist, seeds: Sequence[int], momentum: int, stream: int, size: int) -> NDArray[np.int64]:
    """Computes perturbations in LSB, int64 [size]."""
    v = np.zeros(size, np.int64)
    for seed, share in zip(seeds, shares(momentum, len(seeds)), strict=True):
        v += share * direction(dist, seed, stream, size)
    exact = np.abs(np.clip(v, -105 * 2**15, 105 * 2**15)) * dist.mu
    return np.sign(v) * ((exact + 2**26) // 2**27)


def items(coefficient: int, seeds: Sequence[int], momentum: int) -> list[tuple[int, int]]:
    """Returns queries of an update that move the weights along such a direction."""
    result = []
    for seed, share in zip(seeds, shares(momentum, len(seeds)), strict=True):
        magnitude = (abs(coefficient) * share + 2**14) // 2**15
        result.append((seed, magnitude if coefficient >= 0 else -magnitude))
    return result
