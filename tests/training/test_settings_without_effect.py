"""Every setting of a run in contexts: it changes the run, or it is named as one that does not."""

from __future__ import annotations

import copy
import dataclasses
from functools import cache
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from helpers.examples import slow_but
from helpers.injection import inject_all
from helpers.models import MODELS
from helpers.runs import random_samples, state
from tflm_zo.core import Gaussian, SparseUniform
from tflm_zo.training import Constant, Cosine, Exact, Nodes, Settings, SettingsError, Step, Trainer, Weights
from tflm_zo.training.model_fit import check_model
from tflm_zo.training.plan import plan_tasks
from tflm_zo.training.setting_names import TASKS

X, Y = random_samples(11)
STEPS = 6

SPARSE = SparseUniform(7, 0.33)
MODELS_OF: dict[str, dict[str, Any]] = {
    "plain": {"max_queries": 16, "headroom": 12, "command_words": 100},
    "nodes": {"nodes": "*"},
    "head": {"nodes": "fc"},
    "head, 8 bit": {"nodes": "fc", "update_bits": 8},
    "weights": {"cuts": ("layers",), "headroom": 8},
    "weights, 8 bit": {"cuts": ("layers",), "headroom": 8, "update_bits": 8},
    "both": {"nodes": "fc", "headroom": 8},
    "both, 8 bit": {"nodes": "fc", "headroom": 8, "update_bits": 8},
}


def layers(**given: Any) -> Weights:
    return Weights(**{"scope": "layers", "perturbation": SPARSE, "queries": 2, **given})


def run(*tasks: Any, **given: Any) -> Settings:
    return Settings(tasks=tasks, batch_size=8, **given)


STAGES: dict[str, Any] = {"stages": (0.3, 0.6)}
CONTEXTS: dict[str, tuple[str, Settings]] = {
    "nodes": ("nodes", run(Nodes())),
    "gradient": ("nodes", run(Nodes(rule="gradient"), learning_rate=30.0)),
    "constant": ("nodes", run(Nodes(), schedule=Constant())),
    "step": ("nodes", run(Nodes(), schedule=Step(every=2))),
    "exact head": ("nodes", run(Nodes(), Exact())),
    "exact head alone": ("head", run(Exact())),
    "standardized": ("head", run(Exact(rule="standardized"), learning_rate=0.5)),
    "bits of the head": ("head, 8 bit", run(Exact(rule="bits"), **STAGES)),
    "layers": ("weights", run(layers())),
    "signs of layers": ("weights", run(layers(rule="sign"))),
    "gradients of layers": ("weights", run(layers(rule="gradient"), learning_rate=30.0)),
    "bits of layers": ("weights, 8 bit", run(layers(rule="bits"))),
    "stages of layers": ("weights", run(layers(stage_p_zero=(0.5, 0.9)), **STAGES)),
    "nodes and layers": ("both", run(Nodes(), layers())),
    "head and layers": ("both", run(Exact(), layers())),
    "all in bits": ("both, 8 bit", run(Exact(rule="bits"), layers(rule="bits"), **STAGES)),
    "no layer is left for nodes": ("weights", run(Nodes(), layers())),
    "weights": ("plain", run(Weights())),
    "weights, constant": ("plain", run(Weights(), schedule=Constant())),
    "weights, step": ("plain", run(Weights(), schedule=Step(every=1))),
    "weights, signs": ("plain", run(Weights(rule="sign"))),
    "weights, gradient": ("plain", run(Weights(rule="gradient"))),
    "weights, momentum": ("plain", run(Weights(momentum=0.9, perturbation=Gaussian(1.0)))),
    "weights, blocks": ("plain", run(Weights(scope="blocks"))),
}

