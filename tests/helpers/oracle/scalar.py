"""The random stream weight by weight, in Python integers: the text of zo_stream.h, line by line."""

from collections.abc import Iterator
from statistics import NormalDist

MASK = 0xFFFFFFFF
TILE = 1024
RADEMACHER, SPARSE_UNIFORM, GAUSSIAN, COORDINATE = 0, 1, 2, 3


def fmix(h: int) -> int:
    h ^= h >> 16
    h = h * 0x85EBCA6B & MASK
    h ^= h >> 13
    h = h * 0xC2B2AE35 & MASK
    return h ^ h >> 16


def key(seed: int, tensor: int) -> int:
    return fmix(seed + 0x9E3779B9 * (tensor + 1) & MASK)


def tile_state(stream_key: int, tile: int) -> int:
    return fmix(stream_key ^ fmix(0x6A09E667 + tile & MASK)) or 0x6C8E9CF5


def next_state(state: int) -> int:
    state ^= state << 13 & MASK
    state ^= state >> 17
    state ^= state << 5 & MASK
    return state


def query_seed(run_seed: int, step: int, query: int) -> int:
    """Computes the seed of a query of a run."""
    return fmix(fmix(run_seed + 0x9E3779B9 * (step + 1) & MASK) + 0x85EBCA6B * query & MASK)


def quantiles() -> list[int]:
    normal = NormalDist()
    return [round(127 / 3.5 * normal.inv_cdf(0.5 + (i + 0.5) / 256)) for i in range(128)]


QUANTILES = quantiles()


def draw(kind: int, mu: int, p_zero: int, word: int, j: int) -> int:
    """Draws z of the j-th weight of a word."""
    if kind == RADEMACHER:
        return -1 if word >> j & 1 else 1
    if kind == GAUSSIAN:
        byte = word >> 8 * j & 0xFF
        return -QUANTILES[byte & 127] if byte & 128 else QUANTILES[byte]
    half = word >> 16 * j & 0xFFFF
    if half & 0xFF < p_zero:
        return 0
    byte = half >> 8
    if byte >= 128:
        byte -= 256
    return 0 if byte == -128 else (byte * (2 * mu + 1) + 128) // 256


PER_WORD = {RADEMACHER: 32, SPARSE_UNIFORM: 2, GAUSSIAN: 4}


def words(seed: int, tensor: int, tile: int) -> Iterator[int]:
    state = tile_state(key(seed, tensor), tile)
    while True:
        state = next_state(state)
        yield state


def direction(kind: int, mu: int, p_zero: int, seed: int, tensor: int, count: int) -> list[int]:
    z: list[int] = []
    if kind == COORDINATE:
        return [int(i == key(seed, tensor) % count) for i in range(count)]
    for begin in range(0, count, TILE):
        stream = words(seed, tensor, begin // TILE)
        size, word = min(TILE, count - begin), 0
        for i in range(size):
            j = i % PER_WORD[kind]
            if j == 0:
                word = next(stream)
            z.append(draw(kind, mu, p_zero, word, j))
    return z


def rounding(seed: int, tensor: int, count: int) -> list[int]:
    """Draws the random 16-bit numbers of the 8-bit update."""
    r: list[int] = []
    for begin in range(0, count, TILE):
        stream = words(seed, tensor + 0x80000000, begin // TILE)
        size, word = min(TILE, count - begin), 0
        for i in range(size):
            if i % 4 == 0:
                word = next(stream)
            turn = 8 * (i % 4)
            r.append((word >> turn | word << 32 - turn) & 0xFFFF)
    return r
