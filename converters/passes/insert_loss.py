# SPDX-License-Identifier: Apache-2.0
"""Appends the loss operator to the graph."""

from __future__ import annotations

import math
import struct
from typing import Final

from .. import constants
from ..metadata import SOFTMAX_KINDS
from ..model import Model, Operator, OperatorCode, Tensor
from ..model.schema import TensorType
from ..settings import InjectSettings
from .plan import UNIT_LEVELS, Loss, Plan, Port

_OPTIONS_VERSION: Final = 1
_KINDS: Final = {"cross_entropy": 0, "binary_cross_entropy": 1, "mse": 2, "floor_log2": 3}

# Fraction bits: of the scale operands, and of a loss (ZO_LOSS_BITS).
_SCALE_BITS: Final = 24
_LOSS_BITS: Final = 16


def insert_loss(model: Model, settings: InjectSettings, plan: Plan) -> None:
    """Adds TFLM_ZO_LOSS to the end of the last segment, with ``zo_label`` and ``zo_loss``.

    The weight operators have to be in the graph, for the loss's third input is their status, if there is one.
    """
    if plan.loss is None:
        return
    loss, segment = plan.loss, plan.segments[-1]
    graph = segment.subgraph
    batch = settings.batch
    if loss.kind == "mse":
        label = Tensor(
            constants.LABEL,
            loss.tensor.shape,
            TensorType.INT8,
            model.empty_buffer,
            loss.tensor.quantization.copy() if loss.tensor.quantization else None,
        )
    else:
        shape = (batch,) if loss.kind in SOFTMAX_KINDS else (batch, loss.elements)
        label = Tensor(constants.LABEL, shape, TensorType.INT32, model.empty_buffer)
    result = Tensor(constants.LOSS_OUTPUT, (batch,), TensorType.INT32, model.empty_buffer)
    switch = segment.port("status") or segment.port("command")
    assert switch is not None  # the last segment has a command
    graph.operators.append(
        Operator(
            OperatorCode.of_custom(constants.LOSS),
            [loss.tensor, label, switch],
            [result],
            custom_options=loss_options(loss),
        )
    )
    graph.tensors += [label, result]
    # The order of converters/README.md: label before command, loss before status.
    at = next((i for i, p in enumerate(segment.inputs) if p.role == "command"), len(segment.inputs))
    segment.inputs.insert(at, Port("label", label, constants.LABEL))
    at = next((i for i, p in enumerate(segment.outputs) if p.role == "status"), len(segment.outputs))
    segment.outputs.insert(at, Port("loss", result, constants.LOSS_OUTPUT))


def loss_options(loss: Loss) -> bytes:
    """Returns the options of TFLM_ZO_LOSS, byte by byte as in ops/core/graph/zo_op.h."""
    if loss.kind == "mse":
        first, second = _mean_squared_error(loss)
    else:
        first = round(loss.scale * math.log2(math.e) * 2**_SCALE_BITS)
        second = round(loss.scale * 2**_SCALE_BITS)
    zero_point = loss.zero_point if loss.kind == "binary_cross_entropy" else 0
    return struct.pack(
        "<BBHIiII", _OPTIONS_VERSION, _KINDS[loss.kind], 0, loss.elements, zero_point, first, second
    )


def _mean_squared_error(loss: Loss) -> tuple[int, int]:
    """Returns a multiplier of 2^30..2^31-1 and a shift of 0..62 with s^2 / elements / unit * 2^16 =
    multiplier * 2^-shift.
    """
    # At most 2^20 elements: 2^-10 to 2^10.
    mantissa, exponent = math.frexp(2.0**_LOSS_BITS / UNIT_LEVELS**2 / loss.elements)
    multiplier = round(mantissa * 2**31)
    if multiplier == 2**31:
        multiplier, exponent = 2**30, exponent + 1
    return multiplier, 31 - exponent
