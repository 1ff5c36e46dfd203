"""Weight perturbation of biases (zo_biases.h): a bias is 32 v, and v takes a weight's moves."""

import numpy as np
from numpy.typing import NDArray

from .node_rules import pseudo_stochastic
from .scalar import COORDINATE, GAUSSIAN
from .stream import Dist, direction, rounding
from .weights import Pairs

Int32 = NDArray[np.int32]
UNIT = 32
MOST = 2**30


def _half_away(numerators: NDArray[np.int64], denominator: int) -> NDArray[np.int64]:
    return np.sign(numerators) * ((np.abs(numerators) + denominator // 2) // denominator)


def _perturbation(dist: Dist, seed: int, stream: int, size: int) -> NDArray[np.int64]:
    """Computes perturbations in LSB of the bias."""
    z = direction(dist, seed, stream, size).astype(np.int64)
    if dist.kind == GAUSSIAN:
        return _half_away(UNIT * z * dist.mu, 2**12)
    return UNIT * z * (1 if dist.kind == 1 else dist.mu)


def perturb(biases: Int32, terms: Pairs, dist: Dist, stream: int) -> Int32:
    """Computes zo_perturb_s8."""
    total = biases.astype(np.int64)
    for seed, k in terms:
        total += k * _perturbation(dist, seed, stream, biases.size)
    return ((total + 2**31) % 2**32 - 2**31).astype(np.int32)


def _moved(biases: Int32, moves: NDArray[np.int64], touched: NDArray[np.bool_]) -> tuple[Int32, int]:
    """Moves biases, clipped to 2^30, or to their old magnitude if that is larger."""
    moved = biases.astype(np.int64) + moves
    most = np.maximum(MOST, np.abs(biases.astype(np.int64)))
    clipped = np.where(touched, np.clip(moved, -most, most), moved)
    return clipped.astype(np.int32), int((clipped != moved).sum())


def update(
    biases: Int32,
    multiplier: Int32 | None,
    stream: int,
    dist: Dist,
    queries: Pairs,
    restore: Pairs = (),
) -> tuple[Int32, int]:
    """Computes zo_update_s8: new biases and the number of clipped ones."""
    size = biases.size
    biases = perturb(biases, restore, dist, stream)
    delta, touched = np.zeros(size, np.int64), np.full(size, dist.kind != COORDINATE)
    for seed, coefficient in queries:
        z = direction(dist, seed, stream, size)
        delta += coefficient * z.astype(np.int64)
        touched |= z != 0
    if multiplier is not None:
        delta = (delta * multiplier.astype(np.int64) + 2**30) // 2**31
    random = rounding(queries[0][0], stream, size)
    moves = np.where(touched, (UNIT * delta + random) // 2**16, 0)
    return _moved(biases, moves, touched)


def update_bits(biases: Int32, dist: Dist, seed: int, stream: int, sign: int, bits_of_step: int) -> tuple[Int32, int]:
    """Computes zo_update_bits_s8."""
    shift = max(0, dist.z_max.bit_length() - bits_of_step)
    z = direction(dist, seed, stream, biases.size)
    moves = [-UNIT * pseudo_stochastic(sign * int(v), shift) for v in z]
    return _moved(biases, np.array(moves, np.int64), np.ones(biases.size, bool))
