# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""int8 layers on whole batches. Activations are int8, [batch, rows, columns, channels] or [batch, features].

Sums of products are computed in floating point, where the BLAS is: int8 times int8 is 2^14 in magnitude at
most, so float32 holds any sum of up to 2^10 of them exactly in any order, and float64 any sum that an int32
holds. The input's zero point is a constant term of the sum and joins the bias.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from .fixed_point import Clamp, Multiplier
from .windows import Windows

__all__ = ["Add", "Conv", "Dense", "DepthwiseConv", "Layer", "Pool", "Reshape"]

Int8 = NDArray[np.int8]


class Layer(Protocol):
    """A layer; those with weights take them as the second argument, others get an empty array."""

    def __call__(self, inputs: list[Int8], weights: Int8) -> Int8:
        """Computes the output of the layer."""
        ...


def _exact_type(terms: int) -> type[np.float32] | type[np.float64]:
    return np.float32 if terms <= 2**10 else np.float64


@dataclass(frozen=True)
class _Output:
    """The part of a layer after the sum of products.

    Attributes:
        input_zero_point: of the layer's input.
        bias: int64 [channels].
        multiplier: input scale * filter scale / output scale.
        clamp: of the output.
    """

    input_zero_point: int
    bias: NDArray[np.int64]
    multiplier: Multiplier
    clamp: Clamp

    def of(self, sums: NDArray[Any], weight_sums: NDArray[np.int64]) -> Int8:
        accumulators = sums.astype(np.int64)
        accumulators += self.bias - self.input_zero_point * weight_sums
        return self.clamp.finish(self.multiplier.apply(accumulators))


@dataclass(frozen=True)
class Dense(_Output):
    """FULLY_CONNECTED; weights [units, depth]."""

    shape: tuple[int, ...]

    def __call__(self, inputs: list[Int8], weights: Int8) -> Int8:
        """Computes the output [batch, *shape]."""
        units, depth = weights.shape
        real = _exact_type(depth)
        sums = inputs[0].reshape(-1, depth).astype(real) @ weights.T.astype(real)
        return self.of(sums, weights.sum(1, dtype=np.int64)).reshape(-1, *self.shape)


@dataclass(frozen=True)
class Conv(_Output):
    """CONV_2D by im2col; weights [channels, rows, columns, depth]."""

    windows: Windows

    def __call__(self, inputs: list[Int8], weights: Int8) -> Int8:
        """Computes the output [batch, rows, columns, channels]."""
        x, windows = inputs[0], self.windows
        channels, depth = len(weights), weights[0].size
        real = _exact_type(depth)
        if windows.trivial:
            patches = x.astype(real)
        else:
            patches = np.empty((len(x), *windows.outputs, *windows.kernel, x.shape[3]), real)
            for i, j, tap in windows.taps(windows.padded(x, self.input_zero_point)):
                patches[:, :, :, i, j] = tap
        matrix = weights.reshape(channels, depth)
        sums = patches.reshape(-1, depth) @ matrix.T.astype(real)
        y = self.of(sums, matrix.sum(1, dtype=np.int64))
        return y.reshape(len(x), *windows.outputs, channels)


@dataclass(frozen=True)
class DepthwiseConv(_Output):
    """DEPTHWISE_CONV_2D, a product and a sum for each place in the window.

    Weights are [1, rows, columns, channels].
    """

    windows: Windows

    def __call__(self, inputs: list[Int8], weights: Int8) -> Int8:
        """Computes the output [batch, rows, columns, channels]."""
        x, (_, rows, columns, channels) = inputs[0], weights.shape
        real = _exact_type(rows * columns)
        padded = self.windows.padded(x, self.input_zero_point).astype(real)
        if channels != x.shape[3]:
            padded = np.repeat(padded, channels // x.shape[3], axis=3)
        sums = np.zeros((len(x), *self.windows.outputs, channels), real)
        products = np.empty_like(sums)
        factors = weights[0].astype(real)
        for i, j, tap in self.windows.taps(padded):
            sums += np.multiply(tap, factors[i, j], out=products)
        return self.of(sums, weights.sum((0, 1, 2), dtype=np.int64))


@dataclass(frozen=True)
class Pool:
    """MAX_POOL_2D and AVERAGE_POOL_2D; padding counts as nothing."""

    windows: Windows
    average: bool
    clamp: Clamp

    def __call__(self, inputs: list[Int8], weights: Int8) -> Int8:
        """Computes the output [batch, rows, columns, channels]."""
        x, windows = inputs[0], self.windows
        shape = len(x), *windows.outputs, x.shape[3]
        if not self.average:
            largest = np.full(shape, -128, np.int8)
            for _, _, tap in windows.taps(windows.padded(x, -128)):
                np.maximum(largest, tap, out=largest)
            return np.clip(largest, self.clamp.low, self.clamp.high, out=largest)
        sums = np.zeros(shape, np.int32)
        for _, _, tap in windows.taps(windows.padded(x, 0)):
            sums += tap
        count = np.zeros((1, *windows.outputs, 1), np.int32)
        for _, _, tap in windows.taps(windows.padded(np.ones((1, *x.shape[1:3], 1), np.int8), 0)):
            count += tap
        means = np.sign(sums) * ((np.abs(sums) + count // 2) // count)
        return np.clip(means, self.clamp.low, self.clamp.high).astype(np.int8)


class Add:
    """ADD: each input scaled up by 2^20 and brought to a common scale, which a table of 256 does.

    Args:
        scales: of the inputs.
        zero_points: of the inputs.
        output_scale: of the output.
        clamp: of the output.
    """

    def __init__(self, scales: Sequence[float], zero_points: Sequence[int], output_scale: float, clamp: Clamp) -> None:
        common = 2 * max(scales)
        values = np.arange(256, dtype=np.uint8).view(np.int8).astype(np.int64)
        self._tables = [
            Multiplier([scale / common]).apply((values - zero_point) << 20)
            for scale, zero_point in zip(scales, zero_points, strict=True)
        ]
        self._multiplier = Multiplier([common / (2**20 * output_scale)])
        self._clamp = clamp

    def __call__(self, inputs: list[Int8], weights: Int8) -> Int8:
        """Computes an output of the inputs' shape."""
        first, second = (
            table[np.ascontiguousarray(x).view(np.uint8)] for table, x in zip(self._tables, inputs, strict=True)
        )
        first += second
        return self._clamp.finish(self._multiplier.apply(first.astype(np.int64)))


@dataclass(frozen=True)
class Reshape:
    """RESHAPE of everything but the batch."""

    shape: tuple[int, ...]

    def __call__(self, inputs: list[Int8], weights: Int8) -> Int8:
        """Computes the output [batch, *shape]."""
        return inputs[0].reshape(-1, *self.shape)
