"""Starts of runs: a last layer by class means."""

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import tflm_zo as zo
from helpers.models import MODELS
from tflm_zo.adaptation.evaluation import with_loss
from tflm_zo.adaptation.starts import Start, with_class_means
from tflm_zo.converters import ConversionError, Model, load_model, read_metadata
from tflm_zo.converters.grow_classes import class_layer, grow_classes, has_new_class
from tflm_zo.converters.passes.loss import logits_of
from tflm_zo.data import Data, Inputs
from tflm_zo.recalibration.walk import layer_outputs

CLASSIFIERS = ["small_cnn", "depthwise_separable", "residual"]


def data_of(model: Model, count: int, seed: int = 0) -> Data:
    """Noise about an image for each class."""
    rng = np.random.default_rng(seed)
    inputs = Inputs(with_loss(model))
    shape, dtype, *_ = inputs.input_details(0)
    classes = inputs.metadata.known_loss.elements
    assert dtype == np.int8
    centres = np.random.default_rng(1).integers(-90, 90, (classes, *shape[1:]))
    labels = np.arange(count) % classes
    x = centres[labels] + rng.integers(-60, 60, (count, *shape[1:]))
    return Data([np.clip(x, -128, 127).astype(np.int8)], labels.astype(np.int32))


def embeddings(model: Model, data: Data) -> NDArray[np.float64]:
    graph = model.only_graph
    logits, _ = logits_of(graph, graph.outputs[0])
    (before,) = [op for op in graph.operators if op.outputs[0] is class_layer(graph, logits).inputs[0]]
    (found,) = layer_outputs(model, [before], data.inputs[0], "litert")
    return found.reshape(len(found), -1).astype(np.float64)


@pytest.mark.parametrize("network", CLASSIFIERS)
def test_the_largest_logit_is_of_the_nearest_mean(network: str) -> None:
    model = load_model(MODELS[network]())
    known, asked = data_of(model, 60), data_of(model, 90, seed=2)
    found = with_class_means(model, known)
    x, z = embeddings(model, known), embeddings(model, asked)
    means = np.stack([x[known.labels == c].mean(axis=0) for c in range(known.labels.max() + 1)])
    distances = ((z[:, None] - means) ** 2).sum(axis=-1)
    answers = zo.Trainer(found).predict(asked.inputs[0]).reshape(len(asked), -1)
    # Levels of weights and logits round: a nearest mean that is nearest by a hair may lose.
    first, second = np.sort(distances, axis=1)[:, :2].T
    clear = second - first > 0.02 * (second + first)
    assert clear.mean() > 0.5
    assert (answers.argmax(axis=1) == distances.argmin(axis=1))[clear].all()


@pytest.mark.parametrize("network", CLASSIFIERS)
def test_only_the_last_layer_changes(network: str) -> None:
    model = load_model(MODELS[network]())
    content = model.to_bytes()
    found = with_class_means(model, data_of(model, 40))
    assert model.to_bytes() == content
    before, after = ({t.name: t for t in m.only_graph.tensors} for m in (model, found))
    changed = {n for n in before if before[n].is_constant and not np.array_equal(before[n].numpy(), after[n].numpy())}
    graph = model.only_graph
    layer = class_layer(graph, logits_of(graph, graph.outputs[0])[0])
    assert changed == {t.name for t in layer.inputs[1:] if t is not None}
    assert [t.shape for t in found.only_graph.tensors] == [t.shape for t in model.only_graph.tensors]


def test_samples_of_one_kind_and_classes_without_samples() -> None:
    """Nothing divides by zero: a class has one sample, or all embeddings are equal."""
    model = load_model(MODELS["small_cnn"]())
    data = data_of(model, 40)
    for numbers in ([0, 1, 2, 3], [0, 1], [0, 0, 0]):
        found = zo.Trainer(with_class_means(model, data.take(numbers)))
        answers = found.predict(data.take(numbers).inputs[0]).reshape(len(numbers), -1)
        assert (answers.argmax(axis=1) == data.labels[numbers]).all()
    equal = Data([np.repeat(data.inputs[0][:1], 4, axis=0)], np.arange(4, dtype=np.int32))
    assert np.isfinite(zo.evaluate(with_class_means(model, equal), *pair(equal)).loss)


def pair(data: Data) -> tuple[Any, Any]:
    return data.inputs[0], data.labels


def test_another_last_layer_is_refused() -> None:
    model = load_model(MODELS["small_cnn"]())
    graph = model.only_graph
    logits, _ = logits_of(graph, graph.outputs[0])
    layer = class_layer(graph, logits)
    assert layer.inputs[0] is not None
    graph.outputs[:] = [layer.inputs[0]]
    data = data_of(load_model(MODELS["small_cnn"]()), 8)
    with pytest.raises(ConversionError, match="must come from a FULLY_CONNECTED layer"):
        with_class_means(model, data)


@pytest.mark.parametrize("recalibrated", [False, True])
@pytest.mark.parametrize("means", [False, True])
def test_names_tell_starts(recalibrated: bool, means: bool) -> None:
    model = load_model(MODELS["small_cnn"]())
    start = Start(model, recalibrated, means)
    assert Start.named(start.name, model) == start


def test_class_means_are_a_start_where_a_class_is_new() -> None:
    model = load_model(MODELS["small_cnn"]())
    assert not has_new_class(model)
    old = read_metadata(with_loss(model)).known_loss.elements
    grown = grow_classes(model, old + 1)
    assert has_new_class(grown)
    x, y = pair(data_of(grown, 60))
    found = zo.adapt(grown, x, y, steps=20)
    assert found.choice is not None and found.choice.trains
    trained = [t.candidate.start for t in found.choice.trials if t.steps]
    assert {start.has_class_means for start in trained} == {False, True}
    of_old_classes = zo.adapt(model, *pair(data_of(model, 60)), steps=20).choice
    assert of_old_classes is not None
    tried = {(t.candidate.start.has_class_means, t.steps > 0) for t in of_old_classes.trials}
    assert tried <= {(False, False), (True, False), (False, True)}
    without = zo.adapt(grown, x[y < old], y[y < old], steps=5).choice
    assert without is not None and not any(t.candidate.start.has_class_means for t in without.trials)
