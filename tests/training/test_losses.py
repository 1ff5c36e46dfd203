"""Training by each kind of loss: it goes down the gradient, which a float64 model of one layer computes."""

import dataclasses
from typing import Any

import numpy as np
import pytest

from helpers.injection import inject_all
from helpers.interpreters import require
from helpers.models import MODELS, GraphBuilder
from helpers.models.graph_builder import Activation
from helpers.oracle.stream import Dist, direction
from tflm_zo.converters import export_model, initial_weights, load_model, read_metadata
from tflm_zo.converters.model.schema import BuiltinOperator
from tflm_zo.core import Rademacher
from tflm_zo.data import prepare
from tflm_zo.logs import Log
from tflm_zo.runtime import load
from tflm_zo.training import Exact, Linear, Settings, Trainer, Weights
from tflm_zo.training.evaluation import evaluate, integer_losses, predict
from tflm_zo.training.rules import Gradient

SAMPLES, INPUTS, OUTPUTS = 16, 24, 5
KINDS = ("cross_entropy", "binary_cross_entropy", "mse")
UNITLESS = (
    Settings(tasks=(Weights(queries=4),), batch_size=8),
    Settings(tasks=(Weights(rule=Gradient(clip=3.0), queries=4),), batch_size=8, learning_rate=20.0),
    Settings(batch_size=8),
    Settings(tasks=(Exact(),), batch_size=8),
)


def one_layer() -> bytes:
    g = GraphBuilder(30)
    x = g.input("features", [1, INPUTS])
    return g.build([g.dense(x, "fc", OUTPUTS, Activation.NONE, per_channel=False)])


class Layer:
    """The layer in float64."""

    OPERATOR = BuiltinOperator.FULLY_CONNECTED

    def __init__(self, zo: Any) -> None:
        graph = export_model(zo).subgraphs[0]
        (op,) = [op for op in graph.operators if op.builtin == self.OPERATOR]
        entry, self.filter, bias = op.inputs
        self.entry, self.exit = entry.quantization, op.outputs[0].quantization
        self.scale = self.filter.quantization.scale
        self.bias = bias.numpy().reshape(-1) * bias.quantization.scale

    def gradient(self, kind: str, x: Any, y: Any, weights: Any) -> Any:
        """Computes the gradient of the mean loss with respect to the weights in LSB, [OUTPUTS, INPUTS]."""
        inputs = (x.astype(np.float64) - self.entry.zero_point) * self.entry.scale
        outputs = inputs @ (weights.astype(np.float64) * self.scale).T + self.bias
        if kind == "cross_entropy":
            e = np.exp(outputs - outputs.max(1, keepdims=True))
            error = e / e.sum(1, keepdims=True) - np.eye(OUTPUTS)[y]
        elif kind == "binary_cross_entropy":
            error = np.where(y < 0, 0.0, 1 / (1 + np.exp(-outputs)) - y)
        else:
            error = 2 * (outputs - y) / OUTPUTS
        return error.T @ inputs / len(x) * self.scale

    def targets(self, kind: str, rng: Any) -> Any:
        if kind == "cross_entropy":
            return rng.integers(0, OUTPUTS, SAMPLES)
        if kind == "binary_cross_entropy":
            return rng.integers(-1, 2, (SAMPLES, OUTPUTS))
        return rng.uniform(-100, 100, (SAMPLES, OUTPUTS)) * self.exit.scale


class LayerAtPlaces(Layer):
    OPERATOR = BuiltinOperator.CONV_2D


@pytest.mark.parametrize("kind", KINDS)
def test_differences_are_the_gradient_along_the_direction(kind: str, tmp_path: Any) -> None:
    """Compares d = L(w + mu z) - L(w - mu z) with 2 mu <g, z>, for every query of every step."""
    mu = 4  # large, since the outputs are rounded to 8 bits
    zo = inject_all(one_layer(), batch=8, loss=kind, headroom=mu, max_queries=32)
    layer = Layer(zo)
    rng = np.random.default_rng(4)
    x = rng.integers(-128, 128, (SAMPLES, INPUTS)).astype(np.int8)
    y = layer.targets(kind, rng)
    loss = read_metadata(zo).loss
    assert loss is not None
    rate, steps, queries = 500.0 * loss.unit, 6, 32
    settings = Settings(
        tasks=(Weights(rule=Gradient(), queries=queries, perturbation=Rademacher(mu)),),
        batch_size=SAMPLES,
        learning_rate=rate,
        schedule=Linear(rate),
        seed=5,
    )
    trainer = Trainer(zo, settings, "litert")
    log = tmp_path / "log"
    differences, slopes, moved = [], [], []
    weights = initial_weights(zo)
    for step in range(steps):
        trainer.fit(x, y, steps=step + 1, log=log, keep="last")
        record = Log.read(log)
        log.unlink()
        # The rate is constant, so the first steps of a longer run are those of a shorter one.
        before, weights = weights, trainer.runtime.read_weights()
        (name,) = weights
        gradient = layer.gradient(kind, x, y, before[name].reshape(OUTPUTS, INPUTS))
        moved.append(np.sum(gradient * (weights[name].astype(int) - before[name]).reshape(OUTPUTS, INPUTS)))
        for seed, coefficient in record.steps[step]:
            z = direction(Dist(0, mu), int(seed), 0, OUTPUTS * INPUTS).reshape(OUTPUTS, INPUTS)
            slopes.append(2 * mu * np.sum(gradient * z) / loss.unit)
            differences.append(-int(coefficient) / 65536 * 2 * mu * queries / rate)
    measured, expected = np.array(differences), np.array(slopes)
    assert len(measured) == steps * queries
    large = np.abs(expected) > np.median(np.abs(expected))
    assert (np.sign(measured[large]) == np.sign(expected[large])).all()
    assert np.corrcoef(measured, expected)[0, 1] > 0.98
    assert np.polyfit(expected, measured, 1)[0] == pytest.approx(1, abs=0.06)
    assert max(moved) < 0  # every step goes down


