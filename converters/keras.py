# SPDX-License-Identifier: Apache-2.0
"""From a Keras model to a full-int8 model; TensorFlow is needed once `convert` is called."""

from __future__ import annotations

import dataclasses
import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from .channel_statistics import with_statistics
from .data import Array
from .errors import ConversionError, DataError
from .grow_classes import grow_classes
from .keras_names import layer_names, layer_of, order_and_name
from .keras_source import FixedModel, first_line, load_keras, quiet, tensorflow_and_keras, with_fixed_batch
from .model import Model, Operator, Tensor, load_model
from .model.schema import BuiltinOperator, TensorType
from .passes.check_supported import check_supported
from .passes.plan import Plan
from .rebatch import set_batch
from .representative import representative_labels, representative_samples
from .settings import InjectSettings
from .training_statistics import training_statistics
from .widen_activations import widen_activations

_FEW: Final = 50
_EDGES: Final = (BuiltinOperator.QUANTIZE, BuiltinOperator.DEQUANTIZE)


@dataclasses.dataclass(frozen=True)
class Port:
    """An input or output: real value = scale * (int8 value - zero_point)."""

    name: str
    shape: tuple[int, ...]
    scale: float
    zero_point: int


@dataclasses.dataclass(frozen=True)
class ConversionReport:
    """A report of a conversion.

    Attributes:
        inputs: inputs in the order of the Keras model.
        outputs: outputs in the order of the Keras model.
        operators: kinds of the operators in execution order, e.g. "CONV_2D".
        float_accuracy: accuracy of the first output of the Keras model on the labelled representative data;
            None without labels.
        int8_accuracy: accuracy of the int8 model on these data (LiteRT's kernels, without delegates).
        warnings: warnings, of one line each.
    """

    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    operators: tuple[str, ...]
    float_accuracy: float | None
    int8_accuracy: float | None
    warnings: tuple[str, ...]


@dataclasses.dataclass(frozen=True)
class ConversionResult:
    """A converted model and the report of its conversion."""

    model: Model
    report: ConversionReport

    def save(self, path: str | os.PathLike[str], force: bool = False) -> Path:
        """Writes the model; see ``Model.save``."""
        return self.model.save(path, force)


def convert(
    model: Any,
    representative: Any,
    *,
    batch: int = 1,
    per_channel_dense: bool = True,
    activation_headroom: float = 0.0,
    classes: int | None = None,
    labels: npt.ArrayLike | None = None,
) -> ConversionResult:
    """Converts a Keras model to int8: weights, activations, inputs and outputs.

    The result is deterministic. A softmax at the end stays an operator of its own, so that a loss can read
    the logits before it. The model keeps statistics of its channels for `tflm_zo.recalibrate`: those of the
    representative data, and behind batch normalization those of the training data, which it remembers.

    Args:
        model: a Keras 3 model, or the path of a ``.keras`` or ``.h5`` file or of a SavedModel folder (its
            signature ``serving_default``, inputs and outputs in the order of their names). It is not changed.
        representative: typical inputs, which calibrate the ranges of activations: an array [samples, ...]
            (for several inputs a list or tuple of arrays in the model's order, or a dictionary by their
            names), the path of a ``.npy`` file or of an ``.npz`` file (``x``, or the names of the inputs;
            ``y``: labels), or an iterable of samples or batches, arrays (for several inputs: lists or
            dictionaries of arrays). A few hundred samples do. Dimensions of size 1 may be missing or too
            many.
        batch: samples per invoke.
        per_channel_dense: quantize Dense layers per output channel; False: per tensor.
        activation_headroom: fraction by which the calibrated ranges of activations are widened, so that a
            model that drifts in training does not saturate; see ``widen_activations``.
        classes: number of classes that the first output is to have. More than Keras' model has leave room for
            classes to be learned later, see ``grow_classes``; accuracies in the report are of Keras' classes.
        labels: integers [samples], class indices of the representative data, -1 for a sample without one, or
            one-hot [samples, classes]; for the report's accuracies. In a model with several outputs they are
            labels of the first one.

    Raises:
        ConversionError: TensorFlow is not installed; the model cannot be read or converted, or an operator
            has no int8 kernel (the message names it).
        DataError: the data or the labels do not fit the model.
        OSError: a file cannot be read.

    Example:
        >>> convert("model.keras", x_train[:300]).save("model.tflite")  # doctest: +SKIP
    """
    with quiet():
        tf, keras = tensorflow_and_keras()
        fixed = with_fixed_batch(keras, load_keras(keras, model))
    data, found = representative_samples(representative, fixed.inputs)
    wrong, known = None, None
    try:
        if labels is not None or found is not None:
            given = found if labels is None else labels
            known = representative_labels(given, data, fixed.model.outputs[0].shape)
    except DataError as error:
        if labels is not None:
            raise
        wrong = error  # a file's y may be the targets of a regression
    result = load_model(_run_converter(tf, fixed, data, per_channel_dense))
    layers = layer_names(fixed.source)
    _check_int8(result, layers)
    order_and_name(result, [t.name for t in fixed.inputs], fixed.outputs, layers)
    _check_ports(result)
    widen_activations(result, activation_headroom)
    # Whatever the editor left over is not worth flash.
    used = result.referenced_buffers()
    result.buffers = [b for i, b in enumerate(result.buffers) if i == 0 or b in used]
    int8 = None if known is None else accuracy(result, data, known)
    result = _with_statistics(tf, keras, fixed, result, data)
    if classes is not None:
        result = grow_classes(result, classes)
    if batch != 1:
        result = set_batch(result, batch)
    graph = result.subgraphs[0]
    report = ConversionReport(
        inputs=tuple(_port(t) for t in graph.inputs),
        outputs=tuple(_port(t) for t in graph.outputs),
        operators=tuple(op.code.name for op in graph.operators),
        float_accuracy=None if known is None else _float_accuracy(tf, fixed, data, known, result),
        int8_accuracy=int8,
        warnings=(
            *_warnings(fixed, result, data),
            *([f"accuracy not measured: {wrong}"] if wrong else ()),
        ),
    )
    return ConversionResult(result, report)


