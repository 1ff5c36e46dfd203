"""SVDF and UNIDIRECTIONAL_SEQUENCE_LSTM whose weights are trained.

TFLM's kernels may read weights once, so a ZO model has operators of its own in their place, with the same inputs,
outputs and values (ops/core/graph/zo_recurrent_op.h). These keep the builtin options and the version for the export.
"""

from __future__ import annotations

import math
import struct
from typing import Final

import numpy as np

from .check_kernel import quantization_of
from .kernels import OWN_KINDS, kind_of
from .model import Operator, OperatorCode, Tensor
from .model.schema import BuiltinOperator as B
from .model.schema import TensorType

_NAMES: Final = {kind: name for name, kind in OWN_KINDS.items()}
_VERSION: Final = 1


def use_own(op: Operator) -> None:
    """Replaces a checked SVDF or LSTM by the operator that reads weights at each invoke, in place."""
    op.custom_options = own_options(op)
    op.code = OperatorCode(B.CUSTOM, op.code.version, _NAMES[op.builtin])


def use_builtin(op: Operator) -> None:
    """Undoes `use_own`; changes no other operator."""
    if is_own(op):
        op.code, op.custom_options = OperatorCode(kind_of(op), op.code.version), None


def is_own(op: Operator) -> bool:
    """Returns whether an operator is one of `use_own`."""
    return op.code.name in OWN_KINDS


def own_options(op: Operator) -> bytes:
    """Returns the options of `use_own` for a checked operator."""
    flags, numbers = _svdf(op) if kind_of(op) == B.SVDF else _lstm(op)
    return struct.pack(f"<BBH{len(numbers)}i", _VERSION, flags, 0, *numbers)


def _tensor(op: Operator, number: int) -> Tensor:
    tensor = op.inputs[number]
    assert tensor is not None  # check_arity
    return tensor


def _of(op: Operator, number: int) -> tuple[np.float32, int]:
    scale, zero_point = quantization_of(_tensor(op, number))
    return np.float32(scale), zero_point


def _multiplier(factor: float) -> tuple[int, int]:
    """Returns value and shift of a factor, as TFLM's `QuantizeMultiplier`."""
    mantissa, shift = math.frexp(factor)
    value = math.floor(mantissa * 2**31 + 0.5)
    if value == 2**31:
        value, shift = value // 2, shift + 1
    return (value, shift) if shift >= -31 else (0, 0)


def _svdf(op: Operator) -> tuple[int, list[int]]:
    (scale, x), (weights, _), (time, _), (of_state, state) = (_of(op, i) for i in (0, 1, 2, 4))
    of_output, y = quantization_of(op.outputs[0])
    # TFLM computes both factors in float.
    feature, output = scale * weights / of_state, of_state * time / np.float32(of_output)
    is_wide = _tensor(op, 2).type == TensorType.INT16
    return int(is_wide), [op.option("rank", 0), x, state, y, *_multiplier(float(feature)), *_multiplier(float(output))]


def _lstm(op: Operator) -> tuple[int, list[int]]:
    (scale, x), (of_hidden, hidden), (of_cell, _) = (_of(op, i) for i in (0, 18, 19))
    clip = min(float(np.float32(op.option("cellClip", 0.0))) / float(of_cell), 2.0**15 - 1)
    factors = [1 / 32768, 2.0**-30 / float(of_cell), 2.0**-30 / float(of_hidden)]
    for gate in range(4):
        # From products to arguments of the gates' functions, unit 2^-12.
        factors += [float(s * _of(op, i + gate)[0]) * 4096 for s, i in ((scale, 1), (of_hidden, 5))]
    numbers = [x, hidden, math.frexp(of_cell)[1] - 1, int(clip)]
    flags = bool(op.option("timeMajor", False)) + 2 * (clip > 0)
    return flags, numbers + [n for factor in factors for n in _multiplier(factor)]
