"""Errors on their way back through operators: the transposed Jacobian, a dense matrix, in exact numbers."""

import itertools
import math
from collections.abc import Iterator
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from .nodes import Layer

Array = NDArray[np.int64]
Errors = tuple[Array, int]
MOST = 32767


def half_up(value: int | Fraction, bits: int = 0) -> int:
    return math.floor(Fraction(value) / 2**bits + Fraction(1, 2))


def least_shift(largest: int) -> int:
    """Computes the smallest shift that makes an error of a number."""
    return next(bits for bits in itertools.count() if half_up(largest, bits) <= MOST)


def exponent_of(value: int) -> int:
    return max(-128, min(127, value))


def root_up(value: int) -> int:
    root = math.isqrt(value)
    return root + (root * root < value)


def largest(values: Array) -> int:
    return int(np.abs(values).max(initial=0))


def shifted(values: Array, bits: int) -> Array:
    """Shifts, half up."""
    return np.array([half_up(int(v), bits) for v in values.ravel()], np.int64).reshape(values.shape)


# --- elementwise ------------------------------------------------------------------------------------------


def scale(mantissas: Array, exponent: int, errors: Errors) -> Errors:
    values = errors[0].astype(np.int64).ravel()
    products = values * np.resize(mantissas.astype(np.int64), values.size)
    bits = least_shift(largest(products))
    scaled = shifted(products, bits).reshape(errors[0].shape)
    return scaled, exponent_of(errors[1] + bits - 15 + exponent)


def add(errors: Errors, sum_so_far: Errors) -> Errors:
    """Adds errors, filled up to 16 bits by a factor of 1."""
    added, so_far = scale(np.array([2**14]), 1, errors), (sum_so_far[0].astype(np.int64), sum_so_far[1])
    if not added[0].any() or not so_far[0].any():
        return so_far if not added[0].any() else added
    (large, high), (small, low) = sorted((so_far, added), key=lambda pair: -pair[1])
    distance = high - low
    unit = Fraction(1, 2**distance) if distance <= 15 else Fraction(0)
    exact = [int(x) + int(y) * unit for x, y in zip(large.ravel(), small.ravel(), strict=True)]
    for bits in (0, 1):
        rounded = [half_up(v, bits) for v in exact]
        if max(map(abs, rounded)) <= MOST:
            break
    return np.array(rounded, np.int64).reshape(large.shape), exponent_of(high + bits)


def levels(mantissas: Array, exponent: int, values: NDArray[np.int8], errors: Errors) -> Errors:
    return scale(mantissas[values.astype(int).ravel() + 128], exponent, errors)


def product(jacobian: Array, mantissa: int, exponent: int, errors: Errors) -> Errors:
    """Multiplies errors by `jacobian`: output by factor, [outputs, values], in units of the other's scale."""
    sums = errors[0].astype(object).ravel() @ jacobian.astype(object) * mantissa
    bits = least_shift(max(map(abs, sums)))
    return shifted(sums, bits), exponent_of(errors[1] + bits - 15 + exponent)


# --- windows ------------------------------------------------------------------------------------------------


def reads(
    outputs: int, inputs: int, window: int, stride: int, dilation: int, pad: int
) -> Iterator[tuple[int, int, int]]:
    """Yields (output, element of its window, index of the input) along one side."""
    for output in range(outputs):
        for i in range(window):
            position = output * stride + i * dilation - pad
            if 0 <= position < inputs:
                yield output, i, position


def most_reads(found: list[tuple[int, int, int]]) -> int:
    return max((sum(position == p for *_, position in found) for *_, p in found), default=0)


def _sides(
    inputs: tuple[int, ...],
    outputs: tuple[int, ...],
    window: tuple[int, int],
    stride: tuple[int, int],
    dilation: tuple[int, int],
    pad: tuple[int, int],
) -> list[list[tuple[int, int, int]]]:
    return [list(reads(outputs[s], inputs[s], window[s], stride[s], dilation[s], pad[s])) for s in range(2)]