def accuracy(model: Model, inputs: Array | Sequence[Array], labels: npt.ArrayLike) -> float:
    """Accuracy of the first output of an int8 model on real-valued inputs, in LiteRT.

    Args:
        model: an int8 model of batch size 1.
        inputs: [samples, ...], one array per input.
        labels: class numbers, integers [samples]; a sample with a label below 0 does not count.
    """
    # Above the rewriter, which knows no runtime; and not needed to convert.
    from ai_edge_litert.interpreter import Interpreter, OpResolverType

    from ..runtime import exact_delegate

    arrays = [inputs] if isinstance(inputs, np.ndarray) else list(inputs)
    if any(t.shape[:1] != (1,) for t in model.subgraphs[0].inputs):
        raise ConversionError("accuracy takes a model of batch size 1")
    interpreter = Interpreter(
        model_content=model.to_bytes(),
        num_threads=1,
        experimental_op_resolver_type=OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES,
        experimental_delegates=[exact_delegate()],
    )
    interpreter.allocate_tensors()
    ports = interpreter.get_input_details()
    output = interpreter.get_output_details()[0]
    scale, zero_point = output["quantization"]
    values = []
    for i in range(len(arrays[0])):
        for details, array in zip(ports, arrays, strict=True):
            s, z = details["quantization"]
            levels = np.clip(np.rint(array[i : i + 1] / s) + z, -128, 127)
            interpreter.set_tensor(details["index"], levels.astype(np.int8))
        interpreter.invoke()
        values.append((interpreter.get_tensor(output["index"])[0].astype(np.float64) - zero_point) * scale)
    return _score(np.array(values), np.asarray(labels), model)


def _score(values: Array, labels: Array, model: Model) -> float:
    """Share of right answers; a single output is a probability after LOGISTIC, else a logit."""
    known = labels >= 0
    rows, labels = values.reshape(len(labels), -1)[known], labels[known]
    if rows.shape[1] > 1:
        return float(np.mean(rows.argmax(1) == labels))
    graph = model.subgraphs[0]
    producer = graph.producers().get(graph.outputs[0])
    threshold = 0.5 if producer is not None and producer.builtin == BuiltinOperator.LOGISTIC else 0.0
    return float(np.mean((rows[:, 0] > threshold) == labels))


# --- conversion -------------------------------------------------------------------------------------------


def _run_converter(tf: Any, fixed: FixedModel, data: list[Array], per_channel_dense: bool) -> bytes:
    names = [t.name for t in fixed.inputs]
    try:
        with quiet():
            converter = tf.lite.TFLiteConverter.from_keras_model(fixed.model)
            converter.optimizations = [tf.lite.Optimize.DEFAULT]
            converter.representative_dataset = lambda: (
                {n: x[i : i + 1] for n, x in zip(names, data, strict=True)} for i in range(len(data[0]))
            )
            converter.target_spec.supported_ops = [tf.lite.OpsSet.TFLITE_BUILTINS_INT8]
            converter.inference_input_type = converter.inference_output_type = tf.int8
            converter._experimental_disable_per_channel_quantization_for_dense_layers = not per_channel_dense
            return bytes(converter.convert())
    except Exception as e:
        raise ConversionError(_explain(str(e), layer_names(fixed.source)) or first_line(e)) from e


