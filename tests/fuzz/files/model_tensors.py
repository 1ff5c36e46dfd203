"""Damage to the tensors of a model: shapes, types, data, quantization."""

import copy
from random import Random
from typing import Any

import numpy as np
from ai_edge_litert import schema_py_generated as schema

from .model_parts import edited, graph, int32, list_of, name, tensor
from .values import FLOATS, damaged, integer, near, pick


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
