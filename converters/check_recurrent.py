"""The check that TFLM's kernel takes an operator with a state as it is in the file."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from .check_kernel import quantization_of, refuse
from .kernels import LSTM_VARIANTS
from .model import Operator, Tensor
from .model.schema import DTYPES, schema
from .model.schema import BuiltinOperator as B

# Factors of sums from here on are none of TFLM's fixed-point multipliers.
_LARGEST_FACTOR: Final = 2.0**30
_AGAIN: Final = "convert the model again"


def check_recurrent(op: Operator) -> None:
    """Raises ConversionError where TFLM's kernel refuses an operator of `STATES`, ends the process at it, or computes
    values that LiteRT with the op pack does not give.
    """
    if op.builtin == B.SVDF:
        _check_svdf(op)
    else:
        _check_lstm(op)


def _given(op: Operator, *numbers: int) -> list[Tensor]:
    tensors = [op.inputs[i] for i in numbers]
    assert all(t is not None for t in tensors)  # check_arity
    return [t for t in tensors if t is not None]


def _check_states(op: Operator, states: Sequence[Tensor]) -> None:
    for tensor in states:
        if not tensor.is_variable:
            refuse(op, f"state `{tensor.name}` is not a variable, as TFLM takes it; {_AGAIN}")


def _check_scales(op: Operator, tensors: Sequence[Tensor]) -> None:
    for tensor in tensors:
        given = tensor.quantization
        if given is None or len(given.scales) != 1 or not given.scales[0] > 0:
            refuse(op, f"`{tensor.name}` has no (single, positive) scale, as TFLM takes it; {_AGAIN}")
        limits = np.iinfo(DTYPES[tensor.type])
        if not limits.min <= given.zero_point <= limits.max:
            refuse(op, f"`{tensor.name}` has zero point {given.zero_point}; the file is damaged")


def _scale(tensor: Tensor) -> float:
    return quantization_of(tensor)[0]


def _check_factors(op: Operator, factors: Sequence[float]) -> None:
    if max(factors) >= _LARGEST_FACTOR:
        refuse(op, f"its scales differ too much for TFLM's multipliers; {_AGAIN}")


def _check_svdf(op: Operator) -> None:
    x, weights, time, bias, state = _given(op, *range(5))
    y, rank = op.outputs[0], op.option("rank", 0)
    _check_states(op, [state])
    shapes = [t.shape for t in (x, weights, time, state, y)]
    if rank < 1 or any(len(s) != 2 or 0 in s for s in shapes):
        refuse(op, "its rank must be at least 1, and its tensors must have two dimensions; the file is damaged")
    (batch, depth), (filters, memory) = x.shape, time.shape
    units = filters // rank
    wanted = [(batch, depth), (units * rank, depth), (units * rank, memory), (batch, filters * memory), (batch, units)]
    if shapes != wanted or bias.shape != (units,):
        refuse(op, f"its tensors' shapes {[list(s) for s in shapes]} do not fit its rank; the file is damaged")
    if time.type != state.type:
        refuse(op, f"its weights of time are {time.type_name} and its state is {state.type_name}; TFLM takes one type")
    _check_scales(op, [x, weights, time, state, y])
    product = float(np.float32(_scale(state) * _scale(time)))
    if abs(_scale(bias) - product) >= 1e-5:
        refuse(op, f"bias `{bias.name}` must have the product of the scales of state and weights of time; {_AGAIN}")
    _check_factors(op, [_scale(x) * _scale(weights) / _scale(state), product / _scale(y)])


def _check_lstm(op: Operator) -> None:
    names = {9: "peepholes", 16: "a projection", 20: "layer norms"}
    for i in LSTM_VARIANTS:
        if op.inputs[i] is not None:
            what = names[max(first for first in names if first <= i)]
            refuse(op, f"it has {what}, which TFLM's kernel does not take; build the layer without them")
    if op.option("fusedActivationFunction", 0) != schema.ActivationFunctionType.TANH:
        refuse(op, "its activation must be tanh; build the layer with it")
    if not op.option("cellClip", 0.0) >= 0:
        refuse(op, "its cellClip must be at least 0; the file is damaged")
    x, *filters = _given(op, *range(9))
    biases, (h, cell) = _given(op, *range(12, 16)), _given(op, 18, 19)
    y, units, depth = op.outputs[0], filters[0].shape[:1], x.shape[2:]
    batch = x.shape[1] if op.option("timeMajor", False) else x.shape[0]
    wanted = [(*units, *depth)] * 4 + [(*units, *units)] * 4 + [units] * 4
    fits = [t.shape for t in (*filters, *biases)] == wanted and y.shape == (*x.shape[:2], *units)
    if not fits or 0 in (*x.shape, *units) or any(t.shape != (batch, *units) for t in (h, cell)):
        refuse(op, "its tensors' shapes do not fit; the file is damaged")
    _check_states(op, [h, cell])
    _check_scales(op, [x, *filters, h, cell, y])
    if any(quantization_of(t)[1] for t in filters):
        refuse(op, f"its filters must have zero point 0; {_AGAIN}")
    if quantization_of(h) != quantization_of(y):
        refuse(op, f"its output must have scale and zero point of state `{h.name}`, which TFLM copies; {_AGAIN}")
    mantissa, exponent = np.frexp(_scale(cell))
    if mantissa != 0.5 or not -30 <= exponent - 1 <= 0:
        refuse(op, f"the scale of state `{cell.name}` is {_scale(cell):g}, it must be a power of 2 up to 1; {_AGAIN}")
    factors = [_scale(x) * _scale(t) * 4096 for t in filters[:4]] + [_scale(h) * _scale(t) * 4096 for t in filters[4:]]
    _check_factors(op, [*factors, 2.0**-30 / _scale(h)])
