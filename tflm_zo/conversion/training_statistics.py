# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""Statistics of a converted model's channels on the data that the Keras model was trained on."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..converters.channel_statistics import Statistics
from ..converters.model import Model, Operator, load_model
from ..converters.rescale_channels import layers_with_filters
from ..io.arrays import Array
from ..recalibration.recalibrate import statistics_of_outputs
from ..recalibration.running_moments import corrected_layers
from .batch_norm import normalized_by, remembering_layers
from .keras_names import order_and_name
from .keras_source import FixedModel, quiet

__all__ = ["training_statistics"]


def training_statistics(
    tf: Any, keras: Any, fixed: FixedModel, model: Model, data: list[Array]
) -> Statistics | None:
    """Returns statistics as they are on the training data, as far as batch norm remembers them.

    Representative data are few, and may differ from the training data: another camera, another compression.
    Behind a batch norm each channel had a mean and a deviation in training that the model itself tells, so
    it is given representative data that have been led back to these, layer after layer. What such data put
    out, as the float model computes it, is counted in the levels of the int8 model.

    Args:
        tf: TensorFlow.
        keras: Keras.
        fixed: the Keras model.
        model: the plain int8 model that was made of it, of the same layers in the same order.
        data: representative data, [samples, ...] for each input, at least 2 samples.

    Returns:
        None where there is no batch norm that remembers anything, or this model cannot be treated so.

    Raises:
        ConversionError: the model cannot be recalibrated.
    """
    layers = corrected_layers(model)
    remembering = remembering_layers(keras, fixed.source)
    if not remembering or len(data[0]) < 2:
        return None
    try:
        with quiet(), normalized_by(remembering, fixed, data), fixed.names.apart():
            floating = load_model(_as_floats(tf, fixed))
    except Exception:
        # A model that fixes its batch, for instance: any of Keras' and TensorFlow's errors may come of it.
        return None
    order_and_name(floating, [], [], fixed.names)
    pairs = _counterparts(layers_with_filters(model), layers_with_filters(floating))
    if pairs is None:
        return None
    return statistics_of_outputs(layers, _levels(floating, [pairs[op] for op in layers], layers, data))


def _as_floats(tf: Any, fixed: FixedModel) -> bytes:
    """Returns the model as a float `.tflite`; as one function it converts in a fraction of a model's time."""
    run = tf.function(lambda *x: fixed.model(list(x) if len(x) > 1 else x[0], training=False))
    inputs = [tf.TensorSpec(t.shape, t.dtype, name=f"input_{i}") for i, t in enumerate(fixed.inputs)]
    function = run.get_concrete_function(*inputs)
    return bytes(tf.lite.TFLiteConverter.from_concrete_functions([function]).convert())


def _counterparts(layers: list[Operator], found: list[Operator]) -> dict[Operator, Operator] | None:
    """Returns the layers of the float model by those of the int8 model; None where they do not fit.

    Layers of the same name belong together, and the others in their order: the model's outputs, which have
    names of their own, and all of them where the int8 model was converted elsewhere.
    """
    common = {_origin(op) for op in layers} & {_origin(op) for op in found}

    def place(layer: Operator) -> str:
        return _origin(layer) if _origin(layer) in common else ""

    pairs = list(zip(sorted(layers, key=place), sorted(found, key=place), strict=False))
    fits = all((place(a), _kind(a)) == (place(b), _kind(b)) for a, b in pairs)
    return dict(pairs) if fits and len(layers) == len(found) else None


def _origin(layer: Operator) -> str:
    """Returns what the output is named by first; of what is fused into it int8 models name more."""
    return layer.outputs[0].name.split(";")[0]


def _kind(layer: Operator) -> tuple[Any, ...]:
    assert layer.inputs[1] is not None
    return layer.builtin, layer.inputs[1].shape, layer.outputs[0].shape


def _levels(floating: Model, found: list[Operator], layers: list[Operator], data: list[Array]) -> list[Array]:
    """Returns outputs of layers of a float model in the levels of an int8 model's, [samples, ...] each."""
    from ai_edge_litert.interpreter import Interpreter

    graph = floating.subgraphs[0]
    graph.outputs, floating.signatures = [op.outputs[0] for op in found], None
    interpreter = Interpreter(model_content=floating.to_bytes(), num_threads=1)
    interpreter.allocate_tensors()
    inputs, outputs = interpreter.get_input_details(), interpreter.get_output_details()
    results = [np.empty((len(data[0]), *op.outputs[0].shape[1:]), np.int8) for op in layers]
    for i in range(len(data[0])):
        for details, x in zip(inputs, data, strict=True):
            interpreter.set_tensor(details["index"], x[i : i + 1])
        interpreter.invoke()
        for details, layer, levels in zip(outputs, layers, results, strict=True):
            quantization = layer.outputs[0].quantization
            assert quantization is not None  # an int8 model's
            real = interpreter.get_tensor(details["index"])[0].astype(np.float64)
            nearest = np.rint(real / quantization.scale) + quantization.zero_point
            levels[i] = np.clip(nearest, -128, 127)
    return results