def _explain(message: str, layers: Sequence[str]) -> str | None:
    """One line from the converter's exception: which operators of which layers TFLite does not have."""
    operators = re.search(r"^(?:TF Select|Custom) ops: (.+)$", message, re.MULTILINE)
    if operators is None:
        return None
    names = operators.group(1).strip()
    first = names.split(",")[0]
    place = re.search(rf'fused\["{re.escape(first)}:", "([^"@]+)', message)
    layer = layer_of(place.group(1), layers) if place else None
    where = f"layer «{layer}»: " if layer else ""
    return f"{where}TFLite has no int8 kernel for {names}; replace it by operators that it has"


def _check_int8(model: Model, layers: Sequence[str]) -> None:
    graph = model.subgraphs[0]
    floats = (TensorType.FLOAT16, TensorType.FLOAT32, TensorType.FLOAT64, TensorType.COMPLEX64)

    def is_float(op: Operator) -> bool:
        return any(t is not None and t.type in floats for t in [*op.inputs, *op.outputs])

    culprits = [op for op in graph.operators if is_float(op) and op.builtin not in _EDGES]
    culprits += [op for op in graph.operators if is_float(op)]
    if not culprits:
        return
    op = culprits[0]
    name = op.outputs[0].name if op.outputs else ""
    layer = layer_of(name, layers)
    raise ConversionError(
        f"layer «{layer or name}»: {op.code.name} stays float, TFLite's converter has no int8 form for it "
        "here; replace it by operators that have one"
    )


def _check_ports(model: Model) -> None:
    """Every input and output is int8 and has a scale."""
    graph = model.subgraphs[0]
    read = {t for op in graph.operators for t in op.inputs}
    for kind, tensors in (("input", graph.inputs), ("output", graph.outputs)):
        for tensor in tensors:
            if kind == "input" and tensor not in read:
                raise ConversionError(f"input «{tensor.name}»: no output depends on it; leave it out")
            if tensor.type != TensorType.INT8:
                raise ConversionError(f"{kind} «{tensor.name}» is {tensor.type_name}; only int8 can be one")
            if tensor.quantization is None or not len(tensor.quantization.scales):
                raise ConversionError(f"{kind} «{tensor.name}» has no scale; leave it out")


def _with_statistics(tf: Any, keras: Any, fixed: FixedModel, model: Model, data: list[Array]) -> Model:
    """Keeps what recalibration leads back to, where there is enough data and a layer to lead back."""
    # Above the rewriter, which knows no runtime; only a conversion has the data at hand.
    from ..recalibration import channel_statistics_of

    try:
        found = training_statistics(tf, keras, fixed, model, data)
        return with_statistics(model, found or channel_statistics_of(model, data))
    except (ConversionError, DataError):
        return model  # the report says what cannot be trained, too


# --- report -------------------------------------------------------------------------------------------------


def _port(tensor: Tensor) -> Port:
    quantization = tensor.quantization
    assert quantization is not None  # _check_int8 found no float
    return Port(tensor.name, tensor.shape, quantization.scale, quantization.zero_point)


def _float_accuracy(tf: Any, fixed: FixedModel, data: list[Array], labels: Array, model: Model) -> float:
    with quiet():
        run = tf.function(lambda *x: fixed.model(list(x) if len(x) > 1 else x[0], training=False))
        values = []
        for i in range(len(data[0])):
            result = run(*(tf.constant(x[i : i + 1]) for x in data))
            values.append(np.asarray(result[0] if isinstance(result, list | tuple) else result)[0])
    return _score(np.array(values), labels, model)


def _warnings(fixed: FixedModel, model: Model, data: list[Array]) -> Iterator[str]:
    samples = len(data[0])
    if samples < _FEW:
        plural = "" if samples == 1 else "s"
        yield f"only {samples} representative sample{plural}: the ranges of activations may be too narrow"
    for tensor, values in zip(fixed.inputs, data, strict=True):
        if values.size and values.min() == values.max():
            yield (
                f"representative data of input «{tensor.name}»: every value is {values.flat[0]:g}, "
                "which tells no range"
            )
    graph = model.subgraphs[0]
    last = (getattr(fixed.source, "layers", None) or [None])[-1]
    activation = getattr(getattr(last, "activation", None), "__name__", "")
    producer = graph.producers().get(graph.outputs[-1])
    if activation == "softmax" and (producer is None or producer.builtin != BuiltinOperator.SOFTMAX):
        yield "the softmax at the end is no operator of its own: a loss cannot read the logits"
    try:
        check_supported(model, InjectSettings(), Plan())
    except ConversionError as e:
        yield f"the model cannot be trained with tflm_zo: {e}"
