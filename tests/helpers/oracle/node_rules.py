"""Rules of a step (zo_node_update.h), in exact fractions; a step from 32 significant bits is an interval."""

from collections.abc import Callable
from fractions import Fraction
from math import floor, isqrt

import numpy as np
from numpy.typing import NDArray

from .nodes import MEAN, PLAIN, Array, Layer, rounding_terms, window
from .stream import Dist, direction

HALF = Fraction(1, 2)


def sums_of_errors(layer: Layer, e: Array, outputs: Array) -> list[int]:
    """Sum over samples and credited positions of e, for each output channel."""
    height, width, channels = layer.outputs
    sums = [0] * channels
    for b in range(len(e)):
        for c in range(channels):
            for p in range(layer.positions):
                h, w = p // layer.nodes[1], p % layer.nodes[1]
                if layer.form == MEAN:
                    credited = [outputs[b, y, x, c] for y in range(height) for x in range(width)]
                elif layer.form == PLAIN:
                    credited = [outputs[b, h, w, c]]
                else:
                    credited = [max(outputs[b, y, x, c] for _, y, x in window(layer, h, w))]
                sums[c] += int(e[b, p, c]) * sum(not layer.clamped(v) for v in credited)
    return sums


def bias_steps(steps: Array, seed: int, stream: int, channels: list[int], all_channels: int) -> Array:
    """Computes whole LSB that biases of the updated channels move by, from the steps of their v."""
    r = rounding_terms(seed, stream, 1, all_channels)[channels, 0]
    return (32 * steps + r) // 65536


def move_biases(biases: Array, steps: Array) -> tuple[Array, int]:
    """Returns new biases and the number of clipped ones."""
    most = np.maximum(2**30, np.abs(biases))
    moved = biases + steps
    return np.clip(moved, -most, most), int((np.abs(moved) > most).sum())


def updated(sums: list[int], rows: int) -> list[int]:
    """Returns numbers of the updated channels, ascending."""
    order = sorted(range(len(sums)), key=lambda c: (-sums[c], c))
    return sorted(order[: rows or len(sums)])


def first_bits(value: int) -> int:
    """Returns the 32 highest bits of a number, in place."""
    drop = max(0, value.bit_length() - 32)
    return value >> drop << drop


def to_steps(values: list[Fraction], clip: int, slack: Fraction) -> tuple[list[int], list[int]]:
    """Rounds half up and clips the smallest and the largest value of each."""

    def rounded(value: Fraction) -> int:
        return max(-clip, min(clip, floor(value + HALF)))

    return ([rounded(v - abs(v) * slack) for v in values], [rounded(v + abs(v) * slack) for v in values])


def fixed(g: list[int], shift: int, gain: tuple[int, int], rate: int, clip: int) -> tuple[list[int], list[int]]:
    """Computes exact steps: gain is mantissa and exponent."""
    factor = Fraction(first_bits(gain[0] * rate)) * Fraction(2) ** (gain[1] + shift - 16)
    return to_steps([-v * factor for v in g], clip, Fraction(0))


def standardized(g: list[int], rate: int, clip: int) -> tuple[list[int], list[int]] | None:
    """Computes the range of steps; None: no step."""
    count, total = len(g), sum(g)
    spread = count * sum(v * v for v in g) - total * total
    if spread == 0:
        return None
    largest = max(abs(v) for v in g)
    f = max(f for f in range(-1, 17) if f == -1 or largest * 2**f < 2**30)
    scale = Fraction(2) ** f
    mean = floor(Fraction(total, count) * scale + HALF)
    # std times count, to 64 bits behind the point.
    root = Fraction(isqrt(spread << 128), 2**64)
    factor = Fraction(rate * count) / (root * scale)
    return to_steps([-(floor(v * scale) - mean) * factor for v in g], clip, Fraction(1, 2**28))


def rms(g: list[int], shift: int, mean_square: float, rate: int, clip: int) -> tuple[list[int], list[int]] | None:
    """Computes the range of steps; None: no step."""
    if mean_square == 0:
        return None
    factor = Fraction(rate) * Fraction(2) ** shift / Fraction(float(np.sqrt(mean_square)))
    return to_steps([-v * factor for v in g], clip, Fraction(1, 10**6))


def bits(g: list[int], most: int) -> tuple[list[int], list[int]]:
    """Computes exact steps: whole LSB, the largest of so many bits; no rounding changes them."""
    drop = max(0, max(abs(v) for v in g).bit_length() - most)
    steps = [-65536 * pseudo_stochastic(v, drop) for v in g]
    return steps, steps


def apply_16(weights: Array, fraction: Array, steps: Array, limit: int) -> tuple[Array, int]:
    """Returns new 256 w + fraction and the number of clipped ones."""
    moved = 256 * weights + fraction + (steps + 128) // 256
    clipped = np.clip(moved, -256 * limit, 256 * limit)
    return clipped, int((moved != clipped).sum())


def apply_8(
    weights: Array, steps: Array, limit: int, seed: int, stream: int, channels: list[int], all_channels: int
) -> tuple[Array, int]:
    """Returns new weights of the updated channels [channels, row] and the number of clipped ones."""
    r = rounding_terms(seed, stream, steps.shape[1], all_channels)[channels]
    moved = weights + (steps + r) // 65536
    clipped = np.clip(moved, -limit, limit)
    return clipped, int((moved != clipped).sum())


def times(multiplier: NDArray[np.int32] | None, channels: list[int]) -> Callable[[Array], Array]:
    """Steps [channels, row] times the factors of their channels, half up."""

    def apply(steps: Array) -> Array:
        if multiplier is None:
            return steps
        factors = multiplier.astype(np.int64)[channels][:, None]
        return (steps * factors + 2**30) // 2**31

    return apply


def pseudo_stochastic(value: int, shift: int) -> int:
    """Computes value / 2^shift, rounded by its own low bits."""
    quotient, dropped = divmod(abs(value), 2**shift)
    probability, random = divmod(dropped, 2 ** (shift // 2))
    if shift % 2 == 1:
        random *= 2
    rounded = quotient + (1 if probability > random else 0)
    return rounded if value >= 0 else -rounded


def subtract(weights: list[int], values: list[int], shift: int, limit: int) -> tuple[list[int], int]:
    """Returns new weights and the number of clipped ones."""
    moved = [w - pseudo_stochastic(v, shift) for w, v in zip(weights, values, strict=True)]
    clipped = [max(-limit, min(limit, w)) for w in moved]
    return clipped, sum(a != b for a, b in zip(moved, clipped, strict=True))


def update_bits(
    weights: list[int], dist: Dist, seed: int, stream: int, sign: int, bits: int, limit: int
) -> tuple[list[int], int]:
    """Computes zo_update_bits_s8."""
    z = direction(dist, seed, stream, len(weights)).tolist()
    shift = max(0, dist.z_max.bit_length() - bits)
    return subtract(weights, [sign * v for v in z], shift, limit)
