"""Seeds, keys and quantiles of the random stream (zo_stream.h), in Python integers."""

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


def query_seed(run_seed: int, step: int, query: int) -> int:
    """Computes the seed of a query of a run."""
    return fmix(fmix(run_seed + 0x9E3779B9 * (step + 1) & MASK) + 0x85EBCA6B * query & MASK)


def quantiles() -> list[int]:
    normal = NormalDist()
    return [round(127 / 3.5 * normal.inv_cdf(0.5 + (i + 0.5) / 256)) for i in range(128)]


QUANTILES = quantiles()
PER_WORD = {RADEMACHER: 32, SPARSE_UNIFORM: 2, GAUSSIAN: 4}
