# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""Backpropagation through an int8 network in integer arithmetic.

An error tensor, the derivative of the loss by an activation, is int8 times one real scale, chosen for each
tensor and step: the scale of the next error tensor times the layer's scales, times a power of two (NITI,
FQT). If a filter has a scale per output channel, errors are first brought to a common one: by 7-bit factors,
in int16. Sums of products are integers, which int64 and float64 hold exactly here.

Rounding is pseudo-stochastic (NITI): of the bits that are dropped, the upper half is the chance of rounding
up and the lower half the random number. If these are equal, to even: else a few bits would be rounded
down too often.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tflm_zo.converters.model import Tensor

from .layers import Conv, Dense, DepthwiseConv, Pool, Reshape
from .network import Network, Node, UnsupportedError
from .windows import Windows

__all__ = ["Backward", "Gradient", "round_shift", "to_bits"]

Int8 = NDArray[np.int8]
Int64 = NDArray[np.int64]

_SCALE_BITS = 7


def round_shift(values: Int64, shift: int) -> Int64:
    """Computes values / 2^shift, rounded pseudo-stochastically to one of the two neighbours; ties to even."""
    if shift <= 0:
        return values
    magnitude = np.abs(values)
    whole, rest = magnitude >> shift, magnitude & ((1 << shift) - 1)
    half = shift // 2
    chance, random = rest >> (shift - half), rest & ((1 << half) - 1)
    up = (chance > random) | ((chance == random) & (rest > 0) & (whole % 2 == 1))
    return np.asarray(np.sign(values) * (whole + up))


def to_bits(values: Int64, bits: int) -> tuple[Int64, int]:
    """Shifts values to that many bits of magnitude at most, values = result * 2^shift. Returns both."""
    largest = int(np.abs(values).max(initial=0))
    shift = max(0, largest.bit_length() - bits)
    limit = (1 << bits) - 1
    return np.clip(round_shift(values, shift), -limit, limit), shift


@dataclass(frozen=True)
class Gradient:
    """Of a filter.

    Attributes:
        sums: integers in the filter's shape.
        scale: sums times it are the derivatives of the sum of the samples' losses by the real weights.
    """

    sums: Int64
    scale: float


@dataclass(frozen=True)
class _Error:
    """Derivative of the loss by an activation's real value: values int8 [batch, ...] times scale."""

    values: Int8
    scale: float

    @classmethod
    def of(cls, sums: Int64, scale: float) -> _Error:
        values, shift = to_bits(sums, 7)
        return cls(values.astype(np.int8), scale * 2.0**shift)


class Backward:
    """Gradients of a network's filters.

    Args:
        network: a chain of layers, each activation read by one of them.

    Raises:
        UnsupportedError: a layer that has no backward pass here.
    """

    def __init__(self, network: Network) -> None:
        self._network = network
        read = [t for node in network.nodes for t in node.inputs]
        for node in network.nodes:
            if not isinstance(node.layer, Conv | Dense | DepthwiseConv | Pool | Reshape):
                raise UnsupportedError(f"{node.operator.label}: has no backward pass")
            if len(node.inputs) != 1 or read.count(node.inputs[0]) != 1:
                raise UnsupportedError(f"{node.operator.label}: no link of a chain of layers")
        self._scales = {n.filter: _scales(n) for n in network.nodes if n.filter is not None}

    def gradients(self, activations: dict[Tensor, Int8], errors: NDArray[np.int16]) -> dict[str, Gradient]:
        """Computes gradients of all filters, by name; from the last layer to the first.

        Args:
            activations: `Network.activations` of a minibatch.
            errors: int16 [batch, classes], derivatives by the scaled logits, unit 2^-15
                (``zo_cross_entropy_error_s8``).
        """
        network = self._network
        weights = network.weights
        logits = network.nodes[-1].output
        # Any factor beyond the logits' scale is the SOFTMAX's beta.
        assert logits.quantization is not None
        beta = network.logit_scale / logits.quantization.scale
        shape = activations[logits].shape
        # Of all errors these alone have a range that is known, -1..1. With a scale chosen anew those of a
        # minibatch that the network knows already would count as much as any.
        first = round_shift(errors.astype(np.int64), 8).clip(-127, 127).astype(np.int8)
        error = _Error(first.reshape(shape), beta * 2.0**-7)
        found: dict[str, Gradient] = {}
        for node in reversed(network.nodes):
            given = activations[node.inputs[0]]
            if node.output is not logits:  # these learn from the loss even if they saturate
                error = _Error(_passed(node.layer, activations[node.output], error.values), error.scale)
            if node.filter is None:
                error = _without_filter(node, given, error)
                continue
            assert node.inputs[0].quantization is not None
            sums = _filter_gradient(node.layer, given, weights[node.filter].shape, error.values)
            found[node.filter] = Gradient(sums, error.scale * node.inputs[0].quantization.scale)
            if node.inputs[0] is not network.input:
                factors, largest = self._scales[node.filter]
                scaled = error.values.astype(np.int64) * factors
                sums = _input_gradient(node.layer, given.shape, weights[node.filter], scaled)
                error = _Error.of(sums, error.scale * largest * 2.0**-_SCALE_BITS)
        return found


