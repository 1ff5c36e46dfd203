# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""Ways to pre-train a model that forward passes will adapt later, and ways to convert it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tflm_zo import Rademacher
from tflm_zo.keras_models import narrow_activations, pretrain

Array = np.ndarray[Any, Any]

# Largest |weight| after injection with a headroom of 2: a channel's LSB is its largest weight / LIMIT.
LIMIT = 125


@dataclass(frozen=True)
class Recipe:
    """From an untrained model to the settings of its adaptation.

    Attributes:
        name: its key in the results file.
        pretraining: a name of `PRETRAININGS`.
        value: the pre-training's hyper-parameter.
        activation_headroom: of the conversion.
        per_channel_dense: of the conversion.
        headroom: of the injection.
        settings: of the adaptation, differences from the defaults.
    """

    name: str
    pretraining: str = "plain"
    value: float = 0.0
    activation_headroom: float = 0.0
    per_channel_dense: bool = True
    headroom: int = 2
    settings: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Source:
    """The start of a pre-training: `build` makes the untrained model, `calibration` is float32."""

    build: Callable[[], Any]
    x: Array
    y: Array
    calibration: Array
    epochs: int
    seed: int

    @property
    def fine_tuning_epochs(self) -> int:
        return max(1, round(0.4 * self.epochs))


# --- plain --------------------------------------------------------------------------------------------------


def _built(source: Source, change: Callable[[dict[str, Any]], None] | None = None) -> Any:
    """Builds an untrained model. `change` edits the configuration of each layer with weights."""
    keras.utils.set_random_seed(source.seed)
    model = source.build()
    if change is None:
        return model
    initial = model.get_weights()

    def clone(layer: Any) -> Any:
        config = layer.get_config()
        if layer.weights:
            change(config)
        return type(layer).from_config(config)

    changed = keras.models.clone_model(model, clone_function=clone)
    changed.set_weights(initial)
    return changed


def plain(source: Source, _: float) -> Any:
    """Trains with `model.fit`, and nothing else."""
    model = _built(source)
    pretrain(model, source.x, source.y, epochs=source.epochs, seed=source.seed)
    return model


def longer(source: Source, rate: float) -> Any:
    """Trains plainly, then as long as quantization-aware fine-tuning at the same rate: its control."""
    model = plain(source, 0)
    _fine_tune(model, source, rate)
    return model


def _fine_tune(model: Any, source: Source, rate: float) -> None:
    keras.utils.set_random_seed(source.seed)
    model.compile(optimizer=keras.optimizers.Adam(rate), loss="sparse_categorical_crossentropy")
    model.fit(source.x, source.y, batch_size=32, epochs=source.fine_tuning_epochs, verbose=0)


# --- weights ------------------------------------------------------------------------------------------------


def weight_decay(source: Source, decay: float) -> Any:
    """Trains with decoupled weight decay (AdamW)."""
    model = _built(source)
    keras.utils.set_random_seed(source.seed)
    optimizer = keras.optimizers.Adam(2e-3, weight_decay=decay)
    model.compile(optimizer=optimizer, loss="sparse_categorical_crossentropy")
    model.fit(source.x, source.y, batch_size=32, epochs=source.epochs, verbose=0)
    return model


class WithinRms(keras.constraints.Constraint):  # type: ignore[misc]
    """Clips the weights of each output channel (last axis) at `ratio` times their root mean square."""

    def __init__(self, ratio: float) -> None:
        self.ratio = ratio

    def __call__(self, w: Any) -> Any:
        axes = tuple(range(len(w.shape) - 1))
        limit = self.ratio * tf.sqrt(tf.reduce_mean(tf.square(w), axis=axes, keepdims=True))
        return tf.clip_by_value(w, -limit, limit)

    def get_config(self) -> dict[str, Any]:
        return {"ratio": self.ratio}


def narrow_channels(source: Source, ratio: float) -> Any:
    """Limits each weight to `ratio` times the RMS of its channel after every optimizer step."""

    def change(config: dict[str, Any]) -> None:
        config["kernel_constraint"] = WithinRms(ratio)

    model = _built(source, change)
    pretrain(model, source.x, source.y, epochs=source.epochs, seed=source.seed)
    return model


def clipped(source: Source, ratio: float) -> Any:
    """Clips in the same way once, after plain pre-training."""
    model = plain(source, 0)
    clip = WithinRms(ratio)
    for layer in model.layers:
        if layer.weights:
            layer.kernel.assign(clip(layer.kernel.value))
    return model


# --- activations --------------------------------------------------------------------------------------------


