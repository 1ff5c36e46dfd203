"""The check that TFLM's kernel takes an operator as it is in the file."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence
from typing import Any, Final, NoReturn

import numpy as np

from .errors import ConversionError
from .kernels import CONVERTED, KERNELS, Kernel
from .model import Operator, Tensor
from .model.schema import TENSOR_TYPE_NAMES
from .model.schema import BuiltinOperator as B
from .model.schema import TensorType as T

# Pooling kernels of TFLM and LiteRT let scales differ by this much.
_POOL_TOLERANCE: Final = 1e-6
#: Values of a SOFTMAX, at more equal ones of which kernels end the process.
MOST_CLASSES: Final = 511
_AS_EQUAL: Final = "convert the model again, so that the operator has one scale and one zero point"


def check_kernel(op: Operator, filters: Collection[Tensor] = ()) -> None:
    """Raises ConversionError where TFLM's kernel refuses an operator of `KERNELS`, ends the process at it, or computes
    it otherwise than LiteRT's kernel. `filters` are variables of a ZO model.
    """
    kernel = KERNELS[op.builtin]
    data = [t for i, t in enumerate(op.inputs) if t is not None and i not in kernel.others]
    _check_types(op, kernel, data)
    for i in kernel.constants:
        tensor = op.inputs[i]
        if tensor is not None and not tensor.is_constant and tensor not in filters:
            refuse(op, f"TFLM takes `{tensor.name}` as a constant only; convert the model with it fixed")
    low, high = kernel.ranks
    for tensor in data if op.builtin == B.FILL else [*data, *op.outputs]:
        if not low <= len(tensor.shape) <= high:
            refuse(op, f"`{tensor.name}` has shape {list(tensor.shape)}, TFLM takes {low} to {high} dimensions")
    _check_shapes(op, kernel, data)
    _check_quantization(op, kernel, data)
    holds, reason = _DEMANDS.get(op.builtin, (bool, ""))
    if not holds(op):
        refuse(op, reason)


def refuse(op: Operator, reason: str) -> NoReturn:
    """Raises ConversionError: an operator cannot be used, and why."""
    raise ConversionError(f"{op.label}: {reason}")


def _check_types(op: Operator, kernel: Kernel, data: Sequence[Tensor]) -> None:
    if op.builtin in CONVERTED:
        (given,), made = data, op.outputs[0]
        if (given.type, made.type) not in CONVERTED[op.builtin]:
            refuse(op, f"TFLM does not make {made.type_name} of {given.type_name}; convert the model to int8")
        return
    one = tuple(t.type for t in data[:1])
    wanted = [(t, kernel.others.get(i, kernel.data)) for i, t in enumerate(op.inputs)]
    wanted += [(t, one) for t in data[1:]]
    results = one if T.INT16 in one else kernel.gives or one
    wanted += [(t, results) for t in op.outputs]
    for tensor, types in wanted:
        if tensor is not None and tensor.type not in types:
            names = " or ".join(TENSOR_TYPE_NAMES[t] for t in types)
            refuse(op, f"`{tensor.name}` is {tensor.type_name}, TFLM takes {names}; convert the model again")


def _check_shapes(op: Operator, kernel: Kernel, data: Sequence[Tensor]) -> None:
    """Refuses outputs that do not follow from the inputs: kernels trust the file's shapes."""
    read = [t.shape for t in op.inputs if t is not None] if kernel.shape == "broadcast" else [data[0].shape]
    try:
        expected = np.broadcast_shapes(*read)
    except ValueError:
        expected = None
    given = [t.shape for t in op.outputs] + [t.shape for t in data if kernel.equal == "data"]
    fits = {
        "same": all(shape == expected for shape in given),
        "broadcast": given == [expected],
        "size": math.prod(given[0]) == math.prod(read[0]),
    }
    if not fits.get(kernel.shape, True):
        shapes = " and ".join(str(list(shape)) for shape in read)
        refuse(op, f"its output has shape {list(given[0])}, which {shapes} do not give; the file is damaged")


