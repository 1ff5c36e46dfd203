# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""From a float32 .tflite to a full-int8 model, by ai-edge-quantizer, which is needed once `quantize` is
called.

Such files come from PyTorch (litert-torch), ONNX (onnx2tf) and TensorFlow's own converter.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import numpy.typing as npt

from ..converters.errors import ConversionError
from ..converters.model import Buffer, Model, Signature, Subgraph, Tensor, load_model
from ..converters.model.schema import BuiltinOperator, TensorType
from ..converters.parts import part_in_int8
from ..converters.passes.batch import rewrite_batch
from ..converters.passes.layer_names import shown_name
from ..converters.widen_activations import widen_activations
from ..io.arrays import Array
from ..io.errors import DataError
from ..recalibration import channel_statistics_of
from .int8 import (
    ConversionResult,
    accuracy,
    check_int8,
    check_ports,
    finished,
    leave_out_unused,
    report_of,
    representative_labels,
    representative_samples,
    score,
    warning_of_training,
    warnings_of,
)
from .keras_source import first_line, quiet

_SIGNATURE = "serving_default"


def quantize(
    model: Model | str | os.PathLike[str] | bytes,
    representative: Any,
    *,
    batch: int = 1,
    per_channel_dense: bool = True,
    activation_headroom: float = 0.0,
    classes: int | None = None,
    labels: npt.ArrayLike | None = None,
) -> ConversionResult:
    """Quantizes a float32 model to int8: weights, activations, inputs and outputs.

    ai-edge-quantizer does it, by its static recipe (`static_wi8_ai8`). The model keeps statistics of its
    channels for `tflm_zo.recalibrate`, those of the representative data.

    Args:
        model: a float32 model with one subgraph, its path or its bytes; it is not changed.
        representative: typical inputs, which calibrate the ranges of activations, as `convert` takes them;
            inputs are called what the model's signature calls them.
        batch: samples per invoke.
        per_channel_dense: quantize dense layers per output channel; False: per tensor.
        activation_headroom: fraction by which the calibrated ranges of activations are widened, see
            ``widen_activations``.
        classes: number of classes that the first output is to have, see ``grow_classes``.
        labels: class indices of the representative data, as `convert` takes them; for the report's
            accuracies.

    Raises:
        ConversionError: ai-edge-quantizer is not installed; the model is no float32 model, has sizes that may
            change, or an operator that stays float (the message names it).
        DataError: the data or the labels do not fit the model.
        OSError: a file cannot be read.

    Example:
        >>> quantize("float.tflite", x_train[:300]).save("model.tflite")  # doctest: +SKIP
    """
    modules = _modules()
    fixed = _fixed(model.copy() if isinstance(model, Model) else load_model(model))
    (graph,) = fixed.subgraphs
    signature = _signature(fixed)
    inputs = [(next(name for name, own in signature.inputs if own is t), t) for t in graph.inputs]
    named = [_Input(name, t.shape) for name, t in inputs]
    data, found = representative_samples(representative, named)
    wrong, known = None, None
    try:
        if labels is not None or found is not None:
            known = representative_labels(found if labels is None else labels, data, graph.outputs[0].shape)
    except DataError as error:
        if labels is not None:
            raise
        wrong = error  # a file's y may be the targets of a regression
    names = [name for name, _ in inputs]
    result = load_model(_quantized(modules, fixed, signature.key, names, data, per_channel_dense))
    part_in_int8(result.subgraphs[0])
    check_int8(result, shown_name)
    _name_ports(result)
    check_ports(result)
    widen_activations(result, activation_headroom)
    leave_out_unused(result)
    int8 = None if known is None else accuracy(result, data, known)
    result = finished(result, lambda made: _statistics(made, data), classes, batch)
    float_accuracy = None if known is None else _float_accuracy(fixed, data, known, result)
    warnings = [*warnings_of(names, data), *warning_of_training(result)]
    if wrong is not None:
        warnings.append(f"accuracy not measured: {wrong}")
    return ConversionResult(result, report_of(result, float_accuracy, int8, warnings))


class _Input:
    """An input, as `representative_samples` takes one."""

    def __init__(self, name: str, shape: Sequence[int]) -> None:
        self.name, self.shape = name, shape


def _modules() -> Any:
    try:
        with quiet():
            from ai_edge_quantizer import calibrator, qtyping, quantizer, recipe, recipe_manager
            from ai_edge_quantizer.utils import qsv_utils
    except ImportError as e:
        raise ConversionError(
            f"quantizing a float .tflite needs ai-edge-quantizer ({e}): pip install 'tflm_zo[quantizer]'"
        ) from e
    return SimpleNamespace(
        calibrator=calibrator,
        qtyping=qtyping,
        quantizer=quantizer,
        recipe=recipe,
        recipe_manager=recipe_manager,
        qsv_utils=qsv_utils,
    )


# --- the float model ------------------------------------------------------------------------------------


