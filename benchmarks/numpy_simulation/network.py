# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""A .tflite model as a list of NumPy layers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tflm_zo.converters.model import Model, Operator, Tensor
from tflm_zo.converters.model.schema import OPERATOR_NAMES
from tflm_zo.converters.model.schema import BuiltinOperator as B

from .fixed_point import Clamp, Multiplier, clamp_of
from .layers import Add, Conv, Dense, DepthwiseConv, Layer, Pool, Reshape
from .windows import Windows

__all__ = ["Network", "Node", "UnsupportedError"]

_NO_WEIGHTS = np.empty(0, np.int8)
_SAME = 0  # of schema.Padding


class UnsupportedError(ValueError):
    """The simulation does not support a part of the model."""


class Node(NamedTuple):
    """A layer in its place.

    Attributes:
        layer: the object that computes it.
        inputs: activations that it reads.
        filter: name of its filter tensor, if it has one.
        output: activation that it writes.
        operator: of the model.
    """

    layer: Layer
    inputs: list[Tensor]
    filter: str | None
    output: Tensor
    operator: Operator


class Network:
    """An int8 classifier with one input, interpreted in NumPy as far as its logits.

    Args:
        model: a plain int8 model, of any batch size; it is not changed.

    Attributes:
        weights: the model's filters, int8 in their own shapes, by tensor name in the order of execution.
        logit_scale: real value of one LSB of the logits, a SOFTMAX's beta included.
        input: the activation that samples become.
        nodes: layers in the order of execution; the last one's output are the logits.

    Raises:
        UnsupportedError: an operator or option that is not implemented here.
    """

    def __init__(self, model: Model) -> None:
        graph = model.subgraphs[0]
        if len(graph.inputs) != 1:
            raise UnsupportedError(f"expected a model with one input, got {len(graph.inputs)}")
        self.weights: dict[str, NDArray[np.int8]] = {}
        self.input = graph.inputs[0]
        self.nodes: list[Node] = []
        beta = 1.0
        for op in graph.operators:
            if op.builtin == B.SOFTMAX and op is graph.operators[-1]:
                beta = float(op.option("beta", 1.0))
                continue
            if op.builtin not in _BUILDERS:
                supported = ", ".join(OPERATOR_NAMES[b] for b in _BUILDERS)
                raise UnsupportedError(f"{op.label}: not simulated; there are {supported} and a last SOFTMAX")
            self.nodes.append(self._node(op))
        self._logits = self.nodes[-1].output
        self.logit_scale = _quantization(self._logits)[0] * beta

    def _node(self, op: Operator) -> Node:
        layer = _BUILDERS[op.builtin](op)
        inputs = [t for t in op.inputs if t is not None and not t.is_constant]
        name = None
        if op.builtin in (B.CONV_2D, B.DEPTHWISE_CONV_2D, B.FULLY_CONNECTED):
            name = _operand(op, 1).name
            self.weights[name] = _operand(op, 1).numpy().copy()
        return Node(layer, inputs, name, op.outputs[0], op)

    def logits(self, x: NDArray[np.int8], weights: Mapping[str, NDArray[np.int8]] | None = None) -> NDArray[np.int8]:
        """Computes the logits, int8 [batch, classes].

        Args:
            x: int8 [batch, ...], any batch.
            weights: in place of the model's own, all of them.
        """
        return self.activations(x, weights)[self._logits].reshape(len(x), -1)

    def activations(
        self, x: NDArray[np.int8], weights: Mapping[str, NDArray[np.int8]] | None = None
    ) -> dict[Tensor, NDArray[np.int8]]:
        """Computes every activation, the input among them; arguments as for `logits`."""
        weights = self.weights if weights is None else weights
        values = {self.input: x}
        for node in self.nodes:
            filters = _NO_WEIGHTS if node.filter is None else weights[node.filter]
            values[node.output] = node.layer([values[t] for t in node.inputs], filters)
        return values


def _operand(op: Operator, index: int) -> Tensor:
    tensor = op.input(index)
    if tensor is None:
        raise UnsupportedError(f"{op.label}: has no input {index}")
    return tensor


