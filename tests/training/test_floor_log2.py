"""The floor-log2 loss as a model's loss: in every runtime, in evaluation, in training."""

import dataclasses
import math
from typing import Any

import numpy as np
import pytest

from helpers.injection import inject_all
from helpers.interpreters import RUNTIMES, require
from helpers.models import MODELS
from helpers.oracle import losses as oracle
from tflm_zo import inject
from tflm_zo.converters import read_metadata
from tflm_zo.runtime import load
from tflm_zo.training import Exact, Nodes, Settings, Trainer, Weights, inject_settings
from tflm_zo.training.algorithms import algorithm

SAMPLES, CLASSES = 21, 4  # of small_cnn, whose output the loss reads


def samples(seed: int = 0) -> tuple[Any, Any]:
    rng = np.random.default_rng(seed)
    x = rng.integers(-128, 128, (SAMPLES, 8, 8, 1)).astype(np.int8)
    return x, rng.integers(-1, CLASSES, SAMPLES)


def expected_bits(logits: Any, labels: Any, scale: float) -> list[int]:
    log2e = round(scale * math.log2(math.e) * 2**24)
    return [oracle.floor_log2(z.tolist(), int(y), log2e) for z, y in zip(logits, labels, strict=True)]


@pytest.mark.parametrize("name", RUNTIMES)
def test_losses_in_every_runtime(name: str) -> None:
    require(name)
    x, y = samples()
    runtime = load(inject_all(MODELS["small_cnn"](), batch=SAMPLES, loss="floor_log2"), name)
    assert runtime.metadata.loss is not None
    runtime.set_inputs(x)
    runtime.set_labels(y)
    runtime.invoke(runtime.command())
    bits = expected_bits(runtime.outputs()[0], y, runtime.metadata.loss.scale)
    assert runtime.losses().tolist() == [45426 * b for b in bits]
    assert len(set(bits)) > 3
    with pytest.raises(ValueError, match=r"out of range. It must be in 0\.\.3"):
        runtime.set_labels(np.full(SAMPLES, CLASSES))


def test_evaluation_is_a_classifiers() -> None:
    x, y = samples(1)
    found = {}
    for kind in ("cross_entropy", "floor_log2"):
        trainer = Trainer(
            inject_all(MODELS["small_cnn"](), batch=4, loss=kind), Settings(tasks=(Weights(),), batch_size=4)
        )
        found[kind] = trainer.evaluate(x, y)
    assert found["floor_log2"]["accuracy"] == found["cross_entropy"]["accuracy"]
    # Up to two powers of two below, sample by sample.
    assert 0 < found["cross_entropy"]["loss"] - found["floor_log2"]["loss"] < 2 * math.log(2)


def test_the_exact_head_is_the_one_of_the_cross_entropy() -> None:
    """Computes softmax minus one-hot as its error vector, with any loss of the layers before it."""
    weights = {}
    for kind in ("cross_entropy", "floor_log2"):
        settings = inject_settings(algorithm("node"), nodes=("fc",), batch=4, loss=kind)
        zo = inject(MODELS["small_cnn"](), settings)
        trainer = Trainer(zo, Settings(tasks=(Nodes(), Exact()), batch_size=8, seed=5), runtime="litert")
        x, y = samples(2)
        before = trainer.runtime.read_weights()
        trainer.fit(x, y, steps=6, keep="last")
        weights[kind] = trainer.runtime.read_weights()
    name = read_metadata(zo).trainable[-1].name
    np.testing.assert_array_equal(weights["floor_log2"][name], weights["cross_entropy"][name])
    assert (weights["floor_log2"][name] != before[name]).mean() > 0.5


@pytest.mark.parametrize("method", ["node", "weight"])
def test_trains(method: str) -> None:
    """Trains four classes of images by their bright half."""
    rng = np.random.default_rng(3)
    y = rng.integers(0, CLASSES, 300)
    x = rng.integers(-128, 0, (300, 8, 8, 1))
    bright = [np.s_[:4, :], np.s_[4:, :], np.s_[:, :4], np.s_[:, 4:]]
    for image, label in zip(x, y, strict=True):
        image[bright[label]] += 100
    x = x.astype(np.int8)
    chosen = algorithm(method)
    zo = inject(MODELS["small_cnn"](), inject_settings(chosen, batch=20, loss="floor_log2"))
    trainer = Trainer(zo, dataclasses.replace(chosen, batch_size=20, seed=1), runtime="litert")
    before = trainer.evaluate(x, y)
    trainer.fit(x, y, steps={"node": 300, "weight": 800}[method], keep="last")
    after = trainer.evaluate(x, y)
    assert before["accuracy"] < 0.5
    assert after["accuracy"] > 0.85
    assert after["loss"] < 0.5 * before["loss"]