def _fixed(model: Model) -> Model:
    """Returns a float model for one sample, in which every size is fixed and known."""
    if len(model.subgraphs) != 1:
        raise ConversionError(f"the model has {len(model.subgraphs)} subgraphs, only one is supported")
    graph = model.subgraphs[0]
    if not graph.inputs or not graph.outputs:
        raise ConversionError("the model has no inputs or no outputs")
    for kind, tensors in (("input", graph.inputs), ("output", graph.outputs)):
        for t in tensors:
            if t.type != TensorType.FLOAT32:
                raise ConversionError(
                    f"{kind} `{t.name}` is {t.type_name}: this takes float32 models; a model that is int8 "
                    "already needs no conversion"
                )
    for t in graph.inputs:
        if any(size < 1 for size in (t.shape_signature or t.shape)[1:]):
            raise ConversionError(
                f"input `{t.name}` has shape {list(t.shape_signature or t.shape)}: sizes but for the first, "
                "the batch, must be fixed; export the model with fixed ones"
            )
    first = graph.inputs[0].shape
    if not first:
        raise ConversionError(f"input `{graph.inputs[0].name}` is a scalar, without a batch axis")
    _fold_shapes(graph)
    rewrite_batch(graph, 1, first[0])
    return model


def _fold_shapes(graph: Subgraph) -> None:
    """Makes shapes constant that a RESHAPE reads and the graph computes from the batch, and leaves out what
    computes them: it would stay no int8.
    """
    for op in graph.operators:
        shape = op.input(1)
        if op.builtin == BuiltinOperator.RESHAPE and shape is not None and not shape.is_constant:
            own = np.array(op.outputs[0].shape, np.int32)
            op.inputs[1] = Tensor(
                f"{op.outputs[0].name}/shape", own.shape, TensorType.INT32, Buffer(own.tobytes())
            )
    while True:
        read = {t for op in graph.operators for t in op.inputs} | set(graph.outputs)
        kept = [op for op in graph.operators if any(t in read for t in op.outputs)]
        if len(kept) == len(graph.operators):
            break
        graph.operators = kept
    used = {t for op in graph.operators for t in (*op.inputs, *op.outputs)} | {*graph.inputs, *graph.outputs}
    graph.tensors = [t for t in graph.tensors if t in used]


def _signature(model: Model) -> Signature:
    """Returns the model's signature; one of the tensors' names where it has none."""
    (graph,) = model.subgraphs
    own = [s for s in model.signatures or () if {t for _, t in s.inputs} == set(graph.inputs)]
    if own:
        model.signatures = own[:1]
    else:
        ports = ([(t.name, t) for t in tensors] for tensors in (graph.inputs, graph.outputs))
        model.signatures = [Signature(_SIGNATURE, graph, *ports)]
    return model.signatures[0]


# --- quantization ---------------------------------------------------------------------------------------


def _quantized(
    modules: Any, model: Model, key: str, names: Sequence[str], data: Sequence[Array], per_channel_dense: bool
) -> bytes:
    samples = ({n: x[i : i + 1] for n, x in zip(names, data, strict=True)} for i in range(len(data[0])))
    try:
        with quiet():
            content = bytearray(model.to_bytes())
            made = modules.quantizer.Quantizer(content, modules.recipe.static_wi8_ai8())
            if not per_channel_dense:
                made.add_static_config(
                    ".*",
                    modules.qtyping.TFLOperationName.FULLY_CONNECTED,
                    activation_num_bits=8,
                    weight_num_bits=8,
                    weight_granularity=modules.qtyping.QuantGranularity.TENSORWISE,
                )
            recipes = modules.recipe_manager.RecipeManager()
            recipes.load_quantization_recipe(made.get_quantization_recipe())
            # By itself it takes moving averages of the samples' ranges: what is beyond them saturates. One
            # thread: the same ranges each time.
            calibrator = modules.calibrator.Calibrator(
                content, num_threads=1, qsv_update_func=modules.qsv_utils.min_max_update
            )
            calibrator.calibrate({key: list(samples)}, recipes)
            return bytes(made.quantize(calibrator.get_model_qsvs()).quantized_model)
    except Exception as e:
        raise ConversionError(f"ai-edge-quantizer: {first_line(e)}") from e


def _name_ports(model: Model) -> None:
    """Calls inputs and outputs what the signature calls them, as those who feed the model do."""
    (graph,) = model.subgraphs
    taken = {t.name for t in graph.all_tensors()}
    for signature in model.signatures or ():
        for name, tensor in (*signature.inputs, *signature.outputs):
            if name not in taken:
                tensor.name = name
                taken.add(name)


def _statistics(model: Model, data: list[Array]) -> Any:
    return channel_statistics_of(model, data)


def _float_accuracy(model: Model, data: Sequence[Array], labels: Array, int8: Model) -> float:
    from ai_edge_litert.interpreter import Interpreter

    interpreter = Interpreter(model_content=model.to_bytes(), num_threads=1)
    interpreter.allocate_tensors()
    output = interpreter.get_output_details()[0]["index"]
    return score(np.array(list(_outputs(interpreter, output, data))), labels, int8)


def _outputs(interpreter: Any, output: int, data: Sequence[Array]) -> Iterator[Array]:
    ports = [details["index"] for details in interpreter.get_input_details()]
    for i in range(len(data[0])):
        for port, x in zip(ports, data, strict=True):
            interpreter.set_tensor(port, x[i : i + 1])
        interpreter.invoke()
        yield interpreter.get_tensor(output)[0]
