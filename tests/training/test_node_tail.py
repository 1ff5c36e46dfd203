"""A tail of dense layers trained by exact gradients that come back in integers."""

import dataclasses
import re

import numpy as np
import pytest

from helpers.injection import inject_all
from helpers.models import MODELS
from helpers.runs import layerwise_settings
from tflm_zo.converters import load_model, read_metadata
from tflm_zo.core import TaskEntry
from tflm_zo.logs import LogError
from tflm_zo.training import SettingsError, Trainer
from tflm_zo.training.plan import plan_tasks, recorded_tasks

RNG = np.random.default_rng(7)
X = RNG.integers(-128, 128, (24, 28, 28, 1)).astype(np.int8)
Y = RNG.integers(0, 10, 24).astype(np.int32)
FC = ("fc1", "fc2", "fc3")


def lenet(nodes=FC, **more):
    return inject_all(MODELS["lenet5"](), **{"nodes": nodes, "batch": 4, "headroom": 0, **more})


def exact(tail, **more):
    return layerwise_settings(**{"batch_size": 8, "exact.last": tail, "seed": 3, **more})


class Dense:
    """A dense layer in real numbers, from the tensors of the plain model."""

    def __init__(self, model, layer):
        graph = model.subgraphs[0]
        op = next(
            o
            for o in graph.operators
            if o.code.name == "FULLY_CONNECTED" and layer in f"{o.inputs[1].name} {o.outputs[0].name}"
        )
        data, weights, _ = op.inputs
        self.input = data.quantization
        self.weight_scales = np.broadcast_to(weights.quantization.scales, weights.shape[0]).astype(float)
        self.weights = weights.numpy() * self.weight_scales[:, None]
        self.output = op.outputs[0].quantization


def dense_layers(metadata):
    """Lists fc1, fc2 and fc3: those before the tail carry nodes."""
    return [*metadata.nodes, *(metadata.tail.layers if metadata.tail else ())]


def float_errors(trainer, tail, labels):
    """Computes dL/dy of each layer of the tail, [samples, nodes], and the layers' inputs, in float64."""
    runtime, metadata = trainer.runtime, trainer.runtime.metadata
    plain, own = load_model(MODELS["lenet5"]()), dense_layers(trainer.runtime.metadata)
    layers = [Dense(plain, metadata.trainable[n.trainable].layer) for n in own]
    # The input of each layer is the output of the layer before; the last one is the logits.
    segments = [*(n.input_segment for n in own), own[-1].node_segment]
    found = [[] for _ in segments]
    for at in range(0, len(X), runtime.batch):
        runtime.feed([X[at : at + runtime.batch]], labels[at : at + runtime.batch])
        runtime.invoke()
        for values, k in zip(found, segments, strict=True):
            values.append(runtime.boundary(k).reshape(runtime.batch, -1).copy())
    *inputs, logits = (np.concatenate(v).astype(float) for v in found)
    logits = (logits - layers[-1].output.zero_point) * layers[-1].output.scale
    p = np.exp(logits - logits.max(1, keepdims=True))
    errors = {len(layers) - 1: p / p.sum(1, keepdims=True) - np.eye(10)[labels]}
    for i in range(len(layers) - 2, len(layers) - 1 - tail, -1):
        clamped = inputs[i + 1] <= own[i].geometry["low"]
        errors[i] = np.where(clamped, 0.0, errors[i + 1] @ layers[i + 1].weights)
    return errors, [x - layer.input.zero_point for x, layer in zip(inputs, layers, strict=True)]


