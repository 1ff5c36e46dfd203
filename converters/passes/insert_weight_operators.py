# SPDX-License-Identifier: Apache-2.0
"""Puts the operators that move weights at the head of each segment."""

from __future__ import annotations

import struct
from typing import Final

from .. import constants
from ..model import Model, Operator, OperatorCode, Tensor
from ..model.schema import TensorType
from ..settings import InjectSettings
from .plan import Plan, Port, Trainable

_OPTIONS_VERSION: Final = 1
_FIRST: Final = 1
_LAST: Final = 2
_FRACTION: Final = 4
_MULTIPLIER: Final = 8
_MASK: Final = 16
_INT16: Final = 0x8000  # in the block of a tensor
_BIAS: Final = 0x4000  # likewise


def insert_weight_operators(model: Model, settings: InjectSettings, plan: Plan) -> None:
    """Adds SEED_REPLAY (unless switched off), UPDATE and PERTURB, in this order, before the operators of each
    segment with trainable tensors, with ``zo_command``, ``zo_state`` and ``zo_status``.

    The last segment gets ``zo_command`` also without trainable tensors if it has a loss, which looks there
    for whether to compute.
    """
    names = [constants.UPDATE, constants.PERTURB]
    if settings.replay:
        names.insert(0, constants.SEED_REPLAY)
    for k, segment in enumerate(plan.segments):
        trainable = [t for t in plan.trainable if t.segment == k]
        is_last = k == len(plan.segments) - 1
        if not trainable and not (is_last and plan.loss is not None):
            continue
        graph = segment.subgraph
        command = Tensor(constants.COMMAND, (settings.words,), TensorType.INT32, model.empty_buffer)
        graph.tensors.append(command)
        segment.inputs.append(Port("command", command, constants.COMMAND))
        if not trainable:
            continue
        state = Tensor(
            constants.STATE,
            (constants.STATE_WORDS,),
            TensorType.INT32,
            model.empty_buffer,
            is_variable=True,
        )
        status = Tensor(constants.STATUS, (constants.STATUS_WORDS,), TensorType.INT32, model.empty_buffer)
        graph.tensors += [state, status]
        segment.outputs.append(Port("status", status, constants.STATUS))

        inputs: list[Tensor | None] = [command, state, segment.initial]
        if segment.fraction is not None:
            inputs.append(segment.fraction)
        for t in trainable:
            inputs.append(t.variable)
            if t.multiplier is not None:
                inputs.append(t.multiplier)
            if any(other.mask is not None for other in trainable):
                inputs.append(t.mask)  # None: absent
        operators = []
        for i, name in enumerate(names):
            first, last = i == 0, i == len(names) - 1
            options = weight_options(trainable, settings, len(plan.blocks), first, last)
            operators.append(
                Operator(
                    OperatorCode.of_custom(name),
                    list(inputs),
                    [status] if last else [],
                    custom_options=options,
                )
            )
        graph.operators[:0] = operators


def weight_options(
    trainable: list[Trainable], settings: InjectSettings, blocks: int, first: bool, last: bool
) -> bytes:
    """Returns the options of a weight operator, byte by byte as in ops/core/graph/zo_op.h."""
    flags = (_FIRST if first else 0) | (_LAST if last else 0)
    flags |= _FRACTION if settings.update_bits == 16 and not all(t.is_bias for t in trainable) else 0
    flags |= _MULTIPLIER if settings.multipliers is not None else 0
    flags |= _MASK if any(t.mask is not None for t in trainable) else 0
    header = struct.pack(
        "<BBBBHH",
        _OPTIONS_VERSION,
        flags,
        settings.headroom,
        settings.max_queries,
        len(trainable),
        blocks,
    )
    return header + b"".join(
        struct.pack(
            "<HHII",
            t.stream,
            t.block | (_INT16 if t.int16 else 0) | (_BIAS if t.is_bias else 0),
            t.channels,
            t.inner,
        )
        for t in trainable
    )
