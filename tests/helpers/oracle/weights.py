"""Operations on weights: perturb, update, replay, checksum (zo_perturb.h, zo_update.h, zo_checksum.h)."""

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from . import scalar
from .scalar import COORDINATE
from .stream import Dist, direction, perturbation, rounding

Int8: TypeAlias = NDArray[np.int8]
Pairs: TypeAlias = Sequence[tuple[int, int]]


def perturb(weights: Int8, terms: Pairs, dist: Dist, stream: int) -> Int8:
    total = weights.astype(np.int64)
    for seed, k in terms:
        z = direction(dist, seed, stream, weights.size)
        total += k * perturbation(dist, z)
    return ((total + 128) % 256 - 128).astype(np.int8)


def update(
    weights: Int8,
    fraction: Int8 | None,
    multiplier: NDArray[np.int32] | None,
    channels: int,
    inner: int,
    stream: int,
    limit: int,
    dist: Dist,
    queries: Pairs,
    restore: Pairs = (),
) -> tuple[Int8, Int8 | None, int]:
    """Returns new weights, new fraction, number of clipped weights."""
    size = weights.size
    weights = perturb(weights, restore, dist, stream)
    delta = np.zeros(size, np.int64)
    touched = np.full(size, dist.kind != COORDINATE)
    for seed, coefficient in queries:
        z = direction(dist, seed, stream, size)
        delta += coefficient * z
        touched |= z != 0
    if multiplier is not None:
        channel = np.arange(size) // inner % channels
        delta = (delta * multiplier.astype(np.int64)[channel] + 2**30) // 2**31
    whole = weights.astype(np.int64)
    if fraction is None:
        moved = whole + (delta + rounding(queries[0][0], stream, size)) // 2**16
        clipped = np.where(touched, np.clip(moved, -limit, limit), moved)
        return clipped.astype(np.int8), None, int((clipped != moved).sum())
    moved = 256 * whole + fraction + (delta + 128) // 2**8
    clipped = np.where(touched, np.clip(moved, -256 * limit, 256 * limit), moved)
    whole = (clipped + 128) // 256
    return (whole.astype(np.int8), (clipped - 256 * whole).astype(np.int8), int((clipped != moved).sum()))


def checksum(weights: Int8, fraction: Int8 | None, stream: int) -> int:
    value = scalar.fmix(2166136261 ^ stream)
    for byte in weights.tobytes() + (b"" if fraction is None else fraction.tobytes()):
        value = (value ^ byte) * 16777619 & 0xFFFFFFFF
    return scalar.fmix(value)