@pytest.mark.parametrize("kind", KINDS)
def test_an_exact_step_is_the_gradient(kind: str) -> None:
    zo = inject_all(one_layer(), batch=8, loss=kind, nodes="*")
    layer, rng = Layer(zo), np.random.default_rng(4)
    x = rng.integers(-128, 128, (SAMPLES, INPUTS)).astype(np.int8)
    y = layer.targets(kind, rng)
    (before,) = initial_weights(zo).values()
    settings = Settings(tasks=(Exact(),), batch_size=SAMPLES, learning_rate=8.0, step_clip=256, seed=5)
    trainer = Trainer(zo, settings, "litert")
    trainer.fit(x, y, steps=1, keep="last")
    (after,) = trainer.runtime.read_weights().values()
    limit = 127 - trainer.runtime.metadata.headroom
    gradient = layer.gradient(kind, x, y, before.reshape(OUTPUTS, INPUTS))
    moved = (after.astype(int) - before).reshape(OUTPUTS, INPUTS)
    free = np.abs(after.reshape(OUTPUTS, INPUTS).astype(int)) < limit
    assert np.corrcoef(moved[free], -gradient[free])[0, 1] > 0.99


PLACES = (2, 3)


def one_layer_at_places() -> bytes:
    """Builds the layer of `one_layer` as a convolution of 1 by 1."""
    g = GraphBuilder(30)
    x = g.input("features", [1, *PLACES, INPUTS])
    return g.build([g.conv(x, "fc", OUTPUTS, (1, 1), activation=Activation.NONE, per_channel=False)])


def test_the_loss_of_places_is_the_sum_of_those_of_samples() -> None:
    zo = inject_all(one_layer_at_places(), batch=2, loss="cross_entropy")
    loss = read_metadata(zo).known_loss
    assert (loss.places, loss.classes, loss.labels) == (6, OUTPUTS, 6)
    rng = np.random.default_rng(4)
    x = rng.integers(-128, 128, (SAMPLES, *PLACES, INPUTS)).astype(np.int8)
    y = rng.integers(-1, OUTPUTS, (SAMPLES, *PLACES))
    y[3] = -1
    runtime = load(zo, "litert")
    data = prepare(runtime, x, y)
    found = evaluate(runtime, data)
    logits = (predict(runtime, data.inputs).astype(np.float64) - loss.zero_point) * loss.scale
    spread = np.log(np.exp(logits).sum(-1))
    own = np.take_along_axis(logits, np.maximum(y, 0)[..., None], -1)[..., 0]
    expected = np.where(y < 0, 0.0, spread - own).sum((1, 2))
    np.testing.assert_allclose(integer_losses(runtime, data) / 65536, expected, atol=6e-3)
    assert (found.labelled, found.counts) == (SAMPLES - 1, (y >= 0).sum())
    assert found.correct == (logits.argmax(-1) == y).sum()
    # Labels of one-hot rows, and flat ones, are the same.
    known = np.maximum(y, 0)
    flat, hot = (prepare(runtime, x, given).labels for given in (known.reshape(SAMPLES, 6), np.eye(OUTPUTS)[known]))
    np.testing.assert_array_equal(flat, hot)


