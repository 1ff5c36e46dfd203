"""Segments of a ZO model as models of their own."""

from __future__ import annotations

import dataclasses
import struct
from collections.abc import Collection

import numpy as np

from . import constants
from .constants import COMMAND
from .errors import ConversionError
from .initial_weights import WeightArray, initial_weights
from .kernels import filters_of
from .metadata import ZoMetadata, read_metadata, with_metadata
from .model import Model, Operator, Subgraph, Tensor
from .passes.batch import rewrite_batch
from .recurrent import use_builtin


def extract_segment(model: Model, number: int, batch: int | None = None) -> Model:
    """Returns a segment as a model of one subgraph, for runtimes that only run the first one: its tensors, operators,
    signatures and constants, without metadata and unused buffers.

    Args:
        model: a ZO model (or any other: its subgraph); it is not changed.
        number: number of the segment, from 0 on.
        batch: samples per invoke; None: the model's own.

    Raises ConversionError if the model has no such segment, or an operator ties it to its batch size.
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


def entering_tensor(model: Model, metadata: ZoMetadata, segment: int) -> Tensor:
    """Returns the boundary that enters a segment, any but the first one, of a ZO model."""
    port = metadata.segments[segment].input_index("boundary")
    assert port is not None
    return model.subgraphs[segment].inputs[port]


def with_batch(model: Model, batch: int) -> Model:
    """Returns a copy of a whole ZO model for another batch size, whose trained weights and directions are the same.
    Raises ConversionError where an operator ties the model to its batch size.
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


_WEIGHT_OPERATORS = (constants.SEED_REPLAY, constants.UPDATE, constants.PERTURB)
# Options of a weight operator, see ops/core/graph/zo_op.h: common options, and options of each tensor.
_SHARED, _OF_TENSOR = "<BBBBHH", 12
_FRACTION, _MULTIPLIER, _MASK = 4, 8, 16


def freeze(model: Model, trained: Collection[int]) -> list[Model]:
    """Returns the segments of a ZO model, as of `extract_segment`, that train only the tensors with the numbers
    `trained`.

    The other tensors are constants with their initial values, which take no RAM. A segment that trains nothing has no
    weight operator; its missing input and output (command and status) are the last ones, so the numbers of the others
    do not change. Random streams belong to the remaining tensors as before, so directions and updates are the same
    bits.
    """
    metadata, values = read_metadata(model), initial_weights(model)
    found = []
    for k in range(len(metadata.segments)):
        own = extract_segment(model, k)
        kept = trained_in_segment(metadata, k, trained)
        if len(kept) < len(_in_segment(metadata, k)):
            _freeze_segment(own, metadata, k, kept, values)
            own = extract_segment(own, 0)  # without the buffers that nothing uses any more
        found.append(own)
    return found


def trained_in_segment(metadata: ZoMetadata, segment: int, trained: Collection[int]) -> list[int]:
    """Returns the numbers of the tensors that are trainable in a segment of `freeze`, rising."""
    return [i for i in _in_segment(metadata, segment) if i in trained]


def _in_segment(metadata: ZoMetadata, segment: int) -> list[int]:
    """Returns the numbers of the trainable tensors of a segment of the whole model, rising."""
    return [i for i, t in enumerate(metadata.trainable) if t.segment == segment]


def _freeze_segment(
    model: Model, metadata: ZoMetadata, segment: int, kept: list[int], values: dict[str, WeightArray]
) -> None:
    graph = model.subgraphs[0]
    own = _in_segment(metadata, segment)
    variables = {t.name: t for t in graph.all_tensors() if t.is_variable}
    left = [metadata.trainable[i] for i in kept]
    operators = [op for op in graph.operators if op.code.name in _WEIGHT_OPERATORS]
    mentioned = {t for op in operators for t in (*op.inputs, *op.outputs) if t is not None}
    if left:
        initial = [values[t.name].reshape(-1).view(np.int8) for t in left]
        _reshape(graph, constants.INITIAL, sum(map(len, initial))).set_data(np.concatenate(initial))
        filters = sum(t.size for t in left if not t.bias)
        if filters and metadata.update_bits == 16:
            _reshape(graph, constants.FRACTION, filters)
        places = [own.index(i) for i in kept]
        for op in operators:
            _leave(op, places, has_filters=filters > 0)
        used = {t for op in graph.operators for t in op.inputs}
    else:
        graph.operators = [op for op in graph.operators if op not in operators]
        command = next(t for t in graph.inputs if t.name == constants.COMMAND)
        status = next(t for t in graph.outputs if t.name == constants.STATUS)
        for op in graph.operators:
            op.replace_input(status, command)  # either says to the loss whether to compute
        used = {t for op in graph.operators for t in op.inputs}
        graph.outputs.remove(status)
        if command not in used:
            graph.inputs.remove(command)
    for name in (metadata.trainable[i].name for i in own if i not in kept):
        variables[name].is_variable = False
        variables[name].set_data(values[name])
    for op in graph.operators:
        if not any(t.is_variable for t in filters_of(op)):
            use_builtin(op)
    ports = {*graph.inputs, *graph.outputs}
    gone = {t for t in mentioned if t not in used and t not in ports}
    graph.tensors = [t for t in graph.tensors if t not in gone]
    for signature in model.signatures or ():
        signature.inputs = [(name, t) for name, t in signature.inputs if t in ports]
        signature.outputs = [(name, t) for name, t in signature.outputs if t in ports]


def _reshape(graph: Subgraph, name: str, count: int) -> Tensor:
    (tensor,) = (t for t in graph.tensors if t.name == name)
    tensor.shape = (count,)
    return tensor


def _leave(op: Operator, places: list[int], *, has_filters: bool) -> None:
    """Leaves a weight operator the tensors at some places among its own."""
    assert op.custom_options is not None  # check_graph
    size = struct.calcsize(_SHARED)
    version, flags, *shared, tensors, blocks = struct.unpack(_SHARED, op.custom_options[:size])
    per_tensor = 1 + bool(flags & _MULTIPLIER) + bool(flags & _MASK)
    first = len(op.inputs) - tensors * per_tensor
    head = op.inputs[:first]
    if flags & _FRACTION and not has_filters:  # only biases are left
        flags, head = flags & ~_FRACTION, head[:-1]
    each = [op.custom_options[size + i * _OF_TENSOR : size + (i + 1) * _OF_TENSOR] for i in places]
    op.custom_options = struct.pack(_SHARED, version, flags, *shared, len(places), blocks) + b"".join(each)
    op.inputs = head + [t for i in places for t in op.inputs[first + i * per_tensor : first + (i + 1) * per_tensor]]
