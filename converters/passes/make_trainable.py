# SPDX-License-Identifier: Apache-2.0
"""Turns trainable filters into variable tensors."""

from __future__ import annotations

import copy
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from ..errors import ConversionError
from ..model import Buffer, Model, Tensor
from ..model.schema import TensorType
from ..settings import InjectSettings
from .plan import Plan, Trainable

_NEUTRAL: Final = 2**31 - 1


def make_trainable(model: Model, settings: InjectSettings, plan: Plan) -> None:
    """Gives the operators of each trainable filter a variable tensor instead.

    The variable takes name, shape and quantization of the filter and no data (runtimes refuse, or silently
    misuse, data of a variable); the filter stays as the constant ``<name>/zo_initial``. Adds
    ``<name>/zo_fraction`` for the 16-bit update and ``<name>/zo_multiplier`` on request.

    Raises:
        ConversionError: a multiplier names no trainable filter, or has a wrong shape, type or range.
    """
    multipliers = dict(settings.multipliers or {})
    known = [t.name for t in plan.trainable]
    for name in multipliers:
        if name not in known:
            raise ConversionError(
                f"multipliers: «{name}» is no trainable filter tensor; there are: {', '.join(known)}"
            )
    for trainable in plan.trainable:
        graph = plan.segments[trainable.segment].subgraph
        initial, name = trainable.tensor, trainable.tensor.name
        variable = initial.copy()
        variable.is_variable = True
        variable.buffer = model.empty_buffer
        trainable.variable = variable
        initial.name = f"{name}/zo_initial"
        for op in trainable.operators:
            op.replace_input(initial, variable)
        added = [variable]
        if settings.update_bits == 16:
            trainable.fraction = Tensor(
                f"{name}/zo_fraction",
                initial.shape,
                TensorType.INT8,
                model.empty_buffer,
                # Kernels do not look at it; the unit is 2^-8 LSB of the weight.
                is_variable=True,
            )
            added.append(trainable.fraction)
        if settings.multipliers is not None:
            values = multipliers.get(name, np.full(trainable.channels, _NEUTRAL, np.int32))
            trainable.multiplier = _multiplier(trainable, name, values)
            added.append(trainable.multiplier)
        # Next to the filter, so that a look at the file shows what belongs together.
        at = graph.tensors.index(initial) + 1
        graph.tensors[at:at] = added


def _multiplier(trainable: Trainable, name: str, values: npt.NDArray[Any]) -> Tensor:
    values = np.asarray(values)
    if values.dtype != np.int32 or values.shape != (trainable.channels,):
        raise ConversionError(
            f"multipliers: «{name}» needs int32 [{trainable.channels}], "
            f"not {values.dtype} {list(values.shape)}"
        )
    if np.any(values < 0):
        raise ConversionError(f"multipliers: «{name}» has negative factors")
    return Tensor(
        f"{name}/zo_multiplier",
        (trainable.channels,),
        TensorType.INT32,
        Buffer(copy.copy(values).tobytes()),
    )
