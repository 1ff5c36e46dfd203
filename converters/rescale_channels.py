"""Other scales for channels and activations of a plain model, by which recalibration changes it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import numpy as np
import numpy.typing as npt

from .constants import METADATA_NAME
from .errors import ConversionError
from .kernels import FILTER_OPERATORS, channel_axis
from .model import Model, Operator, Quantization, Subgraph, Tensor
from .model.schema import BuiltinOperator as B
from .model.schema import TensorType
from .passes.requantize import LARGEST_INPUT, SMALLEST_SCALE, rescale_bias

_INT32: Final = np.iinfo(np.int32)


def layers_with_filters(model: Model) -> list[Operator]:
    """Returns the layers with a filter of a plain model with one subgraph, in execution order."""
    if model.find_metadata(METADATA_NAME) is not None:
        other = "the plain model that it was made from, or the one that export writes"
        raise ConversionError(f"a ZO model cannot be recalibrated; recalibrate {other}")
    return [op for op in model.only_graph.operators if op.builtin in FILTER_OPERATORS]


def why_fixed(graph: Subgraph, layer: Operator) -> str | None:
    """Returns why the channels of a layer cannot be rescaled; None where they can."""
    weights, bias = layer.input(1), layer.input(2)
    if weights is None or not weights.is_constant or weights.type != TensorType.INT8:
        return "its filter is no int8 constant"
    if layer.outputs[0].type != TensorType.INT8:
        return f"its outputs are {layer.outputs[0].type_name}"
    if bias is not None and not bias.is_constant:
        return "its bias is no constant"
    if sum(op.inputs.count(weights) for op in graph.operators) > 1 or weights in graph.outputs:
        return "its filter belongs to something else, too"
    if _answers(graph, layer):
        return "it computes the model's answer"
    return None


def _answers(graph: Subgraph, layer: Operator) -> bool:
    """Returns whether a way leads from the layer to an output of the model without another filter."""
    consumers, pending, seen = graph.consumers(), list(layer.outputs), set[Tensor]()
    while pending:
        tensor = pending.pop()
        if tensor in graph.outputs:
            return True
        if tensor not in seen:
            seen.add(tensor)
            pending += [t for op in consumers.get(tensor, ()) if op.builtin not in FILTER_OPERATORS for t in op.outputs]
    return False


def is_per_channel(layer: Operator) -> bool:
    """Returns whether the layer's filter has a scale for each channel."""
    weights = layer.inputs[1]
    assert weights is not None and weights.quantization is not None
    return len(weights.quantization.scales) == layer.outputs[0].shape[-1]


def rescale_channels(
    graph: Subgraph, layer: Operator, factors: npt.NDArray[np.float64], shifts: npt.NDArray[np.float64]
) -> npt.NDArray[np.bool_]:
    """Makes of a layer's output y, before its activation clamps it, factor * y + shift, in place, if `why_fixed` has no
    reason against it. Factors are > 0, [channels], all alike if the filter has one scale; shifts are real, [channels].

    The filter's scales are multiplied; the bias, which a layer without one gets, changes by the shift in units of input
    scale * new filter scale alone. Weights keep their bytes. Returns bool [channels], False for a channel (of a filter
    with one scale: for all) that stays, since its new scale is no normal float32, or its sums might exceed int32.
    """
    data, weights = layer.inputs[0], layer.inputs[1]
    assert data is not None and data.quantization is not None
    assert weights is not None and weights.quantization is not None
    old = weights.quantization.scales.astype(np.float64)
    shared = len(old) == 1
    new = (old * (factors[:1] if shared else factors)).astype(np.float32)
    unit = data.quantization.scale * np.broadcast_to(new, factors.shape).astype(np.float64)
    with np.errstate(divide="ignore", over="ignore"):
        steps = np.rint(shifts / unit)
    rows = np.moveaxis(weights.numpy(), channel_axis(layer), 0).reshape(len(factors), -1).astype(np.int64)
    bias = layer.input(2)
    before = np.zeros(len(factors)) if bias is None else bias.numpy().astype(np.float64).reshape(-1)
    sums = np.abs(rows).sum(axis=1) * LARGEST_INPUT + np.abs(before + steps)
    fits = np.asarray((sums <= _INT32.max) & (new >= SMALLEST_SCALE))
    if shared:
        fits[:] = fits.all()
    if not fits.any():
        return fits
    weights.quantization.scales = np.where(fits[: len(new)], new, weights.quantization.scales)
    steps = np.where(fits, steps, 0)
    if bias is None:
        if not steps.any():
            return fits
        _add_bias(graph, layer, weights.quantization.scales * np.float32(data.quantization.scale))
    else:
        rescale_bias(graph, layer, weights, weights.quantization.scales, np.ones(len(factors)), fits)
    own = layer.inputs[2]
    assert own is not None
    own.set_data((before + steps).astype(np.int32).reshape(own.shape))
    return fits