@pytest.mark.parametrize("rule", ["rms", "per-error"])
@pytest.mark.parametrize("right", [False, True])
@pytest.mark.parametrize("tail", [1, 2, 3])
def test_the_first_step_is_the_gradient(tail, right, rule):
    """Moves every layer of the tail along the gradient of backpropagation in float64.

    Its size is the rate, by rule per-error times that of the errors: steps are short where most answers are right.
    """
    settings = exact(tail, batch_size=24, learning_rate=1.0, step_clip=200.0, **{"exact.rule": rule})
    trainer = Trainer(lenet(tail=tail), settings, "litert")
    labels = trainer.predict(X).argmax(-1).astype(np.int32) if right else Y
    errors, inputs = float_errors(trainer, tail, labels)
    size = np.sqrt(np.mean(np.sum(errors[2] ** 2, axis=1)))
    assert (size < 0.9) == right
    before = trainer.runtime.read_weights()
    trainer.fit(X, labels, steps=2, keep="last")  # the rate of the last step is 0
    after, fractions = trainer.runtime.read_weights(), trainer.runtime.read_fractions()
    assert sorted(errors) == list(range(3 - tail, 3))
    for i, e in errors.items():
        name = trainer.runtime.metadata.trainable[dense_layers(trainer.runtime.metadata)[i].trainable].name
        moved = after[name].astype(float) - before[name] + fractions[name] / 256
        gradient = -(e.T @ inputs[i]).reshape(moved.shape)
        free = np.abs(before[name].astype(int)) < 100  # the others may have met the end of the range
        a, b = moved[free], gradient[free]
        assert a @ b / np.linalg.norm(a) / np.linalg.norm(b) > 0.999
        assert np.isclose(np.sqrt(np.mean(a**2)), size if rule == "per-error" else 1.0, atol=0.1)


def test_costs():
    """Computes LeNet-5 by hand: the prefix is kept; errors come back through all of the tail but its first layer."""
    fc1, fc2, fc3, whole = 48_000, 10_080, 840, 416_520
    forward = update = fc1 + fc2 + fc3
    back = {1: 0, 2: fc3, 3: fc3 + fc2}
    # fc1 and fc2 are queried unless they belong to the tail: two suffixes each.
    queries = {1: 2 * (fc2 + fc3) + 2 * fc3, 2: 2 * (fc2 + fc3), 3: 0}
    prefix = len(X) * (whole - forward)
    for tail in (1, 2, 3):
        trainer = Trainer(lenet(tail=tail), exact(tail, queries=1, learning_rate=1.0))
        history = trainer.fit(X, Y, steps=5, keep="last")
        step = 8 * (forward + update + back[tail] + queries[tail])
        assert history.equivalents == pytest.approx((prefix + 5 * step) / whole)


@pytest.mark.parametrize(
    ("injection", "last", "problem"),
    [
        # As models of an earlier version are, which led errors back through dense layers with nodes.
        ({}, 2, "at most 1, the last layer of a model that was injected without a tail (fc3)"),
        ({"nodes": ("conv2", *FC)}, 3, "at most 1, the last layer of a model that was injected without a tail (fc3)"),
        ({"tail": 2}, 3, "at most 2, the layers of the tail that the model was injected with (fc2, fc3)"),
    ],
)
def test_tails_that_are_too_long(injection, last, problem):
    said = f"`last` must be {problem}. Received: {last}. Inject the original model with `tail={last}`."
    with pytest.raises(SettingsError, match=re.escape(said)):
        Trainer(lenet(**injection), exact(last))


def test_a_dense_head_alone_carries_nodes():
    """Makes a program of several layers alone, of which the head may be trained without the others."""
    alone = read_metadata(lenet((), tail=1))
    assert alone.tail is None and [n.head for n in alone.nodes] == [True]
    metadata = read_metadata(lenet((), tail=2))
    assert metadata.nodes == () and metadata.tail is not None
    assert [metadata.trainable[n.trainable].layer for n in metadata.tail.layers] == ["fc2", "fc3"]
    found = plan_tasks(exact(1, queries=1), metadata, lambda _: 1.0)
    assert [(t.in_tail, metadata.trainable[t.tensors[0]].layer) for t in found] == [(False, "fc3")]


def test_logs_of_an_earlier_version():
    """Refuses several exact layers of a model without a tail: an earlier version led errors back through them."""
    model = lenet()
    metadata = read_metadata(model)
    tasks = plan_tasks(exact(1, queries=1), metadata, lambda _: 1.0)
    entries = [TaskEntry.of(t, t.tensors) for t in tasks]
    assert [t.is_exact for t in recorded_tasks(entries, metadata)] == [False, False, True]
    entries[1] = dataclasses.replace(entries[1], queries=0)
    said = "the log is of an earlier version: layer fc2 has an exact gradient, and the model has no tail"
    with pytest.raises(LogError, match=said):
        recorded_tasks(entries, metadata)
