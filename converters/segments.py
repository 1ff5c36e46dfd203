# SPDX-License-Identifier: Apache-2.0
"""Segments as models of their own."""

from __future__ import annotations

import dataclasses

from .constants import COMMAND
from .errors import ConversionError
from .metadata import read_metadata, with_metadata
from .model import Model
from .passes.set_batch import rewrite_batch


def extract_segment(model: Model, number: int, batch: int | None = None) -> Model:
    """Segment ``number`` as a model with a single subgraph, for runtimes that only run the first one.

    Args:
        model: a ZO model (or any other: its subgraph); it is not changed.
        number: number of the segment, from 0 on.
        batch: samples per invoke; None: the model's own.

    Returns:
        A model with the tensors, operators, signatures and constants of that segment, nothing else: no
        metadata (ask the whole model), no buffer that it does not use.

    Raises:
        ConversionError: the model has no such segment, or an operator ties it to its batch size.
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
    if batch is not None:
        fed = [t for t in own.subgraphs[0].inputs if t.name != COMMAND]
        rewrite_batch(own.subgraphs[0], batch, fed[0].shape[0], fed)
    return own


def with_batch(model: Model, batch: int) -> Model:
    """Returns a whole ZO model for another batch size, whose trained weights and directions are the same.

    Args:
        model: a ZO model; it is not changed.
        batch: samples per invoke.

    Raises:
        ConversionError: the model is no ZO model, or an operator ties it to its batch size.
    """
    metadata = read_metadata(model)
    result = with_metadata(model, dataclasses.replace(metadata, batch=batch))
    for graph in result.subgraphs:
        fed = [t for t in graph.inputs if t.name != COMMAND]
        rewrite_batch(graph, batch, metadata.batch, fed)
    return result


def can_change_batch(model: Model) -> bool:
    """Returns whether every segment of a ZO model can be extracted for another batch size."""
    try:
        for number, graph in enumerate(model.subgraphs):
            fed = next(t for t in graph.inputs if t.name != COMMAND)
            extract_segment(model, number, fed.shape[0] + 1)
    except ConversionError:
        return False
    return True
