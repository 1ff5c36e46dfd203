# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""An int8 classifier as a network in float32, with a plan of the memory that backpropagation needs."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tflm_zo.converters.model import Model, Operator, Tensor
from tflm_zo.converters.model.schema import BuiltinOperator as B

__all__ = ["FloatNetwork", "UnsupportedError", "embedding_model", "last_layer", "network_data", "network_sizes"]

Array = NDArray[np.float32]
_SAME, _RELU, _RELU6 = 0, 1, 3
_ALIASES = (B.RESHAPE, B.SQUEEZE, B.EXPAND_DIMS)


class UnsupportedError(ValueError):
    """The model has a layer that the float32 network lacks."""


@dataclass
class Layer:
    """A layer in the order of execution; inputs and output are numbers of activations.

    Attributes:
        kind: as in network.h.
        inputs: one activation, or two of an addition.
        output: the activation that it writes.
        relu: whether the output is clamped at 0.
        relu6: whether it is clamped at 6, too.
        shapes: (rows, columns, channels) of input and output.
        kernel, stride, pad: rows and columns.
        filter, bias: float32; None without weights.
    """

    kind: str
    inputs: tuple[int, ...]
    output: int
    relu: bool
    shapes: tuple[tuple[int, int, int], tuple[int, int, int]]
    kernel: tuple[int, int] = (1, 1)
    stride: tuple[int, int] = (1, 1)
    pad: tuple[int, int] = (0, 0)
    filter: Array | None = None
    bias: Array | None = None
    relu6: bool = False

    @property
    def needs_input(self) -> bool:
        """Whether the pass back reads the input."""
        return self.kind in ("Conv", "Depthwise", "MaxPool")


@dataclass
class FloatNetwork:
    """A network, of layers that read and write activations.

    Attributes:
        layers: in the order of execution.
        sizes: floats of each activation, by number; 0 is the input.
    """

    layers: list[Layer] = field(default_factory=list)
    sizes: list[int] = field(default_factory=list)

    @classmethod
    def of(cls, model: Model) -> FloatNetwork:
        """Makes the network of an int8 classifier, with the real values of its weights, up to its logits.

        Raises:
            UnsupportedError: an operator or an option that network.c lacks.
        """
        graph = model.only_graph
        made, numbers = cls(), dict[Tensor, int]()

        def number(tensor: Tensor) -> int:
            if tensor not in numbers:
                numbers[tensor] = len(made.sizes)
                made.sizes.append(tensor.size)
            return numbers[tensor]

        number(graph.inputs[0])
        for op in graph.operators:
            if op.builtin in _ALIASES:
                numbers[op.outputs[0]] = number(_operand(op, 0))
            elif op.builtin != B.SOFTMAX:
                read = tuple(number(t) for t in op.inputs if t is not None and not t.is_constant)
                made.layers.append(_layer(op, read, number(op.outputs[0])))
                made.layers[-1].relu6 = int(getattr(op.options, "fusedActivationFunction", 0)) == _RELU6
        return made

    @property
    def weights(self) -> Array:
        """All filters and biases, one after the other."""
        parts = [part.ravel() for own in self.layers for part in (own.filter, own.bias) if part is not None]
        return np.concatenate(parts)

    @property
    def classes(self) -> int:
        return self.sizes[self.layers[-1].output]


def last_layer(model: Model) -> FloatNetwork:
    """Makes a network of the last layer with weights alone, whose input is the embedding."""
    whole = FloatNetwork.of(model)
    last = dataclasses.replace(whole.layers[-1], inputs=(0,), output=1)
    if last.filter is None:
        raise UnsupportedError("the last layer has no weights")
    return FloatNetwork([last], [whole.sizes[whole.layers[-1].inputs[0]], whole.classes])


def embedding_model(model: Model) -> tuple[Model, float, int]:
    """Cuts a model before its last layer. Returns it with scale and zero point of its output, the embedding."""
    made = model.copy()
    graph = made.only_graph
    last = max(i for i, op in enumerate(graph.operators) if op.builtin == B.FULLY_CONNECTED)
    embedding = _operand(graph.operators[last], 0)
    del graph.operators[last:]
    graph.outputs[:] = [embedding]
    made.signatures = None
    kept = {t for op in graph.operators for t in (*op.inputs, *op.outputs)}
    graph.tensors[:] = [t for t in graph.tensors if t in kept or t in graph.inputs]
    assert embedding.quantization is not None
    return made, embedding.quantization.scale, embedding.quantization.zero_point


