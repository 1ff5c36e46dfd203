"""Gives chosen FULLY_CONNECTED layers weights of 16 bits in the forward pass."""

from __future__ import annotations

import math
import struct
from typing import Final

import numpy as np

from .. import constants
from ..errors import ConversionError, InjectError
from ..model import Model, Operator, OperatorCode
from ..model.schema import BuiltinOperator
from ..selections import Last
from ..settings import InjectSettings
from .layer_geometry import RANGES, activation_range
from .plan import Plan, Trainable
from .select_trainable import chosen_by

_OPTIONS_VERSION: Final = 1
_PER_CHANNEL: Final = 1
# Offsets in the header at which `restore_layer` finds the version and the number of inputs.
_VERSION_AT: Final = 6
_INPUTS_AT: Final = 7
# ZO_INT16_DEPTH_MAX of ops/core/graph/zo_int16_fully_connected.h.
_LARGEST_DEPTH: Final = 65536


def make_int16_layers(model: Model, settings: InjectSettings, plan: Plan) -> None:
    """Replaces the layers of ``settings.int16`` by TFLM_ZO_FULLY_CONNECTED_16, which reads the fractions too. Filters
    have their variables and final scales by now. The builtin options, which no runtime reads of a custom operator, stay
    those of the FULLY_CONNECTED, for ``restore_layer``.
    """
    filters = [t for t in plan.trainable if not t.is_bias]
    for trainable in _chosen(settings, filters, plan):
        _check(trainable, plan)
        trainable.int16 = True
        segment = plan.segments[trainable.segment]
        assert segment.fraction is not None  # update_bits is 16
        before = filters[: filters.index(trainable)]
        first = sum(t.tensor.size for t in before if t.segment == trainable.segment)
        for op in trainable.operators:
            op.custom_options = layer_options(op, first)
            op.code = OperatorCode.of_custom(constants.FULLY_CONNECTED_16)
            op.inputs = [op.inputs[0], op.inputs[1], op.input(2), segment.fraction]


def _chosen(settings: InjectSettings, filters: list[Trainable], plan: Plan) -> list[Trainable]:
    if not settings.int16:
        return []
    if not filters:
        raise InjectError("int16", "be left out in a model without trainable filters", settings.int16)
    if isinstance(settings.int16, Last):
        return filters[-settings.int16.n :]
    return chosen_by("int16", settings.int16, filters, plan)


def _check(trainable: Trainable, plan: Plan) -> None:
    def refuse(reason: str) -> ConversionError:
        return InjectError("int16", f"not include layer `{trainable.layer}`, which {reason}")

    first = trainable.operators[0]
    if first.builtin != BuiltinOperator.FULLY_CONNECTED:
        raise refuse(f"is a {first.code.name}; only FULLY_CONNECTED takes weights of 16 bits")
    if any(node.trainable is trainable for node in plan.nodes):
        raise refuse("carries nodes, which are perturbed instead of its weights; leave it out of one of them")
    if trainable.inner > _LARGEST_DEPTH:
        raise refuse(f"has {trainable.inner} inputs, {_LARGEST_DEPTH} at most can have weights of 16 bits")
    for op in trainable.operators:
        activation = op.option("fusedActivationFunction", 0)
        if activation not in RANGES or op.option("weightsFormat", 0):
            raise refuse("has a fused activation or a layout of weights that int8 kernels do not take")


def layer_options(op: Operator, first: int) -> bytes:
    """Returns the options of TFLM_ZO_FULLY_CONNECTED_16, byte by byte as in ops/core/graph/zo_op.h. `first` is the
    number of weights of the segment's filters before this one.
    """
    data, weights, output = op.inputs[0], op.inputs[1], op.outputs[0]
    assert data is not None and weights is not None  # by arity
    q_in, q_weights, q_out = data.quantization, weights.quantization, output.quantization
    if q_in is None or q_out is None or not len(q_in.scales) or not len(q_out.scales):
        raise ConversionError(f"{op.label}: its activations must be quantized")
    assert q_weights is not None  # check_supported
    clamps = activation_range(q_out, op.option("fusedActivationFunction", 0), (-128, 127))
    multipliers = _multipliers(q_in.scales[0], q_weights.scales, q_out.scales[0])
    flags = _PER_CHANNEL if len(multipliers) > 1 else 0
    numbers = q_in.zero_point, q_out.zero_point, *clamps, op.code.version, len(op.inputs), first, weights.shape[0]
    header = struct.pack("<BBbbbbBBII", _OPTIONS_VERSION, flags, *numbers)
    return header + b"".join(struct.pack("<ib", *quantize_multiplier(m)) for m in multipliers)


def restore_layer(op: Operator) -> None:
    """Turns a TFLM_ZO_FULLY_CONNECTED_16 back into the FULLY_CONNECTED that it was."""
    options = op.custom_options or b""
    if len(options) <= _INPUTS_AT or options[0] != _OPTIONS_VERSION or options[_INPUTS_AT] not in (2, 3):
        raise ConversionError(f"{op.label}: its options are damaged; inject the original model again")
    op.inputs = op.inputs[: options[_INPUTS_AT]]
    op.code = OperatorCode(BuiltinOperator.FULLY_CONNECTED, options[_VERSION_AT])
    op.custom_options = None


def _multipliers(
    data: np.float32, weights: np.ndarray[tuple[int, ...], np.dtype[np.float32]], output: np.float32
) -> list[float]:
    """Returns a real multiplier for each scale of the filter, computed in the order of TFLM's kernels."""
    if len(weights) == 1:
        # The product of a single scale is rounded to float first.
        return [float(np.float32(data) * np.float32(weights[0])) / float(output)]
    return [float(data) * float(w) / float(output) for w in weights]


def quantize_multiplier(real: float) -> tuple[int, int]:
    """Returns TFLite's (value, shift) of a real multiplier, which is value * 2^-31 * 2^shift."""
    if real == 0.0:
        return 0, 0
    mantissa, shift = math.frexp(real)
    value = math.floor(mantissa * 2**31 + 0.5)
    if value == 2**31:
        value, shift = 2**30, shift + 1
    return (0, 0) if shift < -31 else (value, shift)