def relu6(source: Source, _: float) -> Any:
    """Replaces ReLU by ReLU6."""

    def change(config: dict[str, Any]) -> None:
        if config["activation"] == "relu":
            config["activation"] = "relu6"

    model = _built(source, change)
    pretrain(model, source.x, source.y, epochs=source.epochs, seed=source.seed)
    return model


def activation_penalty(source: Source, weight: float) -> Any:
    """Adds a penalty on the largest activation of each hidden layer."""
    model = _built(source)
    with narrow_activations(model, weight):
        pretrain(model, source.x, source.y, epochs=source.epochs, seed=source.seed)
    return model


def activation_penalty_longer(source: Source, weight: float) -> Any:
    """Trains with the penalty, then fine-tunes as `longer`, also with the penalty."""
    model = activation_penalty(source, weight)
    with narrow_activations(model, weight):
        _fine_tune(model, source, 2e-4)
    return model


def label_smoothing(source: Source, amount: float) -> Any:
    """Label smoothing: keeps logits, and with them confidence in a wrong class, small."""
    model = _built(source)
    keras.utils.set_random_seed(source.seed)
    loss = keras.losses.CategoricalCrossentropy(label_smoothing=amount)
    model.compile(optimizer=keras.optimizers.Adam(2e-3), loss=loss)
    targets = keras.utils.to_categorical(source.y)
    model.fit(source.x, targets, batch_size=32, epochs=source.epochs, verbose=0)
    return model


def divided_logits(source: Source, temperature: float) -> Any:
    """Trains plainly, then divides the logits by a temperature: the same classes and int8 weights, a gentler
    softmax.
    """
    model = plain(source, 0)
    for variable in model.layers[-1].weights:
        variable.assign(variable / temperature)
    return model


# --- weights as they will be --------------------------------------------------------------------------------


class ThroughKernels(keras.Model):  # type: ignore[misc]
    """A model that trains through changed kernels: the gradient at `change(kernel)` moves the kernel.

    Made like any functional model, from inputs and outputs; layers (and weights) are shared with the model
    that they come from.
    """

    change: Callable[[Any], Any]

    def train_step(self, data: Any) -> Any:
        x, y, sample_weight = keras.utils.unpack_x_y_sample_weight(data)
        values = [v.value for v in self.trainable_variables]
        constants = [v.value for v in self.non_trainable_variables]
        with tf.GradientTape() as tape:
            used = [
                self.change(v) if variable.name == "kernel" else v
                for v, variable in zip(values, self.trainable_variables, strict=True)
            ]
            predicted, _ = self.stateless_call(used, constants, x, training=True)
            loss = self.compute_loss(x=x, y=y, y_pred=predicted, sample_weight=sample_weight)
        gradients = tape.gradient(loss, values)
        self.optimizer.apply(gradients, self.trainable_variables)
        return {"loss": loss}


def _lsb(kernel: Any) -> Any:
    """Computes the LSB of each output channel, [1, ..., channels], without a gradient: conversion fixes
    it.
    """
    axes = tuple(range(len(kernel.shape) - 1))
    return tf.stop_gradient(tf.reduce_max(tf.abs(kernel), axis=axes, keepdims=True)) / LIMIT


def weight_noise(source: Source, reach: float) -> Any:
    """Computes every step at kernels moved by uniform noise of up to `reach` LSB: flat minima."""
    model = _built(source)
    noisy = ThroughKernels(model.inputs, model.outputs)
    noisy.change = lambda w: w + _lsb(w) * tf.random.uniform(tf.shape(w), -reach, reach)
    pretrain(noisy, source.x, source.y, epochs=source.epochs, seed=source.seed)
    return model


def quantization_aware(source: Source, rate: float) -> Any:
    """Trains plainly, then fine-tunes with int8 weights (per channel) and int8 activations (calibrated
    ranges).
    """
    model = plain(source, 0)
    hidden = [layer for layer in model.layers if layer.weights]
    # Ranges as the converter will find them; a softmax's is that of its logits.
    logits = keras.models.clone_model(model)
    logits.set_weights(model.get_weights())
    logits.layers[-1].activation = keras.activations.linear
    probe = keras.Model(logits.inputs, _outputs(logits, [layer.name for layer in hidden]))
    ranges = {
        layer.name: (min(0.0, float(values.min())), max(0.0, float(values.max())))
        for layer, values in zip(hidden, probe.predict(source.calibration, verbose=0), strict=True)
    }

    fake = keras.models.clone_model(model)
    fake.set_weights(model.get_weights())
    for layer in fake.layers:
        if layer.name in ranges:
            layer.activation = _quantized(layer.activation, *ranges[layer.name])
    trained = ThroughKernels(fake.inputs, _outputs(fake, [fake.layers[-1].name]))

    def change(w: Any) -> Any:
        lsb = _lsb(w)
        return w + tf.stop_gradient(tf.round(w / lsb) * lsb - w)

    trained.change = change
    _fine_tune(trained, source, rate)
    model.set_weights(fake.get_weights())
    return model