def _operand(op: Operator, index: int) -> Tensor:
    tensor = op.input(index)
    if tensor is None:
        raise UnsupportedError(f"{op.label}: has no input {index}")
    return tensor


def _shape(tensor: Tensor) -> tuple[int, int, int]:
    rows, columns, channels = (1, 1, *tensor.shape[1:])[-3:]
    return rows, columns, channels


def _real(tensor: Tensor, axis: int) -> Array:
    """Returns the real values of a constant."""
    scales = tensor.quantization.scales if tensor.quantization is not None else np.ones(1, np.float32)
    shape = [1] * len(tensor.shape)
    shape[axis] = -1
    return (tensor.numpy() * scales.reshape(shape)).astype(np.float32)


def _layer(op: Operator, read: tuple[int, ...], output: int) -> Layer:
    first, result = _operand(op, 0), op.outputs[0]
    activation = int(getattr(op.options, "fusedActivationFunction", 0))
    if activation not in (0, _RELU, _RELU6):
        raise UnsupportedError(f"{op.label}: no activation but ReLU and ReLU6 is implemented")
    shapes = _shape(first), _shape(result)
    relu = activation != 0
    if op.builtin == B.ADD:
        return Layer("Add", read, output, relu, shapes)
    if op.builtin == B.MEAN:
        count = first.size // result.size
        shapes = (count, 1, result.size), (1, 1, result.size)
        return Layer("AveragePool", read, output, relu, shapes, kernel=(count, 1))
    if op.builtin == B.FULLY_CONNECTED:
        flat = (1, 1, first.size), (1, 1, result.size)
        return Layer("Conv", read, output, relu, flat, filter=_real(_operand(op, 1), 0), bias=_bias(op, result.size))
    stride = int(op.option("strideH", 1)), int(op.option("strideW", 1))
    kinds = {B.MAX_POOL_2D: "MaxPool", B.AVERAGE_POOL_2D: "AveragePool", B.CONV_2D: "Conv"}
    if op.builtin in (B.CONV_2D, B.DEPTHWISE_CONV_2D):
        if any(int(op.option(f"dilation{side}Factor", 1)) != 1 for side in "HW"):
            raise UnsupportedError(f"{op.label}: dilation is not implemented")
        is_depthwise = op.builtin == B.DEPTHWISE_CONV_2D
        filters = _real(_operand(op, 1), 3 if is_depthwise else 0)
        kernel, kind = filters.shape[1:3], "Depthwise" if is_depthwise else "Conv"
        if (filters.shape[3] if is_depthwise else shapes[1][2]) != shapes[1][2] or (
            is_depthwise and shapes[0][2] != shapes[1][2]
        ):
            raise UnsupportedError(f"{op.label}: groups and depth multipliers are not implemented")
        bias = _bias(op, shapes[1][2])
    elif op.builtin in kinds:
        kernel, kind = (int(op.option("filterHeight", 1)), int(op.option("filterWidth", 1))), kinds[op.builtin]
        filters = bias = None
    else:
        raise UnsupportedError(f"{op.label}: not implemented")
    pad = (0, 0)
    if int(op.option("padding", _SAME)) == _SAME:
        sides = zip(shapes[0], shapes[1], kernel, stride, strict=False)
        rows, columns = (max(0, (out - 1) * step + size - into) // 2 for into, out, size, step in sides)
        pad = rows, columns
    return Layer(kind, read, output, relu, shapes, (kernel[0], kernel[1]), stride, pad, filters, bias)


def _bias(op: Operator, channels: int) -> Array:
    bias = op.input(2)
    if bias is None:
        return np.zeros(channels, np.float32)
    return _real(bias, 0)


@dataclass
class _Block:
    """Floats that are needed from one moment to another. Forward passes are moments 0, 1, …, then passes back."""

    size: int
    first: int
    last: int
    place: int = -1


def _planned(blocks: list[_Block]) -> int:
    """Places blocks, the largest first, as low as others that live at the same time allow. Returns the total."""
    placed: list[_Block] = []
    for block in sorted(blocks, key=lambda b: -b.size):
        block.place = 0
        for other in sorted(placed, key=lambda b: b.place):
            together = other.first <= block.last and block.first <= other.last
            if together and other.place < block.place + block.size:
                block.place = max(block.place, other.place + other.size)
        placed.append(block)
    return max(block.place + block.size for block in blocks)


def _blocks(network: FloatNetwork) -> tuple[list[_Block], dict[int, _Block]]:
    """Returns the blocks of activations, by number, and those of their errors; the input has none."""
    count = len(network.layers)
    activations = [_Block(size, 0, 0) for size in network.sizes]
    errors: dict[int, _Block] = {}
    for i, own in enumerate(network.layers):
        back = 2 * count - i
        output = activations[own.output]
        output.first, output.last = i, max(output.last, back if own.relu else i)
        for number in own.inputs:
            read = activations[number]
            read.last = max(read.last, back if own.needs_input else i)
    logits = network.layers[-1].output
    activations[logits].last = max(activations[logits].last, count)
    errors[logits] = _Block(network.sizes[logits], count, count + 1)
    for i in reversed(range(count)):
        own, back = network.layers[i], 2 * count - i
        errors[own.output].last = back
        for number in own.inputs:
            if number:
                errors.setdefault(number, _Block(network.sizes[number], back, back))
    return activations, errors


def network_sizes(network: FloatNetwork) -> dict[str, int]:
    """Returns the sizes of network_data.h: of the arena, the weights and a patch, floats, and others."""
    return _sizes_and_layers(network)[0]


def network_data(network: FloatNetwork) -> str:
    """Returns network_data.h: the network's layers, places in its arena, initial weights."""
    sizes, lines = _sizes_and_layers(network)
    return "\n".join(
        [
            *(f"#define NETWORK_{name} {value}" for name, value in sizes.items()),
            "static const layer kLayers[NETWORK_LAYERS] = {",
            *lines,
            "};",
            f"static const float kInitialWeights[NETWORK_WEIGHTS] = {{{floats(network.weights)}}};",
            "",
        ]
    )


def _sizes_and_layers(network: FloatNetwork) -> tuple[dict[str, int], list[str]]:
    """Plans the arena. Returns the sizes, and the layers as C."""
    activations, errors = _blocks(network)
    arena = _planned([*activations, *errors.values()])
    written: set[int] = set()
    rows = list[list[Any]]()
    at = 0
    for own in reversed(network.layers):
        inputs = [*own.inputs, -1][:2]
        firsts = []
        for number in inputs:
            firsts.append(number > 0 and number not in written)
            written.add(number)
        rows.append([own, inputs, firsts])
    lines = []
    patch = 1
    for own, inputs, firsts in reversed(rows):
        places = [activations[n].place if n >= 0 else -1 for n in inputs]
        back = [errors[n].place if n > 0 else -1 for n in inputs]
        filters = bias = -1
        if own.filter is not None and own.bias is not None:
            filters, bias = at, at + own.filter.size
            at += own.filter.size + own.bias.size
        if own.kind == "Conv" and own.kernel != (1, 1):
            patch = max(patch, math.prod(own.kernel) * own.shapes[0][2])
        numbers = [
            *(*places, activations[own.output].place, *back, errors[own.output].place),
            *(str(first).lower() for first in firsts),
            *(filters, bias, *own.shapes[0], *own.shapes[1], *own.kernel, *own.stride, *own.pad),
        ]
        lines.append(
            f"    {{k{own.kind}, {str(own.relu).lower()}, {str(own.relu6).lower()}, {', '.join(map(str, numbers))}}},"
        )
    logits = network.layers[-1].output
    sizes = {
        "ARENA": arena,
        "WEIGHTS": at,
        "PATCH": patch,
        "LAYERS": len(lines),
        "INPUT": activations[0].place,
        "INPUTS": network.sizes[0],
        "LOGITS": activations[logits].place,
        "LOGITS_ERROR": errors[logits].place,
        "CLASSES": network.classes,
    }
    return sizes, lines


def floats(values: Array) -> str:
    """Returns the values as constants of C that have exactly these bits."""
    return ", ".join(f"{float(v).hex()}f" for v in np.ravel(values))
