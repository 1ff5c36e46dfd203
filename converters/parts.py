# SPDX-License-Identifier: Apache-2.0
"""Operators whose outputs are parts of their input along an axis: SPLIT, SPLIT_V and UNPACK."""

from __future__ import annotations

from typing import Final

import numpy as np

from .check_kernel import quantization_of
from .model import Buffer, Operator, OperatorCode, Subgraph, Tensor
from .model.schema import BuiltinOperator as B
from .model.schema import TensorType, schema

# Of each operator: number of the input that it parts, and of the one that names the axis.
_INPUTS: Final[dict[int, tuple[int, int | None]]] = {B.SPLIT: (1, 0), B.SPLIT_V: (0, 2), B.UNPACK: (0, None)}


def parts_of(op: Operator) -> tuple[Tensor, int, list[tuple[int, int]]] | None:
    """Returns the tensor that an operator parts, the axis, and begin and length of each output along it; None
    of another operator, or where the axis is not constant.
    """
    if op.builtin not in _INPUTS:
        return None
    data, named = _INPUTS[op.builtin]
    source, given = op.input(data), None if named is None else op.input(named)
    if source is None or (named is not None and (given is None or not given.is_constant)):
        return None
    axis = int(op.option("axis", 0) if given is None else given.numpy().reshape(-1)[0]) % len(source.shape)
    lengths = [1 if op.builtin == B.UNPACK else t.shape[axis] for t in op.outputs]
    return source, axis, [(sum(lengths[:i]), length) for i, length in enumerate(lengths)]


def part_in_int8(graph: Subgraph) -> list[Operator]:
    """Makes operators part int8 tensors that the file converts to float before them and back behind them, as
    TensorFlow's converter does at random where nothing reads one of the parts. Returns these operators.
    """
    producers, found = graph.producers(), []
    for op in [*graph.operators]:
        data = op.input(_INPUTS[op.builtin][0]) if op.builtin in _INPUTS else None
        before = None if data is None else producers.get(data)
        if before is None or before.builtin != B.DEQUANTIZE or any(t in graph.outputs for t in op.outputs):
            continue
        source = before.input(0)
        if source is None or source.type != TensorType.INT8:
            continue
        readers = [o for o in graph.operators if any(t in op.outputs for t in o.inputs)]
        if any(o.builtin != B.QUANTIZE or [t.type for t in o.outputs] != [TensorType.INT8] for o in readers):
            continue
        found.append(op)
        op.replace_input(before.outputs[0], source)
        for part in op.outputs:
            part.type, part.quantization = (
                source.type,
                source.quantization.copy() if source.quantization else None,
            )
        useless = [o for o in readers if o.outputs[0] not in graph.outputs]
        useless = [o for o in useless if quantization_of(o.outputs[0]) == quantization_of(source)]
        for reader in useless:
            for o in graph.operators:
                o.inputs = [reader.inputs[0] if t is reader.outputs[0] else t for t in o.inputs]
        if before.outputs[0] not in (*graph.outputs, *(t for o in graph.operators for t in o.inputs)):
            useless.append(before)
        graph.operators = [o for o in graph.operators if o not in useless]
        graph.tensors = [t for t in graph.tensors if all(t not in o.outputs for o in useless)]
    return found


def part_by_slices(graph: Subgraph, op: Operator) -> bool:
    """Puts a STRIDED_SLICE for each output in the place of an operator that parts a tensor, so that each one
    can be computed in a segment of its own. Returns False, and changes nothing, where that is not possible.
    """
    found = parts_of(op)
    if found is None:
        return False
    source, axis, parts = found
    rank, at = len(source.shape), graph.operators.index(op)
    slices = []
    for output, (begin, length) in zip(op.outputs, parts, strict=True):
        bounds = []
        for name, place, other in (("begin", begin, 0), ("end", begin + length, 0), ("strides", 1, 1)):
            values = np.array([place if i == axis else other for i in range(rank)], np.int32)
            tensor = Tensor(f"{output.name}/{name}", (rank,), TensorType.INT32, Buffer())
            tensor.set_data(values)
            bounds.append(tensor)
        graph.tensors += bounds
        own = Operator(OperatorCode(B.STRIDED_SLICE), [source, *bounds], [output])
        options = own.raw.builtinOptions = schema.StridedSliceOptionsT()
        own.raw.builtinOptionsType = schema.BuiltinOptions.StridedSliceOptions
        options.beginMask = options.endMask = (1 << rank) - 1 - (1 << axis)
        options.shrinkAxisMask = 1 << axis if op.builtin == B.UNPACK else 0
        slices.append(own)
    graph.operators[at : at + 1] = slices
    return True
