# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""What batch normalization remembers of the data that a Keras model was trained on."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import numpy as np

from ..io.arrays import Array
from .keras_names import all_layers
from .keras_source import FixedModel

__all__ = ["normalized_by", "remembering_layers"]

#: Samples that pass through the model at once: enough to normalize by, few enough for memory.
_AT_ONCE: Final = 128


def remembering_layers(keras: Any, source: Any) -> list[Any]:
    """Returns the batch norms of a Keras model that know the data that the layers behind them learned on.

    One that was never trained does not, nor does one that kept its statistics while the model was trained:
    frozen, or in a part that was called with ``training=False``, as is usual where a model is fine-tuned.
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
    """Returns the layers of a functional model that it calls with ``training=False``, and those in them."""
    graph = getattr(model, "_functional", None) or model  # that of a Sequential model
    for node in (n for nodes in getattr(graph, "_nodes_by_depth", {}).values() for n in nodes):
        if node.arguments.kwargs.get("training") is False:
            yield from [node.operation, *all_layers(node.operation)]
        else:
            yield from _called_for_inference(node.operation)


@contextlib.contextmanager
def normalized_by(layers: Sequence[Any], fixed: FixedModel, data: list[Array]) -> Iterator[None]:
    """Changes the statistics of batch norms so that data leave them as the training data did.

    Each channel behind a batch norm then has the mean and the deviation that it had in training, those of
    beta and gamma. One pass does it, in which each layer is measured behind the changed ones.

    Args:
        layers: batch norms of the model, see `remembering_layers`. They get their own statistics back.
        fixed: the model.
        data: samples, [samples, ...] for each input.
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
            if seen:  # what it computes may be no part of the outputs
                _assign(layer, *(np.mean(values, axis=0) for values in zip(*seen, strict=True)))
        yield
    finally:
        for layer, trained in zip(layers, own, strict=True):
            _assign(layer, *trained)


def _assign(layer: Any, mean: Array, variance: Array) -> None:
    layer.moving_mean.assign(mean)
    layer.moving_variance.assign(variance)


def _measured(
    layer: Any, trained: tuple[Array, Array], seen: list[tuple[Array, Array]]
) -> Callable[..., Any]:
    """Returns the layer's call with the statistics that suit its inputs, which are appended to `seen`."""
    call = layer.call

    def measured(inputs: Any, training: bool | None = None, mask: Any = None) -> Any:
        values = np.asarray(inputs, np.float64)
        axes = tuple(a for a in range(values.ndim) if a != layer.axis % values.ndim)
        seen.append((values.mean(axes), _variance(values.var(axes), trained[1], layer.epsilon)))
        _assign(layer, *seen[-1])
        return call(inputs, training=False, mask=mask)

    return measured


def _variance(now: Array, trained: Array, epsilon: float) -> Array:
    """Returns the variance that takes `now` to where `trained` took itself, epsilon and all.

    A channel that is constant, now or then, keeps its variance.
    """
    alive = (now > 0) & (trained > 0)
    return np.where(alive, now * (1 + epsilon / np.where(alive, trained, 1)) - epsilon, trained)
