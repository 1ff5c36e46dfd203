"""Writes the decisions of the passes to the model's metadata."""

from __future__ import annotations

import dataclasses
from typing import Final

from ..constants import METADATA_NAME
from ..kernels import kind_of
from ..metadata import (
    METADATA_VERSION,
    ZoMetadata,
    ZoNodes,
    ZoOriginal,
    ZoPort,
    ZoSegment,
    ZoState,
    ZoTail,
    ZoTrainable,
)
from ..model import Buffer, Metadata, Model, Tensor
from ..model.schema import OPERATOR_NAMES
from ..settings import InjectSettings
from ..states import nbytes_of, states_of
from .plan import NodeLayer, Plan, Port, Tail

# TFLM reads an arena offset per tensor number from it; there are other tensors now, and with the old numbers
# they would overlap.
_STALE: Final = "OfflineMemoryAllocation"


def write_metadata(model: Model, settings: InjectSettings, plan: Plan) -> None:
    """Adds the metadata entry ``tflm_zo``, and drops a memory plan of the old tensors; other entries stay."""
    metadata = ZoMetadata(
        version=METADATA_VERSION,
        headroom=settings.headroom,
        update_bits=settings.update_bits,
        max_queries=settings.max_queries,
        command_words=settings.words,
        batch=settings.batch,
        replay=settings.replay,
        loss=plan.loss,
        blocks=tuple(plan.blocks),
        trainable=tuple(
            ZoTrainable(
                name=t.name,
                operator=OPERATOR_NAMES[kind_of(t.operators[0])],
                layer=t.layer,
                stream=t.stream,
                block=t.block,
                segment=t.segment,
                shape=t.tensor.shape,
                size=t.tensor.size,
                channels=t.channels,
                inner=t.inner,
                requantized_channels=t.requantized,
                bias=t.is_bias,
            )
            for t in plan.trainable
        ),
        segments=tuple(
            ZoSegment(tuple(_port(p) for p in s.inputs), tuple(_port(p) for p in s.outputs)) for s in plan.segments
        ),
        original=ZoOriginal(tuple(plan.inputs), tuple(plan.outputs), settings.export_batch),
        nodes=tuple(_nodes(n, plan) for n in plan.nodes),
        algorithm=settings.algorithm,
        tail=None if plan.tail is None else _tail(plan.tail, str(settings.tail), plan),
        states=tuple(
            ZoState(state.name, k, nbytes_of(state) // settings.batch)
            for k, segment in enumerate(plan.segments)
            for state in states_of(segment.subgraph)
        ),
    )
    entries = [m for m in model.metadata or () if m.name != _STALE]
    entries.append(Metadata(METADATA_NAME, Buffer(metadata.to_json().encode())))
    model.metadata = entries


def _entered(tensor: Tensor, plan: Plan) -> int:
    """Returns the number of the segment that a tensor enters; 0 for one that enters none."""
    return plan.boundaries.index(tensor) + 1 if tensor in plan.boundaries else 0


def _nodes(layer: NodeLayer, plan: Plan) -> ZoNodes:
    return ZoNodes(
        trainable=plan.trainable.index(layer.trainable),
        form=layer.form,
        input_segment=_entered(layer.input, plan),
        output_segment=_entered(layer.output, plan),
        node_segment=_entered(layer.nodes, plan),
        count=layer.count,
        head=layer.is_head,
        geometry=layer.geometry,
    )


def _tail(tail: Tail, asked: str, plan: Plan) -> ZoTail:
    layers = [_nodes(n, plan) for n in tail.layers]
    return ZoTail(
        asked,
        tuple(n if n.head else dataclasses.replace(n, output_segment=0, node_segment=0) for n in layers),
        tuple(tail.program.of_layers),
        tuple(tail.program.fields),
        tuple(
            dataclasses.replace(step, segment=None if looks_at is None else _entered(looks_at, plan))
            for step, looks_at in zip(tail.program.steps, tail.program.looks_at, strict=True)
        ),
    )


def _port(port: Port) -> ZoPort:
    if port.role in ("input", "output"):
        return ZoPort(port.role, port.name, port.index)
    return ZoPort(port.role, index=port.index)