def _outputs(model: Any, names: list[str]) -> list[Any]:
    """Traces the outputs of a chain's layers anew. A layer's own `output` keeps the original activation."""
    x, found = model.inputs[0], {}
    for layer in model.layers[1:]:
        x = layer(x)
        found[layer.name] = x
    return [found[name] for name in names]


def _quantized(activation: Any, low: float, high: float) -> Callable[[Any], Any]:
    def quantize(x: Any) -> Any:
        return tf.quantization.fake_quant_with_min_max_vars(x, low, high)

    if activation is keras.activations.softmax:
        return lambda x: activation(quantize(x))
    return lambda x: quantize(activation(x))


PRETRAININGS: dict[str, Callable[[Source, float], Any]] = {
    f.__name__: f
    for f in (
        plain,
        longer,
        quantization_aware,
        weight_decay,
        narrow_channels,
        clipped,
        relu6,
        activation_penalty,
        activation_penalty_longer,
        label_smoothing,
        divided_logits,
        weight_noise,
    )
}


# --- the recipes -------------------------------------------------------------------------------------------


CANDIDATES = [
    Recipe("baseline"),
    *(Recipe(f"fine-tuning, rate {v:g}", "longer", v) for v in (2e-4, 1e-3)),
    *(Recipe(f"quantization-aware, rate {v:g}", "quantization_aware", v) for v in (2e-4, 1e-3)),
    *(Recipe(f"weight decay {v:g}", "weight_decay", v) for v in (0.03, 0.1, 0.3, 1.0)),
    *(Recipe(f"channels within {v:g} RMS", "narrow_channels", v) for v in (1.5, 2.0, 2.5)),
    *(Recipe(f"clipped at {v:g} RMS", "clipped", v) for v in (2.0, 2.5)),
    Recipe("ReLU6", "relu6"),
    *(Recipe(f"activation penalty {v:g}", "activation_penalty", v) for v in (1e-3, 1e-2, 3e-2, 1e-1)),
    *(Recipe(f"logits divided by {v:g}", "divided_logits", v) for v in (1.5, 2.0, 4.0)),
    *(Recipe(f"weight noise {v:g} LSB", "weight_noise", v) for v in (2, 8, 24)),
    *(Recipe(f"weights within {127 - v} LSB", headroom=v) for v in (32, 64)),
    *(Recipe(f"step rate {v:g}", settings={"learning_rate": v}) for v in (1.0, 1.5, 3.0, 4.0)),
    Recipe("perturbation 4 LSB", headroom=4, settings={"perturbation": Rademacher(4)}),
]
"""Hyper-parameters to choose from, by accuracy on validation data."""

RECIPES = [
    Recipe("baseline"),
    Recipe("fine-tuning", "longer", 2e-4),
    Recipe("quantization-aware", "quantization_aware", 2e-4),
    Recipe("weight decay", "weight_decay", 0.03),
    Recipe("channels within 2.5 RMS", "narrow_channels", 2.5),
    Recipe("clipped at 2.5 RMS", "clipped", 2.5),
    Recipe("weight noise 2 LSB", "weight_noise", 2),
    Recipe("ReLU6", "relu6"),
    Recipe("activation penalty", "activation_penalty", 1e-2),
    Recipe("activation penalty, fine-tuning", "activation_penalty_longer", 1e-2),
    Recipe("label smoothing", "label_smoothing", 0.1),
    Recipe("logits divided by 2", "divided_logits", 2.0),
    *(Recipe(f"activation headroom {h:g}", activation_headroom=h) for h in (0.25, 0.5, 1.0)),
    Recipe("dense layers per tensor", per_channel_dense=False),
    Recipe("weights within 95 LSB", headroom=32),
    Recipe("step rate 3", settings={"learning_rate": 3.0}),
    Recipe("activation penalty, step rate 3", "activation_penalty", 1e-2, settings={"learning_rate": 3.0}),
]
"""With the hyper-parameters that did best on validation data (label smoothing: the customary one).
Fine-tuning, label smoothing and the step rate are controls: simpler ways to what other recipes may gain."""
