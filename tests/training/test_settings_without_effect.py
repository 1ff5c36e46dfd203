# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""Every setting of a run, in contexts: it changes the run, or it is named as one that does not."""

from __future__ import annotations

import dataclasses
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from helpers.models import MODELS
from tflm_zo import inject
from tflm_zo.core import Distribution
from tflm_zo.training import NodeSettings, SettingsError, Trainer, TrainSettings
from tflm_zo.training.node_run import NodeRun
from tflm_zo.training.tasks import plan_tasks

RNG = np.random.default_rng(11)
X = RNG.integers(-128, 128, (24, 8, 8, 1)).astype(np.int8)
Y = RNG.integers(0, 4, 24)
STEPS = 6

SPARSE = Distribution.sparse_uniform(7, 0.33)
GAUSSIAN = Distribution.gaussian(1.0)
LAYERS: dict[str, Any] = {"others": "layers", "distribution": SPARSE, "queries": 2}
EXACT = {"head": "exact"}
EIGHT_BIT: dict[str, Any] = {"update_bits": 8}
MODELS_OF: dict[str, dict[str, Any]] = {
    "nodes": {"nodes": "*"},
    "head": {"nodes": "fc"},
    "head, 8 bit": {"nodes": "fc", "update_bits": 8},
    "weights": {"trainable": "all", "nodes": (), "cuts": ("layers",), "head_room": 8},
    "weights, 8 bit": {
        "trainable": "all",
        "nodes": (),
        "cuts": ("layers",),
        "head_room": 8,
        "update_bits": 8,
    },
    "both": {"trainable": "all", "nodes": "fc", "head_room": 8},
    "both, 8 bit": {"trainable": "all", "nodes": "fc", "head_room": 8, "update_bits": 8},
}

# Name: model, settings, and those that change nothing there.
NO_WEIGHTS = {"weight_rule", "weight_rate", "weight_clip", "weight_bits", "distribution", "stage_p_zero"}
NO_EXACT = {"exact_rule", "exact_bits", "sparse_rows", "tail"}
NO_NODES = {"mu", "masked", "rule"}
NO_GRADIENT = {"gradient_norm", "quantization_aware"}
NO_STEP = {"decay", "decay_steps"}
NO_RATE = {"rate", "final_rate", "schedule", "warmup_steps", "decay", "decay_steps", "clip"}
USUAL = NO_EXACT | NO_GRADIENT | NO_STEP | {"stages"}
NODES: dict[str, tuple[str, dict[str, Any], set[str]]] = {
    "nodes": ("nodes", {}, NO_WEIGHTS | USUAL),
    "gradient": ("nodes", {"rule": "gradient", "rate": 30.0}, NO_WEIGHTS | USUAL - NO_GRADIENT),
    "constant": ("nodes", {"schedule": "constant"}, NO_WEIGHTS | USUAL | {"final_rate"}),
    "step": ("nodes", {"schedule": "step", "decay_steps": 2}, NO_WEIGHTS | USUAL - NO_STEP),
    "exact": ("nodes", EXACT, NO_WEIGHTS | USUAL - NO_EXACT | {"exact_bits"}),
    "exact alone": (
        "head",
        EXACT,
        NO_WEIGHTS | USUAL - NO_EXACT | {"exact_bits", "queries", "estimator"} | NO_NODES,
    ),
    "bits alone": (
        "head, 8 bit",
        {**EXACT, "exact_rule": "bits", "stages": (0.3, 0.6)},
        NO_WEIGHTS | NO_NODES | NO_RATE | NO_GRADIENT | {"queries", "estimator"},
    ),
    "weights": ("weights", LAYERS, NO_NODES | USUAL | {"weight_bits", "clip"} - {"stage_p_zero"}),
    "weights in stages": (
        "weights",
        {**LAYERS, "stages": (0.3, 0.6), "stage_p_zero": (0.5, 0.9)},
        NO_NODES | NO_EXACT | NO_GRADIENT | NO_STEP | {"weight_bits", "clip"},
    ),
    "signs": (
        "weights",
        {**LAYERS, "weight_rule": "sign"},
        NO_NODES | USUAL | {"weight_bits", "weight_clip", "clip"},
    ),
    "weights, gradient": (
        "weights",
        {**LAYERS, "weight_rule": "gradient"},
        NO_NODES | USUAL - NO_GRADIENT | {"weight_bits", "clip"},
    ),
    "weights, bits": (
        "weights, 8 bit",
        {**LAYERS, "weight_rule": "bits"},
        NO_NODES | NO_EXACT | NO_GRADIENT | NO_RATE | {"weight_rate", "weight_clip", "stages"},
    ),
    "no others": ("nodes", {"others": "layers"}, NO_WEIGHTS | USUAL | {"others"}),
    "both": ("both", LAYERS, USUAL | {"weight_bits"}),
    "both in bits": (
        "both, 8 bit",
        {**LAYERS, **EXACT, "exact_rule": "bits", "weight_rule": "bits", "stages": (0.3, 0.6)},
        NO_NODES | NO_GRADIENT | NO_RATE | {"weight_rate", "weight_clip"},
    ),
}
WEIGHTS: dict[str, tuple[dict[str, Any], set[str]]] = {
    "usual": ({}, NO_STEP | {"momentum_terms"}),
    "constant": ({"schedule": "constant"}, NO_STEP | {"momentum_terms", "final_rate"}),
    "step": ({"schedule": "step", "decay_steps": 1}, {"momentum_terms"}),
    "signs": ({"rule": "sign"}, NO_STEP | {"momentum_terms", "clip"}),
    "gradient": ({"rule": "gradient"}, NO_STEP | {"momentum_terms"}),
    "momentum": ({"momentum": 0.9, "distribution": GAUSSIAN}, NO_STEP),
    "blocks": ({"scope": "blocks"}, NO_STEP | {"momentum_terms"}),
}

