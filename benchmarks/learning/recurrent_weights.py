# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""An LSTM meets a watch on another arm, and SVDF new speakers: the last layer alone against all weights.

    python benchmarks/learning/recurrent_weights.py --steps 1200

Keras trains the networks in float32. It has no SVDF, so this script writes the int8 model of that one itself. The data
and splits are those of `sensors.py`.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sensors import _SHIFTS, _TARGETS, Array

import tflm_zo as zo
from tflm_zo.converters.model import Buffer, Model, Operator, OperatorCode, Quantization, Subgraph, Tensor
from tflm_zo.converters.model.schema import BuiltinOperator, TensorType, schema

_UNITS, _FILTERS = 24, 64


class _Writer:
    """Collects the tensors and operators of an int8 model."""

    def __init__(self) -> None:
        self.empty, self.graph = Buffer(b""), Subgraph("main")

    def value(self, name: str, shape: tuple[int, ...], low: float, high: float, **more: Any) -> Tensor:
        """Adds an int8 activation for a range of real values."""
        scale = (high - low) / 255
        quantization = Quantization(np.float32([scale]), np.array([round(-128 - low / scale)]))
        return self._add(Tensor(name, shape, TensorType.INT8, self.empty, quantization, **more))

    def constant(self, name: str, values: Array, scale: float, dtype: Any) -> Tensor:
        """Adds a constant of real values."""
        levels = np.rint(values / scale).astype(dtype)
        tensor = Tensor.constant(name, levels)
        tensor.quantization = Quantization(np.float32([scale]), np.array([0]))
        return self._add(tensor)

    def filter(self, name: str, values: Array) -> Tensor:
        """Adds an int8 filter with one scale."""
        return self.constant(name, values, float(np.abs(values).max()) / 127, np.int8)

    def state(self, name: str, shape: tuple[int, ...], kind: int, scale: float) -> Tensor:
        """Adds a state whose zero point is 0."""
        quantization = Quantization(np.float32([scale]), np.array([0]))
        return self._add(Tensor(name, shape, kind, self.empty, quantization, is_variable=True))

    def _add(self, tensor: Tensor) -> Tensor:
        self.graph.tensors.append(tensor)
        return tensor

    def operator(self, kind: str, inputs: list[Tensor | None], output: Tensor, options: str, **fields: Any) -> Tensor:
        """Adds an operator and returns its output."""
        op = Operator(OperatorCode(getattr(BuiltinOperator, kind)), inputs, [output])
        op.raw.builtinOptionsType = getattr(schema.BuiltinOptions, f"{options}Options")
        op.raw.builtinOptions = getattr(schema, f"{options}OptionsT")()
        for name, value in fields.items():
            setattr(op.raw.builtinOptions, name, value)
        self.graph.operators.append(op)
        return output

    def classifier(self, x: Tensor, kernel: Array, bias: Array, real: Array) -> None:
        """Adds a dense layer and a SOFTMAX. `real`: inputs of the layer, for the range of the logits."""
        weights, logits = self.filter("fc/weights", kernel.T), real @ kernel + bias
        product = _scale(x) * _scale(weights)
        y = self.value("fc", (1, len(bias)), float(logits.min()), float(logits.max()))
        bias_ = self.constant("fc/bias", bias, product, np.int32)
        self.operator("FULLY_CONNECTED", [x, weights, bias_], y, "FullyConnected")
        shares = self.value("softmax", (1, len(bias)), 0, 255 / 256)
        self.operator("SOFTMAX", [y], shares, "Softmax", beta=1.0)
        self.graph.outputs = [shares]

    def model(self, x: Tensor) -> Model:
        """Returns the model."""
        self.graph.inputs = [x]
        return zo.load_model(Model(subgraphs=[self.graph]).to_bytes())


def _scale(tensor: Tensor) -> float:
    assert tensor.quantization is not None
    return float(tensor.quantization.scale)


def _trained(layers_: Any, x: Array, y: Array, seed: int) -> Any:
    import keras

    from tflm_zo.keras_models import pretrain

    keras.utils.set_random_seed(seed)
    inputs = values = keras.Input(x.shape[1:])
    for layer in layers_():
        values = layer(values)
    model = keras.Model(inputs, values)
    pretrain(model, x, y, epochs=30, seed=seed)
    return model


