"""Settings of node perturbation: values that are out of range or do not fit the model are refused before a run."""

from typing import Any

import numpy as np
import pytest

from helpers.injection import inject_all
from helpers.models import MODELS, GraphBuilder, lenet5
from helpers.models.graph_builder import Activation
from helpers.runs import layerwise_settings
from tflm_zo.converters import Model
from tflm_zo.training import Nodes, Settings, SettingsError, Trainer, Weights

BAD = [
    ({"nodes.queries": 0}, r"`nodes\.queries` must be an integer in 1\.\.32\. Received: 0"),
    ({"nodes.queries": 33}, r"`nodes\.queries` must be an integer in 1\.\.32\. Received: 33"),
    ({"nodes.queries": 1.5}, r"`nodes\.queries` must be an integer in 1\.\.32"),
    ({"nodes.queries": True}, r"`nodes\.queries` must be an integer in 1\.\.32"),
    ({"nodes.queries": {"fc": 0}}, r"`nodes\.queries` must be an integer in 1\.\.32\. Received: 0"),
    ({"nodes.queries": {"conv": 2, "fc": 33}}, r"`nodes\.queries` must be an integer in 1\.\.32\. Received: 33"),
    ({"nodes.perturbation": 0}, r"`nodes\.perturbation` must be an integer in 1\.\.127\. Received: 0"),
    ({"nodes.perturbation": 128}, r"`nodes\.perturbation` must be an integer in 1\.\.127\. Received: 128"),
    ({"nodes.perturbation": 2.0}, r"`nodes\.perturbation` must be an integer in 1\.\.127"),
    ({"learning_rate": 0.0}, r"`learning_rate` must be in 1\.52588e-05\.\.128\. Received: 0\.0"),
    ({"learning_rate": -1.0}, r"`learning_rate` must be in 1\.52588e-05\.\.128\. Received: -1\.0"),
    ({"learning_rate": 129.0}, r"`learning_rate` must be in 1\.52588e-05\.\.128"),
    ({"learning_rate": float("nan")}, r"`learning_rate` must be in 1\.52588e-05\.\.128"),
    ({"learning_rate": float("inf")}, r"`learning_rate` must be in 1\.52588e-05\.\.128"),
    ({"learning_rate": "1"}, r"`learning_rate` must be in 1\.52588e-05\.\.128\. Received: '1'"),
    ({"final_learning_rate": -0.1}, r"`final_learning_rate` must be in 0\.\.16384\. Received: -0\.1"),
    ({"final_learning_rate": 2.0}, r"`schedule\.final` must be in 0\.\.1\. Received: 2\.0"),
    ({"step_clip": 0.0}, r"`step_clip` must be in 1\.52588e-05\.\.256\. Received: 0\.0"),
    ({"step_clip": 257.0}, r"`step_clip` must be in 1\.52588e-05\.\.256"),
    ({"exact.last": 0}, r"`last` must be an integer in 1\.\.64\. Received: 0"),
    ({"schedule": "exp"}, r"`schedule` must be one of constant, linear, cosine, step\. Received: 'exp'"),
    ({"schedule": "step", "decay": 1.1}, r"`decay` must be in 0\.\.1\. Received: 1\.1"),
    ({"schedule": "step", "decay_steps": 0}, r"`decay_steps` must be an integer in 1\.\.2147483648"),
    ({"warmup_steps": -1}, r"`warmup_steps` must be an integer in 0\.\.2147483648"),
    ({"batch_size": 0}, r"`batch_size` must be an integer in 1\.\.1048576\. Received: 0"),
    ({"snapshot_every": 0}, r"`snapshot_every` must be an integer in 1\.\.2147483648"),
    ({"seed": -1}, r"`seed` must be an integer in 0\.\.4294967295\. Received: -1"),
    ({"seed": 2**32}, r"`seed` must be an integer in 0\.\.4294967295"),
]


