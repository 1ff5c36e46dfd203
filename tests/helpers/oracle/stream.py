"""The random stream for whole tensors (zo_stream.h), vectorized over tiles."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from . import scalar
from .scalar import COORDINATE, GAUSSIAN, RADEMACHER, SPARSE_UNIFORM, TILE

U32 = np.uint32
QUANTILES = np.array(scalar.QUANTILES)


@dataclass(frozen=True)
class Dist:
    """A distribution as zo_types.h has it."""

    kind: int
    mu: int
    p_zero: int = 0

    @property
    def z_max(self) -> int:
        return {RADEMACHER: 1, SPARSE_UNIFORM: self.mu, GAUSSIAN: 105, COORDINATE: 1}[self.kind]

    @property
    def reach(self) -> int:
        return int(np.abs(perturbation(self, np.array([self.z_max])))[0])

    @property
    def valid(self) -> bool:
        if self.kind == GAUSSIAN:
            return self.p_zero == 0 and 1 <= self.mu <= 65535
        if self.kind in (RADEMACHER, COORDINATE):
            return self.p_zero == 0 and 1 <= self.mu <= 127
        return self.kind == SPARSE_UNIFORM and 1 <= self.mu <= 127


def fmix(h: NDArray[np.uint32]) -> NDArray[np.uint32]:
    h = h ^ (h >> U32(16))
    h = h * U32(0x85EBCA6B)
    h = h ^ (h >> U32(13))
    h = h * U32(0xC2B2AE35)
    return h ^ (h >> U32(16))


def block_words(seed: int, tensor: int, size: int, per_word: int) -> NDArray[np.uint32]:
    """Draws the words of a tensor, uint32 [tiles, words of a tile]."""
    tiles = np.arange(-(-size // TILE), dtype=U32)
    state = fmix(U32(scalar.key(seed, tensor)) ^ fmix(U32(0x6A09E667) + tiles))
    state[state == 0] = 0x6C8E9CF5
    words = -(-min(size, TILE) // per_word)
    result = np.empty((words, len(tiles)), U32)
    for w in range(words):
        state = state ^ (state << U32(13))
        state = state ^ (state >> U32(17))
        state = state ^ (state << U32(5))
        result[w] = state
    return result.T


def direction(dist: Dist, seed: int, tensor: int, size: int) -> NDArray[np.int64]:
    """Draws z, int64 [size]."""
    if dist.kind == COORDINATE:
        return (np.arange(size) == scalar.key(seed, tensor) % size).astype(np.int64)
    per_word = scalar.PER_WORD[dist.kind]
    words = block_words(seed, tensor, size, per_word)
    turns = np.arange(per_word, dtype=U32) * U32(32 // per_word)
    parts = (words[..., None] >> turns).astype(np.int64) & ((1 << 32 // per_word) - 1)
    if dist.kind == RADEMACHER:
        z = 1 - 2 * parts
    elif dist.kind == GAUSSIAN:
        z = np.where(parts & 128, -QUANTILES[parts & 127], QUANTILES[parts & 127])
    else:
        byte = (parts >> 8) - ((parts >> 15) << 8)
        z = (byte * (2 * dist.mu + 1) + 128) // 256
        z[(byte == -128) | ((parts & 255) < dist.p_zero)] = 0
    return z.reshape(-1)[:size]


def rounding(seed: int, tensor: int, size: int) -> NDArray[np.int64]:
    """Draws r of the 8-bit update, int64 [size]."""
    words = block_words(seed, tensor + 0x80000000, size, 4).astype(np.uint64)[..., None]
    turns = np.arange(0, 32, 8, dtype=np.uint64)
    rotated = (words >> turns) | (words << (np.uint64(32) - turns))
    return (rotated & np.uint64(0xFFFF)).astype(np.int64).reshape(-1)[:size]


def perturbation(dist: Dist, z: NDArray[np.int64]) -> NDArray[np.int64]:
    """Computes the perturbation of z in LSB."""
    if dist.kind in (RADEMACHER, COORDINATE):
        return dist.mu * z
    if dist.kind == SPARSE_UNIFORM:
        return z
    exact = np.abs(z) * dist.mu  # round(. / 2^12), half away from zero
    return np.sign(z) * ((2 * exact + 4096) // 8192)