def lstm(x: Array, y: Array, seed: int) -> Model:
    """Returns an LSTM whose last step is classified."""
    from keras import layers

    classes = int(y.max()) + 1
    own = _trained(lambda: (layers.LSTM(_UNITS), layers.Dense(classes, activation="softmax", name="fc")), x, y, seed)
    return zo.convert(own, x[:500]).model


def svdf(x: Array, y: Array, seed: int) -> Model:
    """Returns SVDF over all frames, which are read one by one."""
    from keras import Model as Keras
    from keras import layers

    classes, (steps, depth) = int(y.max()) + 1, x.shape[1:]
    own = _trained(
        lambda: (
            layers.Dense(_FILTERS, use_bias=False),
            layers.DepthwiseConv1D(steps, activation="relu"),
            layers.Flatten(),
            layers.Dropout(0.3),
            layers.Dense(classes, activation="softmax"),
        ),
        x,
        y,
        seed,
    )
    (kernel,), (time, bias) = (layer.get_weights() for layer in own.layers[1:3])
    w = _Writer()
    given = w.value("frame", (1, depth), 0.0, 1.0)
    features = w.filter("features", kernel.T)
    times = w.filter("time", time.reshape(steps, _FILTERS).T)
    real, made = (Keras(own.inputs, layer.output).predict(x[:500], verbose=0) for layer in own.layers[1:3])
    state = w.state("state", (1, _FILTERS * steps), TensorType.INT8, float(np.abs(real).max()) / 127)
    biases = w.constant("bias", bias, _scale(state) * _scale(times), np.int32)
    y_ = w.value("svdf", (1, _FILTERS), 0.0, float(made.max()))
    w.operator("SVDF", [given, features, times, biases, state], y_, "SVDF", rank=1)
    dense, offsets = own.layers[-1].get_weights()
    w.classifier(y_, dense, offsets, made.reshape(len(made), -1))
    return w.model(given)


def _main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=1200, help="steps of a run")
    parser.add_argument("--seeds", type=int, default=1, help="number of pre-trainings")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        for name, make in (("watch", lstm), ("speech", svdf)):
            found: dict[str, list[float]] = {}
            for number in _TARGETS[name]:
                for seed in range(given.seeds):
                    for way, accuracy in _accuracies(name, number, seed, make, given.steps, Path(folder)).items():
                        found.setdefault(way, []).append(accuracy)
                print(name, number, {way: round(100 * values[-1], 1) for way, values in found.items()}, flush=True)
            texts = {way: f"{100 * np.mean(v):.1f} ± {100 * np.std(v):.1f}" for way, v in found.items()}
            print(name, texts, flush=True)


def _accuracies(name: str, number: int, seed: int, make: Any, steps: int, folder: Path) -> dict[str, float]:
    shift, path = _SHIFTS[name](number), folder / f"{name}-{seed}.tflite"
    x: NDArray[np.float32] = shift.x[..., 0] if name == "speech" else shift.x
    y = shift.y.astype(np.int32)
    if not path.exists():
        known = shift.known[np.random.default_rng(seed).permutation(len(shift.known))]
        make(x[known], y[known], seed).save(path)
    adapt, test = (x[shift.adapt], y[shift.adapt]), (x[shift.test], y[shift.test])
    found = {"before": float(zo.evaluate(path, *test).accuracy or 0)}
    weights = {"all weights": {}, "layers around it": {"layers": ("fc",)}}
    if name == "watch":
        result = zo.adapt(path, *adapt, zo.algorithms.last_layer(), steps=steps, keep="last")
        found["last layer, exact"] = float(zo.evaluate(result.model, *test).accuracy or 0)
    for way, own in weights.items():
        result = zo.adapt(path, *adapt, zo.algorithms.weight(**own), steps=steps, keep="last")
        found[way] = float(zo.evaluate(result.model, *test).accuracy or 0)
    return found


if __name__ == "__main__":
    _main()
