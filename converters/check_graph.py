"""The check that int8 kernels run the operators of a graph and that training goes through them."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection
from typing import Final, NoReturn

import numpy as np

from .check_kernel import check_kernel, refuse
from .check_recurrent import check_recurrent
from .constants import COMPRESSED, DECODE, ETHOS_U, OWN_OPERATORS
from .errors import ConversionError
from .kernels import (
    CONVERSIONS,
    FILTER_OPERATORS,
    FLOAT_EDGES,
    KERNELS,
    STATES,
    channel_axis,
    check_arity,
    depends_on_build,
)
from .model import Operator, Subgraph, Tensor
from .model.schema import BuiltinOperator, TensorType
from .recurrent import is_own, own_options, use_builtin

_FLOATS: Final = (TensorType.FLOAT16, TensorType.FLOAT32, TensorType.FLOAT64)

_RANK: Final = {BuiltinOperator.CONV_2D: 4, BuiltinOperator.DEPTHWISE_CONV_2D: 4, BuiltinOperator.FULLY_CONNECTED: 2}

# Operators that slide a window over images, [batch, height, width, channels], with the window's steps and sizes.
_CONVOLVES: Final = ("strideH", "strideW", "dilationHFactor", "dilationWFactor")
_POOLS: Final = ("strideH", "strideW", "filterHeight", "filterWidth")
_WINDOW: Final = {
    BuiltinOperator.AVERAGE_POOL_2D: _POOLS,
    BuiltinOperator.CONV_2D: _CONVOLVES,
    BuiltinOperator.DEPTHWISE_CONV_2D: _CONVOLVES,
    BuiltinOperator.MAX_POOL_2D: _POOLS,
}

# Further inputs of operators on int8 activations: shapes, axes, paddings, truth values.
_INDEX_TYPES: Final = (TensorType.BOOL, TensorType.INT32, TensorType.INT64)


def check_graph(graph: Subgraph, filters: Collection[Tensor] = ()) -> None:
    """Raises ConversionError, naming the operator or tensor, unless every operator is an int8 one that TFLM has a
    kernel for (QUANTIZE and DEQUANTIZE at the edges) and the graph is sound. `filters` are variables of a ZO model,
    whose own operators the C core checks.
    """
    if not graph.operators or not graph.inputs or not graph.outputs:
        raise ConversionError("the model has no operators, no inputs or no outputs")
    for tensor in graph.inputs:
        if tensor.is_constant:
            raise ConversionError(f"the file is damaged: input `{tensor.name}` has data of its own")
    for op in graph.operators:
        if _is_float_edge(graph, op):
            continue
        if op.code.name == ETHOS_U:
            _refuse_compiled(graph)
        if is_own(op):
            _check_own(op, filters)
        elif op.code.name not in OWN_OPERATORS:
            _check_operator(op, filters)
        readers = graph.consumers().get(op.outputs[0], []) if depends_on_build(op) else []
        if any(o.builtin not in CONVERSIONS for o in readers):
            why = "builds of TFLM differ by a level in a SOFTMAX of int16, which may be at an output only"
            refuse(op, f"{why}; convert the model with int8 activations")
    check_flow(graph)


def _is_float_edge(graph: Subgraph, op: Operator) -> bool:
    """Returns whether an operator computes an output of the model from a DEQUANTIZE."""
    if op.builtin not in FLOAT_EDGES:
        return False
    read, made = op.input(0), op.outputs[0] if op.outputs else None
    producer = None if read is None else graph.producers().get(read)
    return (
        producer is not None
        and producer.builtin == BuiltinOperator.DEQUANTIZE
        and made is not None
        and made in graph.outputs
        and made.type == TensorType.FLOAT32
        and made.shape == (() if read is None else read.shape)
        and not any(made in other.inputs for other in graph.operators)
    )


def _refuse_compiled(graph: Subgraph) -> NoReturn:
    """Refuses layers that vela has compiled. Names the part of the model that can be trained without them, if any."""
    last = [op for op in graph.operators if op.code.name == ETHOS_U][-1]
    behind = graph.operators[graph.operators.index(last) + 1 :]
    rest = ""
    if last.outputs and any(op.builtin in FILTER_OPERATORS for op in behind):
        rest = f", or cut the file behind `{last.outputs[0].name}` and train the rest on stored values of this tensor"
    why = "vela has compiled layers into it for an Ethos-U, which cannot be trained"
    refuse(last, f"{why}; take the int8 model that vela was given{rest}")


def _check_own(op: Operator, filters: Collection[Tensor]) -> None:
    builtin = dataclasses.replace(op)
    use_builtin(builtin)
    _check_operator(builtin, filters)
    if own_options(builtin) != op.custom_options:
        refuse(op, "its options do not fit its tensors; inject the original model again")


def _check_operator(op: Operator, filters: Collection[Tensor]) -> None:
    if op.code.name == DECODE:
        refuse(op, f"{COMPRESSED}; take the model before compression")
    if op.builtin == BuiltinOperator.CUSTOM:
        refuse(op, f"custom operator `{op.code.name}` is unknown, the model cannot be trained through it")
    if op.builtin not in KERNELS:
        refuse(op, "TFLM has no int8 kernel for it; convert the model without it")
    check_arity(op)
    for tensor in [*op.inputs, *op.outputs]:
        if tensor is not None:
            _check_tensor(op, tensor, filters)
    if op.builtin in _WINDOW:
        for tensor in (op.inputs[0], op.outputs[0]):
            if tensor is not None and len(tensor.shape) != 4:
                shape = list(tensor.shape)
                refuse(op, f"`{tensor.name}` has shape {shape}, images have 4 dimensions; the file is damaged")
        for name in _WINDOW[op.builtin]:
            if op.option(name, 0) < 1:
                refuse(op, f"{name} is {op.option(name, 0)}, it must be at least 1; the file is damaged")
    if op.builtin in FILTER_OPERATORS:
        _check_filter(op, filters)
    elif op.builtin == BuiltinOperator.DEQUANTIZE and op.inputs[0] is not None and op.inputs[0].is_constant:
        stored = f"weights `{op.inputs[0].name}` are stored as {op.inputs[0].type_name}, used as float"
        refuse(op, f"{stored}; convert the model with full int8 quantization")
    check_kernel(op, filters)
    if op.builtin in STATES:
        check_recurrent(op)


def _check_tensor(op: Operator, tensor: Tensor, filters: Collection[Tensor]) -> None:
    is_weights = tensor.is_constant or tensor in filters
    if tensor.raw.sparsity is not None:
        refuse(op, f"tensor `{tensor.name}` is sparse, which is not supported; convert the model densely")
    if tensor.is_variable and tensor not in filters and op.builtin not in STATES:
        what = "is a variable, a state from one invoke to the next; models with state cannot be trained"
        refuse(op, f"tensor `{tensor.name}` {what}")
    if tensor.type_name in ("INT4", "UINT4", "INT2"):
        refuse(op, f"tensor `{tensor.name}` is {tensor.type_name}; convert the model with int8 weights")
    if tensor.quantization is not None:
        # Unused parameters come with scale 0 or none at all.
        scales = tensor.quantization.scales
        if not np.all(np.isfinite(scales)) or np.any(scales < 0):
            refuse(op, f"tensor `{tensor.name}` has a quantization scale that is negative or no number")
        if tensor.quantization.raw.details is not None:
            refuse(op, f"tensor `{tensor.name}` is quantized in blocks, which is not supported")
    allowed: tuple[int, ...]
    if op.builtin in CONVERSIONS:
        allowed = (TensorType.FLOAT32, TensorType.INT8, TensorType.INT16, TensorType.UINT8, TensorType.INT32)
    elif tensor.type in _FLOATS:
        what = "weights are float" if tensor.is_constant else "it computes in float"
        refuse(
            op,
            f"tensor `{tensor.name}` is {tensor.type_name}, {what}; convert the model with full int8 "
            "quantization (a representative data set), not float or dynamic-range; tflm-zo convert takes "
            "a float .tflite",
        )
    elif tensor.type == TensorType.INT16 and not KERNELS[op.builtin].has_int16:
        refuse(op, f"tensor `{tensor.name}` is INT16; convert the model with int8 activations")
    elif tensor.type == TensorType.UINT8:
        refuse(op, f"tensor `{tensor.name}` is UINT8 (the old quantization); convert the model to int8")
    else:
        allowed = (TensorType.INT8, TensorType.INT16, *_INDEX_TYPES)
    if tensor.type not in allowed:
        refuse(op, f"tensor `{tensor.name}` is {tensor.type_name}; only int8 models can be trained")
    if tensor.type == TensorType.INT8 and not is_weights:
        _check_activation(op, tensor)


def _check_activation(op: Operator, tensor: Tensor) -> None:
    quantization = tensor.quantization
    if quantization is None or len(quantization.scales) != 1 or not quantization.scales[0] > 0:
        refuse(op, f"int8 activation `{tensor.name}` has no (single, positive) quantization scale")
    if not -128 <= quantization.zero_point <= 127:
        refuse(op, f"int8 activation `{tensor.name}` has zero point {quantization.zero_point}")


def _check_filter(op: Operator, filters: Collection[Tensor]) -> None:
    data, weights, bias = op.input(0), op.input(1), op.input(2)
    assert data is not None and weights is not None  # by arity
    if data.type not in (TensorType.INT8, TensorType.INT16) or op.outputs[0].type != data.type:
        refuse(op, f"activations `{data.name}` and `{op.outputs[0].name}` must both be int8 or int16")
    if weights.type != TensorType.INT8:
        refuse(op, f"filter `{weights.name}` is {weights.type_name}; only int8 weights can be trained")
    if len(weights.shape) != _RANK[op.builtin] or not weights.size:
        refuse(op, f"filter `{weights.name}` has shape {list(weights.shape)}")
    if op.builtin == BuiltinOperator.CONV_2D and data.shape[-1] % weights.shape[-1]:
        refuse(op, f"filter `{weights.name}` of shape {list(weights.shape)} does not fit {data.shape[-1]} channels")
    is_int16, bias_type = data.type == TensorType.INT16, TensorType.INT32
    if is_int16:
        bias_type = TensorType.INT64
        if bias is None and op.builtin == BuiltinOperator.CONV_2D:
            refuse(op, "LiteRT takes a convolution of int16 with a bias only; convert the model with one")
        if op.builtin == BuiltinOperator.CONV_2D and data.shape[-1] != weights.shape[-1]:
            refuse(op, "CMSIS-NN has no grouped convolution of int16; convert the model with int8 activations")
    if not weights.is_constant and weights not in filters:
        return
    axis, quantization = channel_axis(op), weights.quantization
    if quantization is None or not len(quantization.scales) or not np.all(quantization.scales > 0):
        refuse(op, f"filter `{weights.name}` has no (positive) quantization scales")
    if quantization.is_per_channel and (quantization.axis != axis or len(quantization.scales) != weights.shape[axis]):
        refuse(op, f"filter `{weights.name}` is not quantized per output channel")
    if np.any(quantization.zero_points):
        refuse(op, f"filter `{weights.name}` has a zero point other than 0, which int8 kernels do not take")
    if bias is not None and bias.type != bias_type:
        kernels = "int16 kernels take INT64" if is_int16 else "int8 kernels take INT32"
        refuse(op, f"bias `{bias.name}` is {bias.type_name}, {kernels}; convert the model again")
    if bias is not None and bias.size != weights.shape[axis]:
        refuse(op, f"bias `{bias.name}` has {bias.size} values for {weights.shape[axis]} channels")


def check_flow(graph: Subgraph) -> None:
    """Raises ConversionError unless every tensor is computed once, and before it is read."""
    ready: set[Tensor] = set(graph.inputs)
    for op in graph.operators:
        for tensor in op.inputs:
            given = tensor is None or tensor.is_constant or tensor.is_variable or not tensor.size
            if tensor is not None and not given and tensor not in ready:
                refuse(op, f"input `{tensor.name}` is not computed before it is read; the file is damaged")
        for tensor in op.outputs:
            if tensor in ready or tensor.is_constant or tensor.is_variable:
                refuse(op, f"output `{tensor.name}` is written twice; the file is damaged")
            ready.add(tensor)
    for tensor in graph.outputs:
        if tensor in graph.inputs:
            raise ConversionError(
                f"output `{tensor.name}` is an input of the model as well, which nothing computes; convert "
                "the model without that output"
            )
        if tensor not in ready and not tensor.is_constant:
            raise ConversionError(f"output `{tensor.name}` is not computed; the file is damaged")
