"""Turns trainable filters and biases into variables, and adds the operators that move them."""

from __future__ import annotations

import struct
from collections.abc import Collection, Iterable
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from .. import constants
from ..errors import InjectError
from ..kernels import STATES
from ..model import Model, Operator, OperatorCode, Tensor
from ..model.schema import TensorType
from ..multipliers import NEUTRAL, quantization_aware_multipliers
from ..recurrent import use_own
from ..settings import QUANTIZATION_AWARE, InjectSettings
from ..states import connect_states, states_of
from .plan import Plan, Port, Trainable


def _check_names(setting: str, given: Iterable[str], known: Collection[str]) -> None:
    for name in given:
        if name not in known:
            raise InjectError(setting, f"name trainable filter tensors ({', '.join(known)})", name)


def make_trainable(model: Model, settings: InjectSettings, plan: Plan) -> None:
    """Replaces each trainable filter or bias by a variable tensor, with name, shape, quantization and place of the
    constant, and no data (runtimes refuse, or silently misuse, data of a variable). The initial weights of a segment
    lie one after the other in one constant, ``zo_initial``, and so do the fractions of the 16-bit update in one
    variable, ``zo_fraction``: every tensor costs TFLM's arena a struct. Adds ``<name>/zo_multiplier`` on request.
    """
    multipliers = _multipliers(settings, plan)
    filters_of = {t.layer: t.name for t in plan.trainable if not t.is_bias}
    _check_names("multipliers", multipliers, filters_of.values())
    for trainable in plan.trainable:
        graph = plan.segments[trainable.segment].subgraph
        variable = trainable.tensor.copy()
        variable.is_variable = True
        variable.buffer = model.empty_buffer
        trainable.variable = variable
        for op in trainable.operators:
            op.replace_input(trainable.tensor, variable)
        at = graph.tensors.index(trainable.tensor)
        graph.tensors[at] = variable
        if settings.multipliers is not None:
            name = trainable.name
            neutral = np.full(trainable.channels, NEUTRAL, np.int32)
            values = multipliers.get(filters_of.get(trainable.layer, name), neutral)
            trainable.multiplier = _multiplier(trainable, name, values)
            graph.tensors.insert(at + 1, trainable.multiplier)
    for op in dict.fromkeys(op for t in plan.trainable for op in t.operators if op.builtin in STATES):
        use_own(op)
    for k, segment in enumerate(plan.segments):
        own = [t for t in plan.trainable if t.segment == k]
        if not own:
            continue
        data = np.concatenate([t.tensor.numpy().reshape(-1).view(np.int8) for t in own])
        segment.initial = Tensor.constant(constants.INITIAL, data)
        segment.subgraph.tensors.append(segment.initial)
        shape = (sum(t.tensor.size for t in own if not t.is_bias),)
        if settings.update_bits == 16 and shape[0]:
            segment.fraction = Tensor(constants.FRACTION, shape, TensorType.INT8, model.empty_buffer, is_variable=True)
            segment.subgraph.tensors.append(segment.fraction)


def _multipliers(settings: InjectSettings, plan: Plan) -> dict[str, npt.NDArray[np.int32]]:
    """Returns factors by filter tensor name; a filter that is missing has neutral ones."""
    filters = [t for t in plan.trainable if not t.is_bias]
    if settings.multipliers != QUANTIZATION_AWARE:
        assert not isinstance(settings.multipliers, str)  # checked by the settings
        return dict(settings.multipliers or {})
    scaled = []
    for t in filters:
        assert t.tensor.quantization is not None  # check_supported
        scales = np.broadcast_to(t.tensor.quantization.scales, t.channels)
        scaled.append((scales, np.moveaxis(t.tensor.numpy(), t.axis, 0)))
    factors = quantization_aware_multipliers(scaled)
    return {t.name: f for t, f in zip(filters, factors, strict=True)}


def _multiplier(trainable: Trainable, name: str, values: npt.NDArray[Any]) -> Tensor:
    values = np.asarray(values)
    if values.dtype != np.int32 or values.shape != (trainable.channels,):
        raise InjectError(
            "multipliers", f"have an int32 [{trainable.channels}] for `{name}`, not {values.dtype} {list(values.shape)}"
        )
    if np.any(values < 0):
        raise InjectError("multipliers", f"not be negative, as for `{name}`")
    return Tensor.constant(f"{name}{constants.MULTIPLIER}", values)


_OPTIONS_VERSION: Final = 1
_FIRST: Final = 1
_LAST: Final = 2
_FRACTION: Final = 4
_MULTIPLIER: Final = 8
_BIAS: Final = 0x4000  # likewise


def insert_weight_operators(model: Model, settings: InjectSettings, plan: Plan) -> None:
    """Adds SEED_REPLAY (if wanted), UPDATE and PERTURB before the operators of each segment with trainable tensors,
    with ``zo_command``, ``zo_state`` and ``zo_status``. Without trainable tensors, the last segment gets ``zo_command``
    if it has a loss, which looks there for whether to compute, and each segment with a state.
    """
    names = [constants.UPDATE, constants.PERTURB]
    if settings.replay:
        names.insert(0, constants.SEED_REPLAY)
    for k, segment in enumerate(plan.segments):
        trainable = [t for t in plan.trainable if t.segment == k]
        is_last = k == len(plan.segments) - 1
        graph = segment.subgraph
        if not trainable and not (is_last and plan.loss is not None) and not states_of(graph):
            continue
        command = Tensor(constants.COMMAND, (settings.words,), TensorType.INT32, model.empty_buffer)
        graph.tensors.append(command)
        segment.inputs.append(Port("command", command, constants.COMMAND))
        connect_states(graph, command)
        if not trainable:
            continue
        words, empty = (constants.STATUS_WORDS,), model.empty_buffer
        state = Tensor(constants.STATE, (constants.STATE_WORDS,), TensorType.INT32, empty, is_variable=True)
        status = Tensor(constants.STATUS, words, TensorType.INT32, empty)
        graph.tensors += [state, status]
        segment.outputs.append(Port("status", status, constants.STATUS))

        inputs: list[Tensor | None] = [command, state, segment.initial]
        if segment.fraction is not None:
            inputs.append(segment.fraction)
        for t in trainable:
            inputs.append(t.variable)
            if t.multiplier is not None:
                inputs.append(t.multiplier)
        operators = []
        for i, name in enumerate(names):
            first, last = i == 0, i == len(names) - 1
            options = weight_options(trainable, settings, len(plan.blocks), first, last)
            operators.append(
                Operator(OperatorCode.of_custom(name), list(inputs), [status] if last else [], custom_options=options)
            )
        graph.operators[:0] = operators


def weight_options(trainable: list[Trainable], settings: InjectSettings, blocks: int, first: bool, last: bool) -> bytes:
    """Returns the options of a weight operator, byte by byte as in ops/core/graph/zo_op.h."""
    flags = (_FIRST if first else 0) | (_LAST if last else 0)
    flags |= _FRACTION if settings.update_bits == 16 and not all(t.is_bias for t in trainable) else 0
    flags |= _MULTIPLIER if settings.multipliers is not None else 0
    shared = flags, settings.headroom, settings.max_queries, len(trainable), blocks
    options = struct.pack("<BBBBHH", _OPTIONS_VERSION, *shared)
    for t in trainable:
        block = t.block | (_BIAS if t.is_bias else 0)
        options += struct.pack("<HHII", t.stream, block, t.channels, t.inner)
    return options
