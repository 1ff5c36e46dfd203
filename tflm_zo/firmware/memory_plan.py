# SPDX-License-Identifier: Apache-2.0
"""TFLM's greedy planner, which places a model's activations in memory, alike on every machine."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

import numpy as np

from ..converters.model import Subgraph
from ..converters.model.schema import DTYPES

__all__ = ["Buffers", "buffers_of", "planned_bytes"]

_ALIGNMENT = 16


@dataclasses.dataclass(frozen=True)
class Buffers:
    """Buffers of a graph, in the order in which TFLM's planner takes them.

    Attributes:
        sizes: bytes of each buffer, multiples of 16.
        spans: first and last operator that need each buffer, counted from 1; inputs are needed from 0 on.
    """

    sizes: list[int]
    spans: list[tuple[int, int]]


def buffers_of(graph: Subgraph, scratch: Mapping[int, int]) -> Buffers:
    """Returns the activations and scratch buffers of a graph.

    Args:
        graph: graph of a model.
        scratch: bytes of scratch by the operator's number; 0 bytes make no buffer.
    """
    first = dict.fromkeys(graph.inputs, 0)
    last = dict(first)
    for number, op in enumerate(graph.operators, 1):
        for tensor in op.outputs:
            first.setdefault(tensor, number)
            last[tensor] = number
        for used in op.inputs:
            if used is not None:
                last[used] = number
    for tensor in graph.outputs:
        first.setdefault(tensor, len(graph.operators))
        last[tensor] = len(graph.operators)
    sizes, spans = [], []
    for tensor in graph.tensors:
        size = tensor.size * np.dtype(DTYPES[tensor.type]).itemsize
        if tensor.is_constant or tensor.is_variable or size == 0:
            continue
        sizes.append(_round(size))
        spans.append((first.get(tensor, -1), last.get(tensor, -1)))
    for number, size in scratch.items():
        if size > 0:
            sizes.append(_round(size))
            spans.append((number + 1, number + 1))
    return Buffers(sizes, spans)


def planned_bytes(buffers: Buffers) -> int:
    """Returns the bytes that `tflite::GreedyMemoryPlanner` needs, which places the largest buffers first,
    each in the first gap between the buffers of the same time.
    """
    # Of equal size the later ones first.
    order = sorted(reversed(range(len(buffers.sizes))), key=lambda i: -buffers.sizes[i])
    placed: list[tuple[int, int]] = []  # offset, number
    end = 0
    for number in order:
        begins, ends = buffers.spans[number]
        size, at = buffers.sizes[number], 0
        for offset, other in placed:
            if buffers.spans[other][0] > ends or begins > buffers.spans[other][1]:
                continue
            if offset - at >= size:
                break
            at = max(at, offset + buffers.sizes[other])
        placed.append((at, number))
        placed.sort(key=lambda item: item[0])
        end = max(end, at + size)
    return end


def _round(size: int) -> int:
    return -(-size // _ALIGNMENT) * _ALIGNMENT
