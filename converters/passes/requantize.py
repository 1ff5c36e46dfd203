"""New scales for filters, and the biases that follow them."""

from __future__ import annotations

import warnings

import numpy as np
import numpy.typing as npt

from ..constants import OP_PREFIX
from ..errors import ConversionError, ConversionWarning, InjectError
from ..kernels import channel_axis, filters_of
from ..model import Model, Operator, Quantization, Subgraph, Tensor
from ..model.schema import BuiltinOperator, TensorType
from ..settings import InjectSettings
from .plan import Plan, Trainable

_INT32 = np.iinfo(np.int32)


def rescale_bias(
    graph: Subgraph,
    op: Operator,
    weights: Tensor,
    scales: npt.NDArray[np.float32],
    ratio: npt.NDArray[np.float64],
    changed: npt.NDArray[np.bool_],
) -> None:
    """Requantizes the bias of a filter, absent or constant, to input scale * filter scale, the kernels' unit; one that
    other operators read as well is copied first. Values that kernels do not hold are clipped. ``ratio`` is old filter
    scale / new filter scale, [channels]; ``scales`` are the new ones, [channels] or [1]; ``changed`` tells the changed
    channels.
    """
    read, number = filters_of(op)[weights]
    data = op.input(read)
    if number is None or op.input(number) is None:
        return
    if data is None or data.quantization is None or not len(data.quantization.scales):
        raise ConversionError(f"the input of `{op.outputs[0].name}` has no scale, so its bias has none")
    bias = graph.own_input(op, number)  # another layer's bias keeps the scale of that layer
    # Kernels assume a bias scale of input scale * filter scale, and ignore its own scale. Several filters of SVDF, of
    # one scale, have one bias.
    given = bias.numpy()
    values = np.rint(given.astype(np.float64) * ratio[: bias.size].reshape(bias.shape))
    # CMSIS-NN's sums of int16 layers have no more than 48 bits.
    limit = 2.0**47 if given.dtype == np.int64 else float(_INT32.max)
    bias.set_data(np.clip(values, -limit, limit).astype(given.dtype))
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
SMALLEST_SCALE = float(np.finfo(np.float32).tiny)
#: Largest distance of an input value from its zero point.
LARGEST_INPUT = 255
_LARGEST_INT16 = 32768


def _largest(rows: npt.NDArray[np.float64], quantization: Quantization) -> npt.NDArray[np.float64]:
    """Returns the largest |weight| of each channel, [channels, ...], or, where the filter has one scale, of all."""
    largest: npt.NDArray[np.float64] = np.abs(rows.reshape(len(rows), -1)).max(axis=1)
    return largest if quantization.is_per_channel else largest.max(keepdims=True)


def _store(tensor: Tensor, axis: int, rows: npt.NDArray[np.float64], scales: npt.NDArray[np.float32]) -> None:
    """Gives a filter other weights, with the channels first, and scales."""
    assert tensor.quantization is not None
    tensor.set_data(np.ascontiguousarray(np.moveaxis(rows, 0, axis), np.int8))
    tensor.quantization.scales = scales


