# SPDX-License-Identifier: Apache-2.0
"""Segments as models of their own."""

from __future__ import annotations

from .errors import ConversionError
from .model import Buffer, Model, Signature


def extract_segment(model: Model, number: int) -> Model:
    """Segment ``number`` as a model with a single subgraph, for runtimes that only run the first one.

    Args:
        model: a ZO model (or any other: its subgraph); it is not changed.
        number: number of the segment, from 0 on.

    Returns:
        A model with the tensors, operators, signatures and constants of that segment, nothing else: no
        metadata (ask the whole model), no buffer that it does not use.

    Raises:
        ConversionError: the model has no such segment.
    """
    if not 0 <= number < len(model.subgraphs):
        raise ConversionError(f"there is no segment {number}; the model has {len(model.subgraphs)}")
    whole = model.copy()
    graph = whole.subgraphs[number]
    empty = Buffer()
    for tensor in graph.all_tensors():
        # Every activation may have had an empty buffer of its own; one will do.
        if not tensor.buffer.data:
            tensor.buffer = empty
    signatures: list[Signature] = [s for s in whole.signatures or () if s.subgraph is graph]
    return Model(
        subgraphs=[graph],
        buffers=[empty],
        signatures=signatures or None,
        description=whole.description,
    )
