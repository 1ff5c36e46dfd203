# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""Damage to a ``.tflite`` in terms of its schema: the file stays a flatbuffer, what it says does not hold."""

from __future__ import annotations

import copy
import struct
from collections.abc import Callable
from random import Random
from typing import Any

import flatbuffers
import numpy as np
from ai_edge_litert import schema_py_generated as schema

from .values import FLOATS, damaged, integer, near, pick, text

Mutation = Callable[[Random, Any], None]


def mutated(rng: Random, data: bytes) -> bytes:
    """A model with one to three things changed."""
    for _ in range(8):
        raw = schema.ModelT.InitFromPackedBuf(data, 0)
        try:
            for _ in range(rng.choice((1, 1, 1, 2, 2, 3))):
                rng.choices(MUTATIONS, WEIGHTS)[0](rng, raw)
            return packed(raw)
        except (AttributeError, IndexError, OverflowError, TypeError, ValueError, struct.error):
            continue  # the generated code cannot write that
        except flatbuffers.builder.BuilderSizeError:
            continue
    return damaged(rng, data)


def packed(raw: Any) -> bytes:
    builder = flatbuffers.Builder(4096)
    builder.Finish(raw.Pack(builder), b"TFL3")
    return bytes(builder.Output())


def name(rng: Random) -> Any:
    """As a field of the schema takes it; strings of a file need not be UTF-8."""
    return rng.randbytes(rng.randrange(1, 9)) if rng.random() < 0.3 else text(rng)


def graph(rng: Random, raw: Any) -> Any:
    return rng.choice(raw.subgraphs)


def tensor(rng: Random, raw: Any) -> Any:
    return rng.choice(graph(rng, raw).tensors)


def operator(rng: Random, raw: Any) -> Any:
    return rng.choice(graph(rng, raw).operators)


def list_of(values: Any) -> list[Any]:
    return [] if values is None else list(values)


def edited(rng: Random, values: Any, new: Callable[[], Any]) -> list[Any]:
    """A list with an item changed, added, removed, repeated or moved."""
    items = list_of(values)
    kind = rng.randrange(6)
    at = rng.randrange(len(items)) if items else 0
    if not items or kind == 0:
        items.insert(at, new())
    elif kind == 1:
        del items[at]
    elif kind == 2:
        items.insert(at, copy.copy(rng.choice(items)))
    elif kind == 3:
        other = rng.randrange(len(items))
        items[at], items[other] = items[other], items[at]
    else:
        items[at] = new()
    return items


def int32(values: list[int]) -> Any:
    return np.array(values, np.int64).astype(np.int32)


# --- tensors ----------------------------------------------------------------------------------------------


def shape(rng: Random, raw: Any) -> None:
    t = tensor(rng, raw)
    dims = list_of(t.shape)
    if dims and rng.random() < 0.6:
        at = rng.randrange(len(dims))
        dims[at] = near(rng, int(dims[at]))
    else:
        dims = edited(rng, dims, lambda: rng.choice((0, 1, 1, 2, 3, 4, 8, integer(rng, 32))))
    t.shape = None if rng.random() < 0.05 else int32(dims)


def shape_signature(rng: Random, raw: Any) -> None:
    t = tensor(rng, raw)
    t.shapeSignature = int32(edited(rng, t.shape, lambda: rng.choice((-1, -1, 0, 5, integer(rng, 32)))))


def type_(rng: Random, raw: Any) -> None:
    tensor(rng, raw).type = rng.choice((0, 1, 2, 3, 4, 5, 6, 7, 9, 9, 10, 16, 17, 18, 19, 25, 60))


def buffer_of(rng: Random, raw: Any) -> None:
    tensor(rng, raw).buffer = rng.choice((0, 1, rng.randrange(len(raw.buffers)), len(raw.buffers), 2**31))


