"""Repairs models of other converters, where kernels ignore a part of a file or end the process at it."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Final

import numpy as np

from ..io.errors import one_line
from .check_kernel import MOST_CLASSES, quantization_of
from .constants import free_name
from .errors import ConversionWarning, InjectError
from .kernels import CONVERSIONS, FILTER_OPERATORS, filters_of
from .model import Model, Operator, OperatorCode, Subgraph, Tensor
from .model.schema import BuiltinOperator as B
from .model.schema import TensorType, schema

# Stands for a filter's scale of 0: kernels' factor is 0 with either.
_NO_SCALE: Final = np.float32(1e-30)
# By how much a bias's scale may differ from input scale * filter scale, which converters round.
_ROUNDING: Final = 1e-3


def mend(model: Model, wanted: str | None = None, *, reads_output: bool = False) -> set[Tensor]:
    """Removes the other subgraphs of a plain model, in place, and repairs the subgraph for training. `wanted` is the
    key of a signature or the name of a subgraph; None: the model has one. Returns the logits whose SOFTMAX was left
    out.

    It repairs, with a `ConversionWarning` for each change: signatures of tensors that are no inputs or outputs; equal
    or empty names; filters' scales of 0; scales of biases (kernels assume input scale * filter scale); parts of int8
    tensors that are computed in float; a SOFTMAX at an output with more values than kernels support, unless the loss
    `reads_output`. The input of an ARG_MAX at an output becomes an additional output.
    """
    _choose(model, wanted)
    graph = model.subgraphs[0]
    ports = {*graph.inputs, *graph.outputs}
    for signature in [*(model.signatures or ())]:
        stray = [t for _, t in (*signature.inputs, *signature.outputs) if t not in ports]
        if stray:
            model.signatures = [s for s in model.signatures or () if s is not signature]
            _warn(
                f"signature `{signature.key}` is left out: it names tensor `{stray[0].name}`, which is no "
                "input or output of the model"
            )
    for op in part_in_int8(graph):
        _warn(f"{op.label} parts int8 values now, which the file converts to float before it and back behind it")
    for op in requantize_recurrent(graph):
        _warn(f"{op.label} gets a QUANTIZE behind it: kernels give the output the scale of the state")
    layers = [op for op in graph.operators if op.builtin in FILTER_OPERATORS and op.input(1) is not None]
    _name(graph, [op for op in graph.operators if filters_of(op)])
    for op in layers:
        _mend_scales(graph, op)
    for op in graph.operators:
        scores = op.input(0)
        if op.builtin != B.ARG_MAX or op.outputs[0] not in graph.outputs or scores is None:
            continue
        if scores.type == TensorType.INT8 and scores not in (*graph.inputs, *graph.outputs):
            graph.outputs.append(scores)
            _warn(
                f"output `{scores.name}` is added to the ZO model: the loss reads the scores that {op.label} compares"
            )
    logits = set()
    for op in [*graph.operators] if not reads_output else ():
        read = op.input(0)
        if op.builtin == B.SOFTMAX and read is not None and read.shape[-1:] > (MOST_CLASSES,):
            logits |= _without_softmax(model, graph, op, read)
    return logits


def _warn(message: str) -> None:
    warnings.warn(one_line(message), ConversionWarning, stacklevel=4)


def _choose(model: Model, wanted: str | None) -> None:
    names = {s.key: s.subgraph for s in model.signatures or ()}
    names |= {g.name: g for g in model.subgraphs if g.name and g not in names.values()}
    there = ", ".join(f"`{name}`" for name in names) or "none"
    if wanted is None:
        if len(model.subgraphs) > 1:
            raise InjectError("signature", f"name one of {len(model.subgraphs)} subgraphs: {there}")
        return
    if wanted not in names:
        raise InjectError("signature", f"be one of {there}", wanted)
    model.subgraphs = [names[wanted]]
    if model.signatures is not None:
        model.signatures = [s for s in model.signatures if s.subgraph is names[wanted]]


def _name(graph: Subgraph, layers: Sequence[Operator]) -> None:
    """Gives each filter and bias a name of its own, and each activation that has none."""
    own = {t: f"{op.code.name.lower()}/weights" for op in layers for t in op.inputs[1:] if t and t.is_constant}
    own |= {t: op.code.name.lower() for op in graph.operators for t in op.outputs if not t.name}
    own |= dict.fromkeys((t for t in graph.outputs if not t.name), "output")
    everywhere = {t.name for t in graph.all_tensors()}
    taken: set[str] = set()
    new = []
    for tensor, kind in own.items():
        if not tensor.name or tensor.name in taken:
            tensor.name = free_name(tensor.name or kind, everywhere)
            everywhere.add(tensor.name)
            new.append(tensor.name)
        taken.add(tensor.name)
    if new:
        more = "" if len(new) < 4 else f" and {len(new) - 3} more"
        shown = ", ".join(f"`{name}`" for name in new[:3])
        _warn(f"tensors without a name of their own are now called {shown}{more}")


def _mend_scales(graph: Subgraph, op: Operator) -> None:
    data, weights, bias = op.input(0), op.input(1), op.input(2)
    assert weights is not None
    if data is None or data.quantization is None or weights.quantization is None:
        return
    if not len(data.quantization.scales):  # refused later, with the tensor's name
        return
    scales = weights.quantization.scales
    if np.any(scales == 0) and np.any(scales > 0):
        dead = scales == 0
        weights.quantization.scales = np.where(dead, _NO_SCALE, scales)
        _warn(f"{op.label}: {np.count_nonzero(dead)} of {len(scales)} channels have scale 0 and give a constant")
    if bias is None or bias.quantization is None or sum(bias in o.inputs for o in graph.operators) > 1:
        return
    wanted, given = (weights.quantization.scales * np.float32(data.quantization.scale), bias.quantization.scales)
    if not len(given) or len(given) not in (1, len(wanted)):
        return
    wrong = np.abs(given - wanted) > _ROUNDING * wanted
    if np.any(wrong[weights.quantization.scales != _NO_SCALE]):
        bias.quantization.scales = wanted
        bias.quantization.zero_points = np.zeros(len(wanted), np.int64)
        _warn(f"{op.label}: the scale of bias `{bias.name}` is now input scale * filter scale, as in kernels")


def _without_softmax(model: Model, graph: Subgraph, op: Operator, logits: Tensor) -> set[Tensor]:
    """Leaves a SOFTMAX out if nothing but outputs of the model depends on it, else nothing."""
    shares = op.outputs[0]
    readers = [o for o in graph.operators if shares in o.inputs]
    made = [o.outputs[0] for o in readers]
    if (
        op.option("beta", 1.0) != 1.0
        or logits in (*graph.inputs, *graph.outputs)
        or logits.quantization is None
        or not all(o.builtin in CONVERSIONS for o in readers)
        or not all(t in graph.outputs for t in made or [shares])
        or any(t in o.inputs for o in graph.operators for t in made)
    ):
        return set()
    graph.operators.remove(op)
    graph.tensors = [t for t in graph.tensors if t is not shares]
    graph.outputs = [logits if t is shares else t for t in graph.outputs]
    for signature in model.signatures or ():
        signature.outputs = [(name, logits if t is shares else t) for name, t in signature.outputs]
    for reader, tensor in zip(readers, made, strict=True):
        reader.replace_input(shares, logits)
        if tensor.quantization is not None and tensor.type != TensorType.FLOAT32:
            shift = 128 if tensor.type == TensorType.UINT8 else 0
            tensor.quantization.scales = logits.quantization.scales.copy()
            tensor.quantization.zero_points = logits.quantization.zero_points + shift
    _warn(
        f"{op.label} is left out of the ZO model, whose output has logits: kernels end the process at more "
        f"than {MOST_CLASSES} equal ones, and it has {logits.shape[-1]}"
    )
    return {logits}


# Of each operator: number of the input that it parts, and of the one that names the axis.
_INPUTS: Final[dict[int, tuple[int, int | None]]] = {B.SPLIT: (1, 0), B.SPLIT_V: (0, 2), B.UNPACK: (0, None)}


def parts_of(op: Operator) -> tuple[Tensor, int, list[tuple[int, int]]] | None:
    """Returns the tensor that an operator parts, the axis, and begin and length of each output along it, or None."""
    if op.builtin not in _INPUTS:
        return None
    data, named = _INPUTS[op.builtin]
    source, given = op.input(data), None if named is None else op.input(named)
    if source is None or (named is not None and (given is None or not given.is_constant)):
        return None
    axis = int(op.option("axis", 0) if given is None else given.numpy().reshape(-1)[0]) % len(source.shape)
    lengths = [1 if op.builtin == B.UNPACK else t.shape[axis] for t in op.outputs]
    return source, axis, [(sum(lengths[:i]), length) for i, length in enumerate(lengths)]


def part_in_int8(graph: Subgraph) -> list[Operator]:
    """Makes operators part int8 tensors that the file converts to float before them and back behind them, as
    TensorFlow's converter does at random where nothing reads one of the parts. Returns these operators.
    """
    producers, found = graph.producers(), []
    for op in [*graph.operators]:
        data = op.input(_INPUTS[op.builtin][0]) if op.builtin in _INPUTS else None
        before = None if data is None else producers.get(data)
        if before is None or before.builtin != B.DEQUANTIZE or any(t in graph.outputs for t in op.outputs):
            continue
        source = before.input(0)
        if source is None or source.type != TensorType.INT8:
            continue
        readers = [o for o in graph.operators if any(t in op.outputs for t in o.inputs)]
        if any(o.builtin != B.QUANTIZE or [t.type for t in o.outputs] != [TensorType.INT8] for o in readers):
            continue
        found.append(op)
        op.replace_input(before.outputs[0], source)
        for part in op.outputs:
            part.type, part.quantization = (source.type, source.quantization.copy() if source.quantization else None)
        useless = [o for o in readers if o.outputs[0] not in graph.outputs]
        useless = [o for o in useless if quantization_of(o.outputs[0]) == quantization_of(source)]
        for reader in useless:
            for o in graph.operators:
                o.inputs = [reader.inputs[0] if t is reader.outputs[0] else t for t in o.inputs]
        if before.outputs[0] not in (*graph.outputs, *(t for o in graph.operators for t in o.inputs)):
            useless.append(before)
        graph.operators = [o for o in graph.operators if o not in useless]
        graph.tensors = [t for t in graph.tensors if all(t not in o.outputs for o in useless)]
    return found


def requantize_recurrent(graph: Subgraph) -> list[Operator]:
    """Puts a QUANTIZE behind each LSTM whose output has another scale than its state, which kernels copy to it.
    TensorFlow's converter makes such outputs before a CONCATENATION. Returns these LSTMs.
    """
    found = []
    for op in [*graph.operators]:
        state = op.input(18) if op.builtin == B.UNIDIRECTIONAL_SEQUENCE_LSTM else None
        output = op.outputs[0] if op.outputs else None
        if state is None or output is None or state.quantization is None or output.type != TensorType.INT8:
            continue
        if quantization_of(output) == quantization_of(state):
            continue
        found.append(op)
        own = output.copy()
        own.name = free_name(f"{output.name}/state", {t.name for t in graph.all_tensors()})
        own.quantization = state.quantization.copy()
        op.outputs = [own]
        graph.tensors.append(own)
        quantize = Operator(OperatorCode(B.QUANTIZE), [own], [output])
        graph.operators.insert(graph.operators.index(op) + 1, quantize)
    return found


def part_by_slices(graph: Subgraph, op: Operator) -> bool:
    """Replaces an operator that parts a tensor by a STRIDED_SLICE for each output, so that each one can be computed in
    a segment of its own. Returns False, and changes nothing, where that is not possible.
    """
    found = parts_of(op)
    if found is None:
        return False
    source, axis, parts = found
    rank, at = len(source.shape), graph.operators.index(op)
    slices = []
    for output, (begin, length) in zip(op.outputs, parts, strict=True):
        bounds = []
        for name, place, other in (("begin", begin, 0), ("end", begin + length, 0), ("strides", 1, 1)):
            values = np.array([place if i == axis else other for i in range(rank)], np.int32)
            bounds.append(Tensor.constant(f"{output.name}/{name}", values))
        graph.tensors += bounds
        own = Operator(OperatorCode(B.STRIDED_SLICE), [source, *bounds], [output])
        options = own.raw.builtinOptions = schema.StridedSliceOptionsT()
        own.raw.builtinOptionsType = schema.BuiltinOptions.StridedSliceOptions
        options.beginMask = options.endMask = (1 << rank) - 1 - (1 << axis)
        options.shrinkAxisMask = 1 << axis if op.builtin == B.UNPACK else 0
        slices.append(own)
    graph.operators[at : at + 1] = slices
    return True
