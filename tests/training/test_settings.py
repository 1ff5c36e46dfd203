# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""Settings of weight perturbation that are refused, by themselves or for a model."""

from __future__ import annotations

import pytest

from helpers.runs import weight_settings
from helpers.weight_runs import MEMORY, SETTINGS, X, Y, zo_model
from tflm_zo.core import Rademacher
from tflm_zo.training import SettingsError, Trainer


@pytest.mark.parametrize("length", ["epochs", "steps"])
def test_no_steps(length):
    with pytest.raises(ValueError, match=f"^{length}: expected at least 1, got 0"):
        Trainer(zo_model(), SETTINGS).fit(X, Y, **{length: 0}, keep="last")


@pytest.mark.parametrize("steps", [2**29, 2**32 + 5])
def test_more_steps_than_32_bits_count(steps):
    with pytest.raises(ValueError, match=f"steps: expected 536870911 at most, got {steps}"):
        Trainer(zo_model(), SETTINGS).fit(X, Y, steps=steps, keep="last")


BAD_SETTINGS = [
    ({"estimator": "central"}, "estimator: no 'central'; there are antithetic, one-sided"),
    ({"rule": "adam"}, "rule: no 'adam'"),
    ({"schedule": "exp"}, "schedule: no 'exp'"),
    ({"scope": "rows"}, "scope: no 'rows'; there are model, blocks, layers"),
    ({"queries": 0}, r"queries: expected an integer in 1..32, got 0"),
    ({"queries": 33}, "queries"),
    ({"queries": 1.5}, "queries"),
    ({"queries": True}, "queries"),
    ({"learning_rate": "1"}, "rate: expected .*, got '1'"),
    ({"batch_size": 0}, "batch_size"),
    ({"seed": -1}, "seed"),
    ({"seed": 2**32}, "seed"),
    ({"learning_rate": 0.0}, "rate"),
    ({"learning_rate": float("nan")}, "rate"),
    ({"learning_rate": float("inf")}, "rate"),
    ({"learning_rate": 1.0, "final_learning_rate": 1.5}, "final_learning_rate: expected 0..1, got 1.5"),
    ({"final_learning_rate": -1.0}, "final_learning_rate"),
    ({"decay": 1.5}, "decay"),
    ({"decay_steps": 0}, "decay_steps"),
    ({"clip": -1.0}, "clip"),
    ({"warmup_steps": -1}, "warmup_steps"),
    ({"momentum": 1.0}, "momentum: expected 0..0.99"),
    ({"momentum": 0.5}, "momentum: needs the Gaussian distribution, not Rademacher"),
    ({**MEMORY, "momentum_terms": 9}, r"momentum_terms: expected an integer in 2\.\.8, got 9"),
    ({**MEMORY, "queries": 5}, r"momentum_terms: times queries must be 32 at most, got 8 \* 5"),
    ({"sharpness": 1}, "sharpness: expected True or False, got 1"),
    ({"sharpness": True, "estimator": "one-sided"}, "sharpness: needs the antithetic estimator"),
]


@pytest.mark.parametrize(
    "changes, message", BAD_SETTINGS, ids=lambda v: "-".join(v) if isinstance(v, dict) else ""
)
def test_bad_settings(changes, message):
    with pytest.raises(SettingsError, match=message):
        weight_settings(**changes)


@pytest.mark.parametrize(
    "changes, message",
    [
        ({"perturbation": Rademacher(3)}, "up to 3 LSB, the model's headroom is 2"),
        (
            {"sharpness": True, "perturbation": Rademacher(2)},
            r"up to 4 LSB \(sharpness: twice\), the model's headroom is 2; .*headroom=4",
        ),
        ({"batch_size": 6}, "batch_size: expected a multiple of the model's batch 4, got 6"),
        ({**MEMORY, "momentum_terms": 5}, "max_queries=4, got 1, times momentum_terms=5; .*max_queries=5"),
        (
            {"sharpness": True, "queries": 4, "perturbation": Rademacher(1)},
            "command_words=22; inject with command_words=24",
        ),
        ({"queries": 5}, "queries: the model was injected with max_queries=4, got 5"),
    ],
)
def test_settings_that_the_model_does_not_fit(changes, message):
    with pytest.raises(SettingsError, match=message):
        Trainer(zo_model(), weight_settings(**{"batch_size": 8, **changes}))