def max_pool(pool, inputs: NDArray[np.int8], errors: Errors) -> Errors:
    """Computes errors of the inputs. `pool` is a helpers.backward.Pool."""
    rows, columns = _sides(pool.inputs, pool.outputs, pool.window, pool.stride, (1, 1), pool.pad)
    sums = np.zeros(pool.inputs, np.int64)
    for h, w, c in np.ndindex(*errors[0].shape):
        cells = [(y, x) for o, _, y in rows if o == h for p, _, x in columns if p == w]
        y, x = max(cells, key=lambda cell: (inputs[cell[0], cell[1], c], (-cell[0], -cell[1])))
        sums[y, x, c] += int(errors[0][h, w, c])
    bits = least_shift(most_reads(rows) * most_reads(columns) * largest(errors[0].astype(np.int64)))
    return shifted(sums, bits), exponent_of(errors[1] + bits)


def average_pool(pool, errors: Errors) -> Errors:
    """Computes errors of the inputs. `pool` is a helpers.backward.Pool."""
    rows, columns = _sides(pool.inputs, pool.outputs, pool.window, pool.stride, (1, 1), pool.pad)
    counts = np.outer(
        [sum(o == h for o, *_ in rows) for h in range(pool.outputs[0])],
        [sum(o == w for o, *_ in columns) for w in range(pool.outputs[1])],
    )

    def spread(bits: int, values: Array) -> Array:
        parts = [[half_up(Fraction(2**bits, int(n))) for n in line] for line in counts]
        result = np.zeros((*pool.inputs[:2], values.shape[2]), np.int64)
        for h, _, y in rows:
            for w, _, x in columns:
                result[y, x] += values[h, w] * parts[h][w]
        return result

    ones = np.ones((*pool.outputs, 1), np.int64)
    bits = max(t for t in range(32) if spread(t, ones).max() <= 65535)
    values = errors[0].astype(np.int64)
    shift = least_shift(int(spread(bits, ones).max()) * largest(values))
    return shifted(spread(bits, values), shift), exponent_of(errors[1] + shift - bits)


# --- convolution --------------------------------------------------------------------------------------------


def jacobian(layer: Layer, weights: Array) -> Array:
    """Computes d output / d input before scales, [outputs, inputs], of weights [out_c, k_h, k_w, depth]."""
    rows, columns = _sides(layer.inputs, layer.outputs, layer.kernel, layer.stride, layer.dilation, layer.pad)
    result = np.zeros((*layer.outputs, *layer.inputs), np.int64)
    for h, i, y in rows:
        for w, j, x in columns:
            for c in range(layer.outputs[2]):
                result[h, w, c, y, x, layer.read_by(c)] += weights[c, i, j]
    return result.reshape(math.prod(layer.outputs), math.prod(layer.inputs))


def conv_norm(layer: Layer, weights: Array) -> int:
    squares = [0] * layer.inputs[2]
    for c, row in enumerate(weights):
        for channel, w in zip(itertools.cycle(range(*layer.read_by(c).indices(99999))), row.ravel()):
            squares[channel] += int(w) ** 2
    return root_up(max(squares))


def conv_bound(layer: Layer, norm: int, factors: Array) -> int:
    """Computes N, of f [out_h, out_w, out_c]."""
    rows, columns = _sides(layer.inputs, layer.outputs, layer.kernel, layer.stride, layer.dilation, layer.pad)
    together = layer.outputs[2] // layer.inputs[2] if layer.depthwise else layer.outputs[2]
    squares = (factors.astype(object) ** 2).reshape(-1, together).sum(1).max()
    return root_up(most_reads(rows) * most_reads(columns) * squares) * norm


def conv(layer: Layer, weights: Array, scales: Array | None, errors: Errors) -> Errors:
    weights, values = weights.astype(np.int64), errors[0].astype(np.int64)
    products = values * (2**15 if scales is None else scales.astype(np.int64))
    norm = conv_norm(layer, weights)
    for a in itertools.count():
        factors = shifted(products, a)
        if largest(factors) <= MOST and (bound := conv_bound(layer, norm, factors)) <= 2**31 - 2**16:
            break
    sums = factors.ravel() @ jacobian(layer, weights)
    assert largest(sums) <= bound
    r = least_shift(bound)
    return shifted(sums.reshape(layer.inputs), r), exponent_of(errors[1] + a + r - 15)
