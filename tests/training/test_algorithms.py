"""Algorithms by name, and the weights of a snapshot log."""

import numpy as np
import pytest

from helpers.injection import ALL_WEIGHTS
from helpers.models import MODELS
from helpers.runs import settings_of
from tflm_zo import inject
from tflm_zo.converters import InjectSettings, read_metadata
from tflm_zo.training import (
    ALGORITHMS,
    Nodes,
    Settings,
    SettingsError,
    Trainer,
    Weights,
    algorithm,
    algorithm_of,
    algorithms,
    inject_settings,
)
from tflm_zo.training.algorithms import summary

RNG = np.random.default_rng(3)
X = RNG.integers(-128, 128, (24, 28, 28, 1)).astype(np.int8)
Y = RNG.integers(0, 10, 24)


def test_names() -> None:
    assert list(ALGORITHMS)[:2] == ["node", "weight"]
    assert all(algorithm(name).algorithm == name and summary(name) for name in ALGORITHMS)
    with pytest.raises(
        SettingsError,
        match="`algorithm` must be one of node, weight, layer, exact, poor-mans-training, qzo-ff, elastic-zo,",
    ):
        algorithm("adam")


def test_settings() -> None:
    assert algorithm("node") == Settings(algorithm="node")
    assert algorithm("weight") == Settings(tasks=(Weights(),), batch_size=64, algorithm="weight")
    wanted = Settings(tasks=(Nodes(perturbation=4),), learning_rate=0.5, algorithm="node")
    assert settings_of("node", perturbation=4, learning_rate=0.5) == wanted
    assert algorithms.node(perturbation=4, learning_rate=0.5) == wanted
    with pytest.raises(
        SettingsError,
        match="`scope` must be a setting of algorithm node: batch-size, learning-rate, final-learning-rate,",
    ):
        settings_of("node", scope="blocks")
    with pytest.raises(SettingsError, match=r"`nodes\.perturbation` must be an integer in 1\.\.127"):
        settings_of("node", perturbation=0)
    assert inject_settings(algorithm("weight")) == InjectSettings(**ALL_WEIGHTS, algorithm="weight")
    assert inject_settings(algorithm("node"), batch=4, headroom=1) == InjectSettings(batch=4, headroom=1)
    with pytest.raises(SettingsError, match="`nodes` must be left out, since algorithm weight perturbs weights"):
        inject_settings(algorithm("weight"), nodes="auto")


@pytest.mark.parametrize("name", ALGORITHMS)
def test_a_model_injected_for_an_algorithm_is_trained_by_it(name: str) -> None:
    model = inject(MODELS["lenet5"](), inject_settings(algorithm(name), batch=8))
    assert algorithm_of(read_metadata(model)) == name
    settings = settings_of(name, batch_size=8)
    history = Trainer(model, settings).fit(X, Y, steps=2, keep="last")
    assert len(history.steps) == 2
