"""Node perturbation (zo_node_layer.h, zo_node_update.h), one node and one weight at a time, in exact integers."""

from dataclasses import dataclass
from fractions import Fraction
from math import ceil, floor

import numpy as np
from numpy.typing import NDArray

from .stream import Dist, direction, rounding

CLAMPED = 255
PLAIN, MAX_POOL, MEAN = 0, 1, 2
Array = NDArray[np.int64]


@dataclass(frozen=True)
class Layer:
    """zo_node_layer, sizes as pairs (height, width)."""

    form: int
    inputs: tuple[int, int, int]
    kernel: tuple[int, int]
    stride: tuple[int, int]
    dilation: tuple[int, int]
    pad: tuple[int, int]
    outputs: tuple[int, int, int]
    nodes: tuple[int, int]
    pool: tuple[int, int] = (1, 1)
    pool_stride: tuple[int, int] = (1, 1)
    pool_pad: tuple[int, int] = (0, 0)
    zero_point: int = 0
    low: int = -129
    high: int = 128
    unmasked: bool = False
    depthwise: bool = False

    def clamped(self, value: int) -> bool:
        return not self.unmasked and (value <= self.low or value >= self.high)

    @property
    def positions(self) -> int:
        return self.nodes[0] * self.nodes[1]

    @property
    def depth(self) -> int:
        """Input channels that an output channel reads."""
        return 1 if self.depthwise else self.inputs[2]

    def read_by(self, channel: int) -> slice:
        """Returns the input channels that an output channel reads."""
        first = channel * self.inputs[2] // self.outputs[2] if self.depthwise else 0
        return slice(first, first + self.depth)


def window(layer: Layer, h: int, w: int) -> list[tuple[int, int, int]]:
    """Yields (number in the window, row, column) of the outputs behind a pooled node."""
    cells = []
    for i in range(layer.pool[0]):
        for j in range(layer.pool[1]):
            row = h * layer.pool_stride[0] + i - layer.pool_pad[0]
            column = w * layer.pool_stride[1] + j - layer.pool_pad[1]
            if 0 <= row < layer.outputs[0] and 0 <= column < layer.outputs[1]:
                cells.append((i * layer.pool[1] + j, row, column))
    return cells