def _check_quantization(op: Operator, kernel: Kernel, data: Sequence[Tensor]) -> None:
    fixed, near = kernel.fixed, 0.0
    if fixed is not None and op.outputs[0].type == T.INT16:
        fixed, near = (fixed[0] / 256, 256 * fixed[1]), 1e-3  # kernels take 1/65535, too
        if data[0].type == T.INT16:
            fixed = 1 / 32768, 0
    scale, zero_point = quantization_of(op.outputs[0])
    if fixed is not None and not (math.isclose(scale, fixed[0], rel_tol=near) and zero_point == fixed[1]):
        wanted = f"TFLM's kernel always gives 1/{round(1 / fixed[0])} and {fixed[1]}"
        its = f"its output has scale {scale:g} and zero point {zero_point}"
        refuse(op, f"{its}, {wanted}; convert the model again with these")
    if data[0].type == T.INT16 and op.builtin not in CONVERTED:
        for tensor in (t for t in [*data, *op.outputs] if t.type == T.INT16):
            step, point = quantization_of(tensor)
            if point != 0 or not step > 0:
                wanted = "must have a scale, and zero point 0; convert the model again"
                refuse(op, f"int16 activation `{tensor.name}` {wanted}")
    tensors = {"": [], "data": data, "all": [*data, *op.outputs]}[kernel.equal]
    for tensor in tensors[1:]:
        (one, first), (other, point) = quantization_of(tensors[0]), quantization_of(tensor)
        tolerance = _POOL_TOLERANCE if op.builtin in (B.AVERAGE_POOL_2D, B.MAX_POOL_2D) else 0
        if abs(one - other) > tolerance or first != point:
            given = f"`{tensors[0].name}` has scale {one:g} and zero point {first}, `{tensor.name}` {other:g}"
            refuse(op, f"{given} and {point}, which TFLM's kernel does not convert; {_AS_EQUAL}")


def quantization_of(tensor: Tensor) -> tuple[float, int]:
    """Returns scale and zero point of a tensor, 0 and 0 where it has none."""
    given = tensor.quantization
    return (given.scale, given.zero_point) if given is not None and len(given.scales) else (0.0, 0)


def _input(op: Operator, index: int) -> Tensor:
    tensor = op.inputs[index]
    assert tensor is not None  # check_arity
    return tensor


def _scale(tensor: Tensor | None) -> float:
    return 0.0 if tensor is None else quantization_of(tensor)[0]


def _axis(op: Operator, rank: int, name: str = "axis") -> bool:
    return bool(-rank <= op.option(name, 0) < rank)


def _joins(op: Operator) -> bool:
    shapes, output = [t.shape for t in op.inputs if t is not None], op.outputs[0].shape
    if not _axis(op, len(output)) or {len(s) for s in shapes} != {len(output)}:
        return False
    axis = op.option("axis", 0)
    return bool(sum(shape[axis] for shape in shapes) == output[axis])


def _rows(op: Operator, at: int, each: int) -> bool:
    """Returns whether constant input ``at`` has ``each`` numbers for each dimension of input 0."""
    return _input(op, at).size == each * len(_input(op, 0).shape)


def _gathers(op: Operator) -> bool:
    table, numbers = _input(op, 0), _input(op, 1)
    axis = op.option("axis", 0)
    rank, together = len(table.shape), op.option("batchDims", 0)
    axis += rank if axis < 0 else 0
    return 0 <= together <= axis < rank and table.shape[:together] == numbers.shape[:together]


def _multiplies(op: Operator) -> bool:
    left, right = (t.shape for t in op.inputs if t is not None)
    depth = left[-2] if op.option("adjX", False) else left[-1]
    return depth == (right[-1] if op.option("adjY", False) else right[-2])


def _splits(op: Operator) -> bool:
    data, axis = (_input(op, 1), _input(op, 0)) if op.builtin == B.SPLIT else (_input(op, 0), _input(op, 2))
    rank = len(data.shape)
    return -rank <= int(axis.numpy().reshape(-1)[0]) < rank and all(len(t.shape) == rank for t in op.outputs)


def _squeezes(op: Operator) -> bool:
    axes = tuple(int(a) for a in op.option("squeezeDims", ()))
    try:
        left = np.squeeze(np.broadcast_to(np.int8(0), _input(op, 0).shape), axes or None)
    except ValueError:
        return False
    return left.shape == op.outputs[0].shape


