"""Damage to a ``.tflite`` in terms of its schema: the file stays a flatbuffer, its values are wrong."""

import copy
import struct
from collections.abc import Callable
from random import Random
from typing import Any

import flatbuffers
from ai_edge_litert import schema_py_generated as schema

from . import model_operators as operators
from . import model_tensors as tensors
from .model_parts import edited, graph, int32, list_of, name
from .values import damaged, pick

Mutation = Callable[[Random, Any], None]


def mutated(rng: Random, data: bytes) -> bytes:
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


# --- graphs, signatures, metadata -----------------------------------------------------------------------


def ports(rng: Random, raw: Any) -> None:
    g = graph(rng, raw)
    side = rng.choice(("inputs", "outputs", "outputs"))
    new = [rng.randrange(len(g.tensors)) for _ in range(8)]
    if rng.random() < 0.05:
        setattr(g, side, None)
    else:
        setattr(g, side, int32(edited(rng, getattr(g, side), lambda: rng.choice((-1, *new, len(g.tensors))))))


def port_for_port(rng: Random, raw: Any) -> None:
    """Makes an output an input, and the like: valid indices in unusual places."""
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
            m.name, m.tensorIndex = (rng.choice((m.name, name(rng), None)), rng.choice((0, 1, 2, 3, 99, m.tensorIndex)))
        else:
            setattr(s, side, edited(rng, maps, lambda: copy.deepcopy(pick(rng, maps)) or schema.TensorMapT()))


def metadata(rng: Random, raw: Any) -> None:
    if not raw.metadata or rng.random() < 0.2:
        m = schema.MetadataT()
        m.name, m.buffer = (rng.choice(("tflm_zo", "min_runtime_version", name(rng))), rng.randrange(len(raw.buffers)))
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
    tensors.shape: 10,
    tensors.shape_signature: 3,
    tensors.type_: 6,
    tensors.buffer_of: 3,
    tensors.buffer_data: 8,
    tensors.tensor_name: 5,
    tensors.variable: 4,
    tensors.tensor_list: 2,
    tensors.quantization: 12,
    tensors.same_quantization: 4,
    tensors.sparsity: 1,
    operators.operands: 9,
    operators.no_operands: 2,
    operators.intermediates: 1,
    operators.options: 12,
    operators.options_of_another: 2,
    operators.custom_options: 3,
    operators.operator_list: 6,
    operators.opcode: 4,
    operators.operator_code: 3,
    operators.rewired: 6,
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