@pytest.mark.parametrize("runtime", ["litert", "tflm"])
def test_an_exact_step_at_places_is_the_gradient(runtime: str) -> None:
    require(runtime)
    zo = inject_all(one_layer_at_places(), batch=8, loss="cross_entropy", nodes="*")
    layer, rng = LayerAtPlaces(zo), np.random.default_rng(4)
    x = rng.integers(-128, 128, (SAMPLES, *PLACES, INPUTS)).astype(np.int8)
    y = rng.integers(0, OUTPUTS, (SAMPLES, *PLACES))
    (before,) = initial_weights(zo).values()
    settings = Settings(tasks=(Exact(),), batch_size=SAMPLES, learning_rate=8.0, step_clip=256, seed=5)
    trainer = Trainer(zo, settings, runtime)
    trainer.fit(x, y, steps=1, keep="last")
    (after,) = trainer.runtime.read_weights().values()
    weights = before.reshape(OUTPUTS, INPUTS)
    gradient = layer.gradient("cross_entropy", x.reshape(-1, INPUTS), y.reshape(-1), weights)
    moved = (after.astype(int) - before).reshape(OUTPUTS, INPUTS)
    free = np.abs(after.reshape(OUTPUTS, INPUTS).astype(int)) < 127 - trainer.runtime.metadata.headroom
    assert np.corrcoef(moved[free], -gradient[free])[0, 1] > 0.99


def in_other_units(factor: float) -> bytes:
    """Rescales the layer's outputs to a unit that is smaller by a factor: its integers are the same."""
    model = load_model(one_layer())
    (op,) = model.subgraphs[0].operators
    for tensor in (op.inputs[1], op.inputs[2], op.outputs[0]):
        assert tensor is not None and tensor.quantization is not None
        scales = tuple(float(np.float32(s * factor)) for s in tensor.quantization.scales)
        tensor.quantization = dataclasses.replace(tensor.quantization, scales=scales)
    return model.to_bytes()


@pytest.mark.parametrize("settings", UNITLESS, ids=["weight", "weight, gradient", "node", "exact"])
def test_the_unit_of_a_regression_changes_nothing(settings: Settings) -> None:
    """Trains in volts or microvolts: the same steps to the same weights, and losses in the square of the unit."""
    found = {}
    rng = np.random.default_rng(9)
    x = rng.integers(-128, 128, (SAMPLES, INPUTS)).astype(np.int8)
    y = rng.integers(-100, 100, (SAMPLES, OUTPUTS)).astype(np.int8)
    for factor in (1.0, 2.0**-11, 2.0**-40, 2.0**20):
        zo = inject_all(in_other_units(factor), batch=8, loss="mse", nodes="*")
        trainer = Trainer(zo, settings, "litert")
        before = trainer.evaluate(x, y)["loss"]
        history = trainer.fit(x, y, steps=60, validation_data=(x, y))
        (weights,) = trainer.runtime.read_weights().values()
        values = [before, *history.steps, *history.history["loss"], *history.history["val_loss"]]
        values += [m["loss"] for m in history.measurements]
        found[factor] = weights, np.array(values)
        assert trainer.evaluate(x, y)["loss"] < 0.9 * before
    weights, losses = found[1.0]
    for factor, (others, values) in found.items():
        np.testing.assert_array_equal(others, weights)
        np.testing.assert_allclose(values, losses * factor**2, rtol=1e-6)


@pytest.mark.parametrize(
    "name, changes, factor",
    [
        ("logistic_head", {}, 0.5),
        ("two_outputs", {"loss_output": 1}, 0.3),
        ("two_outputs", {"loss_output": 0}, 0.5),
        ("autoencoder", {}, 0.6),
        ("small_cnn", {"loss": "mse"}, 0.3),
        ("two_inputs", {}, 0.3),
        ("float_edges", {}, 0.5),
    ],
)
@pytest.mark.parametrize("update_bits", [8, 16])
def test_loss_falls(name: str, changes: Any, factor: float, update_bits: int) -> None:
    zo = inject_all(MODELS[name](), batch=8, update_bits=update_bits, **changes)
    trainer = Trainer(zo, Settings(tasks=(Weights(queries=4),), batch_size=8, seed=1))
    runtime, rng = trainer.runtime, np.random.default_rng(6)
    x = []
    for i in range(len(runtime.metadata.original.inputs)):
        shape, dtype, _, _ = runtime.input_details(i)
        x.append(rng.integers(-128, 128, shape) if dtype == np.int8 else rng.normal(0, 1, shape))
        x[i] = x[i].astype(dtype)
    loss = runtime.metadata.loss
    assert loss is not None
    y: Any = None
    if loss.kind == "cross_entropy":
        y = rng.integers(0, loss.elements, 8)
    elif loss.kind == "binary_cross_entropy":
        y = rng.integers(0, 2, (8, loss.elements))
    elif name != "autoencoder":
        y = rng.uniform(-60, 60, (8, loss.elements)) * runtime.label_details()[2]
    before = trainer.evaluate(x, y)
    history = trainer.fit(x, y, steps=400, keep="last")
    after = trainer.evaluate(x, y)
    assert after["loss"] < factor * before["loss"]
    assert np.mean(history.steps[-20:]) < np.mean(history.steps[:5])
    if loss.kind != "mse":
        assert after["accuracy"] >= before["accuracy"]