def _quantization(tensor: Tensor) -> tuple[float, int]:
    if tensor.quantization is None or len(tensor.quantization.scales) != 1:
        raise UnsupportedError(f"`{tensor.name}`: expected one scale for the whole tensor")
    return tensor.quantization.scale, tensor.quantization.zero_point


def _clamp(op: Operator) -> Clamp:
    return clamp_of(int(op.option("fusedActivationFunction", 0)), *_quantization(op.outputs[0]))


def _windows(op: Operator, kernel: tuple[int, int]) -> Windows:
    if any(getattr(op.options, f"dilation{side}Factor", 1) != 1 for side in "HW"):
        raise UnsupportedError(f"{op.label}: dilation is not simulated")
    _, rows, columns, _ = _operand(op, 0).shape
    stride = int(op.option("strideH", 1)), int(op.option("strideW", 1))
    return Windows.of((rows, columns), kernel, stride, op.option("padding", _SAME) == _SAME)


def _sum_of_products(op: Operator, channels: int, float_product: bool = False) -> tuple[int, Any, Multiplier, Clamp]:
    """Reads input zero point, bias, multiplier and clamp of a layer with a filter."""
    filters, bias = _operand(op, 1), op.input(2)
    if filters.quantization is None or filters.quantization.zero_points.any():
        raise UnsupportedError(f"`{filters.name}`: expected a filter with zero point 0")
    scale, zero_point = _quantization(_operand(op, 0))
    output_scale, _ = _quantization(op.outputs[0])
    scales = [float(s) for s in filters.quantization.scales]
    if float_product and len(scales) == 1:  # as TFLite's FULLY_CONNECTED has it
        factors = [float(np.float32(scale) * np.float32(scales[0])) / output_scale]
    else:
        factors = [scale * s / output_scale for s in scales]
    values = np.zeros(channels, np.int64) if bias is None else bias.numpy().astype(np.int64)
    return zero_point, values, Multiplier(factors), _clamp(op)


def _conv_2d(op: Operator) -> Layer:
    channels, rows, columns, depth = _operand(op, 1).shape
    if depth != _operand(op, 0).shape[3]:
        raise UnsupportedError(f"{op.label}: groups are not simulated")
    return Conv(*_sum_of_products(op, channels), _windows(op, (rows, columns)))


def _depthwise_conv_2d(op: Operator) -> Layer:
    _, rows, columns, channels = _operand(op, 1).shape
    return DepthwiseConv(*_sum_of_products(op, channels), _windows(op, (rows, columns)))


def _fully_connected(op: Operator) -> Layer:
    units = _operand(op, 1).shape[0]
    return Dense(*_sum_of_products(op, units, float_product=True), op.outputs[0].shape[1:])


def _pool(op: Operator, average: bool) -> Layer:
    kernel = int(op.option("filterHeight", 1)), int(op.option("filterWidth", 1))
    return Pool(_windows(op, kernel), average, _clamp(op))


def _average_pool_2d(op: Operator) -> Layer:
    return _pool(op, average=True)


def _max_pool_2d(op: Operator) -> Layer:
    return _pool(op, average=False)


def _add(op: Operator) -> Layer:
    summands = [_operand(op, 0), _operand(op, 1)]
    if any(t.is_constant for t in summands):
        raise UnsupportedError(f"{op.label}: constant summands are not simulated")
    scales, zero_points = zip(*(_quantization(t) for t in summands), strict=True)
    return Add(scales, zero_points, _quantization(op.outputs[0])[0], _clamp(op))


def _reshape(op: Operator) -> Layer:
    return Reshape(op.outputs[0].shape[1:])


_BUILDERS: dict[int, Callable[[Operator], Layer]] = {
    B.ADD: _add,
    B.AVERAGE_POOL_2D: _average_pool_2d,
    B.CONV_2D: _conv_2d,
    B.DEPTHWISE_CONV_2D: _depthwise_conv_2d,
    B.FULLY_CONNECTED: _fully_connected,
    B.MAX_POOL_2D: _max_pool_2d,
    B.RESHAPE: _reshape,
}