def route(layer: Layer, outputs: Array) -> Array:
    """Computes the route of one sample, outputs [h, w, c]."""
    height, width, channels = layer.outputs
    if layer.form == PLAIN:
        return np.array([CLAMPED if layer.clamped(v) else 0 for v in outputs.reshape(-1)])
    if layer.form == MAX_POOL:
        found = []
        for h in range(layer.nodes[0]):
            for w in range(layer.nodes[1]):
                for c in range(channels):
                    cells = window(layer, h, w)
                    best = max(cells, key=lambda cell: (outputs[cell[1], cell[2], c], -cell[0]))
                    found.append(CLAMPED if layer.clamped(outputs[best[1], best[2], c]) else best[0])
        return np.array(found)
    free = [[not layer.clamped(v) for v in outputs[:, :, c].reshape(-1)] for c in range(channels)]
    size = -(-height * width // 8)
    return np.array(
        [sum(1 << j for j in range(8) if f[8 * b : 8 * b + 8][j : j + 1] == [True]) for f in free for b in range(size)]
    )


def signs(layer: Layer, seed: int, sample: int) -> Array:
    """Draws z of one sample's nodes, [positions, channels]."""
    channels = layer.outputs[2]
    flat = direction(Dist(0, 1), seed, 0x40000000 + sample, layer.positions * channels)
    return flat.reshape(channels, layer.positions).T


def perturb(layer: Layer, nodes: Array, seed: int, sample: int, k: int) -> Array:
    """Computes perturbed nodes of one sample, [positions, channels]."""
    moved = nodes + k * signs(layer, seed, sample)
    if layer.form == MEAN:
        return np.clip(moved, -128, 127)
    low, high = max(layer.low, -128), min(layer.high, 127)
    held = ((nodes <= layer.low) | (nodes >= layer.high)) & (not layer.unmasked)
    return np.where(held, nodes, np.clip(moved, low, high))


def shift_of(layer: Layer, samples: int, largest: Fraction, least: int) -> int:
    credited = layer.outputs[0] * layer.outputs[1] if layer.form == MEAN else layer.positions
    limit = min(32767, (2**31 - 1) // (samples * 255 * credited))
    shift = least
    while ceil(largest / Fraction(2) ** shift) > limit:
        shift += 1
    return shift


def errors(
    layer: Layer,
    differences: Array | None,
    seeds: list[int],
    given: Array | None,
    samples: int,
    exponents: list[int] | None = None,
) -> tuple[Array, int]:
    """Computes e before clamping, [samples, positions, channels], and its shift."""
    shape = (samples, layer.positions, layer.outputs[2])
    if given is not None:
        raw = given.reshape(shape).astype(np.int64)
        if exponents is not None:
            return _with_exponents(layer, raw, exponents)
        largest = int(np.abs(raw).max())
    else:
        assert differences is not None
        d = np.clip(differences, -(2**25), 2**25)
        raw = np.zeros(shape, np.int64)
        for q, seed in enumerate(seeds):
            for b in range(samples):
                raw[b] += d[q, b] * signs(layer, seed, b)
        largest = int(np.abs(d).sum(0).max())
    shift = shift_of(layer, samples, Fraction(largest), 0)
    return (raw + (2**shift) // 2) // 2**shift, shift


def _with_exponents(layer: Layer, raw: Array, exponents: list[int]) -> tuple[Array, int]:
    units = [Fraction(2) ** x for x in exponents]
    least = max((x for x, own in zip(exponents, raw, strict=True) if own.any()), default=0)
    largest = max(int(np.abs(own).max()) * unit for own, unit in zip(raw, units, strict=True))
    shift = shift_of(layer, len(raw), largest, least)
    divided = [
        floor(int(v) * unit / Fraction(2) ** shift + Fraction(1, 2))
        for own, unit in zip(raw, units, strict=True)
        for v in own.ravel()
    ]
    return np.array(divided, np.int64).reshape(raw.shape), shift


def gradient(layer: Layer, e: Array, inputs: Array, outputs: Array) -> Array:
    """Computes G, [out_c, k_h, k_w, depth], from the outputs themselves, not from routes."""
    height, width, channels = layer.outputs
    result = np.zeros((channels, *layer.kernel, layer.depth), np.int64)
    image = inputs - layer.zero_point

    def credit(b: int, h: int, w: int, c: int, error: int) -> None:
        for i in range(layer.kernel[0]):
            for j in range(layer.kernel[1]):
                row = h * layer.stride[0] + i * layer.dilation[0] - layer.pad[0]
                column = w * layer.stride[1] + j * layer.dilation[1] - layer.pad[1]
                if 0 <= row < layer.inputs[0] and 0 <= column < layer.inputs[1]:
                    result[c, i, j] += error * image[b, row, column, layer.read_by(c)]

    for b in range(len(e)):
        for c in range(channels):
            for p in range(layer.positions):
                h, w = p // layer.nodes[1], p % layer.nodes[1]
                if layer.form == PLAIN:
                    cells = [(0, h, w)]
                elif layer.form == MAX_POOL:
                    cells = [max(window(layer, h, w), key=lambda x: (outputs[b, x[1], x[2], c], -x[0]))]
                else:
                    cells = [(0, y, x) for y in range(height) for x in range(width)]
                for _, y, x in cells:
                    if not layer.clamped(outputs[b, y, x, c]):
                        credit(b, y, x, c, int(e[b, p, c]))
    return result


def mean_square(g: Array, shift: int) -> float:
    """Computes the mean of G^2 like the core, in the unit of errors before their shift."""
    coarse = np.clip(g // 256, -(2**21), 2**21).astype(float)
    return float((coarse**2).mean()) * 4.0 ** (8 + shift)


def rounding_terms(seed: int, stream: int, row: int, channels: int) -> Array:
    """Draws r of the 8-bit update, [channels, row]: tile c of the rounding stream for channel c."""
    padded = -(-row // 32) * 32
    words = rounding(seed, stream, 1024 * channels).reshape(channels, 1024)
    assert padded <= 1024
    return words[:, :row]
