# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""From a Keras model to a full-int8 model; TensorFlow is needed once `convert` is called."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from ..converters.channel_statistics import Statistics
from ..converters.errors import ConversionError
from ..converters.model import Model, load_model
from ..converters.model.schema import BuiltinOperator
from ..converters.parts import part_in_int8
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
from .keras_source import (
    FixedModel,
    KerasNames,
    first_line,
    load_keras,
    order_and_name,
    quiet,
    tensorflow_and_keras,
    with_fixed_batch,
)
from .training_statistics import training_statistics


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
    part_in_int8(result.subgraphs[0])
    check_int8(result, lambda name: fixed.names.layer_of(name) or name)
    order_and_name(result, [t.name for t in fixed.inputs], fixed.outputs, fixed.names)
    check_ports(result)
    widen_activations(result, activation_headroom)
    leave_out_unused(result)
    int8 = None if known is None else accuracy(result, data, known)
    result = finished(result, lambda made: _statistics(tf, keras, fixed, made, data), classes, batch)
    float_accuracy = None if known is None else _float_accuracy(tf, fixed, data, known, result)
    wrong_labels = [f"accuracy not measured: {wrong}"] if wrong else []
    report = report_of(result, float_accuracy, int8, [*_warnings(fixed, result, data), *wrong_labels])
    return ConversionResult(result, report)


# --- conversion -------------------------------------------------------------------------------------------


def _run_converter(tf: Any, fixed: FixedModel, data: list[Array], per_channel_dense: bool) -> bytes:
    names = [t.name for t in fixed.inputs]
    try:
        with quiet(), fixed.names.apart():
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
        raise ConversionError(_explain(str(e), fixed.names) or fixed.names.own(first_line(e))) from e


def _explain(message: str, layers: KerasNames) -> str | None:
    """One line from the converter's exception: which operators of which layers TFLite does not have."""
    operators = re.search(r"^(?:TF Select|Custom) ops: (.+)$", message, re.MULTILINE)
    if operators is None:
        return None
    names = operators.group(1).strip()
    first = names.split(",")[0]
    place = re.search(rf'fused\["{re.escape(first)}:", "([^"@]+)', message)
    layer = layers.layer_of(place.group(1)) if place else None
    where = f"layer `{layer}`: " if layer else ""
    return f"{where}TFLite has no int8 kernel for {names}; replace it by operators that it has"


def _statistics(tf: Any, keras: Any, fixed: FixedModel, model: Model, data: list[Array]) -> Statistics:
    """Returns what recalibration leads back to, where there is enough data and a layer to lead back."""
    return training_statistics(tf, keras, fixed, model, data) or channel_statistics_of(model, data)


# --- report -------------------------------------------------------------------------------------------------


def _float_accuracy(tf: Any, fixed: FixedModel, data: list[Array], labels: Array, model: Model) -> float:
    with quiet():
        run = tf.function(lambda *x: fixed.model(list(x) if len(x) > 1 else x[0], training=False))
        values = []
        for i in range(len(data[0])):
            result = run(*(tf.constant(x[i : i + 1]) for x in data))
            values.append(np.asarray(result[0] if isinstance(result, list | tuple) else result)[0])
    return score(np.array(values), labels, model)


def _warnings(fixed: FixedModel, model: Model, data: list[Array]) -> Iterator[str]:
    yield from warnings_of([t.name for t in fixed.inputs], data)
    graph = model.subgraphs[0]
    last = (getattr(fixed.source, "layers", None) or [None])[-1]
    activation = getattr(getattr(last, "activation", None), "__name__", "")
    producer = graph.producers().get(graph.outputs[-1])
    if activation == "softmax" and (producer is None or producer.builtin != BuiltinOperator.SOFTMAX):
        yield "the softmax at the end is no operator of its own: a loss cannot read the logits"
    yield from warning_of_training(model)