def re_range(graph: Subgraph, tensor: Tensor, in_256ths: npt.NDArray[np.int32]) -> int:
    """Requantizes a constant filter from its 16-bit weights so that the largest of each channel is ±127, and returns
    how many scales have changed. `in_256ths` is 256 * weight + fraction, int32 in the filter's shape.

    The scale becomes old scale * largest / (256 * 127), of each channel or, where the filter has one scale, of all of
    it; weights and biases are rounded anew. A channel (or a filter with one scale) stays where it is all zero, or where
    the accumulator of an operator, bias included, might exceed int32 in the new, finer unit. So does a filter that
    something else reads than the layers of which it is the filter, or with a bias that is no constant.
    """
    readers = _readers(graph, tensor)
    quantization = tensor.quantization
    if not readers or quantization is None or not len(quantization.scales):
        return 0
    axis = channel_axis(readers[0])
    channels_first = np.moveaxis(in_256ths, axis, 0).astype(np.float64) / 256
    channels = len(channels_first)
    flat = channels_first.reshape(channels, -1)

    old = quantization.scales.astype(np.float64)
    wanted = old * _largest(flat, quantization) / _LIMIT
    changed = wanted >= SMALLEST_SCALE
    # Ratios are those of the float32 scales that the file stores: the real values come out as near as can be.
    stored = np.where(changed, wanted, old).astype(np.float32)
    ratio = np.broadcast_to(old / stored.astype(np.float64), channels)
    weights = np.clip(np.rint(flat * ratio[:, None]), -_LIMIT, _LIMIT)
    is_int16 = readers[0].outputs[0].type == TensorType.INT16
    sums = np.abs(weights).sum(axis=1) * (_LARGEST_INT16 if is_int16 else LARGEST_INPUT)
    fits = sums <= _INT32.max
    for bias in [_bias(op, tensor) for op in readers]:
        if bias is not None:
            real = np.rint(bias.numpy().astype(np.float64).reshape(-1) * ratio[: bias.size])
            together = sums.reshape(bias.size, -1).sum(axis=1) + np.abs(real)
            fits &= np.repeat(together <= _INT32.max, channels // bias.size)
    changed &= fits if len(changed) == channels else fits.all()
    changed &= stored != quantization.scales
    if not changed.any():
        return 0

    everywhere = np.broadcast_to(changed, channels)
    scales = np.where(changed, stored, quantization.scales).astype(np.float32)
    kept = np.moveaxis(tensor.numpy(), axis, 0).reshape(channels, -1)
    _store(tensor, axis, np.where(everywhere[:, None], weights, kept).reshape(channels_first.shape), scales)
    for op in readers:
        rescale_bias(graph, op, tensor, scales, np.where(everywhere, ratio, 1.0), everywhere)
    return int(np.count_nonzero(changed))


def _bias(op: Operator, weights: Tensor) -> Tensor | None:
    number = filters_of(op)[weights][1]
    return None if number is None else op.input(number)


def _readers(graph: Subgraph, tensor: Tensor) -> list[Operator]:
    """The layers that the filter belongs to; none where it cannot be requantized."""
    found = []
    for op in graph.operators:
        if tensor not in op.inputs or op.code.name.startswith(OP_PREFIX):
            continue
        if tensor not in filters_of(op) or op.inputs.count(tensor) != 1:
            return []
        bias = _bias(op, tensor)
        if bias is not None and not bias.is_constant:
            return []
        found.append(op)
    return [] if tensor in graph.outputs else found


def share_scales(model: Model, settings: InjectSettings, plan: Plan) -> None:
    """Gives the filter of each int16 dense layer the largest of its scales: CMSIS-NN's kernel takes one alone."""
    graph = model.subgraphs[0]
    for op in graph.operators:
        if op.builtin != BuiltinOperator.FULLY_CONNECTED or op.outputs[0].type != TensorType.INT16:
            continue
        own = graph.own_input(op, 1)
        quantization = own.quantization
        if quantization is None or not quantization.is_per_channel or not own.is_constant:
            continue
        ratio = quantization.scales.astype(np.float64) / quantization.scales.max()
        scales = quantization.scales.max(keepdims=True)
        _store(own, 0, np.rint(own.numpy() * ratio[:, None]), scales)
        quantization.zero_points = np.zeros(1, np.int64)
        rescale_bias(graph, op, own, scales, ratio, np.ones(len(ratio), np.bool_))
        why = "because CMSIS-NN takes no more of an int16 dense layer: its weights are rounded anew"
        warnings.warn(f"{op.label}: its filter has one scale now, {why}", ConversionWarning, stacklevel=4)


def reserve_headroom(model: Model, settings: InjectSettings, plan: Plan) -> None:
    """Requantizes trainable filters so that every weight is within +-(127 - headroom). Where the largest |weight| of a
    channel (or of a whole tensor with one scale) exceeds that, the scale grows by largest / (127 - headroom), and
    weights and bias are rounded anew from their real values. All other channels keep every byte, as do filters that
    stay constants.
    """
    if settings.headroom == 0 or settings.parameters == "biases":
        return
    for trainable in plan.trainable:
        _requantize(model.subgraphs[0], trainable, 127 - settings.headroom)


def _requantize(graph: Subgraph, trainable: Trainable, limit: int) -> None:
    tensor, quantization = trainable.tensor, trainable.tensor.quantization
    assert quantization is not None  # check_supported
    channels_first = np.moveaxis(tensor.numpy(), trainable.axis, 0).astype(np.float64)
    largest = _largest(channels_first, quantization)
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
    _store(tensor, trainable.axis, np.clip(weights, -limit, limit), scales)
    for op in trainable.operators:
        bias = _bias(op, tensor)
        if bias is not None and not bias.is_constant:
            why = f"be 0, because {op.label} has a bias `{bias.name}` that is not a constant"
            raise InjectError("headroom", why, fix="Or exclude the layer from the trainable ones")
        rescale_bias(graph, op, tensor, scales, ratio, np.broadcast_to(changed, trainable.channels))