# What each setting is changed to; where that is what it is already, it is not looked at.
OTHER_SHARED: dict[str, Any] = {
    "batch_size": 4,
    "rate": 0.7,
    "final_rate": 0.4,
    "schedule": "cosine",
    "warmup_steps": 5,
    "decay": 0.1,
    "decay_steps": 3,
    "clip": 0.01,
    "estimator": "one-sided",
    "seed": 1,
}
OTHER_NODES: dict[str, Any] = OTHER_SHARED | {
    "rule": "gradient",
    "gradient_norm": False,
    "quantization_aware": False,
    "mu": 5,
    "queries": 3,
    "masked": False,
    "head": "exact",
    "tail": None,  # needs two dense layers; more than one without an exact head is refused at once
    "exact_rule": "standardized",
    "exact_bits": (2, 2, 2),
    "sparse_rows": (0.1, 0.2),
    "others": None,  # what is trained depends on the model; the contexts have both
    "weight_rule": "sign",
    "weight_rate": 0.3,
    "weight_clip": 0.01,
    "weight_bits": 2,
    "distribution": Distribution.sparse_uniform(3, 0.33),
    "stages": (0.5, 0.9),
    "stage_p_zero": (0.1, 0.2),
    "only": ("fc",),
    "snapshot_every": None,  # of the log, not of the weights
}
OTHER_WEIGHTS: dict[str, Any] = OTHER_SHARED | {
    "rule": "sign",
    "distribution": Distribution.gaussian(0.8),
    "queries": 2,
    "gradient_norm": True,
    "scope": "blocks",
    "momentum": 0.5,
    "momentum_terms": 3,
    "sharpness": True,
}


@cache
def trainer_of(model: str) -> Trainer:
    if model == "plain":
        zo = inject(MODELS["small_cnn"](), batch=4, max_queries=16, head_room=12, command_words=100)
    else:
        zo = inject(MODELS["small_cnn"](), batch=4, **MODELS_OF[model])
    others = "layers" if "weights" in model else "frozen"
    distribution = {"distribution": SPARSE} if others != "frozen" else {}
    settings = (
        TrainSettings(batch_size=8)
        if model == "plain"
        else NodeSettings(batch_size=8, others=others, **distribution)
    )
    return Trainer(zo, settings)


def outcome(trainer: Trainer, settings: Any) -> bytes:
    """Weights, fractions and losses of a run."""
    trainer.settings = settings
    losses = trainer.fit(X, Y, steps=STEPS, keep="last").steps
    values = [*trainer.runtime.read_weights().values(), *trainer.runtime.read_fractions().values()]
    return b"".join(v.tobytes() for v in values) + repr(losses).encode()


def check(trainer: Trainer, settings: Any, inert: set[str], others: dict[str, Any]) -> None:
    """In one run for each setting: those that change nothing are the ones that are named, and no others."""
    begin, wrong = outcome(trainer, settings), []
    for name, other in others.items():
        if other is None or getattr(settings, name) == other:
            continue
        try:
            changed = dataclasses.replace(settings, **{name: other})
            if isinstance(changed, NodeSettings):
                NodeRun.check(changed, trainer.runtime.metadata)
        except SettingsError:
            continue  # refused at once, beside the others or for the model
        if (outcome(trainer, changed) == begin) != (name in inert):
            wrong.append(name)
    assert not wrong


@pytest.mark.parametrize("name", NODES)
def test_node_settings(name: str) -> None:
    model, given, inert = NODES[name]
    trainer, settings, others = trainer_of(model), NodeSettings(batch_size=8, **given), {**OTHER_NODES}
    if model.startswith(("head", "both")):
        # Its last layer has no activation whose clamp could mask nodes, and may be the only one.
        others |= {"masked": None, "only": None}
    kinds = {t.kind for t in plan_tasks(settings, trainer.runtime.metadata, lambda _: 1.0)}
    assert set(settings.without_effect(kinds)) == inert
    check(trainer, settings, inert, others)


@pytest.mark.parametrize("name", WEIGHTS)
def test_weight_settings(name: str) -> None:
    given, inert = WEIGHTS[name]
    settings = TrainSettings(batch_size=8, **given)
    assert set(settings.without_effect()) == inert
    check(trainer_of("plain"), settings, inert, OTHER_WEIGHTS)


def test_every_setting_is_in_the_tables() -> None:
    for settings, others in ((NodeSettings, OTHER_NODES), (TrainSettings, OTHER_WEIGHTS)):
        assert {f.name for f in dataclasses.fields(settings)} == set(others)


@pytest.mark.parametrize(
    "given", [{"epochs": 1, "steps": 5}, {"epochs": 2, "budget": 100}, {"steps": 3, "budget": 100}]
)
def test_the_length_of_a_run_is_given_once(given: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=f"{', '.join(given)}: give one of them"):
        trainer_of("nodes").fit(X, Y, log=tmp_path / "log", **given)
    assert not (tmp_path / "log").exists()
