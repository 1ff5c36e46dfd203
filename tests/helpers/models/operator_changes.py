# SPDX-License-Identifier: Apache-2.0
"""Changes to models of one operator: scales, zero points, types, ranks, constants and options."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from tflm_zo.converters.model import Buffer, Model, Operator, Tensor
from tflm_zo.converters.model.schema import DTYPES, TensorType

_TYPES = ("INT8", "INT16", "INT32", "INT64", "UINT8", "BOOL", "FLOAT32")
_SCALES = (2, 1 + 2**-20, 1e-6, 1e-3, 1e3, 1e6)
_OPTIONS: dict[type, tuple[Any, ...]] = {bool: (False, True), int: (0, 1, 2, 3), float: (0.0, -1.0, 2.0)}
# Options that say the output's shape, which would contradict the file's.
_SHAPING = re.compile(
    "stride|padding|beginMask|endMask|shrinkAxisMask|blockSize|axis|filter[HW]|dilation|depthMul|keep|num|adj|mode"
)
# Inputs that have a number, a row or a shape for each dimension, what a new dimension in front has there, and
# the options and inputs that count dimensions.
_ROWS: dict[str, tuple[tuple[int, int], ...]] = {
    "BROADCAST_TO": ((1, 1),),
    "DYNAMIC_UPDATE_SLICE": ((2, 0),),
    "MIRROR_PAD": ((1, 0),),
    "PAD": ((1, 0),),
    "PADV2": ((1, 0),),
    "RESHAPE": ((1, 1),),
    "SLICE": ((1, 0), (2, 1)),
    "STRIDED_SLICE": ((1, 0), (2, 1), (3, 1)),
}
_AXES = {"SPLIT": 0, "SPLIT_V": 2} | dict.fromkeys(
    ("ARG_MAX", "ARG_MIN", "CUMSUM", "EXPAND_DIMS", "MEAN", "REDUCE_MAX", "REDUCE_MIN", "REVERSE_V2", "SUM"),
    1,
)
_WITHOUT_RANKS = ("FILL", "GATHER_ND")


class Change(NamedTuple):
    """What is done, to which tensor ("inputs" or "outputs" and its number) or option, and the new value."""

    what: str
    where: str = ""
    number: int = 0
    value: Any = None


def changes(op: Operator) -> Iterator[Change]:
    """Yields the changes that an operator can have."""
    for where in ("inputs", "outputs"):
        for i, tensor in enumerate(getattr(op, where)):
            if tensor is None:
                continue
            if tensor.quantization is not None and len(tensor.quantization.scales) == 1:
                yield from (Change("scale", where, i, factor) for factor in _SCALES)
                points = (-128, -127, 0, 1, 127)
                yield from (Change("zero_point", where, i, p) for p in points)
            yield from (Change("type", where, i, name) for name in _TYPES)
            if where == "inputs":
                yield Change("absent", where, i)
                yield Change("computed" if tensor.is_constant else "constant", where, i)
    if op.code.name not in _WITHOUT_RANKS:
        yield from (Change("rank", "", 0, more) for more in range(1, 5))
    for name, value in vars(op.options).items() if op.options is not None else ():
        new = () if _SHAPING.match(name) else _OPTIONS.get(type(value), ())
        yield from (Change("option", name, 0, other) for other in new if other != value)
    if op.options is not None:
        yield Change("no options")


def apply(model: Model, change: Change) -> None:
    """Changes the first operator of a model."""
    graph = model.subgraphs[0]
    op = graph.operators[0]
    if change.what == "rank":
        _add_dimensions(op, change.value)
    elif change.what == "option":
        setattr(op.options, change.where, change.value)
    elif change.what == "no options":
        op.raw.builtinOptions, op.raw.builtinOptionsType = None, 0
    elif change.what == "absent":
        op.inputs[change.number] = None
    else:
        tensor = getattr(op, change.where)[change.number]
        if change.what == "scale":
            tensor.quantization.scales = (tensor.quantization.scales * change.value).astype(np.float32)
        elif change.what == "zero_point":
            tensor.quantization.zero_points = np.array([change.value])
        elif change.what == "type":
            values = tensor.numpy() if tensor.is_constant else None
            tensor.type = getattr(TensorType, change.value)
            if values is not None:
                tensor.set_data(values.astype(DTYPES[tensor.type]))
        elif change.what == "computed":
            tensor.buffer = Buffer()
            graph.inputs.append(tensor)
        else:
            tensor.set_data(np.zeros(tensor.shape, DTYPES[tensor.type]))
            graph.inputs = [t for t in graph.inputs if t is not tensor]


def _add_dimensions(op: Operator, more: int) -> None:
    """Puts dimensions of size 1 in front of all activations, and tells the operator's numbers of them."""
    name = op.code.name
    for tensor in dict.fromkeys([*op.inputs, *op.outputs]):
        if tensor is not None and tensor.type == TensorType.INT8 and not tensor.is_constant:
            tensor.shape = (1,) * more + tensor.shape
    for i, value in _ROWS.get(name, ()):
        rows = _input(op, i).numpy()
        front = np.full((more, *rows.shape[1:]), value, rows.dtype)
        _set(_input(op, i), np.concatenate([front, rows]))
    if name in _AXES:
        axes = _input(op, _AXES[name])
        axes.set_data((axes.numpy() + more).astype(axes.numpy().dtype))
    if name == "TRANSPOSE":
        _set(_input(op, 1), np.concatenate([np.arange(more), _input(op, 1).numpy() + more]).astype(np.int32))
    if name in ("GATHER", "CONCATENATION", "PACK", "UNPACK"):
        op.options.axis += more
    if name == "SQUEEZE":
        op.options.squeezeDims = np.array([1 + more], np.int32)
    if name == "SHAPE":
        op.outputs[0].shape = (op.outputs[0].shape[0] + more,)
    if name == "RESHAPE":
        op.options.newShape = np.array(op.outputs[0].shape, np.int32)


def _input(op: Operator, index: int) -> Tensor:
    tensor = op.inputs[index]
    assert tensor is not None
    return tensor


def _set(tensor: Tensor, values: np.ndarray) -> None:
    tensor.shape = values.shape
    tensor.set_data(np.ascontiguousarray(values))
