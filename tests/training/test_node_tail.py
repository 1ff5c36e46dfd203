"""A tail of dense layers trained by exact gradients that come back in integers."""

import numpy as np
import pytest

from helpers.injection import inject_all
from helpers.models import MODELS
from helpers.runs import layerwise_settings
from tflm_zo.converters import load_model, read_metadata
from tflm_zo.training import SettingsError, Trainer

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


def float_errors(trainer, tail):
    """Computes dL/dy of each layer of the tail, [samples, nodes], and the layers' inputs, in float64."""
    runtime, metadata = trainer.runtime, trainer.runtime.metadata
    plain = load_model(MODELS["lenet5"]())
    numbers = range(len(metadata.nodes))
    layers = [Dense(plain, metadata.trainable[n.trainable].layer) for n in metadata.nodes]
    inputs, outputs = [[] for _ in numbers], [[] for _ in numbers]
    for at in range(0, len(X), runtime.batch):
        runtime.feed([X[at : at + runtime.batch]], Y[at : at + runtime.batch])
        runtime.invoke()
        for i, n in enumerate(metadata.nodes):
            inputs[i].append(runtime.boundary(n.input_segment).reshape(runtime.batch, -1).copy())
            outputs[i].append(runtime.boundary(n.node_segment).reshape(runtime.batch, -1).copy())
    inputs = [np.concatenate(v).astype(float) for v in inputs]
    outputs = [np.concatenate(v).astype(float) for v in outputs]
    logits = (outputs[-1] - layers[-1].output.zero_point) * layers[-1].output.scale
    p = np.exp(logits - logits.max(1, keepdims=True))
    errors = {len(layers) - 1: p / p.sum(1, keepdims=True) - np.eye(10)[Y]}
    for i in range(len(layers) - 2, len(layers) - 1 - tail, -1):
        clamped = outputs[i] <= metadata.nodes[i].geometry["low"]
        errors[i] = np.where(clamped, 0.0, errors[i + 1] @ layers[i + 1].weights)
    return errors, [x - layer.input.zero_point for x, layer in zip(inputs, layers, strict=True)]


@pytest.mark.parametrize("tail", [1, 2, 3])
def test_the_first_step_is_the_gradient(tail):
    """Moves every layer of the tail along the gradient of backpropagation in float64."""
    trainer = Trainer(lenet(), exact(tail, batch_size=24, learning_rate=1.0, step_clip=200.0), "litert")
    errors, inputs = float_errors(trainer, tail)
    before = trainer.runtime.read_weights()
    trainer.fit(X, Y, steps=2, keep="last")  # the rate of the last step is 0
    after, fractions = trainer.runtime.read_weights(), trainer.runtime.read_fractions()
    assert sorted(errors) == list(range(3 - tail, 3))
    for i, e in errors.items():
        name = trainer.runtime.metadata.trainable[trainer.runtime.metadata.nodes[i].trainable].name
        moved = after[name].astype(float) - before[name] + fractions[name] / 256
        gradient = -(e.T @ inputs[i]).reshape(moved.shape)
        free = np.abs(before[name].astype(int)) < 100  # the others may have met the end of the range
        a, b = moved[free], gradient[free]
        assert a @ b / np.linalg.norm(a) / np.linalg.norm(b) > 0.999
        assert np.isclose(np.sqrt(np.mean(a**2)), 1.0, atol=0.1)


def test_costs():
    """Computes LeNet-5 by hand: the prefix is kept; errors come back through all of the tail but its first layer."""
    fc1, fc2, fc3, whole = 48_000, 10_080, 840, 416_520
    forward = update = fc1 + fc2 + fc3
    back = {1: 0, 2: fc3, 3: fc3 + fc2}
    # fc1 and fc2 are queried unless they belong to the tail: two suffixes each.
    queries = {1: 2 * (fc2 + fc3) + 2 * fc3, 2: 2 * (fc2 + fc3), 3: 0}
    prefix = len(X) * (whole - forward)
    for tail in (1, 2, 3):
        trainer = Trainer(lenet(), exact(tail, queries=1, learning_rate=1.0))
        history = trainer.fit(X, Y, steps=5, keep="last")
        step = 8 * (forward + update + back[tail] + queries[tail])
        assert history.equivalents == pytest.approx((prefix + 5 * step) / whole)


@pytest.mark.parametrize(("nodes", "most"), [(("fc2", "fc3"), 2), (("fc1", "fc3"), 1), (("conv2", *FC), 3)])
def test_tails_that_are_too_long(nodes, most):
    said = rf"`last` must be at most {most}, the FULLY_CONNECTED layers with nodes at the end that feed each"
    with pytest.raises(SettingsError, match=said):
        Trainer(lenet(nodes), exact(most + 1))


def test_layers_of_a_tail_may_be_injected_alone():
    metadata = read_metadata(lenet(("fc2", "fc3")))
    assert [metadata.trainable[n.trainable].layer for n in metadata.nodes] == ["fc2", "fc3"]