_COMPARABLE: Final = (
    lambda op: all(_scale(t) < 1 for t in op.inputs),
    "TFLM takes scales below 1; convert the model again",
)
_SUM: Final = (
    lambda op: op.outputs[0].type != T.INT8 or max(map(_scale, op.inputs)) < 2**19 * _scale(op.outputs[0]),
    "its output's scale must be above 2^-19 of its inputs'; convert the model again",
)
_PADS: Final = (lambda op: _rows(op, 1, 2), "its padding does not have two numbers a dimension; the file is damaged")
_BLOCK: Final = (lambda op: op.option("blockSize", 0) >= 1, "its blockSize must be at least 1; the file is damaged")

# Further constraints of kernels.
_DEMANDS: Final[dict[int, tuple[Callable[[Operator], Any], str]]] = {
    B.ADD: _SUM,
    B.ADD_N: _SUM,
    B.BATCH_MATMUL: (_multiplies, "its operands' shapes do not fit; the file is damaged"),
    B.CONCATENATION: (
        lambda op: op.option("fusedActivationFunction", 0) == 0 and len(op.inputs) <= 10 and _joins(op),
        "TFLM joins at most 10 tensors, along an axis that they have, without an activation; convert the model so",
    ),
    B.CUMSUM: _SUM,
    B.DEPTH_TO_SPACE: _BLOCK,
    B.DYNAMIC_UPDATE_SLICE: (lambda op: _rows(op, 2, 1), "it needs one index a dimension; the file is damaged"),
    B.EMBEDDING_LOOKUP: (
        lambda op: op.outputs[0].shape == (*_input(op, 0).shape, *_input(op, 1).shape[1:]),
        "its output does not have the table's rows; the file is damaged",
    ),
    B.EQUAL: _COMPARABLE,
    B.FULLY_CONNECTED: (
        lambda op: op.option("weightsFormat", 0) == 0,
        "TFLM takes weights in their default format; convert the model again",
    ),
    B.GATHER: (_gathers, "its axis or its batch dimensions do not fit; the file is damaged"),
    B.GREATER: _COMPARABLE,
    B.GREATER_EQUAL: _COMPARABLE,
    B.HARD_SWISH: (
        lambda op: _scale(_input(op, 0)) < 128 * _scale(op.outputs[0]),
        "TFLM takes an output scale above 1/128 of the input's; convert the model again",
    ),
    B.LESS: _COMPARABLE,
    B.LESS_EQUAL: _COMPARABLE,
    B.MIRROR_PAD: _PADS,
    B.NOT_EQUAL: _COMPARABLE,
    B.PACK: (
        lambda op: op.option("valuesCount", 0) == len(op.inputs) and _axis(op, len(op.outputs[0].shape)),
        "its valuesCount or axis does not fit; the file is damaged",
    ),
    B.PAD: _PADS,
    B.PADV2: _PADS,
    B.RSQRT: (
        lambda op: quantization_of(_input(op, 0))[1] == -128,
        "its input may be negative, at which TFLM's kernel stops; its zero point must be -128",
    ),
    B.SHAPE: (
        lambda op: op.outputs[0].shape == (len(_input(op, 0).shape),),
        "its output does not have a number for each dimension; the file is damaged",
    ),
    B.SOFTMAX: (
        lambda op: op.option("beta", 0.0) > 0 and _input(op, 0).shape[-1] <= MOST_CLASSES,
        f"its beta must be positive, and at more than {MOST_CLASSES} equal values kernels end the process; "
        "convert the model without it",
    ),
    B.SPACE_TO_DEPTH: _BLOCK,
    B.SPLIT: (_splits, "it does not split its input into outputs of one rank; the file is damaged"),
    B.SPLIT_V: (_splits, "it does not split its input into outputs of one rank; the file is damaged"),
    B.SQUARED_DIFFERENCE: (
        lambda op: max(map(_scale, op.inputs)) ** 2 < 4096 * _scale(op.outputs[0]) or _input(op, 0).type != T.INT8,
        "its output's scale must be above 1/4096 of the square of its inputs'; convert the model again",
    ),
    B.SQUEEZE: (_squeezes, "its output is not its input without the named axes of size 1; the file is damaged"),
    B.STRIDED_SLICE: (
        lambda op: not any(op.option(name, 0) for name in ("ellipsisMask", "newAxisMask", "offset")),
        "TFLM ignores new axes, ellipses and offsets; convert the model without them",
    ),
    B.SUB: _SUM,
    B.TRANSPOSE: (
        lambda op: sorted(_input(op, 1).numpy().reshape(-1)) == list(range(len(_input(op, 0).shape))),
        "its permutation does not fit its input; the file is damaged",
    ),
}
