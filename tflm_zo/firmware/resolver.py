"""The op resolver: exactly the operators of the model, those with int8 tensors for int8 alone."""

from __future__ import annotations

from collections.abc import Sequence

from ..converters.constants import OP_PREFIX
from ..converters.model import Model, Operator
from ..converters.model.schema import TensorType
from .source_text import fill, own

# Operators with a registration for int8 alone (CMSIS-NN's), by the header of TFLM's that has it.
_INT8 = {
    "ADD": "add",
    "AVERAGE_POOL_2D": "pooling",
    "BATCH_MATMUL": "batch_matmul",
    "CONV_2D": "conv",
    "DEPTHWISE_CONV_2D": "depthwise_conv",
    "FULLY_CONNECTED": "fully_connected",
    "MAXIMUM": "maximum_minimum",
    "MAX_POOL_2D": "pooling",
    "MINIMUM": "maximum_minimum",
    "MUL": "mul",
    "PAD": "pad",
    "SOFTMAX": "softmax",
    "SVDF": "svdf",
    "TRANSPOSE": "transpose",
    "TRANSPOSE_CONV": "transpose_conv",
}
#: Those of 2022, which ports of TFLM that are older than its checkout have.
EARLY_INT8 = frozenset({"AVERAGE_POOL_2D", "CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED", "MAX_POOL_2D", "SOFTMAX"})
# Tensors that registrations for int8 take: activations and weights, biases and shapes.
_TYPES = {TensorType.INT8, TensorType.INT32}


def _adder(name: str) -> str:
    """``CONV_2D`` → ``AddConv2D``."""
    parts = (p[:1].upper() + (p[1:].lower() if p[:1].isalpha() else p[1:].upper()) for p in name.split("_"))
    joined = "".join(parts).replace("Lstm", "LSTM").replace("BatchMatmul", "BatchMatMul")
    joined = joined.replace("Padv2", "PadV2").replace("Cumsum", "CumSum")
    return f"Add{joined}"


def _is_int8(op: Operator) -> bool:
    tensors = [t for t in (*op.inputs, *op.outputs) if t is not None]
    activations = [t.type for t in (*op.inputs[:1], *op.outputs[:1]) if t is not None]
    return all(t.type in _TYPES for t in tensors) and set(activations) == {TensorType.INT8}


def operators_of(models: Sequence[Model]) -> list[str]:
    """Returns the names of the operators of some models, each once, sorted."""
    return sorted({op.code.name for model in models for graph in model.subgraphs for op in graph.operators})


def _registration(name: str) -> str:
    """Returns the registration of an op that only publishes the addresses of weights, since trainers update them."""
    short = name.removeprefix(OP_PREFIX)
    return "WEIGHTS" if short in ("SEED_REPLAY", "UPDATE", "PERTURB") else short


def resolver_source(models: Sequence[Model], name: str, command: str, *, int8: frozenset[str] | None = None) -> str:
    """Returns the text of ``zo_op_resolver.h`` for the models of all segments, for a model's name, an identifier.
    `int8` are the operators that the build system's TFLM can register for int8 alone; None: all of them.
    """
    operators = [op for model in models for graph in model.subgraphs for op in graph.operators]
    names = operators_of(models)
    custom = [n for n in names if n.startswith(OP_PREFIX)]
    general = {op.code.name for op in operators if not _is_int8(op)}
    narrow = {n for n in names if n in _INT8 and n not in general and (int8 is None or n in int8)}
    calls = []
    for n in names:
        if n not in custom:
            registration = f"tflite::Register_{n}_INT8()" if n in narrow else ""
            calls.append(f"  micro_op_resolver.{_adder(n)}({registration});")
    registered = {n: _registration(n) for n in custom}
    for short in sorted(set(registered.values())):
        calls.append(f"  auto {short.lower()} = tflite::Register_{own(name)['ZO']}_{short}();")
    for n, short in registered.items():
        calls.append(f'  micro_op_resolver.AddCustom("{n}", &{short.lower()});')
    return fill(
        "zo_op_resolver.h.in",
        **own(name),
        command=command,
        count=len(names),
        calls="\n".join(calls),
        headers="\n".join(
            f'#include "tensorflow/lite/micro/kernels/{header}.h"' for header in sorted({_INT8[n] for n in narrow})
        ),
    )
