"""Settings of weight perturbation that are refused, by themselves or for a model."""

import pytest

from helpers.runs import weight_settings
from helpers.weight_runs import SETTINGS, X, Y, zo_model
from tflm_zo.core import Rademacher
from tflm_zo.training import SettingsError, Trainer


@pytest.mark.parametrize("length", ["epochs", "steps"])
def test_no_steps(length):
    with pytest.raises(ValueError, match=f"^`{length}` must be at least 1. Received: 0"):
        Trainer(zo_model(), SETTINGS).fit(X, Y, **{length: 0}, keep="last")


@pytest.mark.parametrize("steps", [2**29, 2**32 + 5])
def test_more_steps_than_32_bits_count(steps):
    with pytest.raises(ValueError, match=f"`steps` must be at most 536870911. Received: {steps}"):
        Trainer(zo_model(), SETTINGS).fit(X, Y, steps=steps, keep="last")


# What all runs have is in test_node_settings.py.
BAD_SETTINGS = [
    ({"estimator": "central"}, r"`estimator` must be one of antithetic, one-sided\. Received: 'central'"),
    ({"rule": "adam"}, r"`weights\.rule` must be one of gradient, normalized, sign, bits\. Received: 'adam'"),
    ({"scope": "rows"}, r"`scope` must be one of model, blocks, layers\. Received: 'rows'"),
    ({"queries": 0}, r"`weights\.queries` must be an integer in 1\.\.32\. Received: 0"),
    ({"queries": 33}, "queries"),
    ({"queries": 1.5}, "queries"),
    ({"queries": True}, "queries"),
    ({"learning_rate": "1"}, r"`learning_rate` must be in 1\.52588e-05\.\.16384\. Received: '1'"),
    ({"learning_rate": 0.0}, "rate"),
    ({"learning_rate": float("nan")}, "rate"),
    ({"learning_rate": float("inf")}, "rate"),
    ({"learning_rate": 1.0, "final_learning_rate": 1.5}, r"`schedule\.final` must be in 0\.\.1\. Received: 1\.5"),
    ({"clip": -1.0}, "clip"),
]


@pytest.mark.parametrize("changes, message", BAD_SETTINGS, ids=lambda v: "-".join(v) if isinstance(v, dict) else "")
def test_bad_settings(changes, message):
    with pytest.raises(SettingsError, match=message):
        weight_settings(**changes)


@pytest.mark.parametrize(
    "changes, message",
    [
        (
            {"perturbation": Rademacher(3)},
            r"`weights\.perturbation` must move weights by at most the headroom 2 LSB, not by 3 LSB",
        ),
        ({"batch_size": 6}, r"`batch_size` must be a multiple of the model's batch 4\. Received: 6"),
        ({"queries": 5}, r"`weights\.queries` must fit the 4 seeds of the model's commands\. Received: 5.*Inject the"),
    ],
)
def test_settings_that_the_model_does_not_fit(changes, message):
    with pytest.raises(SettingsError, match=message):
        Trainer(zo_model(), weight_settings(**{"batch_size": 8, **changes}))
