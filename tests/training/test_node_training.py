"""Training by node perturbation: the same bits everywhere, those of an oracle, and a loss that falls."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from helpers.examples import slow_but
from helpers.injection import inject_all
from helpers.interpreters import require
from helpers.models import MODELS, GraphBuilder
from helpers.models.graph_builder import Activation
from helpers.oracle.node_training import NodeTraining
from helpers.runs import state
from tflm_zo.converters import Model, ZoMetadata, initial_weights, load_model
from tflm_zo.converters.model.schema import TensorType
from tflm_zo.training import Exact, Nodes, Settings, Trainer
from tflm_zo.training.setting_texts import changed

SAMPLES = 20


def mean_cnn() -> bytes:
    """Builds two convolutions, MEAN over the image, one dense layer; softmax over 4."""
    g = GraphBuilder(31)
    x = g.conv(g.input("image", [1, 7, 6, 2]), "conv1", 5, stride=2)
    x = g.conv(x, "conv2", 6, (2, 3))
    return g.build([g.softmax(g.dense(g.mean(x, "mean", [1, 2]), "fc", 4, Activation.NONE), "softmax")])


def positions() -> bytes:
    """Builds a 1 x 1 convolution and a dense layer on every position of its image."""
    g = GraphBuilder(33)
    x = g.conv(g.input("image", [1, 3, 4, 5]), "conv", 6, (1, 1))
    inputs, rms = g.weighted(x, "token", [4, 6], 0, 6, True, True)
    y = g.value("token", [1, 3, 4, 4], 6 * rms / 255, -20, rms)
    fused = {"fusedActivationFunction": Activation.RELU}
    g.operator("FULLY_CONNECTED", inputs, [y.index], "FullyConnected", keepNumDims=True, **fused)
    return g.build([g.softmax(g.dense(y, "fc", 3, Activation.NONE), "softmax")])


def clamped_head() -> bytes:
    """Builds logits behind a RELU: half of them do not move the loss."""
    g = GraphBuilder(32)
    x = g.dense(g.input("features", [1, 20]), "fc1", 12)
    return g.build([g.softmax(g.dense(x, "fc2", 6, Activation.RELU), "softmax")])


@dataclass(frozen=True)
class Case:
    """A model, its nodes, how it is injected, and how it trains."""

    model: Callable[[], bytes]
    nodes: Any = "*"
    inject: tuple[tuple[str, Any], ...] = ()
    settings: Settings = Settings(tasks=(Nodes(queries=2),), batch_size=4, seed=3)
    batch: int = 4

    def build(self, **more: Any) -> Model:
        return inject_all(self.model(), **{"nodes": self.nodes, "batch": self.batch, **dict(self.inject), **more})


BITS_8 = (("update_bits", 8),)
PARTS = Settings(tasks=(Nodes(queries=3),), batch_size=12, seed=4)
EXACT = Settings(tasks=(Nodes(queries=2), Exact()), batch_size=8, seed=5)
CNN, DENSE = MODELS["small_cnn"], MODELS["dense_per_tensor"]

CASES = {
    "conv, max pool": Case(CNN),
    "conv, max pool, 8 bit": Case(CNN, inject=BITS_8),
    "conv, max pool, parts": Case(CNN, settings=PARTS),
    "conv, max pool, exact head": Case(CNN, settings=EXACT),
    "the head alone": Case(CNN, nodes="fc", settings=PARTS),
    "the exact head alone, 8 bit": Case(CNN, nodes="fc", inject=BITS_8, settings=EXACT),
    "the first layer alone": Case(CNN, nodes="conv", settings=PARTS),
    "global mean": Case(mean_cnn, nodes=("conv2", "fc")),
    "global mean, 8 bit, exact head": Case(mean_cnn, inject=BITS_8, settings=EXACT),
    "global mean, behind a prefix": Case(MODELS["depthwise_separable"], nodes="auto", settings=PARTS),
    "dense": Case(DENSE),
    "dense, 8 bit, parts": Case(DENSE, inject=BITS_8, settings=PARTS),
    "multipliers": Case(CNN, inject=(("multipliers", "quantization-aware"),)),
    "multipliers, 8 bit": Case(mean_cnn, inject=(*BITS_8, ("multipliers", "quantization-aware")), settings=EXACT),
    "no headroom": Case(CNN, inject=(("headroom", 0),), settings=replace(PARTS, learning_rate=20.0, step_clip=30.0)),
    "as it is injected by default": Case(
        CNN, nodes="auto", inject=(("trainable", "nodes"), ("headroom", 0), ("replay", False)), settings=PARTS
    ),
    "mu 127, all queries": Case(DENSE, settings=changed(PARTS, {"perturbation": 127, "queries": 32})),
    "dense layer on positions": Case(positions, settings=PARTS),
    "clamped head": Case(clamped_head),
    "clamped head, exact": Case(clamped_head, settings=EXACT),
    "float input, behind a prefix": Case(MODELS["float_edges"], settings=PARTS),
    "depthwise": Case(MODELS["depthwise_separable"], settings=PARTS),
    "depthwise, 8 bit, quantization-aware": Case(
        MODELS["depthwise_separable"], inject=(*BITS_8, ("multipliers", "quantization-aware"))
    ),
    "depth multiplier, global mean": Case(MODELS["depth_multiplier"]),
    "residual blocks": Case(MODELS["residual"]),
    "residual blocks, 8 bit, parts, exact head": Case(
        MODELS["residual"], inject=BITS_8, settings=changed(PARTS, {"exact.last": 1})
    ),
    "a branch behind a prefix": Case(MODELS["residual"], nodes=("block1/conv1", "projection"), settings=PARTS),
    "inside of a residual block, behind a prefix": Case(
        MODELS["residual"], nodes=("block1/conv0", "projection", "fc"), settings=PARTS
    ),
    "a residual block whose shortcut comes from before the prefix": Case(
        MODELS["residual"], nodes=("block0/conv1", "projection"), settings=PARTS
    ),
    "softmax with beta": Case(MODELS["dense_after_4d"], settings=EXACT),
}


def data_of(metadata: ZoMetadata, model: bytes, samples: int = SAMPLES) -> tuple[Any, Any]:
    tensor = load_model(model).subgraphs[0].inputs[0]
    rng = np.random.default_rng(6)
    x = rng.integers(-128, 128, (samples, *tensor.shape[1:])).astype(np.int8)
    if tensor.type == TensorType.FLOAT32:
        x = (x / np.float32(64)).astype(np.float32)
    assert metadata.loss is not None
    y = rng.integers(0, metadata.loss.elements, samples)
    y[3] = -1  # unlabelled
    return x, y


@pytest.fixture(scope="module", params=slow_but(list(CASES)[::3], CASES))
def case(request: pytest.FixtureRequest) -> Case:
    return CASES[request.param]


def test_same_bits_in_tflm(case: Case, tmp_path: Path) -> None:
    results = []
    for runtime in ("litert", "tflm"):
        require(runtime)
        model = case.build()
        trainer = Trainer(model, replace(case.settings, snapshot_every=3), runtime)
        x, y = data_of(trainer.runtime.metadata, case.model())
        before = state(trainer)
        history = trainer.fit(x, y, steps=8, log=tmp_path / runtime, keep="last")
        exported, log = trainer.export().to_bytes(), (tmp_path / runtime).read_bytes()
        results.append((state(trainer), history.steps, log, exported))
        trained = [trainer.runtime.metadata.trainable[n.trainable] for n in trainer.runtime.metadata.nodes]
        for t in trainer.runtime.metadata.trainable:
            moved = state(trainer)[f"0/{t.name}"] != before[f"0/{t.name}"]
            assert moved == (t in trained)
    assert results[0] == results[1]


def test_is_the_oracle(case: Case) -> None:
    steps = 4
    model = case.build()
    trainer = Trainer(model, case.settings, "litert")
    x, y = data_of(trainer.runtime.metadata, case.model())
    history = trainer.fit(x, y, steps=steps, keep="last")
    oracle = NodeTraining(model, case.settings, steps, x, y)
    oracle.run()
    assert [round(v * 65536) for v in history.steps] == oracle.losses
    for name, value in trainer.runtime.read_weights().items():
        np.testing.assert_array_equal(value.reshape(-1), oracle.weights[name])
    for name, value in trainer.runtime.read_fractions().items():
        np.testing.assert_array_equal(value.reshape(-1), oracle.fractions[name])


@pytest.mark.parametrize("name", ["conv, max pool", "global mean, 8 bit, exact head", "dense, 8 bit, parts"])
def test_the_models_batch_does_not_matter(name: str) -> None:
    """Forwards a sample apart from its neighbours; directions go by its number in the minibatch."""
    case = CASES[name]
    results = []
    for batch in (1, 2, 3, 6, 12):
        trainer = Trainer(case.build(batch=batch), replace(case.settings, batch_size=12), "litert")
        x, y = data_of(trainer.runtime.metadata, case.model())
        results.append((trainer.fit(x, y, steps=6, keep="last").steps, state(trainer)))
    assert all(result == results[0] for result in results)


def test_other_seeds_are_other_runs() -> None:
    case = CASES["conv, max pool"]
    results = []
    for seed in (1, 1, 2):
        trainer = Trainer(case.build(), replace(case.settings, seed=seed))
        x, y = data_of(trainer.runtime.metadata, case.model())
        trainer.fit(x, y, steps=3, keep="last")
        results.append(state(trainer))
    assert results[0] == results[1] != results[2]


def test_a_fit_from_the_initial_weights_starts_again(case: Case) -> None:
    trainer = Trainer(case.build(), case.settings)
    initial = initial_weights(trainer.model)
    x, y = data_of(trainer.runtime.metadata, case.model())
    first, weights = trainer.fit(x, y, steps=4, keep="last"), state(trainer)
    second = trainer.fit(x, y, steps=4, keep="last", initial_weights=initial)
    assert first.steps == second.steps and weights == state(trainer)


# --- learning ---------------------------------------------------------------------------------------------


def task_of(trainer: Trainer, model: bytes, classes: int) -> tuple[Any, Any]:
    """Draws a prototype per class, with noise."""
    x, _ = data_of(trainer.runtime.metadata, model, classes)
    rng = np.random.default_rng(8)
    y = np.arange(64) % classes
    noisy = x[y] // 2 + rng.integers(-20, 21, (64, *x.shape[1:]))
    return np.clip(noisy, -128, 127).astype(np.int8), y


@pytest.mark.parametrize(
    "name, changes, remains",
    [
        ("conv, max pool", {}, 0.33),
        ("conv, max pool, 8 bit", {}, 0.33),
        ("conv, max pool, exact head", {}, 0.33),
        ("the head alone", {}, 0.33),
        # In front of a head of random weights, which stays as it is.
        ("the first layer alone", {}, 0.75),
        (
            "global mean, 8 bit, exact head",
            {"schedule": "cosine", "warmup_steps": 10, "queries": 8, "learning_rate": 2.0},
            0.33,
        ),
        ("dense", {"schedule": "step", "decay_steps": 60}, 0.33),
        ("multipliers", {}, 0.33),
    ],
)
def test_learns(name: str, changes: dict[str, Any], remains: float) -> None:
    case = CASES[name]
    settings = changed(case.settings, {"batch_size": 16, "learning_rate": 1.0, **changes})
    trainer = Trainer(case.build(batch=16), settings)
    x, y = task_of(trainer, case.model(), 4)
    before = trainer.evaluate(x, y)
    history = trainer.fit(x, y, steps=200, keep="last")
    after = trainer.evaluate(x, y)
    print(f"{before} -> {after}")
    assert after["loss"] < remains * before["loss"]
    assert remains > 0.5 or after["accuracy"] > 0.9
    assert np.mean(history.steps[-20:]) < 1.5 * remains * np.mean(history.steps[:5])


@pytest.mark.parametrize("name, labels, remains", [("autoencoder", 0, 1 / 2), ("logistic_head", 3, 1 / 3)])
def test_learns_other_losses(name: str, labels: int, remains: float) -> None:
    """Trains a mean squared error, whose output is cut off for its last layer, and independent outputs."""
    settings = Settings(tasks=(Nodes(queries=4),), batch_size=8, learning_rate=1.0)
    trainer = Trainer(inject_all(MODELS[name](), nodes="*", batch=8), settings)
    rng = np.random.default_rng(9)
    x = rng.integers(-128, 128, (8, *trainer.runtime.input_details()[0][1:])).astype(np.int8)
    data = (x, rng.integers(0, 2, (8, labels))) if labels else (x,)
    before = trainer.evaluate(*data)["loss"]
    trainer.fit(*data, steps=300, keep="last")
    assert trainer.evaluate(*data)["loss"] < remains * before


def test_unlabelled_samples_teach_nothing() -> None:
    """Gives the same weights with any unlabelled samples."""
    case = CASES["conv, max pool"]
    results = []
    for scale in (1, 2):
        trainer = Trainer(case.build(), case.settings)
        x, y = data_of(trainer.runtime.metadata, CNN())
        unlabelled = np.arange(len(y)) % 2 == 0
        x = np.where(unlabelled[:, None, None, None], x // scale, x).astype(np.int8)
        trainer.fit(x, np.where(unlabelled, -1, y), steps=10, keep="last")
        results.append(state(trainer))
    assert results[0] == results[1]


def test_two_inputs() -> None:
    """Reads the second input behind the prefix, which is run once for all samples."""
    model = inject_all(MODELS["two_inputs"](), nodes="auto", batch=4)
    rng = np.random.default_rng(11)
    x = [rng.integers(-128, 128, (12, *shape)).astype(np.int8) for shape in ((8, 8, 1), (10,))]
    y = rng.integers(0, 4, 12)
    settings = Settings(tasks=(Nodes(queries=8),), batch_size=4)
    results = []
    for runtime in ("litert", "tflm"):
        require(runtime)
        trainer = Trainer(model, settings, runtime)
        before = trainer.evaluate(x, y)["loss"]
        trainer.fit(x, y, steps=150, keep="last")
        assert trainer.evaluate(x, y)["loss"] < before / 2
        results.append(state(trainer))
    assert results[0] == results[1]
