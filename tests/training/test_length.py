"""How long a run is that is given a budget, or nothing."""

from pathlib import Path
from typing import Any

import pytest

from helpers.injection import inject_all
from helpers.models import MODELS
from helpers.runs import random_samples
from tflm_zo.training import Constant, Exact, Nodes, Settings, Trainer, Weights, best_state, length, random_walks
from tflm_zo.training.length import most_budget_steps, usual_epochs

X, Y = random_samples(2, 16)


@pytest.mark.parametrize(
    ("samples", "batch_size", "epochs"),
    [
        *((128, 32, 75), (1000, 32, 10), (960, 32, 10), (959, 32, 10), (928, 32, 11), (1, 32, 300), (10**6, 32, 10)),
        *((128, 1, 75), (128, 4, 75), (128, 64, 150), (1000, 8, 10), (959, 4, 10), (928, 1, 11)),
    ],
)
def test_few_samples_get_enough_steps(samples: int, batch_size: int, epochs: int) -> None:
    """Trains ten epochs, or as many complete ones as take 300 steps of 32 samples."""
    assert usual_epochs(Settings(batch_size=batch_size), samples) == epochs
    steps, enough = -(-samples // batch_size), 300 * 32 / min(batch_size, 32)
    assert epochs == 10 or (epochs - 1) * steps < enough <= epochs * steps


@pytest.mark.parametrize(
    ("tasks", "samples", "most"),
    [
        ((Nodes(),), 128, 2000),
        ((Nodes(),), 1000, 2000),
        ((Nodes(),), 1056, 2000),
        ((Nodes(),), 1088, 60 * 34),
        ((Exact(),), 6000, 60 * 188),
        ((Weights(), Exact()), 6000, 60 * 188),
        ((Weights(),), 128, 50_000),
        ((Weights(scope="layers"),), 128, 50_000),
    ],
)
def test_how_many_steps_a_budget_is_good_for(tasks: Any, samples: int, most: int) -> None:
    """Takes sixty passes over the samples or 2,000 steps; weight perturbation learns less in each."""
    assert most_budget_steps(Settings(tasks=tasks, batch_size=32), samples) == most


@pytest.mark.parametrize(("batch_size", "most"), [(1, 64_000), (8, 8_000), (64, 2_000)])
def test_smaller_minibatches_make_more_steps(batch_size: int, most: int) -> None:
    assert most_budget_steps(Settings(batch_size=batch_size), 1000) == most


@pytest.mark.parametrize(("samples", "most"), [(128, 600), (320, 600), (352, 660), (1000, 1920), (1088, 2040)])
def test_a_network_that_bears_less_noise_does_fewer_steps_of_few_samples(samples: int, most: int) -> None:
    assert most_budget_steps(Settings(batch_size=32), samples, careful=True) == most


def test_the_measured_rate_says_how_long_a_budget_lasts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(random_walks, "_LEAST_SPREAD", 0.0)
    monkeypatch.setattr(random_walks, "_MOST_LOSS", 1e9)
    monkeypatch.setattr(length, "_LEAST_OF_MOST", 12)
    monkeypatch.setattr(length, "_LEAST_OF_MOST_FOR_CAREFUL", 9)
    monkeypatch.setattr(length, "_MOST_PASSES", 1)
    for walk, steps in ((0.6, 4 * 9), (2.0, 4 * 12)):
        monkeypatch.setattr(random_walks.RandomWalks, "forgotten", lambda _, found, w=walk: 0.5 * (found / w) ** 2)
        settings = Settings(tasks=(Nodes(queries=2),), batch_size=8)
        trainer = Trainer(inject_all(MODELS["small_cnn"](), nodes="*", batch=8), settings)
        trainer.fit(X, Y, budget=1e6)
        assert trainer.planned == steps


def test_a_budget_has_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(length, "_MOST_STEPS", 5)
    trainer = Trainer(inject_all(MODELS["small_cnn"](), batch=8), Settings(tasks=(Weights(),), batch_size=8))
    assert trainer.affordable_steps(1e6, 16) > 5
    trainer.fit(X, Y, budget=1e6)
    assert (trainer.step, trainer.planned) == (5, 5)
    trainer.fit(X, Y, steps=7)
    assert trainer.step == 7


@pytest.mark.parametrize("given", ["budget", "steps"])
def test_a_budget_ends_where_nothing_gets_better(given: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Steps of a hundred LSB only do harm; a run whose steps are given does them all the same."""
    monkeypatch.setattr(best_state, "_PATIENCE", 4)
    trainer = Trainer(
        inject_all(MODELS["small_cnn"](), batch=8),
        Settings(tasks=(Weights(),), batch_size=8, learning_rate=100.0, schedule=Constant()),
    )
    # One step takes 16 forward equivalents, an epoch has two.
    history = trainer.fit(X, Y, log=tmp_path / "log", **{given: {"budget": 16 * 40, "steps": 40}[given]})
    assert trainer.planned == 40
    losses = [m["loss"] for m in history.measurements]
    if given == "steps":
        assert trainer.step == 40
        return
    best = losses.index(min(losses))
    assert len(losses) == best + 4 + 1
    assert trainer.step == 2 * (len(losses) - 1) < 40
    written = (tmp_path / "log").read_bytes()
    again = Trainer(trainer.model, trainer.settings)
    again.fit(X, Y, log=tmp_path / "log", resume=True, budget=16 * 40)
    assert again.step == trainer.step and (tmp_path / "log").read_bytes() == written
    assert again.export().to_bytes() == trainer.export().to_bytes()
