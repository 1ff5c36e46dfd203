# SPDX-License-Identifier: Apache-2.0
"""The check that a ZO model's graph is the one that its metadata describes."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from . import constants
from .model import Subgraph, Tensor
from .model.schema import DTYPES, TensorType

if TYPE_CHECKING:
    from .metadata import ZoMetadata, ZoPort, ZoTrainable


def misfits(m: ZoMetadata, graphs: Sequence[Subgraph]) -> Iterator[str]:
    """Yields the differences of segments, ports, filters and layers with nodes from the metadata."""
    if len(graphs) != len(m.segments):
        yield f"it has {len(graphs)} subgraphs, not {len(m.segments)}"
    for k, (segment, graph) in enumerate(zip(m.segments, graphs, strict=True)):
        for ports, tensors in ((segment.inputs, graph.inputs), (segment.outputs, graph.outputs)):
            if len(ports) != len(tensors):
                yield f"segment {k} has {len(tensors)} inputs or outputs, not {len(ports)}"
            for port, tensor in zip(ports, tensors, strict=True):
                yield from _port_misfits(m, f"segment {k}, {port.role} `{tensor.name}`", port, tensor)
        yield from _filter_misfits([t for t in m.trainable if t.segment == k], graph, k)
    read = [_read(m, graphs, k) for k in range(len(graphs))]
    for k in range(1, len(graphs)):
        given = graphs[k - 1].outputs[m.segments[k - 1].output_index("boundary") or 0]
        if (read[k].shape, read[k].type) != (given.shape, given.type):
            yield f"segment {k} does not read what segment {k - 1} gives"
        for entered, index in m.segments[k].skips.items():
            skip = graphs[k].inputs[index]
            if (skip.shape, skip.type) != (read[entered].shape, read[entered].type):
                yield f"segment {k} does not read what entered segment {entered}"
    for i, n in enumerate(m.nodes):
        for segment_number, sizes in (
            (n.input_segment, ("in_h", "in_w", "in_c")),
            (n.output_segment, ("out_h", "out_w", "out_c")),
            (n.node_segment, ("node_h", "node_w", "out_c")),
        ):
            if read[segment_number].size != m.batch * math.prod(n.geometry.get(name, 1) for name in sizes):
                yield f"nodes.{i}: what enters segment {segment_number} is not {' x '.join(sizes)}"
    yield from _tail_misfits(m, [tensor.size for tensor in read])


def _tail_misfits(m: ZoMetadata, sizes: Sequence[int]) -> Iterator[str]:
    """`sizes` are those of what enters the segments."""
    if m.tail is None:
        return
    for i, n in enumerate(m.tail.layers):
        read = math.prod(n.geometry.get(name, 1) for name in ("in_h", "in_w", "in_c"))
        if sizes[n.input_segment] != m.batch * read:
            yield f"tail.layers.{i}: what enters segment {n.input_segment} is not its input"
    head = m.tail.layers[-1]
    if sizes[head.node_segment] != m.batch * head.count:
        yield f"tail: what enters segment {head.node_segment} is not what the loss reads"
    for i, step in enumerate(m.tail.steps):
        looked_at = step.numbers.get("other_length", m.tail.fields[step.target].count)
        if step.segment is not None and sizes[step.segment] != m.batch * looked_at:
            yield f"tail.steps.{i}: what enters segment {step.segment} is not what it looks at"


def _read(m: ZoMetadata, graphs: Sequence[Subgraph], k: int) -> Tensor:
    """The boundary that enters a segment; of the first one original input 0, wherever that is read."""
    if k:
        return graphs[k].inputs[m.segments[k].input_index("boundary") or 0]
    return next(
        tensor
        for segment, graph in zip(m.segments, graphs, strict=True)
        for port, tensor in zip(segment.inputs, graph.inputs, strict=True)
        if port.role == "input" and port.index == 0
    )


def _filter_misfits(trainable: Sequence[ZoTrainable], graph: Subgraph, segment: int) -> Iterator[str]:
    for t in trainable:
        found = [v for v in graph.all_tensors() if v.name == t.name and v.is_variable]
        type_ = TensorType.INT32 if t.bias else TensorType.INT8
        if [(v.type, v.shape) for v in found] != [(type_, t.shape)]:
            yield f"segment {segment} has not one {t.dtype} variable `{t.name}` {list(t.shape)}"
            continue
        readers = [op for op in graph.operators if op.input(2 if t.bias else 1) is found[0]]
        for op in readers:
            if op.code.name not in (t.operator, constants.FULLY_CONNECTED_16):
                kinds = f"a {op.code.name}, not of a {t.operator}"
                what = "bias" if t.bias else "filter"
                yield f"segment {segment}: {what} `{t.name}` is that of {kinds}"
    size = sum(t.nbytes for t in trainable)
    initial = [t for t in graph.tensors if t.name == constants.INITIAL and t.is_constant]
    if size and [(t.type, t.shape) for t in initial] != [(TensorType.INT8, (size,))]:
        yield f"segment {segment} has not the initial weights of its filters and biases, {size} bytes"


def _port_misfits(m: ZoMetadata, what: str, port: ZoPort, tensor: Tensor) -> Iterator[str]:
    kinds: dict[str, tuple[int, tuple[int, ...] | None]] = {
        "command": (TensorType.INT32, (m.command_words,)),
        "loss": (TensorType.INT32, (m.batch,)),
        "status": (TensorType.INT32, (4,)),
    }
    if m.loss is not None and m.loss.kind == "mse":
        kinds["label"] = TensorType.INT8, None
    elif m.loss is not None:
        kinds["label"] = TensorType.INT32, (m.batch,) if m.loss.of_classes else (m.batch, m.loss.elements)
    kind, shape = kinds.get(port.role, (tensor.type, None))
    if tensor.type != kind or tensor.type not in DTYPES or (shape is not None and tensor.shape != shape):
        yield f"{what} is {tensor.type_name} {list(tensor.shape)}"
    elif port.role in ("boundary", "skip") and (not tensor.shape or tensor.shape[0] % m.batch):
        # It may have rows for every position of a sample.
        yield f"{what} of shape {list(tensor.shape)} does not divide into the batch {m.batch}"
    elif port.role in ("input", "label", "loss") and tensor.shape[:1] != (m.batch,):
        yield f"{what} of shape {list(tensor.shape)} does not begin with the batch {m.batch}"
    elif m.loss is not None and tensor.size != m.batch * m.loss.elements:
        if (port.role == "label" and shape is None) or (
            port.role == "output" and port.index == m.loss.output
        ):
            yield f"{what} has not {m.loss.elements} values per sample"