@pytest.mark.parametrize("changes, message", BAD, ids=lambda v: str(v) if isinstance(v, dict) else "")
def test_out_of_range(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        layerwise_settings(**changes)


def mean_head() -> bytes:
    """Builds a classifier whose logits are the mean of a convolution over the image."""
    g = GraphBuilder(51)
    x = g.conv(g.input("image", [1, 5, 5, 2]), "conv", 4, activation=Activation.NONE)
    return g.build([g.softmax(g.mean(x, "mean", [1, 2]), "softmax")])


def zo(name: str, **options: Any) -> Model:
    return inject_all(MODELS[name](), **{"nodes": "*", "batch": 4, **options})


MISFITS = {
    "no nodes": (lambda: zo("small_cnn", nodes=()), {"batch_size": 8}, "`model` must carry nodes"),
    "unknown layer": (
        lambda: zo("small_cnn"),
        {"batch_size": 8, "nodes.queries": {"conv": 2, "fc9": 3}},
        r"`nodes\.queries` must name layers that are trained so \(conv, fc\)",
    ),
    "a layer without nodes": (
        lambda: zo("small_cnn", nodes="fc"),
        {"batch_size": 8, "nodes.queries": {"conv": 2}},
        r"`nodes\.queries` must name layers that are trained so \(fc\)",
    ),
    "no head": (
        lambda: zo("small_cnn", nodes="conv"),
        {"batch_size": 8, "exact.last": 1},
        "`model` must have a last FULLY_CONNECTED layer with nodes, whose outputs the loss reads, for exact",
    ),
    "a mean is no head": (
        lambda: inject_all(mean_head(), nodes="*", batch=4),
        {"batch_size": 8, "exact.last": 1},
        "`model` must have a last FULLY_CONNECTED layer with nodes, whose outputs the loss reads, for exact",
    ),
    "batch size": (
        lambda: zo("small_cnn"),
        {"batch_size": 10},
        r"`batch_size` must be a multiple of the model's batch 4\. Received: 10",
    ),
    "more samples than a sum holds": (
        lambda: inject_all(lenet5(), nodes="*", batch=4),
        {"batch_size": 2**20},
        "`batch_size` must be at most 42964, as sums over 196 positions of layer conv1 have 32 bits",
    ),
}


@pytest.mark.parametrize("name", MISFITS)
def test_what_the_model_does_not_fit(name: str) -> None:
    build, settings, message = MISFITS[name]
    with pytest.raises(SettingsError, match=message):
        Trainer(build(), layerwise_settings(**settings))


def test_the_largest_minibatch_has_an_update() -> None:
    """Refuses one sample more, before its forward passes: the core would refuse it after them."""
    from helpers.nodes import update_from_nodes
    from tflm_zo.core import NativeError, NodeLayer, NodeState

    layer = NodeLayer(in_c=1, out_c=1, in_h=196, out_h=196)
    largest = (2**31 - 1) // (255 * 196)
    for samples in (largest, largest + 1):
        arguments = (layer, NodeState(), np.zeros(1, np.int8), None, None, 0, 127)
        inputs = np.ones((samples, 196), np.int8)
        evidence = {"differences": np.ones((1, samples), np.int32), "seeds": np.zeros(1, np.uint32)}
        if samples == largest:
            update_from_nodes(*arguments, inputs, None, rate=65536, clip=65536, seed=0, **evidence)
        else:
            with pytest.raises(NativeError):
                update_from_nodes(*arguments, inputs, None, rate=65536, clip=65536, seed=0, **evidence)


def test_models_that_cannot_be_trained() -> None:
    for options in ({"trainable": "none", "nodes": ()}, {"loss": "none", "nodes": ()}):
        with pytest.raises(SettingsError, match="`model` must have trainable tensors and a loss"):
            Trainer(zo("small_cnn", **options), Settings(batch_size=4))


def test_the_default_is_what_the_model_is_for() -> None:
    assert isinstance(Trainer(zo("small_cnn")).settings, Settings)
    assert isinstance(Trainer(zo("small_cnn", nodes=())).settings, Settings)
    # Nodes are no hindrance to weight perturbation.
    trainer = Trainer(zo("small_cnn"), Settings(tasks=(Weights(),), batch_size=4))
    x = np.zeros((4, 8, 8, 1), np.int8)
    assert len(trainer.fit(x, np.arange(4), steps=2, keep="last").steps) == 2


def test_a_mean_that_is_the_logits_is_trained_by_perturbation() -> None:
    rng = np.random.default_rng(3)
    x = np.repeat(rng.integers(-128, 128, (4, 1, 1, 2)), 25, 0).reshape(4, 5, 5, 2).astype(np.int8)
    trainer = Trainer(inject_all(mean_head(), nodes="*", batch=4), Settings(tasks=(Nodes(queries=8),), batch_size=4))
    before = trainer.evaluate(x, np.arange(4))["loss"]
    trainer.fit(x, np.arange(4), steps=200, keep="last")
    assert trainer.evaluate(x, np.arange(4))["loss"] < before / 2
