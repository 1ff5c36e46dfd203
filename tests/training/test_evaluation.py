"""Evaluation of every kind of loss and of several inputs and outputs, against the plain model in float64."""

import json
from typing import Any

import numpy as np
import pytest

from helpers.injection import inject_all
from helpers.interpreters import require, run_plain
from helpers.models import MODELS, GraphBuilder
from helpers.models.graph_builder import Activation
from tflm_zo.converters import ConversionError, ZoMetadata, load_model, read_metadata
from tflm_zo.data import prepare
from tflm_zo.runtime import load
from tflm_zo.training import Settings, Trainer, Weights, evaluation

SAMPLES = 11  # of batches of 4: the last one is not full


def requantized_logits(seed: int = 20) -> bytes:
    """Makes three binary logits, requantized: neither probabilities nor the loss's input."""
    g = GraphBuilder(seed)
    x = g.dense(g.input("features", [1, 8]), "fc", 3, Activation.NONE)
    return g.build([g.requantize(x, "logits", 1 / 16, 7)])


def float_logits(seed: int = 21) -> bytes:
    """Builds the same, leaving the model as float32."""
    g = GraphBuilder(seed)
    x = g.dense(g.input("features", [1, 8]), "fc", 3, Activation.NONE)
    return g.build([g.dequantize(x, "logits")])


def data(built: bytes, seed: int = 0) -> list[Any]:
    """Draws int8 samples for every input (float32 for floating point)."""
    rng = np.random.default_rng(seed)
    result = []
    for tensor in load_model(built).subgraphs[0].inputs:
        shape = (SAMPLES, *tensor.shape[1:])
        quantized = tensor.quantization is not None and len(tensor.quantization.scales)
        x = rng.integers(-128, 128, shape).astype(np.int8) if quantized else rng.normal(0, 1, shape)
        result.append(x if quantized else x.astype(np.float32))
    return result


def plain_outputs(built: bytes, inputs: list[Any], index: int) -> Any:
    """Computes real values of an output for each sample, from the plain model, one sample at a time."""
    tensor = load_model(built).subgraphs[0].outputs[index]
    outputs = [run_plain(built, "litert", [x[i : i + 1] for x in inputs])[index] for i in range(SAMPLES)]
    value = np.concatenate(outputs).astype(np.float64)
    quantization = tensor.quantization
    if quantization is None or not len(quantization.scales):
        return value
    return (value - quantization.zero_point) * quantization.scale


def evaluate(built: bytes, inputs: list[Any], y: Any, **settings: Any) -> evaluation.Evaluation:
    runtime = load(inject_all(built, batch=4, headroom=0, **settings), "litert")
    return evaluation.evaluate(runtime, prepare(runtime, inputs, y))


# --- the output that the loss belongs to --------------------------------------------------------------------


@pytest.mark.parametrize("wanted, index", [(None, 0), (0, 0), (1, 1), ("sigmoid", 1), ("softmax", 0)])
def test_metadata_name_the_output(wanted: Any, index: int) -> None:
    loss = read_metadata(inject_all(MODELS["two_outputs"](), loss_output=wanted)).loss
    assert loss is not None
    assert (loss.output, loss.squashed) == (index, True)
    assert loss.kind == ("cross_entropy", "binary_cross_entropy")[index]


@pytest.mark.parametrize(
    "name, squashed", [("lenet5", True), ("logistic_head", True), ("small_cnn", False), ("autoencoder", False)]
)
def test_metadata_tell_logits_from_probabilities(name: str, squashed: bool) -> None:
    loss = read_metadata(inject_all(MODELS[name]())).loss
    assert loss is not None and loss.squashed == squashed


def test_older_metadata() -> None:
    content = json.loads(read_metadata(inject_all(MODELS["two_outputs"](), loss_output=1)).to_json())
    del content["loss"]["output"], content["loss"]["squashed"]
    loss = ZoMetadata.from_json(json.dumps(content)).loss
    assert loss is not None and (loss.output, loss.squashed) == (0, True)
    for wrong in (2, -1, "1", None, True):
        content["loss"]["output"] = wrong
        with pytest.raises(ConversionError, match="damaged"):
            ZoMetadata.from_json(json.dumps(content))


@pytest.mark.parametrize("index", [0, 1])
def test_either_output(index: int) -> None:
    """Evaluates and predicts the loss's output of two."""
    built = MODELS["two_outputs"]()
    inputs = data(built)
    real = plain_outputs(built, inputs, index)
    rng = np.random.default_rng(5)
    if index == 0:
        y = rng.integers(0, 4, SAMPLES)
        right = real.argmax(1) == y
    else:
        y = rng.integers(0, 2, SAMPLES)
        right = (real[:, 0] > 0.5) == y
    assert 0 < right.mean() < 1
    found = evaluate(built, inputs, y, loss_output=index)
    assert found.accuracy == pytest.approx(right.mean())
    trainer = Trainer(
        inject_all(built, batch=4, loss_output=index), Settings(tasks=(Weights(),), batch_size=4), "litert"
    )
    assert trainer.predict(inputs[0]).shape == (SAMPLES, (4, 1)[index])
    assert trainer.evaluate(inputs[0], y).keys() == {"loss", "accuracy"}