def _add_bias(graph: Subgraph, layer: Operator, scales: npt.NDArray[np.float32]) -> None:
    output = layer.outputs[0]
    quantization = Quantization(scales.astype(np.float32), np.zeros(len(scales), np.int64))
    bias = Tensor(f"{output.name}/bias", output.shape[-1:], TensorType.INT32, output.buffer, quantization)
    graph.tensors.append(bias)
    layer.inputs = [*layer.inputs[:2], bias]


# Kernels that convert their inputs to any scale of their output.
_REQUANTIZING: Final = (
    B.ADD, B.BATCH_MATMUL, B.CONV_2D, B.DEPTHWISE_CONV_2D, B.FULLY_CONNECTED, B.HARD_SWISH, B.LEAKY_RELU,
    B.MEAN, B.MUL, B.PRELU, B.QUANTIZE, B.RELU, B.RELU6, B.SQUARED_DIFFERENCE, B.SUB, B.SUM, B.TRANSPOSE_CONV,
)  # fmt: skip
# Kernels whose output has the one scale that they demand; they take any input.
_FIXED: Final = (B.L2_NORMALIZATION, B.LOGISTIC, B.LOG_SOFTMAX, B.SOFTMAX, B.TANH)
# Where data, filter and bias stand.
_BIASED: Final = {B.CONV_2D: (0, 2), B.DEPTHWISE_CONV_2D: (0, 2), B.FULLY_CONNECTED: (0, 2), B.TRANSPOSE_CONV: (2, 3)}


def widen_activations(model: Model, fraction: float) -> None:
    """Lets every activation of an int8 model grow by ``fraction`` of its calibrated range before it saturates, in
    place.

    The scale of each int8 activation is multiplied by 1 + fraction, 0..7; its zero point stays, so that both ends of
    the range move away from zero alike. 0.25 costs a third of a bit of resolution. Biases are rounded anew. Tensors
    that a kernel wants in one scale (pooling, reshaping, concatenation) change together or not at all. Inputs of the
    model, and outputs with a fixed scale (SOFTMAX, LOGISTIC, TANH), keep theirs.
    """
    if not isinstance(fraction, int | float | np.floating) or not 0 <= fraction <= 7:
        raise ConversionError(f"headroom of activations must be from 0 to 7, not {fraction!r}")
    if fraction == 0:
        return
    graph = model.subgraphs[0]
    widened = _widened(graph)
    factor = 1 + fraction
    for tensor in widened:
        assert tensor.quantization is not None
        tensor.quantization.scales = (tensor.quantization.scales * np.float32(factor)).astype(np.float32)
    for op in graph.operators:
        if op.builtin not in _BIASED:
            continue
        at_data, at_bias = _BIASED[op.builtin]
        bias = op.input(at_bias)
        if bias is None or op.input(at_data) not in widened:
            continue
        if not bias.is_constant:
            raise ConversionError(f"{op.label}: bias `{bias.name}` is not a constant")
        own = graph.own_input(op, at_bias)  # another layer's bias keeps the scale of that layer
        values = np.rint(own.numpy().astype(np.float64) / factor)
        own.set_data(np.clip(values, _INT32.min, _INT32.max).astype(np.int32))
        if own.quantization is not None:
            own.quantization.scales = (own.quantization.scales * np.float32(factor)).astype(np.float32)


def _widened(graph: Subgraph) -> set[Tensor]:
    """Returns the activations that may change: tensors that must agree change together or not at all."""
    group: dict[Tensor, Tensor] = {}

    def root(tensor: Tensor) -> Tensor:
        while group.setdefault(tensor, tensor) is not tensor:
            tensor = group[tensor]
        return tensor

    def quantized(tensors: Iterable[Tensor | None]) -> list[Tensor]:
        return [t for t in tensors if t is not None and t.type == TensorType.INT8]

    fixed = set(quantized(graph.inputs))
    produced: set[Tensor] = set()
    for op in graph.operators:
        produced.update(quantized(op.outputs))
        if op.builtin in _FIXED:
            fixed.update(quantized(op.outputs))
        elif op.builtin not in _REQUANTIZING:
            tied = quantized([*op.inputs, *op.outputs])
            fixed.update(t for t in tied if t.is_constant)
            for other in tied[1:]:
                group[root(other)] = root(tied[0])
    kept = {root(t) for t in fixed}
    return {t for t in produced if root(t) not in kept and t.quantization is not None}
