# SPDX-License-Identifier: Apache-2.0
"""New scales for trained filters, from the range that their weights have come to."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from .constants import OP_PREFIX
from .kernels import FILTER_OPERATORS
from .model import Operator, Subgraph, Tensor
from .model.schema import BuiltinOperator
from .rescale_bias import rescale_bias

_LIMIT = 127
_SMALLEST_SCALE = float(np.finfo(np.float32).tiny)
# Of an input value from its zero point.
_LARGEST_INPUT = 255


def re_range(graph: Subgraph, tensor: Tensor, in_256ths: npt.NDArray[np.int32]) -> int:
    """Requantizes a constant filter from its 16-bit weights so that the largest of each channel is ±127.

    The scale becomes old scale * largest / (256 * 127), of each channel or, where the filter has one scale,
    of all of it; each weight becomes the one nearest to its 16-bit value, and biases, whose scale is input
    scale * filter scale, follow. Real values change by rounding alone: a weight by half its new scale at
    most, a bias by half its new unit.

    A channel (or a filter with one scale) is left as it is where it is all zero, or where the accumulator of
    an operator, bias included, might exceed int32 in the new, finer unit. So is a filter that something else
    reads than the layers of which it is the filter, or with a bias that is no constant.

    Args:
        graph: subgraph that the filter is in.
        tensor: int8 filter, zero point 0, that holds the 16-bit weights rounded to whole ones.
        in_256ths: int32 in the filter's shape: 256 * weight + fraction, unit 2^-8 LSB.

    Returns:
        How many scales are others than before.
    """
    readers = _readers(graph, tensor)
    quantization = tensor.quantization
    if not readers or quantization is None or not len(quantization.scales):
        return 0
    axis = 3 if readers[0].builtin == BuiltinOperator.DEPTHWISE_CONV_2D else 0
    channels_first = np.moveaxis(in_256ths, axis, 0).astype(np.float64) / 256
    channels = len(channels_first)
    flat = channels_first.reshape(channels, -1)
    largest = np.abs(flat).max(axis=1)
    if not quantization.is_per_channel:
        largest = largest.max(keepdims=True)

    old = quantization.scales.astype(np.float64)
    wanted = old * largest / _LIMIT
    changed = wanted >= _SMALLEST_SCALE
    # Ratios are those of the float32 scales that the file stores: the real values come out as near as can be.
    stored = np.where(changed, wanted, old).astype(np.float32)
    ratio = np.broadcast_to(old / stored.astype(np.float64), channels)
    weights = np.clip(np.rint(flat * ratio[:, None]), -_LIMIT, _LIMIT)
    fits = np.abs(weights).sum(axis=1) * _LARGEST_INPUT <= np.iinfo(np.int32).max
    for op in readers:
        bias = op.input(2)
        if bias is not None:
            real = np.rint(bias.numpy().astype(np.float64).reshape(-1) * ratio)
            sums = np.abs(weights).sum(axis=1) * _LARGEST_INPUT + np.abs(real)
            fits &= sums <= np.iinfo(np.int32).max
    changed &= fits if len(changed) == channels else fits.all()
    changed &= stored != quantization.scales
    if not changed.any():
        return 0

    everywhere = np.broadcast_to(changed, channels)
    scales = np.where(changed, stored, quantization.scales).astype(np.float32)
    kept = np.moveaxis(tensor.numpy(), axis, 0).reshape(channels, -1)
    values = np.where(everywhere[:, None], weights, kept).reshape(channels_first.shape)
    tensor.set_data(np.ascontiguousarray(np.moveaxis(values, 0, axis), np.int8))
    quantization.scales = scales
    for op in readers:
        rescale_bias(graph, op, scales, np.where(everywhere, ratio, 1.0), everywhere)
    return int(np.count_nonzero(changed))


def _readers(graph: Subgraph, tensor: Tensor) -> list[Operator]:
    """The layers that the filter belongs to; none where it cannot be requantized."""
    found = []
    for op in graph.operators:
        if tensor not in op.inputs or op.code.name.startswith(OP_PREFIX):
            continue
        bias = op.input(2)
        if op.builtin not in FILTER_OPERATORS or op.inputs.index(tensor) != 1 or op.inputs.count(tensor) != 1:
            return []
        if bias is not None and not bias.is_constant:
            return []
        found.append(op)
    return [] if tensor in graph.outputs else found