# --- losses and accuracy ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "built, threshold",
    [(MODELS["logistic_head"](), 0.5), (requantized_logits(), 0.0), (float_logits(), 0.0)],
    ids=["probabilities", "requantized logits", "float logits"],
)
def test_binary(built: bytes, threshold: float) -> None:
    inputs = data(built)
    real = plain_outputs(built, inputs, 0)
    y = np.random.default_rng(2).integers(-1, 2, (SAMPLES, 3))
    y[4] = -1  # a sample without any label
    labelled = y >= 0
    right = ((real > threshold) == y) & labelled
    # Both answers occur, and the other threshold would give others.
    assert 0 < right.sum() < labelled.sum()
    assert ((real > threshold) != (real > 0.5 - threshold)).any()
    found = evaluate(built, inputs, y, loss="binary_cross_entropy")
    assert (found.samples, found.labelled) == (SAMPLES, int(labelled.any(1).sum()))
    assert found.accuracy == pytest.approx(right.sum() / labelled.sum())
    if threshold == 0.0:  # the oracle needs the logits
        # Requantized ones are a quarter of a unit off the loss's input, at most.
        expected = np.where(labelled, np.logaddexp(0, np.where(y == 1, -real, real)), 0).sum()
        assert found.loss == pytest.approx(expected / found.labelled, abs=0.1)


def test_cross_entropy_of_the_labelled() -> None:
    built = MODELS["small_cnn"]()
    inputs = data(built)
    real = plain_outputs(built, inputs, 0)
    y = np.random.default_rng(3).integers(-1, 4, SAMPLES)
    known = np.flatnonzero(y >= 0)
    assert 0 < len(known) < SAMPLES
    found = evaluate(built, inputs, y)
    expected = np.log(np.exp(real).sum(1)) - real[np.arange(SAMPLES), y]
    assert found.loss == pytest.approx(expected[known].mean(), abs=1e-3)
    assert found.accuracy == pytest.approx((real.argmax(1) == y)[known].mean())
    assert (found.samples, found.labelled) == (SAMPLES, len(known))
    trainer = Trainer(inject_all(built, batch=4), Settings(tasks=(Weights(),), batch_size=4), "litert")
    for use in (trainer.evaluate, trainer.fit):
        with pytest.raises(ValueError, match="no sample has a label"):
            use(inputs[0], np.full(SAMPLES, -1))


@pytest.mark.parametrize("given", ["int8", "float", "nothing"])
def test_mean_squared_error(given: str) -> None:
    """Evaluates with targets, or without: then they are the samples."""
    built = MODELS["autoencoder"]()
    graph = load_model(built).subgraphs[0]
    entry, exit_ = graph.inputs[0].quantization, graph.outputs[0].quantization
    assert entry is not None and exit_ is not None
    assert (entry.scale, entry.zero_point) != (exit_.scale, exit_.zero_point)  # or there is nothing to test
    (x,) = data(built)
    real = plain_outputs(built, [x], 0)
    targets = (x.astype(np.float64) - entry.zero_point) * entry.scale
    levels = np.clip(np.rint(targets / exit_.scale) + exit_.zero_point, -128, 127)
    expected = ((real - (levels - exit_.zero_point) * exit_.scale) ** 2).mean()
    assert Trainer(inject_all(built, batch=4), Settings(tasks=(Weights(),), batch_size=4)).evaluate(x).keys() == {
        "loss"
    }
    if given == "nothing":
        y = None
    else:
        y = levels.astype(np.int8) if given == "int8" else targets
    runtime = load(inject_all(built, batch=4, headroom=0), "litert")
    found = evaluation.evaluate(runtime, prepare(runtime, x, y))
    assert found.loss == pytest.approx(expected, rel=1e-3)
    assert found.accuracy is None and found.labelled == SAMPLES


@pytest.mark.parametrize(("name", "at_once"), [("litert", 32), ("tflm", 4)])
def test_watching(name: str, at_once: int) -> None:
    """Evaluates batch by batch, or so many samples at once if the runtime passes any number on."""
    require(name)
    built = MODELS["small_cnn"]()
    runtime = load(inject_all(built, batch=4), name)
    assert runtime.samples_at_once == at_once
    x, y = np.tile(data(built)[0], (4, 1, 1, 1)), np.zeros(4 * SAMPLES, int)
    given, seen = prepare(runtime, x, y), []

    def watch(starts: Any) -> Any:
        for start in starts:
            seen.append((start, len(starts)))
            yield start

    assert evaluation.evaluate(runtime, given, watch) == evaluation.evaluate(runtime, given)
    batches = range(0, len(y), at_once)
    assert seen == [(start, len(batches)) for start in batches] and len(seen) > 1


# --- several inputs -----------------------------------------------------------------------------------------


def test_two_inputs() -> None:
    """Feeds both, in their order."""
    built = MODELS["two_inputs"]()
    inputs = data(built)
    real = plain_outputs(built, inputs, 0)
    y = np.random.default_rng(1).integers(0, 4, SAMPLES)
    assert evaluate(built, inputs, y).accuracy == pytest.approx((real.argmax(1) == y).mean())

    trainer = Trainer(inject_all(built, batch=4), Settings(tasks=(Weights(),), batch_size=8, seed=3), "litert")
    swapped = trainer.predict([inputs[0], inputs[1][::-1]])
    assert swapped.tolist() != trainer.predict(inputs).tolist()  # the second input matters