def buffer_data(rng: Random, raw: Any) -> None:
    b = rng.choice(raw.buffers)
    data = b"" if b.data is None else bytes(b.data)
    kind = rng.randrange(5)
    if kind == 0:
        data = data[: rng.randrange(len(data) + 1)]
    elif kind == 1:
        data += rng.randbytes(rng.choice((1, 2, 4, 16)))
    elif kind == 2 and len(data) >= 4:
        at = rng.randrange(len(data) // 4) * 4  # an int32: shapes and axes are constants of a few of them
        data = data[:at] + (integer(rng) & 0xFFFFFFFF).to_bytes(4, "little") + data[at + 4 :]
    elif kind == 3:
        data = rng.choice((bytes(len(data)), b"\x80" * len(data), rng.randbytes(len(data))))
    else:
        data = damaged(rng, data) if data else b"x"
    b.data = np.frombuffer(data, np.uint8) if data else None


def tensor_name(rng: Random, raw: Any) -> None:
    t = tensor(rng, raw)
    t.name = None if rng.random() < 0.1 else pick(rng, [tensor(rng, raw).name, name(rng)])


def variable(rng: Random, raw: Any) -> None:
    t = tensor(rng, raw)
    t.isVariable = not t.isVariable
    if rng.random() < 0.5:
        t.buffer = 0


def tensor_list(rng: Random, raw: Any) -> None:
    g = graph(rng, raw)
    g.tensors = edited(rng, g.tensors, lambda: copy.deepcopy(rng.choice(g.tensors)))


def quantization(rng: Random, raw: Any) -> None:
    t = tensor(rng, raw)
    if t.quantization is None or rng.random() < 0.05:
        t.quantization = None if t.quantization is not None else schema.QuantizationParametersT()
        return
    q, kind = t.quantization, rng.randrange(7)
    scales, zeros = list_of(q.scale), list_of(q.zeroPoint)
    if kind == 0:
        scales = edited(rng, scales, lambda: rng.choice(FLOATS))
    elif kind == 1 and scales:
        scales[rng.randrange(len(scales))] *= rng.choice((2.0, 0.5, 1.01, 1e-3, 1e3, -1.0))
    elif kind == 2:
        zeros = edited(rng, zeros, lambda: integer(rng))
    elif kind == 3 and zeros:
        zeros[rng.randrange(len(zeros))] += rng.choice((-1, 1, 128, -128))
    elif kind == 4:
        q.quantizedDimension = rng.choice((-1, 0, 1, 2, 3, 4, integer(rng, 32)))
    elif kind == 5:
        scales, zeros = scales * rng.choice((0, 2, 3)), zeros * rng.choice((0, 2, 3))
    else:
        q.min, q.max = edited(rng, q.min, lambda: rng.choice(FLOATS)), list_of(q.max)
    with np.errstate(over="ignore"):
        q.scale = np.array(scales, np.float32) if scales or rng.random() < 0.8 else None
    q.zeroPoint = np.array(zeros, np.int64) if zeros or rng.random() < 0.8 else None


def same_quantization(rng: Random, raw: Any) -> None:
    tensor(rng, raw).quantization = copy.deepcopy(tensor(rng, raw).quantization)


def sparsity(rng: Random, raw: Any) -> None:
    s = schema.SparsityParametersT()
    s.traversalOrder = int32([rng.randrange(4) for _ in range(rng.randrange(4))])
    tensor(rng, raw).sparsity = s


# --- operators --------------------------------------------------------------------------------------------


def operands(rng: Random, raw: Any) -> None:
    g = graph(rng, raw)
    op = rng.choice(g.operators)
    side = rng.choice(("inputs", "inputs", "outputs"))

    def new() -> int:
        return rng.choice((-1, rng.randrange(len(g.tensors)), rng.randrange(len(g.tensors)), len(g.tensors)))

    setattr(op, side, int32(edited(rng, getattr(op, side), new)))


def no_operands(rng: Random, raw: Any) -> None:
    op = operator(rng, raw)
    setattr(op, rng.choice(("inputs", "outputs")), rng.choice((None, int32([]))))


def intermediates(rng: Random, raw: Any) -> None:
    op = operator(rng, raw)
    op.intermediates = int32([integer(rng, 32) for _ in range(rng.randrange(3))])
    op.mutatingVariableInputs = np.array([True] * rng.randrange(4))


def options(rng: Random, raw: Any) -> None:
    op = operator(rng, raw)
    if op.builtinOptions is None or rng.random() < 0.1:
        op.builtinOptions, op.builtinOptionsType = None, rng.choice((0, op.builtinOptionsType))
        return
    fields = [k for k, v in vars(op.builtinOptions).items() if isinstance(v, (bool, int, float))]
    field = pick(rng, fields)
    if field is None:
        return
    value = getattr(op.builtinOptions, field)
    if isinstance(value, bool):
        setattr(op.builtinOptions, field, not value)
    elif isinstance(value, float):
        setattr(op.builtinOptions, field, rng.choice(FLOATS))
    else:
        setattr(op.builtinOptions, field, rng.choice((0, 1, 2, 3, near(rng, value), integer(rng, 8))))


def options_of_another(rng: Random, raw: Any) -> None:
    one, other = operator(rng, raw), operator(rng, raw)
    one.builtinOptions, one.builtinOptionsType = other.builtinOptions, other.builtinOptionsType


def custom_options(rng: Random, raw: Any) -> None:
    op = pick(rng, [o for o in graph(rng, raw).operators if o.customOptions is not None])
    if op is None:
        operator(rng, raw).customOptions = np.frombuffer(rng.randbytes(rng.randrange(40)), np.uint8)
        return
    data = bytes(op.customOptions)
    if rng.random() < 0.6 and len(data) >= 4:
        at = rng.randrange(len(data) // 4) * 4
        data = data[:at] + (integer(rng) & 0xFFFFFFFF).to_bytes(4, "little") + data[at + 4 :]
    else:
        data = damaged(rng, data)
    op.customOptions = np.frombuffer(data, np.uint8)


def operator_list(rng: Random, raw: Any) -> None:
    g = graph(rng, raw)
    g.operators = edited(rng, g.operators, lambda: copy.deepcopy(rng.choice(g.operators)))


def opcode(rng: Random, raw: Any) -> None:
    operator(rng, raw).opcodeIndex = rng.choice(
        (rng.randrange(len(raw.operatorCodes)), len(raw.operatorCodes), integer(rng, 32) & 0x7FFFFFFF)
    )


def operator_code(rng: Random, raw: Any) -> None:
    code = rng.choice(raw.operatorCodes)
    kind = rng.randrange(5)
    if kind < 3:
        new = rng.randrange(0, 210)
        code.builtinCode, code.deprecatedBuiltinCode = new, min(new, 127)
    elif kind == 3:
        code.version = rng.choice((0, 1, 2, 5, 9, 100))
    else:
        code.customCode = name(rng)


def rewired(rng: Random, raw: Any) -> None:
    """An operator becomes another one with the same operands and the options that belong to it."""
    g = graph(rng, raw)
    op = rng.choice(g.operators)
    code = schema.OperatorCodeT()
    code.builtinCode = rng.choice((0, 1, 2, 3, 4, 9, 14, 17, 18, 19, 21, 22, 25, 28, 34, 39, 40, 41, 45, 53))
    code.deprecatedBuiltinCode, code.version = code.builtinCode, 1
    raw.operatorCodes.append(code)
    op.opcodeIndex = len(raw.operatorCodes) - 1
    if rng.random() < 0.7:
        op.builtinOptions, op.builtinOptionsType = None, 0


# --- the rest ---------------------------------------------------------------------------------------------


def ports(rng: Random, raw: Any) -> None:
    g = graph(rng, raw)
    side = rng.choice(("inputs", "outputs", "outputs"))
    new = [rng.randrange(len(g.tensors)) for _ in range(8)]
    if rng.random() < 0.05:
        setattr(g, side, None)
    else:
        setattr(g, side, int32(edited(rng, getattr(g, side), lambda: rng.choice((-1, *new, len(g.tensors))))))


def port_for_port(rng: Random, raw: Any) -> None:
    """An output that is an input, and the like: valid indices in unusual places."""
    g = graph(rng, raw)
    source = rng.choice((list_of(g.inputs), list_of(g.outputs), list(range(len(g.tensors)))))
    target = rng.choice(("inputs", "outputs"))
    if source:
        setattr(g, target, int32([*list_of(getattr(g, target)), int(rng.choice(source))]))


def subgraphs(rng: Random, raw: Any) -> None:
    if len(raw.subgraphs) == 1 and rng.random() < 0.5:
        raw.subgraphs.append(copy.deepcopy(raw.subgraphs[0]))
    else:
        raw.subgraphs = edited(rng, raw.subgraphs, lambda: copy.deepcopy(rng.choice(raw.subgraphs)))


def subgraph_name(rng: Random, raw: Any) -> None:
    graph(rng, raw).name = rng.choice((None, name(rng)))


def signatures(rng: Random, raw: Any) -> None:
    if not raw.signatureDefs or rng.random() < 0.1:
        s = schema.SignatureDefT()
        s.signatureKey, s.subgraphIndex, s.inputs, s.outputs = name(rng), 0, [], []
        raw.signatureDefs = rng.choice((None, [], [s], [s, copy.deepcopy(s)]))
        return
    s = rng.choice(raw.signatureDefs)
    kind = rng.randrange(5)
    if kind == 0:
        s.signatureKey = rng.choice((None, "serving_default", "segment_0", name(rng)))
    elif kind == 1:
        s.subgraphIndex = rng.choice((0, 1, 2, 2**31))
    elif kind == 2:
        raw.signatureDefs = edited(rng, raw.signatureDefs, lambda: copy.deepcopy(s))
    else:
        side = rng.choice(("inputs", "outputs"))
        maps = list_of(getattr(s, side))
        if maps and kind == 3:
            m = rng.choice(maps)
            m.name, m.tensorIndex = (
                rng.choice((m.name, name(rng), None)),
                rng.choice((0, 1, 2, 3, 99, m.tensorIndex)),
            )
        else:
            setattr(s, side, edited(rng, maps, lambda: copy.deepcopy(pick(rng, maps)) or schema.TensorMapT()))


def metadata(rng: Random, raw: Any) -> None:
    if not raw.metadata or rng.random() < 0.2:
        m = schema.MetadataT()
        m.name, m.buffer = (
            rng.choice(("tflm_zo", "min_runtime_version", name(rng))),
            rng.randrange(len(raw.buffers)),
        )
        raw.metadata = [*list_of(raw.metadata), m]
        return
    m = rng.choice(raw.metadata)
    kind = rng.randrange(4)
    if kind == 0:
        m.name = rng.choice((None, "tflm_zo", name(rng)))
    elif kind == 1:
        m.buffer = rng.choice((0, rng.randrange(len(raw.buffers)), 2**31))
    elif kind == 2:
        raw.metadata = edited(rng, raw.metadata, lambda: copy.deepcopy(m))
    else:
        raw.metadataBuffer = int32([rng.choice((0, 1, 99, -1))])


def head(rng: Random, raw: Any) -> None:
    if rng.random() < 0.5:
        raw.description = name(rng)
    else:
        raw.version = rng.choice((0, 1, 2, 3, 4, 2**31))


def buffers(rng: Random, raw: Any) -> None:
    raw.buffers = edited(rng, raw.buffers, lambda: copy.deepcopy(rng.choice(raw.buffers)))


TABLE: dict[Mutation, int] = {
    shape: 10,
    shape_signature: 3,
    type_: 6,
    buffer_of: 3,
    buffer_data: 8,
    tensor_name: 5,
    variable: 4,
    tensor_list: 2,
    quantization: 12,
    same_quantization: 4,
    sparsity: 1,
    operands: 9,
    no_operands: 2,
    intermediates: 1,
    options: 12,
    options_of_another: 2,
    custom_options: 3,
    operator_list: 6,
    opcode: 4,
    operator_code: 3,
    rewired: 6,
    ports: 5,
    port_for_port: 6,
    subgraphs: 2,
    subgraph_name: 1,
    signatures: 4,
    metadata: 2,
    head: 1,
    buffers: 1,
}
MUTATIONS, WEIGHTS = list(TABLE), list(TABLE.values())
