# SPDX-License-Identifier: Apache-2.0
"""Segments as models of their own."""

from __future__ import annotations

from .errors import ConversionError
from .model import Model


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
    graph = model.subgraphs[number]
    own = Model(
        subgraphs=[graph],
        signatures=[s for s in model.signatures or () if s.subgraph is graph] or None,
        description=model.description,
    ).copy()
    for tensor in own.subgraphs[0].all_tensors():
        # Every activation may have had an empty buffer of its own; one will do.
        if not tensor.buffer.data:
            tensor.buffer = own.empty_buffer
    return own