def _scales(node: Node) -> tuple[Int64, float]:
    """Scales of the channels as integers of 7 bits, and the largest one."""
    tensor = node.operator.inputs[1]
    assert tensor is not None and tensor.quantization is not None
    scales = tensor.quantization.scales.astype(np.float64)
    return np.rint(scales / scales.max() * 2**_SCALE_BITS).astype(np.int64), float(scales.max())


def _passed(layer: Any, output: Int8, error: Int8) -> Int8:
    """Masks the error: 0 wherever the layer clamps.

    The ends of int8 clamp like an activation. An error that passed there would push on weights that change
    nothing: a network with random weights, which soon outgrows the ranges that it was calibrated with, does
    not learn then.
    """
    if isinstance(layer, Reshape):
        return error
    inside = (output > layer.clamp.low) & (output < layer.clamp.high)
    return np.where(inside, error, np.int8(0))


def _without_filter(node: Node, x: Int8, error: _Error) -> _Error:
    layer = node.layer
    if isinstance(layer, Reshape):
        return _Error(error.values.reshape(x.shape), error.scale)
    assert isinstance(layer, Pool)
    windows = layer.windows
    if layer.average:
        ones = windows.padded(np.ones((1, *x.shape[1:3], 1), np.int8), 0)
        count = np.zeros((1, *windows.outputs, 1), np.int64)
        for _, _, tap in windows.taps(ones):
            count += tap
        # A common multiple of the counts keeps everything whole.
        common = int(np.lcm.reduce(count.reshape(-1)))
        shares = error.values * (common // count)
        sums = _spread(windows, x.shape, lambda i, j: shares)
        return _Error.of(sums, error.scale / common)
    padded = windows.padded(x, -128)
    best = np.full(error.values.shape, -129, np.int16)
    winner = np.zeros(error.values.shape, np.int16)
    for i, j, tap in windows.taps(padded):
        better = tap > best
        best = np.where(better, tap, best)
        winner = np.where(better, np.int16(i * windows.kernel[1] + j), winner)
    values = error.values.astype(np.int64)
    sums = _spread(windows, x.shape, lambda i, j: np.where(winner == i * windows.kernel[1] + j, values, 0))
    return _Error.of(sums, error.scale)


def _spread(windows: Windows, shape: tuple[int, ...], part: Any, dtype: Any = np.int64) -> Any:
    """Adds up the values that each place (i, j) of the windows gives back, without the padding."""
    batch, rows, columns, channels = shape
    top, left = windows.before
    total = np.zeros((batch, rows + top + windows.after[0], columns + left + windows.after[1], channels), dtype)
    for i, j, tap in windows.taps(total):
        tap += part(i, j)
    return total[:, top : top + rows, left : left + columns]


def _filter_gradient(layer: Any, x: Int8, shape: tuple[int, ...], error: Int8) -> Int64:
    """Sums error times input over batch and positions."""
    real = error.astype(np.float64)
    if isinstance(layer, Dense):
        centred = x.reshape(-1, shape[1]).astype(np.float64) - layer.input_zero_point
        return np.asarray((real.reshape(-1, shape[0]).T @ centred).astype(np.int64))
    windows = layer.windows
    padded = windows.padded(x, layer.input_zero_point).astype(np.float64) - layer.input_zero_point
    found = np.empty(shape, np.int64)
    if isinstance(layer, Conv):
        flat = np.ascontiguousarray(real.reshape(-1, shape[0]).T)
        for i, j, tap in windows.taps(padded):
            found[:, i, j] = flat @ tap.reshape(-1, shape[3])
        return found
    padded = np.repeat(padded, shape[3] // x.shape[3], axis=3)
    for i, j, tap in windows.taps(padded):
        found[0, i, j] = np.einsum("bijc,bijc->c", tap, real)
    return found


def _input_gradient(layer: Any, shape: tuple[int, ...], weights: Int8, error: Int64) -> Int64:
    """Sum over outputs of error times weight."""
    real, factors = error.astype(np.float64), weights.astype(np.float64)
    if isinstance(layer, Dense):
        return np.asarray((real.reshape(-1, len(weights)) @ factors).astype(np.int64).reshape(shape))
    windows = layer.windows
    if isinstance(layer, Conv):
        sums = _spread(windows, shape, lambda i, j: real @ factors[:, i, j], np.float64)
        return np.asarray(sums.astype(np.int64))
    multiple = factors.shape[3] // shape[3]

    def part(i: int, j: int) -> NDArray[np.float64]:
        product = real * factors[0, i, j]
        return np.asarray(product.reshape(*product.shape[:3], -1, multiple).sum(4))

    return np.asarray(_spread(windows, shape, part, np.float64).astype(np.int64))
