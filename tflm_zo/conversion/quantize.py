"""The quantization of a float32 .tflite to a full-int8 model. `quantize` needs ai-edge-quantizer.

Such files come from PyTorch (litert-torch), ONNX (onnx2tf) and TensorFlow's own converter.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import numpy.typing as npt

from ..converters.channel_statistics import Statistics
from ..converters.errors import ConversionError
from ..converters.model import Model, Signature, Subgraph, Tensor, load_model
from ..converters.model.schema import BuiltinOperator, TensorType
from ..converters.passes.batch import rewrite_batch
from ..converters.passes.layer_names import shown_name
from ..io.arrays import Array
from ..recalibration import channel_statistics_of
from .int8 import ConversionResult, outputs_of, to_int8
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
    """Quantizes a float32 model to int8 by ai-edge-quantizer's static recipe (`static_wi8_ai8`): weights, activations,
    inputs and outputs. The model keeps statistics of its channels on the representative data for `tflm_zo.recalibrate`.

    Args:
        model: a float32 model with one subgraph, its path or its bytes; it is not changed.
        representative: typical inputs, as for `convert`. Inputs have the names of the model's signature.
        batch: samples per invoke.
        per_channel_dense: quantize dense layers per output channel; False: per tensor.
        activation_headroom: as for `convert`.
        classes: as for `convert`.
        labels: as for `convert`.

    Raises:
        ConversionError: ai-edge-quantizer is not installed; the model is no float32 model, has variable sizes, or has
            an operator that stays float (the message names it).
        DataError: the data or the labels do not fit the model.
        OSError: a file cannot be read.

    Example:
        >>> quantize("float.tflite", x_train[:300]).save("model.tflite")  # doctest: +SKIP
    """
    return to_int8(
        _FloatTflite(model),
        representative,
        batch=batch,
        per_channel_dense=per_channel_dense,
        activation_headroom=activation_headroom,
        classes=classes,
        labels=labels,
    )


class _FloatTflite:
    """A float `.tflite` and ai-edge-quantizer, see `FloatModel`."""

    notes: tuple[str, ...] = ()

    def __init__(self, model: Model | str | os.PathLike[str] | bytes) -> None:
        self._modules = _modules()
        self._model = _fixed(model.copy() if isinstance(model, Model) else load_model(model))
        (graph,) = self._model.subgraphs
        self._signature = _signature(self._model)
        names = {tensor: name for name, tensor in reversed(self._signature.inputs)}
        self.inputs = {names[t]: t.shape for t in graph.inputs}
        self.output_shape = graph.outputs[0].shape

    def quantized(self, data: list[Array], per_channel_dense: bool) -> bytes:
        modules, samples = self._modules, range(len(data[0]))
        fed = [{n: x[i : i + 1] for n, x in zip(self.inputs, data, strict=True)} for i in samples]
        try:
            with quiet():
                content = bytearray(self._model.to_bytes())
                made = modules.quantizer.Quantizer(content, modules.recipe.static_wi8_ai8())
                if not per_channel_dense:
                    bits = {"activation_num_bits": 8, "weight_num_bits": 8}
                    tensorwise = modules.qtyping.QuantGranularity.TENSORWISE
                    dense = modules.qtyping.TFLOperationName.FULLY_CONNECTED
                    made.add_static_config(".*", dense, **bits, weight_granularity=tensorwise)
                recipes = modules.recipe_manager.RecipeManager()
                recipes.load_quantization_recipe(made.get_quantization_recipe())
                # Its default, a moving average of the samples' ranges, saturates values beyond it. One thread
                # gives the same ranges each time.
                calibrator = modules.calibrator.Calibrator(
                    content, num_threads=1, qsv_update_func=modules.qsv_utils.min_max_update
                )
                calibrator.calibrate({self._signature.key: fed}, recipes)
                return bytes(made.quantize(calibrator.get_model_qsvs()).quantized_model)
        except Exception as e:
            raise ConversionError(f"ai-edge-quantizer: {first_line(e)}") from e

    def layer_of(self, tensor: str) -> str:
        return shown_name(tensor)

    def name_tensors(self, model: Model) -> None:
        """Names inputs and outputs as in the signature."""
        (graph,) = model.subgraphs
        taken = {t.name for t in graph.all_tensors()}
        for signature in model.signatures or ():
            for name, tensor in (*signature.inputs, *signature.outputs):
                if name not in taken:
                    tensor.name = name
                    taken.add(name)

    def statistics(self, model: Model, data: list[Array]) -> Statistics:
        return channel_statistics_of(model, data)

    def outputs(self, data: list[Array]) -> Array:
        from ai_edge_litert.interpreter import Interpreter

        interpreter = Interpreter(model_content=self._model.to_bytes(), num_threads=1)
        return np.array([values[0][0] for values in outputs_of(interpreter, data)])

    def warnings(self, model: Model) -> Iterator[str]:
        yield from ()


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
    """Returns the float model with batch size 1 and fixed shapes."""
    graph = model.only_graph
    if not graph.inputs or not graph.outputs:
        raise ConversionError("the model has no inputs or no outputs")
    for kind, tensors in (("input", graph.inputs), ("output", graph.outputs)):
        for t in tensors:
            if t.type != TensorType.FLOAT32:
                advice = "this takes float32 models; a model that is int8 already needs no conversion"
                raise ConversionError(f"{kind} `{t.name}` is {t.type_name}: {advice}")
    for t in graph.inputs:
        shape = t.shape_signature or t.shape
        if any(size < 1 for size in shape[1:]):
            advice = "sizes but for the first, the batch, must be fixed; export the model with fixed ones"
            raise ConversionError(f"input `{t.name}` has shape {list(shape)}: {advice}")
    first = graph.inputs[0].shape
    if not first:
        raise ConversionError(f"input `{graph.inputs[0].name}` is a scalar, without a batch axis")
    _fold_shapes(graph)
    rewrite_batch(graph, 1, first[0])
    return model


def _fold_shapes(graph: Subgraph) -> None:
    """Replaces computed shapes of RESHAPE, whose operators have no int8 form, by constants."""
    for op in graph.operators:
        shape = op.input(1)
        if op.builtin == BuiltinOperator.RESHAPE and shape is not None and not shape.is_constant:
            own = np.array(op.outputs[0].shape, np.int32)
            op.inputs[1] = Tensor.constant(f"{op.outputs[0].name}/shape", own)
    while True:
        read = {t for op in graph.operators for t in op.inputs} | set(graph.outputs)
        kept = [op for op in graph.operators if any(t in read for t in op.outputs)]
        if len(kept) == len(graph.operators):
            break
        graph.operators = kept
    used = {t for op in graph.operators for t in (*op.inputs, *op.outputs)} | {*graph.inputs, *graph.outputs}
    graph.tensors = [t for t in graph.tensors if t in used]


def _signature(model: Model) -> Signature:
    """Returns the model's signature, or one of the tensors' names if it has none."""
    (graph,) = model.subgraphs
    own = [s for s in model.signatures or () if {t for _, t in s.inputs} == set(graph.inputs)]
    if own:
        model.signatures = own[:1]
    else:
        ports = ([(t.name, t) for t in tensors] for tensors in (graph.inputs, graph.outputs))
        model.signatures = [Signature(_SIGNATURE, graph, *ports)]
    return model.signatures[0]
