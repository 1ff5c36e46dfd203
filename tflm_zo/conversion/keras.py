"""The conversion of a Keras model to a full-int8 model. `convert` needs TensorFlow."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from ..converters.channel_statistics import Statistics
from ..converters.errors import ConversionError
from ..converters.model import Model
from ..converters.model.schema import BuiltinOperator
from ..io.arrays import Array
from ..recalibration import channel_statistics_of
from .int8 import ConversionResult, to_int8
from .keras_source import (
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

    The result is deterministic. A softmax at the end remains an operator, so that a loss can read the logits before it.
    The model keeps statistics of its channels for `tflm_zo.recalibrate`: those of the representative data or, after
    batch normalization, those of the training data. An LSTM becomes the operator of that name; other recurrent layers
    are unrolled, and all steps read the same filters.

    Args:
        model: a Keras 3 model, or the path of a ``.keras`` or ``.h5`` file or of a SavedModel folder (its signature
            ``serving_default``, inputs and outputs in the order of their names). It is not changed.
        representative: typical inputs, which calibrate the ranges of activations: an array [samples, ...] (for several
            inputs a list or tuple of arrays in the model's order, or a dictionary by their names), the path of a
            ``.npy`` file or of an ``.npz`` file (``x``, or the names of the inputs; ``y``: labels), or an iterable of
            samples or batches, arrays (for several inputs: lists or dictionaries of arrays). A few hundred samples are
            enough. Dimensions of size 1 may be missing or added.
        batch: samples per invoke.
        per_channel_dense: quantize Dense layers per output channel; False: per tensor.
        activation_headroom: fraction by which the calibrated ranges of activations are widened against saturation in
            training; see ``widen_activations``.
        classes: number of classes of the first output. A number above that of the Keras model adds classes to learn
            later, see ``grow_classes``; the report's accuracies are those of the Keras model's classes.
        labels: class indices of the representative data, integers [samples], -1 for a sample without a label, or
            one-hot [samples, classes]; for the report's accuracies. They belong to the first output.

    Raises:
        ConversionError: TensorFlow is not installed; the model cannot be read or converted, or an operator has no int8
            kernel (the message names it).
        DataError: the data or the labels do not fit the model.
        OSError: a file cannot be read.

    Example:
        >>> convert("model.keras", x_train[:300]).save("model.tflite")  # doctest: +SKIP
    """
    return to_int8(
        _KerasModel(model),
        representative,
        batch=batch,
        per_channel_dense=per_channel_dense,
        activation_headroom=activation_headroom,
        classes=classes,
        labels=labels,
    )


class _KerasModel:
    """A Keras model and TensorFlow's converter, see `FloatModel`."""

    def __init__(self, model: Any) -> None:
        with quiet():
            self._tf, self._keras = tensorflow_and_keras()
            self._fixed = with_fixed_batch(self._keras, load_keras(self._keras, model))
        self.inputs = {t.name: tuple(t.shape) for t in self._fixed.inputs}
        self.output_shape = self._fixed.model.outputs[0].shape
        self.notes: tuple[str, ...] = ()

    def quantized(self, data: list[Array], per_channel_dense: bool) -> bytes:
        tf, names = self._tf, self._fixed.names
        try:
            with quiet(), self._fixed.converting(tf, self._keras) as notes:
                converter = tf.lite.TFLiteConverter.from_keras_model(self._fixed.model)
                converter.optimizations = [tf.lite.Optimize.DEFAULT]
                converter.representative_dataset = lambda: (
                    {n: x[i : i + 1] for n, x in zip(self.inputs, data, strict=True)} for i in range(len(data[0]))
                )
                converter.target_spec.supported_ops = [tf.lite.OpsSet.TFLITE_BUILTINS_INT8]
                converter.inference_input_type = converter.inference_output_type = tf.int8
                converter._experimental_disable_per_channel_quantization_for_dense_layers = not per_channel_dense
                content = bytes(converter.convert())
        except Exception as e:
            raise ConversionError(_explain(str(e), names) or names.own(first_line(e))) from e
        self.notes = tuple(notes)
        return content

    def layer_of(self, tensor: str) -> str:
        return self._fixed.names.layer_of(tensor) or tensor

    def name_tensors(self, model: Model) -> None:
        order_and_name(model, list(self.inputs), self._fixed.outputs, self._fixed.names)

    def statistics(self, model: Model, data: list[Array]) -> Statistics:
        found = training_statistics(self._tf, self._keras, self._fixed, model, data)
        return found or channel_statistics_of(model, data)

    def outputs(self, data: list[Array]) -> Array:
        tf, model = self._tf, self._fixed.model
        with quiet():
            run = tf.function(lambda *x: model(list(x) if len(x) > 1 else x[0], training=False))
            values = []
            for i in range(len(data[0])):
                result = run(*(tf.constant(x[i : i + 1]) for x in data))
                values.append(np.asarray(result[0] if isinstance(result, list | tuple) else result)[0])
        return np.array(values)

    def warnings(self, model: Model) -> Iterator[str]:
        graph = model.subgraphs[0]
        last = (getattr(self._fixed.source, "layers", None) or [None])[-1]
        activation = getattr(getattr(last, "activation", None), "__name__", "")
        producer = graph.producers().get(graph.outputs[-1])
        if activation == "softmax" and (producer is None or producer.builtin != BuiltinOperator.SOFTMAX):
            yield "the softmax at the end is no operator of its own: a loss cannot read the logits"


def _explain(message: str, layers: KerasNames) -> str | None:
    """Returns one line about a converter's exception: operators and layers that TFLite does not support."""
    operators = re.search(r"^(?:TF Select|Custom) ops: (.+)$", message, re.MULTILINE)
    if operators is None:
        return None
    names = operators.group(1).strip()
    first = names.split(",")[0]
    place = re.search(rf'fused\["{re.escape(first)}:", "([^"@]+)', message)
    layer = layers.layer_of(place.group(1)) if place else None
    where = f"layer `{layer}`: " if layer else ""
    return f"{where}TFLite has no int8 kernel for {names}; replace it by operators that it has"
