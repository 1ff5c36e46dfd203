# SPDX-License-Identifier: Apache-2.0
"""Refuses models that cannot become ZO models, before anything is done to them."""

from __future__ import annotations

from typing import Final, NoReturn

import numpy as np

from ..constants import METADATA_NAME, OP_PREFIX
from ..errors import ConversionError
from ..model import Model, Operator, Subgraph, Tensor
from ..model.schema import BuiltinOperator, TensorType
from ..settings import InjectSettings
from .kernels import ARITY, CONTROL_FLOW, CONVERSIONS, FILTER_OPERATORS, STATEFUL, check_arity
from .plan import Plan

_FLOATS: Final = (TensorType.FLOAT16, TensorType.FLOAT32, TensorType.FLOAT64)

_RANK: Final = {
    BuiltinOperator.CONV_2D: 4,
    BuiltinOperator.DEPTHWISE_CONV_2D: 4,
    BuiltinOperator.FULLY_CONNECTED: 2,
}

# Operators that slide a window over images, [batch, height, width, channels], and what steps and sizes the
# window has.
_CONVOLVES: Final = ("strideH", "strideW", "dilationHFactor", "dilationWFactor")
_POOLS: Final = ("strideH", "strideW", "filterHeight", "filterWidth")
_WINDOW: Final = {
    BuiltinOperator.AVERAGE_POOL_2D: _POOLS,
    BuiltinOperator.CONV_2D: _CONVOLVES,
    BuiltinOperator.DEPTHWISE_CONV_2D: _CONVOLVES,
    BuiltinOperator.MAX_POOL_2D: _POOLS,
}

# Shapes, axes, paddings, truth values: what operators on int8 activations may read besides.
_INDEX_TYPES: Final = (TensorType.BOOL, TensorType.INT32, TensorType.INT64)


def check_supported(model: Model, settings: InjectSettings, plan: Plan) -> None:
    """Raises ConversionError, naming the operator or tensor, unless every operator is an int8 one that TFLM
    has a kernel for (QUANTIZE and DEQUANTIZE at the edges) and the graph is sound. Changes nothing.
    """
    _check_not_injected(model)
    if not model.subgraphs:
        raise ConversionError("the model has no subgraph")
    for graph in model.subgraphs:
        for op in graph.operators:
            if op.builtin in CONTROL_FLOW:
                _refuse(op, "control flow is not supported; convert the model without it")
            if op.builtin in STATEFUL:
                _refuse(
                    op,
                    "it carries a state from one invoke to the next, but training compares invokes that "
                    "begin alike; convert the model that is not streaming, which reads a whole window",
                )
    if len(model.subgraphs) > 1:
        raise ConversionError(
            f"the model has {len(model.subgraphs)} subgraphs, only models with one can be trained"
        )
    graph = model.subgraphs[0]
    if not graph.operators or not graph.inputs or not graph.outputs:
        raise ConversionError("the model has no operators, no inputs or no outputs")
    for tensor in graph.inputs:
        if tensor.is_constant:
            raise ConversionError(f"the file is damaged: input «{tensor.name}» has data of its own")
    for op in graph.operators:
        _check_operator(op)
    check_flow(graph)
    _check_signatures(model, graph)


def _check_signatures(model: Model, graph: Subgraph) -> None:
    for signature in model.signatures or ():
        for ports, tensors in ((signature.inputs, graph.inputs), (signature.outputs, graph.outputs)):
            for name, tensor in ports:
                if tensor not in tensors:
                    raise ConversionError(
                        f"signature «{signature.key}» gives the name «{name}» to tensor «{tensor.name}», "
                        "which is no input or output of the model; convert the model again"
                    )


def _check_not_injected(model: Model) -> None:
    names = (op.code.name for graph in model.subgraphs for op in graph.operators)
    if model.find_metadata(METADATA_NAME) is not None or any(n.startswith(OP_PREFIX) for n in names):
        raise ConversionError("the model is a ZO model already; inject the int8 model it was made from")


def _refuse(op: Operator, reason: str) -> NoReturn:
    raise ConversionError(f"{op.label}: {reason}")


def _check_operator(op: Operator) -> None:
    if op.builtin == BuiltinOperator.CUSTOM:
        _refuse(op, f"custom operator «{op.code.name}» is unknown, the model cannot be trained through it")
    if op.builtin not in ARITY:
        _refuse(op, "TFLM has no int8 kernel for it; convert the model without it")
    check_arity(op)
    for tensor in [*op.inputs, *op.outputs]:
        if tensor is not None:
            _check_tensor(op, tensor)
    if op.builtin in _WINDOW:
        for tensor in (op.inputs[0], op.outputs[0]):
            if tensor is not None and len(tensor.shape) != 4:
                _refuse(
                    op,
                    f"«{tensor.name}» has shape {list(tensor.shape)}, images have 4 dimensions; the file is "
                    "damaged",
                )
        for name in _WINDOW[op.builtin]:
            if op.option(name, 0) < 1:
                _refuse(op, f"{name} is {op.option(name, 0)}, it must be at least 1; the file is damaged")
    if op.builtin in FILTER_OPERATORS:
        _check_filter(op)
    elif op.builtin == BuiltinOperator.DEQUANTIZE and op.inputs[0] is not None and op.inputs[0].is_constant:
        _refuse(
            op,
            f"weights «{op.inputs[0].name}» are stored as {op.inputs[0].type_name}, used as float; "
            "convert the model with full int8 quantization",
        )


