"""New scales for filters, and the biases that follow them."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ..constants import OP_PREFIX
from ..errors import ConversionError, InjectError
from ..kernels import FILTER_OPERATORS
from ..model import Model, Operator, Subgraph, Tensor
from ..model.schema import BuiltinOperator
from ..settings import InjectSettings
from .plan import Plan, Trainable

_INT32 = np.iinfo(np.int32)


def rescale_bias(
    graph: Subgraph,
    op: Operator,
    scales: npt.NDArray[np.float32],
    ratio: npt.NDArray[np.float64],
    changed: npt.NDArray[np.bool_],
) -> None:
    """Requantizes an operator's bias, absent or constant, to input scale * filter scale, the kernels' unit.

    A bias that other operators read as well is copied first; a buffer is replaced, never edited. Values that
    int32 does not hold are clipped. ``ratio`` is old filter scale / new filter scale, [channels]; ``scales``
    are the new ones, [channels] or [1]; ``changed`` tells the channels whose scale has changed.
    """
    data, bias = op.input(0), op.input(2)
    if bias is None:
        return
    if data is None or data.quantization is None or not len(data.quantization.scales):
        raise ConversionError(f"the input of `{op.outputs[0].name}` has no scale, so its bias has none")
    bias = graph.own_input(op, 2)  # another layer's bias keeps the scale of that layer
    # Kernels assume a bias scale of input scale * filter scale, and ignore its own scale.
    values = np.rint(bias.numpy().astype(np.float64) * ratio.reshape(bias.shape))
    bias.set_data(np.clip(values, _INT32.min, _INT32.max).astype(np.int32))
    if bias.quantization is None or not len(bias.quantization.scales):
        return
    product = (np.float32(data.quantization.scale) * scales).astype(np.float32)
    if len(bias.quantization.scales) == len(product):
        kept = bias.quantization.scales
        bias.quantization.scales = np.where(changed[: len(product)], product, kept).astype(np.float32)
    else:
        bias.quantization.scales = product
        bias.quantization.zero_points = np.zeros(len(product), np.int64)
        bias.quantization.axis = 0


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


def reserve_headroom(model: Model, settings: InjectSettings, plan: Plan) -> None:
    """Requantizes trainable filters so that every weight is within +-(127 - headroom).

    Where the largest |weight| of a channel (of the whole tensor, if it has one scale) exceeds that, the scale
    grows by largest / (127 - headroom), and weights and bias, whose scale is input scale * filter scale, are
    rounded anew from their real values. All other channels, and the whole model for a headroom of 0, keep
    every byte, as do filters that stay constants because biases alone are trained. Buffers that are changed
    are replaced, never edited.
    """
    if settings.headroom == 0 or settings.parameters == "biases":
        return
    for trainable in plan.trainable:
        _requantize(model.subgraphs[0], trainable, 127 - settings.headroom)


def _requantize(graph: Subgraph, trainable: Trainable, limit: int) -> None:
    tensor, quantization = trainable.tensor, trainable.tensor.quantization
    assert quantization is not None  # check_supported
    channels_first = np.moveaxis(tensor.numpy(), trainable.axis, 0).astype(np.float64)
    largest = np.abs(channels_first.reshape(trainable.channels, -1)).max(axis=1)
    if not quantization.is_per_channel:
        largest = largest.max(keepdims=True)
    changed = largest > limit
    trainable.requantized = int(np.count_nonzero(changed))
    if not trainable.requantized:
        return

    old = quantization.scales.astype(np.float64)
    scales = quantization.scales.copy()
    scales[changed] = (old * largest / limit)[changed].astype(np.float32)
    # Factor of a weight or a bias, exactly 1 if nothing changes. It is computed from the file's float32
    # scales, so that real values are as close as possible.
    ratio = np.broadcast_to(old / scales.astype(np.float64), trainable.channels)

    weights = np.rint(channels_first * ratio.reshape(-1, *[1] * (channels_first.ndim - 1)))
    weights = np.moveaxis(np.clip(weights, -limit, limit), 0, trainable.axis)
    tensor.set_data(np.ascontiguousarray(weights, np.int8))
    quantization.scales = scales
    for op in trainable.operators:
        bias = op.input(2)
        if bias is not None and not bias.is_constant:
            raise InjectError(
                "headroom",
                f"be 0, because {op.label} has a bias `{bias.name}` that is not a constant",
                fix="Or exclude the layer from the trainable ones",
            )
        rescale_bias(graph, op, scales, ratio, np.broadcast_to(changed, trainable.channels))
