# SPDX-License-Identifier: Apache-2.0
"""Turns trainable filters and biases into variable tensors."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import numpy.typing as npt

from .. import constants
from ..errors import ConversionError
from ..kernel_norm import kernel_norm_multipliers
from ..model import Buffer, Model, Tensor
from ..model.schema import TensorType
from ..quantization_aware import NEUTRAL, quantization_aware_multipliers
from ..settings import KERNEL_NORM, QUANTIZATION_AWARE, InjectSettings
from .plan import Plan, Trainable


def make_trainable(model: Model, settings: InjectSettings, plan: Plan) -> None:
    """Replaces each trainable filter or bias by a variable tensor.

    The variable takes name, shape, quantization and place of the constant, and no data (runtimes refuse, or
    silently misuse, data of a variable). The initial weights of a segment lie one after the other in one
    constant, ``zo_initial``, and so do the fractions of the 16-bit update in one variable, ``zo_fraction``:
    every tensor costs TFLM's arena a struct. Adds ``<name>/zo_multiplier`` on request.

    Raises:
        ConversionError: a multiplier names no trainable filter, or has a wrong shape, type or range.
    """
    multipliers = _multipliers(settings, plan)
    filters_of = {t.layer: t.name for t in plan.trainable if not t.is_bias}
    known = list(filters_of.values())
    for name in multipliers:
        if name not in known:
            raise ConversionError(
                f"multipliers: `{name}` is no trainable filter tensor; there are: {', '.join(known)}"
            )
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
    for k, segment in enumerate(plan.segments):
        own = [t for t in plan.trainable if t.segment == k]
        if not own:
            continue
        data = b"".join(t.tensor.numpy().tobytes() for t in own)
        segment.initial = Tensor(constants.INITIAL, (len(data),), TensorType.INT8, Buffer(data))
        segment.subgraph.tensors.append(segment.initial)
        weights = sum(t.tensor.size for t in own if not t.is_bias)
        if settings.update_bits == 16 and weights:
            segment.fraction = Tensor(
                constants.FRACTION, (weights,), TensorType.INT8, model.empty_buffer, is_variable=True
            )
            segment.subgraph.tensors.append(segment.fraction)


def _multipliers(settings: InjectSettings, plan: Plan) -> dict[str, npt.NDArray[np.int32]]:
    """Returns factors by filter tensor name; a filter that is missing has neutral ones."""
    filters = [t for t in plan.trainable if not t.is_bias]
    if settings.multipliers == KERNEL_NORM:
        values = [
            t.tensor.numpy().reshape(-1)[slice(None) if t.selected is None else t.selected] for t in filters
        ]
        norms = kernel_norm_multipliers(values)
        return {t.name: np.full(t.channels, n, np.int32) for t, n in zip(filters, norms, strict=True)}
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
        raise ConversionError(
            f"multipliers: `{name}` needs int32 [{trainable.channels}], "
            f"not {values.dtype} {list(values.shape)}"
        )
    if np.any(values < 0):
        raise ConversionError(f"multipliers: `{name}` has negative factors")
    return Tensor(
        f"{name}{constants.MULTIPLIER}",
        (trainable.channels,),
        TensorType.INT32,
        Buffer(copy.copy(values).tobytes()),
    )