# Another value of each setting; None: it is not of the weights, or the contexts have its values.
OTHERS: dict[str, Any] = {
    "tasks": None,
    "algorithm": None,
    "batch_size": 4,
    "learning_rate": 0.7,
    "schedule": Cosine(0.4, warmup=5),
    "step_clip": 0.01,
    "estimator": "one-sided",
    "stages": (0.5, 0.9),
    "layers": None,
    "snapshot_every": None,
    "sync_every": None,
    "seed": 1,
    "nodes.rule": "gradient",
    "nodes.gradient_norm": True,
    "nodes.quantization_aware": True,
    "nodes.perturbation": 5,
    "nodes.queries": 3,
    "nodes.masked": False,
    "nodes.parameters": None,  # of the model
    "exact.last": None,  # needs two dense layers
    "exact.parameters": None,  # of the model
    "exact.rule": "standardized",
    "exact.bits": (2, 2, 2),
    "exact.rows": (0.1, 0.2),
    "weights.rule": "sign",
    "weights.learning_rate": 0.3,
    "weights.clip": 0.01,
    "weights.bits": 2,
    "weights.perturbation": SparseUniform(3, 0.33),
    "weights.queries": 3,
    "weights.stage_p_zero": (0.1, 0.2),
    "weights.gradient_norm": True,
    "weights.quantization_aware": True,
    "weights.scope": None,
    "weights.momentum": 0.5,
    "weights.momentum_terms": 3,
    "weights.sharpness": True,
    "weights.int16": None,  # of the model
    "weights.headroom": None,  # of the model
    "weights.parameters": None,  # of the model
}
# Settings that the last layer of the network cannot show: it has no activation whose clamp could mask nodes.
NOT_SHOWN = {"head": {"nodes.masked"}, "both": {"nodes.masked"}}


@cache
def trainer_of(model: str, is_layerwise: bool) -> Trainer:
    zo = inject_all(MODELS["small_cnn"](), batch=4, **MODELS_OF[model])
    context = next(s for m, s in CONTEXTS.values() if m == model and s.is_layerwise == is_layerwise)
    return Trainer(zo, context)


def outcome(trainer: Trainer, settings: Settings) -> tuple[dict[str, bytes], list[float]]:
    """Returns weights, fractions and losses of a run."""
    trainer.settings = settings
    first = _initial(trainer)
    # Measuring a rate makes settings of these, and would refuse the unchecked ones.
    with mock.patch("tflm_zo.training.trainer.with_measured_rate", lambda *given: (given[2], given[4], 0.0)):
        losses = trainer.fit(X, Y, steps=STEPS, keep="last", initial_weights=first).steps
    return state(trainer), list(losses)


_INITIAL: dict[int, Any] = {}


def _initial(trainer: Trainer) -> Any:
    return _INITIAL.setdefault(id(trainer), trainer.runtime.read_weights())


def forced(settings: Settings, name: str, value: Any) -> Settings:
    """Sets a value without a check."""
    changed = copy.deepcopy(settings)
    owner, _, field = name.rpartition(".")
    own = next(t for t in changed.tasks if isinstance(t, TASKS[owner])) if owner else changed
    object.__setattr__(own, field, value)
    return changed


@pytest.mark.parametrize("name", slow_but(list(CONTEXTS)[::3], CONTEXTS))
def test_what_is_named_changes_nothing_and_what_is_not_does(name: str) -> None:
    model, settings = CONTEXTS[name]
    trainer = trainer_of(model, settings.is_layerwise)
    kinds = None
    if settings.is_layerwise:
        kinds = {t.setting for t in plan_tasks(settings, trainer.runtime.metadata, lambda _: 1.0)}
    inert, refused = set(settings.without_effect(kinds)), set(settings.without_effect())
    begin, wrong = outcome(trainer, settings), []
    for setting, other in OTHERS.items():
        owner, _, field = setting.rpartition(".")
        if other is None or (owner and not settings.has(TASKS[owner])):
            continue
        if getattr(getattr(settings, owner) if owner else settings, field) == other:
            continue
        changed = forced(settings, setting, other)
        if setting in refused:
            with pytest.raises(SettingsError, match="would have no effect|needs"):
                dataclasses.replace(changed)
            if setting.startswith("weights.") and field in ("momentum", "sharpness"):
                continue  # the control unit of such runs has none
        try:
            if setting not in refused:
                changed = dataclasses.replace(changed, tasks=tuple(map(dataclasses.replace, changed.tasks)))
            check_model(changed, trainer.runtime.metadata)
        except SettingsError:
            continue  # refused beside the others or for the model
        same = outcome(trainer, changed) == begin
        if same != (setting in inert) and setting not in NOT_SHOWN.get(model, set()):
            wrong.append(setting)
    assert not wrong


def test_every_setting_is_in_the_table() -> None:
    own = {f.name for f in dataclasses.fields(Settings)}
    of_tasks = {f"{owner}.{f.name}" for owner, kind in TASKS.items() for f in dataclasses.fields(kind)}
    assert own | of_tasks == set(OTHERS)


@pytest.mark.parametrize(
    "given", [{"epochs": 1, "steps": 5}, {"epochs": 2, "budget": 100}, {"steps": 3, "budget": 100}]
)
def test_the_length_of_a_run_is_given_once(given: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="must be the only length of the run"):
        trainer_of("nodes", True).fit(X, Y, log=tmp_path / "log", **given)
    assert not (tmp_path / "log").exists()