def _check_tensor(op: Operator, tensor: Tensor) -> None:
    if tensor.raw.sparsity is not None:
        _refuse(op, f"tensor «{tensor.name}» is sparse, which is not supported; convert the model densely")
    if tensor.is_variable:
        _refuse(
            op,
            f"tensor «{tensor.name}» is a variable, a state from one invoke to the next; models with state "
            "cannot be trained",
        )
    if tensor.type_name in ("INT4", "UINT4", "INT2"):
        _refuse(op, f"tensor «{tensor.name}» is {tensor.type_name}; only int8 weights can be trained")
    if tensor.quantization is not None:
        # Unused parameters come with scale 0 or none at all.
        scales = tensor.quantization.scales
        if not np.all(np.isfinite(scales)) or np.any(scales < 0):
            _refuse(op, f"tensor «{tensor.name}» has a quantization scale that is negative or no number")
        if tensor.quantization.raw.details is not None:
            _refuse(op, f"tensor «{tensor.name}» is quantized in blocks, which is not supported")
    if op.builtin in CONVERSIONS:
        allowed = (*_FLOATS[1:2], TensorType.INT8, TensorType.UINT8, TensorType.INT32)
        if tensor.type not in allowed:
            _refuse(op, f"tensor «{tensor.name}» is {tensor.type_name}; only int8 models can be trained")
        if tensor.type == TensorType.INT8:
            _check_activation(op, tensor)
        return
    if tensor.type in _FLOATS:
        what = "weights are float" if tensor.is_constant else "it computes in float"
        _refuse(
            op,
            f"tensor «{tensor.name}» is {tensor.type_name}, {what}; convert the model with full int8 "
            "quantization (a representative data set), not float or dynamic-range",
        )
    if tensor.type == TensorType.INT16:
        _refuse(op, f"tensor «{tensor.name}» is INT16; convert the model with int8 activations")
    if tensor.type == TensorType.UINT8:
        _refuse(op, f"tensor «{tensor.name}» is UINT8 (the old quantization); convert the model to int8")
    if tensor.type not in (TensorType.INT8, *_INDEX_TYPES):
        _refuse(op, f"tensor «{tensor.name}» is {tensor.type_name}; only int8 models can be trained")
    if tensor.type == TensorType.INT8 and not tensor.is_constant:
        _check_activation(op, tensor)


def _check_activation(op: Operator, tensor: Tensor) -> None:
    quantization = tensor.quantization
    if tensor.is_constant:
        return
    if quantization is None or len(quantization.scales) != 1 or not quantization.scales[0] > 0:
        _refuse(op, f"int8 activation «{tensor.name}» has no (single, positive) quantization scale")
    if not -128 <= quantization.zero_point <= 127:
        _refuse(op, f"int8 activation «{tensor.name}» has zero point {quantization.zero_point}")


def _check_filter(op: Operator) -> None:
    data, weights, bias = op.input(0), op.input(1), op.input(2)
    assert data is not None and weights is not None  # by arity
    if data.type != TensorType.INT8 or op.outputs[0].type != TensorType.INT8:
        _refuse(op, f"activations «{data.name}» and «{op.outputs[0].name}» must both be int8")
    if weights.type != TensorType.INT8:
        _refuse(op, f"filter «{weights.name}» is {weights.type_name}; only int8 weights can be trained")
    if len(weights.shape) != _RANK[op.builtin] or not weights.size:
        _refuse(op, f"filter «{weights.name}» has shape {list(weights.shape)}")
    if not weights.is_constant:
        return
    axis = 3 if op.builtin == BuiltinOperator.DEPTHWISE_CONV_2D else 0
    quantization = weights.quantization
    if quantization is None or not len(quantization.scales) or not np.all(quantization.scales > 0):
        _refuse(op, f"filter «{weights.name}» has no (positive) quantization scales")
    if quantization.is_per_channel and (
        quantization.axis != axis or len(quantization.scales) != weights.shape[axis]
    ):
        _refuse(op, f"filter «{weights.name}» is not quantized per output channel")
    if np.any(quantization.zero_points):
        _refuse(op, f"filter «{weights.name}» has a zero point other than 0, which int8 kernels do not take")
    if bias is not None and bias.type != TensorType.INT32:
        _refuse(op, f"bias «{bias.name}» is {bias.type_name}, int8 kernels take INT32")
    if bias is not None and bias.size != weights.shape[axis]:
        _refuse(op, f"bias «{bias.name}» has {bias.size} values for {weights.shape[axis]} channels")


def check_flow(graph: Subgraph) -> None:
    """Raises ConversionError unless every tensor is computed once, and before it is read."""
    ready: set[Tensor] = set(graph.inputs)
    for op in graph.operators:
        for tensor in op.inputs:
            if tensor is not None and tensor not in ready and not tensor.is_constant and tensor.size:
                _refuse(op, f"input «{tensor.name}» is not computed before it is read; the file is damaged")
        for tensor in op.outputs:
            if tensor in ready or tensor.is_constant:
                _refuse(op, f"output «{tensor.name}» is written twice; the file is damaged")
            ready.add(tensor)
    for tensor in graph.outputs:
        if tensor in graph.inputs:
            raise ConversionError(
                f"output «{tensor.name}» is an input of the model as well, which nothing computes; convert "
                "the model without that output"
            )
        if tensor not in ready and not tensor.is_constant:
            raise ConversionError(f"output «{tensor.name}» is not computed; the file is damaged")
