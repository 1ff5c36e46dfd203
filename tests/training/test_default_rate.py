"""The rate of a run that neither is given one nor measures it."""

import dataclasses
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from helpers.injection import inject_all
from helpers.models import MODELS
from helpers.runs import weight_settings
from tflm_zo.core import Control
from tflm_zo.logs import Log
from tflm_zo.training import Exact, Linear, Nodes, Settings, SettingsError, Trainer, Weights
from tflm_zo.training.lowering import weight_integers
from tflm_zo.training.rules import Gradient, Normalized, PerError, Sign

SIZES: dict[str, Any] = {"samples": 1000, "batch": 32, "weights": 5000, "blocks": 3}


def rates(settings: Settings, steps: int) -> np.ndarray[Any, Any]:
    """Reads the rate of every step, LSB, from the control unit."""
    integers = weight_integers(settings, steps=steps, **SIZES)
    control = Control(integers, 64, [0] * (3 if settings.weights.scope == "blocks" else 1))
    return np.array([control.rate(t) for t in range(steps)])


@pytest.mark.parametrize("rule", ["normalized", "sign"])
@pytest.mark.parametrize(
    "schedule",
    [
        {"schedule": "linear"},
        {"schedule": "cosine"},
        {"schedule": "constant"},
        {"schedule": "step", "decay": 0.7, "decay_steps": 1100},
        {"schedule": "step", "decay": 1.0, "decay_steps": 50},
        {"schedule": "step", "decay": 0.0, "decay_steps": 2500},
    ],
    ids=lambda s: "-".join(map(str, s.values())),
)
@pytest.mark.parametrize("queries", [1, 4])
def test_the_noise_of_a_long_run_adds_up_to_the_same_walk(queries: int, schedule: dict[str, Any], rule: str) -> None:
    """Each of Q directions moves a weight by rate / Q: the squares of a run's steps add up to 46 LSB^2."""
    for steps in (3000, 7812, 39062):
        own = rates(weight_settings(queries=queries, rule=rule, **schedule), steps)
        walk = math.sqrt(queries * float(((own / queries) ** 2).sum()))
        assert walk == pytest.approx(46, rel=2e-3)


def test_of_the_defaults() -> None:
    """Compares with min(2, 80 / sqrt(steps)), as in the help."""
    for steps in (1, 100, 781, 1580, 1600, 2500, 7812, 39062, 10**6):
        assert Settings(tasks=(Weights(),), batch_size=64).chosen_rate(steps) == pytest.approx(
            min(2, 80 / math.sqrt(steps)), rel=5e-3
        )
    assert Settings(tasks=(Weights(queries=9),), batch_size=64).chosen_rate(10) == 6


def test_of_blocks() -> None:
    """A block takes every third step."""
    assert Settings(tasks=(Weights(scope="blocks"),), batch_size=64).chosen_rate(30000, 3) == Settings(
        tasks=(Weights(),), batch_size=64
    ).chosen_rate(10000)
    assert rates(Settings(tasks=(Weights(scope="blocks"),), batch_size=64), 30000)[0] == pytest.approx(0.8, rel=5e-3)


def test_what_is_given_counts() -> None:
    for rule in (Normalized(), Sign(), Gradient()):
        assert rates(Settings(tasks=(Weights(rule=rule),), batch_size=64, learning_rate=3.5), 10**5)[0] == 3.5
    assert rates(Settings(tasks=(Weights(rule=Gradient()),), batch_size=64), 10**5)[0] == 2


def test_a_final_rate_above_it() -> None:
    assert rates(Settings(tasks=(Weights(),), batch_size=64, schedule=Linear(0.5)), 10000)[-1] == 0.5
    with pytest.raises(
        SettingsError, match=r"`schedule.final` must be at most 0\.797, the rate chosen for 10000 steps\. Received: 1"
    ):
        rates(Settings(tasks=(Weights(),), batch_size=64, schedule=Linear(1)), 10000)


def test_the_log_has_it(tmp_path: Path) -> None:
    """A run is repeated from the log's integers, not from the formula."""
    model = inject_all(MODELS["small_cnn"](), batch=8)
    random = np.random.default_rng(0)
    x, y = random.integers(-128, 128, (16, 8, 8, 1)).astype(np.int8), random.integers(0, 4, 16)
    Trainer(model, Settings(tasks=(Weights(queries=4),), batch_size=8)).fit(
        x, y, steps=3, log=tmp_path / "log", keep="last"
    )
    assert Log.read(tmp_path / "log").settings.rate == 4 * 65536


@pytest.mark.parametrize("tasks", [(Nodes(),), (Nodes(), Exact())])
def test_samples_lead_as_far_however_they_are_divided(tasks: Any) -> None:
    """Adds up the noise of 4,096 samples, whose steps are independent: it is that of minibatches of 32."""
    usual = Settings(tasks=tasks, batch_size=32).chosen_rate(128)
    for minibatch in (1, 2, 4, 8, 16):
        rate = Settings(tasks=tasks, batch_size=minibatch).chosen_rate(4096 // minibatch)
        assert rate * math.sqrt(4096 / minibatch) == pytest.approx(usual * math.sqrt(128))
    assert Settings(tasks=tasks, batch_size=256).chosen_rate(128) == usual == 1.0


def test_of_exact_gradients_alone() -> None:
    """The size of the errors makes their steps shorter, not that of the minibatch."""
    for minibatch in (1, 4, 32, 256):
        own = Settings(tasks=(Exact(rule=PerError()),), batch_size=minibatch)
        assert [own.chosen_rate(steps) for steps in (1, 128, 10**5)] == [0.6] * 3
        assert dataclasses.replace(own, learning_rate=0.9).chosen_rate(128) == 0.9
    # Steps of another task are as noisy as they are without exact gradients.
    for other in (Nodes(), Weights(scope="layers")):
        mixed = Settings(tasks=(other, Exact(last=1)), batch_size=1)
        assert mixed.chosen_rate(128) == Settings(tasks=(Nodes(),), batch_size=1).chosen_rate(128)
