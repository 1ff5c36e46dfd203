"""Statistics of a converted model's channels on the training data, derived from batch normalization."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import numpy as np

from ..converters.channel_statistics import Statistics
from ..converters.model import Model, Operator, load_model
from ..converters.rescale_channels import layers_with_filters
from ..io.arrays import Array
from ..recalibration.recalibrate import statistics_of_outputs
from ..recalibration.walk import corrected_layers
from .int8 import outputs_of
from .keras_source import FixedModel, all_layers, order_and_name, quiet

#: Samples that pass through the model at once: enough to normalize by, few enough for memory.
_AT_ONCE: Final = 128


def remembering_layers(keras: Any, source: Any) -> list[Any]:
    """Returns the batch norms of a Keras model whose statistics are those of its training data. Excludes batch norms
    that were never trained or did not follow the training: frozen ones, and those of a part that was called with
    ``training=False``, as in fine-tuning.
    """
    kept = {id(layer) for layer in _called_for_inference(source)}
    found = []
    for layer in all_layers(source):
        if isinstance(layer, keras.layers.BatchNormalization) and layer.trainable and id(layer) not in kept:
            mean, variance = (np.asarray(v) for v in (layer.moving_mean, layer.moving_variance))
            if mean.any() or (variance != 1).any():
                found.append(layer)
    return found


def _called_for_inference(model: Any) -> Iterator[Any]:
    """Returns the layers that a functional model calls with ``training=False``, nested layers included."""
    graph = getattr(model, "_functional", None) or model  # that of a Sequential model
    for node in (n for nodes in getattr(graph, "_nodes_by_depth", {}).values() for n in nodes):
        if node.arguments.kwargs.get("training") is False:
            yield from [node.operation, *all_layers(node.operation)]
        else:
            yield from _called_for_inference(node.operation)


@contextlib.contextmanager
def normalized_by(layers: Sequence[Any], fixed: FixedModel, data: list[Array]) -> Iterator[None]:
    """Changes the statistics of batch norms, until the end of the context, so that their outputs on `data`, [samples,
    ...] for each input, have the mean and deviation of the training data, which are beta and gamma. One pass measures
    each layer after the changed ones.
    """
    own = [(layer.moving_mean.numpy(), layer.moving_variance.numpy()) for layer in layers]
    found: list[list[tuple[Array, Array]]] = [[] for _ in layers]
    try:
        for layer, trained, seen in zip(layers, own, found, strict=True):
            layer.call = _measured(layer, trained, seen)
        try:
            for part in np.array_split(np.arange(len(data[0])), -(-len(data[0]) // _AT_ONCE)):
                inputs = [x[part] for x in data]
                fixed.model(inputs if len(inputs) > 1 else inputs[0], training=False)
        finally:
            for layer in layers:
                del layer.call
        for layer, seen in zip(layers, found, strict=True):
            if seen:  # its result may not be part of the outputs
                _assign(layer, *(np.mean(values, axis=0) for values in zip(*seen, strict=True)))
        yield
    finally:
        for layer, trained in zip(layers, own, strict=True):
            _assign(layer, *trained)


def _assign(layer: Any, mean: Array, variance: Array) -> None:
    layer.moving_mean.assign(mean)
    layer.moving_variance.assign(variance)


def _measured(layer: Any, trained: tuple[Array, Array], seen: list[tuple[Array, Array]]) -> Callable[..., Any]:
    """Returns the layer's call with statistics of its inputs, which it appends to `seen`."""
    call = layer.call

    def measured(inputs: Any, training: bool | None = None, mask: Any = None) -> Any:
        values = np.asarray(inputs, np.float64)
        axes = tuple(a for a in range(values.ndim) if a != layer.axis % values.ndim)
        seen.append((values.mean(axes), _variance(values.var(axes), trained[1], layer.epsilon)))
        _assign(layer, *seen[-1])
        return call(inputs, training=False, mask=mask)

    return measured


def _variance(now: Array, trained: Array, epsilon: float) -> Array:
    """Returns the variance that normalizes `now` as `trained` did the training data; constant channels keep theirs."""
    alive = (now > 0) & (trained > 0)
    return np.where(alive, now * (1 + epsilon / np.where(alive, trained, 1)) - epsilon, trained)


def training_statistics(tf: Any, keras: Any, fixed: FixedModel, model: Model, data: list[Array]) -> Statistics | None:
    """Returns the channels' statistics on the training data, as far as batch norm keeps them; None if it has none of
    them, or the layers of both models do not match. Representative data are few, and may differ (another camera,
    another compression). So the float model runs on them, [samples, ...] for each input, at least 2, with batch norms
    adjusted layer by layer to the mean and deviation of each channel in training, and its outputs are expressed in the
    levels of the int8 model.
    """
    layers = corrected_layers(model)
    remembering = remembering_layers(keras, fixed.source)
    if not remembering or len(data[0]) < 2:
        return None
    try:
        with quiet(), normalized_by(remembering, fixed, data), fixed.converting(tf, keras):
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
    """Converts the model to a float `.tflite`, as one function, which is faster than as a model."""
    run = tf.function(lambda *x: fixed.model(list(x) if len(x) > 1 else x[0], training=False))
    inputs = [tf.TensorSpec(t.shape, t.dtype, name=f"input_{i}") for i, t in enumerate(fixed.inputs)]
    function = run.get_concrete_function(*inputs)
    return bytes(tf.lite.TFLiteConverter.from_concrete_functions([function]).convert())


def _counterparts(layers: list[Operator], found: list[Operator]) -> dict[Operator, Operator] | None:
    """Matches the layers of the float model and the int8 model by name and, if the names differ, by order: the model's
    outputs have other names, and so do all layers of a model that was converted elsewhere. Returns None if they do not
    match.
    """
    common = {_origin(op) for op in layers} & {_origin(op) for op in found}

    def place(layer: Operator) -> str:
        return _origin(layer) if _origin(layer) in common else ""

    pairs = list(zip(sorted(layers, key=place), sorted(found, key=place), strict=False))
    fits = all((place(a), _kind(a)) == (place(b), _kind(b)) for a, b in pairs)
    return dict(pairs) if fits and len(layers) == len(found) else None


def _origin(layer: Operator) -> str:
    """Returns the first part of an output's name. Int8 models add the names of fused operators."""
    return layer.outputs[0].name.split(";")[0]


def _kind(layer: Operator) -> tuple[Any, ...]:
    assert layer.inputs[1] is not None
    return layer.builtin, layer.inputs[1].shape, layer.outputs[0].shape


def _levels(floating: Model, found: list[Operator], layers: list[Operator], data: list[Array]) -> list[Array]:
    """Returns the outputs of a float model's layers in the levels of the int8 model, [samples, ...] each."""
    from ai_edge_litert.interpreter import Interpreter

    graph = floating.subgraphs[0]
    graph.outputs, floating.signatures = [op.outputs[0] for op in found], None
    interpreter = Interpreter(model_content=floating.to_bytes(), num_threads=1)
    results = [np.empty((len(data[0]), *op.outputs[0].shape[1:]), np.int8) for op in layers]
    for i, values in enumerate(outputs_of(interpreter, data)):
        for real, layer, levels in zip(values, layers, results, strict=True):
            quantization = layer.outputs[0].quantization
            assert quantization is not None  # an int8 model's
            nearest = np.rint(real[0].astype(np.float64) / quantization.scale) + quantization.zero_point
            levels[i] = np.clip(nearest, -128, 127)
    return results
