"""Trained weights of SVDF and LSTM: estimates against float gradients, the same bits everywhere, and the export."""

import dataclasses
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from helpers.interpreters import run_frames
from helpers.models.streaming_networks import FEATURES, lstm_network, svdf_network
from tflm_zo import Trainer, adapt, algorithms, load_model
from tflm_zo.converters import ConversionError, export_model, inject, read_metadata
from tflm_zo.converters.check_kernel import quantization_of
from tflm_zo.converters.constants import OP_PREFIX
from tflm_zo.converters.model import Model, Operator, Tensor
from tflm_zo.converters.segments import freeze
from tflm_zo.runtime import available, load
from tflm_zo.training import Settings, Weights, inject_settings, trained_layers

SAMPLES, STEPS = 64, 5
RUNTIMES = [name for name in ("litert", "tflm") if name in available()]
NETWORKS: dict[str, Callable[[], bytes]] = {
    "svdf": lambda: svdf_network(bits=8),
    "lstm": lambda: lstm_network(scale=2.0),
}
Floats = NDArray[np.float64]


def data(seed: int = 0) -> tuple[NDArray[np.int8], NDArray[np.int32]]:
    """Draws windows, [samples, steps, features], whose class the middle of some features has."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 4, SAMPLES)
    kinds = 90 * np.array([[1, 1, 1, 1, 1, 1], [1, 1, 1, -1, -1, -1], [-1, -1, 1, 1, -1, -1], [1, -1, -1, -1, 1, 1]])
    x = rng.integers(-30, 31, (SAMPLES, STEPS, FEATURES))
    x[:, 2] += kinds[y]
    return np.clip(x, -128, 127).astype(np.int8), y.astype(np.int32)


def zo_model(name: str, **given: Any) -> Model:
    return inject(NETWORKS[name](), inject_settings(algorithms.weight(), batch=given.pop("batch", SAMPLES), **given))


# --- the oracle: networks in float64, whose constants are those of the file ---


def _clamped(values: Floats, tensor: Tensor) -> Floats:
    scale, zero_point = quantization_of(tensor)
    return np.clip(values, scale * (-128 - zero_point), scale * (127 - zero_point))


class Floating:
    """The real values of the constants of a plain model, by names of `read_metadata`, and the loss of all samples."""

    def __init__(self, model: Model) -> None:
        self.recurrent, self.dense = (
            next(op for op in model.subgraphs[0].operators if op.code.name in kinds)
            for kinds in (("SVDF", "UNIDIRECTIONAL_SEQUENCE_LSTM"), ("FULLY_CONNECTED",))
        )
        x, y = data()
        scale, zero_point = quantization_of(self._input(self.recurrent, 0))
        self.x, self.y = scale * (x.astype(np.float64) - zero_point), y

    @staticmethod
    def _input(op: Operator, number: int) -> Any:
        tensor = op.inputs[number]
        assert tensor is not None
        return tensor

    def _value(self, op: Operator, number: int, weights: Mapping[str, Floats]) -> Floats:
        tensor = self._input(op, number)
        levels = weights.get(tensor.name)
        scales = tensor.quantization.scales.astype(np.float64).reshape(-1, *[1] * (len(tensor.shape) - 1))
        real: Floats = scales * (tensor.numpy().astype(np.float64) if levels is None else levels)
        return real

    def loss(self, weights: Mapping[str, Floats]) -> float:
        """Returns the mean loss for other levels of weights, nats."""
        last = self._svdf(weights) if self.recurrent.code.name == "SVDF" else self._lstm(weights)
        logits = last @ self._value(self.dense, 1, weights).T + self._value(self.dense, 2, weights)
        logits = _clamped(logits, self.dense.outputs[0])
        logits -= logits.max(1, keepdims=True)
        return float((np.log(np.exp(logits).sum(1)) - logits[np.arange(len(self.y)), self.y]).mean())

    def _svdf(self, weights: Mapping[str, Floats]) -> Floats:
        features, time, bias = (self._value(self.recurrent, i, weights) for i in (1, 2, 3))
        memory = time.shape[1]
        found = np.einsum("stf,kf->skt", self.x, features)[:, :, -memory:]
        found = _clamped(found, self._input(self.recurrent, 4))
        return _clamped((found * time).sum(2).reshape(len(self.x), -1, 2).sum(2) + bias, self.recurrent.outputs[0])

    def _lstm(self, weights: Mapping[str, Floats]) -> Floats:
        own = [self._value(self.recurrent, i, weights) for i in (*range(1, 9), *range(12, 16))]
        h = cell = np.zeros((len(self.x), len(own[0])))
        for step in range(STEPS):
            sums = [self.x[:, step] @ own[i].T + h @ own[4 + i].T + own[8 + i] for i in range(4)]
            enters, forgets, gives = (1 / (1 + np.exp(-sums[i])) for i in (0, 1, 3))
            cell = forgets * cell + enters * np.tanh(sums[2])
            h = gives * np.tanh(cell)
        return h

    def gradient(self, name: str, weights: Mapping[str, Floats]) -> Floats:
        """Returns differences of the loss for each level of a tensor."""
        found = np.zeros(weights[name].shape)
        for at in np.ndindex(*found.shape):
            sides = []
            for sign in (1, -1):
                moved = weights[name].copy()
                moved[at] += 0.01 * sign
                sides.append(self.loss({**weights, name: moved}))
            found[at] = (sides[0] - sides[1]) / 0.02
        return found


@pytest.mark.parametrize("name", NETWORKS)
def test_estimates_point_along_the_gradient_of_a_float_network(name: str) -> None:
    """Means of two-sided differences of each filter, of the runtime's integers, against those of the float network. The
    expected cosine of m directions of n weights is sqrt(m / (m + n)), 0.89 for the largest filter."""
    zo = zo_model(name, headroom=5)
    oracle = Floating(export_model(zo))
    runtime, rng, (x, y) = load(zo, RUNTIMES[0]), np.random.default_rng(5), data()
    labels = y
    if name == "svdf":
        labels = np.full((SAMPLES, STEPS), -1, np.int32)
        labels[:, -1] = y
    runtime.feed([x], labels)
    start = runtime.read_weights()
    views = runtime.all_weight_views()[0]
    command, reach, count = runtime.command(), 5, 300

    def loss_at(sign: int, directions: Mapping[str, NDArray[np.int8]]) -> float:
        for tensor, z in directions.items():
            views[tensor][:] = start[tensor].reshape(-1) + sign * reach * z
        runtime.invoke(command)
        return float(runtime.losses().mean()) / 65536

    loss = loss_at(0, {n: np.zeros(w.size, np.int8) for n, w in start.items()})
    floats = {n: w.astype(np.float64) for n, w in start.items()}
    assert abs(loss - oracle.loss(floats)) < 0.02 * loss
    cosines = {}
    for t in read_metadata(zo).trainable:
        estimate = np.zeros(t.size)
        for _ in range(count):
            z = rng.choice(np.array([-1, 1], np.int8), t.size)
            estimate += (loss_at(1, {t.name: z}) - loss_at(-1, {t.name: z})) / (2 * reach * count) * z
        views[t.name][:] = start[t.name].reshape(-1)
        real = oracle.gradient(t.name, floats).reshape(-1)
        cosines[t.layer] = float(estimate @ real / np.linalg.norm(estimate) / np.linalg.norm(real))
    print({layer: round(c, 2) for layer, c in cosines.items()})
    assert min(cosines.values()) > 0.8, cosines


# --- bits ---


@pytest.mark.parametrize("name", NETWORKS)
def test_training_gives_the_same_bits_everywhere(name: str, tmp_path: Path) -> None:
    x, y = data()
    runs = []
    for runtime in RUNTIMES:
        for threads in (1, 3) if runtime == "litert" else (1,):
            log = tmp_path / f"{runtime}{threads}.zolog"
            trainer = Trainer(
                load_model(NETWORKS[name]()),
                algorithms.weight(batch_size=8, learning_rate=4.0),
                runtime=runtime,
                threads=threads,
            )
            trainer.fit(x, y, steps=6, keep="best", log=log)
            runs.append((trainer.runtime.read_weights(), log.read_bytes()))
    for weights, written in runs[1:]:
        assert written == runs[0][1]
        for tensor, values in weights.items():
            np.testing.assert_array_equal(values, runs[0][0][tensor])


@pytest.mark.parametrize("re_range", [False, True])
@pytest.mark.parametrize("name", NETWORKS)
def test_an_exported_model_has_the_operators_of_the_original(name: str, re_range: bool) -> None:
    zo, x = zo_model(name), data()[0]
    runtime, rng = load(zo, RUNTIMES[0]), np.random.default_rng(1)
    weights = {n: rng.integers(-99, 100, w.shape).astype(w.dtype) for n, w in runtime.read_weights().items()}
    runtime.write_weights(weights)
    original = load_model(NETWORKS[name]())
    plain = export_model(zo, weights, batch=1, re_range=re_range)

    def described(model: Model) -> list[Any]:
        graph = model.subgraphs[0]
        return [
            (
                op.code.name,
                op.code.version,
                vars(op.options) if op.options else None,
                op.custom_options,
                [t and (t.name, t.shape, t.type, t.is_variable) for t in op.inputs],
            )
            for op in graph.operators
        ]

    assert repr(described(load_model(plain.to_bytes()))) == repr(described(original))
    if re_range:
        return
    runtime.feed([x], None)
    runtime.invoke()
    expected = runtime.outputs()[0]
    for sample in range(4):
        frames = [[frame[None]] for frame in x[sample]] if name == "svdf" else [[x[sample][None]]]
        for own in RUNTIMES:
            found = np.array(run_frames(plain.to_bytes(), own, frames))[:, 0, 0]
            np.testing.assert_array_equal(found, expected[sample] if name == "svdf" else expected[sample][None])


# --- which models have them ---


@pytest.mark.parametrize("name", NETWORKS)
def test_only_weight_perturbation_replaces_the_operator(name: str) -> None:
    def kinds(settings: Settings, **given: Any) -> set[str]:
        zo = inject(NETWORKS[name](), inject_settings(settings, batch=1, **given))
        return {op.code.name.removeprefix(OP_PREFIX) for op in zo.subgraphs[0].operators}

    builtin = {"svdf": "SVDF", "lstm": "UNIDIRECTIONAL_SEQUENCE_LSTM"}[name]
    zo = inject(NETWORKS[name](), inject_settings(algorithms.last_layer(), batch=1))
    assert builtin in {op.code.name for graph in zo.subgraphs for op in graph.operators}
    assert "trains 1 of " in trained_layers(zo, algorithms.last_layer()).sentence
    weights = algorithms.weight()
    assert any(op.code.name == f"{OP_PREFIX}{name.upper()}" for op in zo_model(name).subgraphs[0].operators)
    last = dataclasses.replace(weights, layers=("fc",))
    assert builtin in kinds(last)
    biases = dataclasses.replace(weights, tasks=(dataclasses.replace(weights.weights, parameters="biases"),))
    zo = inject(NETWORKS[name](), inject_settings(biases, batch=1))
    assert [t.layer for t in read_metadata(zo).trainable] == ["fc"]
    # Biases of the recurrent operator stay where filters and biases are trained.
    both = dataclasses.replace(weights, tasks=(Weights(parameters="all"),))
    zo = inject(NETWORKS[name](), inject_settings(both, batch=1))
    assert [t.layer for t in read_metadata(zo).trainable if t.bias] == ["fc"]


def test_freezing_all_filters_gives_the_builtin_operator_back() -> None:
    zo = zo_model("lstm", batch=1)
    names = [t.layer for t in read_metadata(zo).trainable]
    (some,) = freeze(zo, [0, names.index("fc")])
    (none,) = freeze(zo, [names.index("fc")])
    assert "TFLM_ZO_LSTM" in [op.code.name for op in some.subgraphs[0].operators]
    assert "UNIDIRECTIONAL_SEQUENCE_LSTM" in [op.code.name for op in none.subgraphs[0].operators]


@pytest.mark.parametrize("damage", ["options", "builtin", "scale", "input"])
@pytest.mark.parametrize("name", NETWORKS)
def test_damaged_files_are_refused(name: str, damage: str) -> None:
    zo = zo_model(name)
    op = next(op for op in zo.subgraphs[0].operators if op.code.name == f"{OP_PREFIX}{name.upper()}")
    if damage == "options":
        op.custom_options = (op.custom_options or b"")[:-1]
    elif damage == "builtin":
        op.code = next(o.code for o in load_model(NETWORKS[name]()).subgraphs[0].operators if o.builtin != 9)
    elif damage == "scale":
        next(t for t in op.inputs[1:] if t is not None and t.quantization).quantization.scales *= 2  # type: ignore[union-attr]
    else:
        del op.inputs[3:]
    with pytest.raises(ConversionError, match="options do not fit|is that of|takes 5|takes 24"):
        read_metadata(zo)


def test_bare_adapt_tries_the_weights() -> None:
    x, y = data()
    result = adapt(load_model(svdf_network(bits=8)), x, y, steps=8)
    assert result.choice is not None
    assert "weights" in {t.candidate.rung for t in result.choice.trials}


@pytest.mark.parametrize("name", NETWORKS)
def test_a_network_learns(name: str) -> None:
    x, y = data()
    trainer = Trainer(load_model(NETWORKS[name]()), algorithms.weight(batch_size=16, queries=4))
    trainer.fit(x, y, steps=600, keep="last")
    found = trainer.evaluate(x, y)
    assert found["accuracy"] > 0.5, found
