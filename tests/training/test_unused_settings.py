"""Settings that a run does not use: most are no fields of its values, and others are refused."""

import dataclasses
from typing import Any

import pytest

from tflm_zo.core import SparseUniform
from tflm_zo.training import (
    Bits,
    Constant,
    Cosine,
    Exact,
    Gradient,
    Nodes,
    Normalized,
    PerError,
    Rms,
    Settings,
    SettingsError,
    Sign,
    Standardized,
    Step,
    Weights,
)

FIELDS: dict[type[Any], set[str]] = {
    Rms: set(),
    PerError: set(),
    Standardized: set(),
    Gradient: {"clip", "gradient_norm", "quantization_aware"},
    Normalized: {"clip", "gradient_norm"},
    Sign: {"gradient_norm"},
    Bits: {"bits"},
    Constant: {"warmup"},
    Cosine: {"final", "warmup"},
    Step: {"decay", "every", "final", "warmup"},
}

LAYERS = Weights(scope="layers")
SPARSE = Weights(perturbation=SparseUniform(7, 0.33), stage_p_zero=(0.5,))
OF_BITS = Exact(rule=Bits((5, 4, 3)))
# Setting, its value, tasks that use it, tasks that do not.
RUN: list[tuple[str, Any, list[tuple[Any, ...]], list[tuple[Any, ...]]]] = [
    ("estimator", "one-sided", [(Nodes(),), (Weights(),), (Exact(), LAYERS)], [(Exact(),)]),
    ("stages", (0.5,), [(SPARSE,), (OF_BITS,)], [(Nodes(),), (Weights(),), (Exact(),)]),
    ("step_clip", 2.0, [(Nodes(),), (Exact(),)], [(Weights(),), (LAYERS,), (OF_BITS,)]),
    ("learning_rate", 0.5, [(Nodes(), OF_BITS), (Weights(),)], [(OF_BITS,), (Weights(rule=Bits()),)]),
    ("schedule", Constant(), [(Exact(),), (LAYERS,)], [(OF_BITS,), (OF_BITS, Weights(rule=Bits()))]),
    ("snapshot_every", 5, [(Nodes(),), (LAYERS,), (Weights(rule=Bits()),)], [(Weights(),)]),
    ("sync_every", None, [(Weights(),), (Weights(scope="blocks"),)], [(Nodes(),), (LAYERS,)]),
]
OF_TASKS: list[tuple[str, dict[str, Any], list[tuple[Any, ...]], list[tuple[Any, ...]]]] = [
    ("learning_rate", {"learning_rate": 0.5}, [(Nodes(),), (Exact(),)], [()]),
    ("gradient_norm", {"rule": Normalized(gradient_norm=True)}, [()], [(Nodes(),)]),
    ("gradient_norm", {"rule": Sign(gradient_norm=True)}, [()], [(Exact(),)]),
    ("quantization_aware", {"rule": Gradient(quantization_aware=True)}, [(Nodes(),)], [()]),
]


@pytest.mark.parametrize("kind", FIELDS, ids=lambda kind: kind.__name__)
def test_values_have_the_fields_that_act(kind: type[Any]) -> None:
    assert {field.name for field in dataclasses.fields(kind)} == FIELDS[kind]


@pytest.mark.parametrize(("setting", "value", "using", "others"), RUN)
def test_settings_of_the_run(setting: str, value: Any, using: list[Any], others: list[Any]) -> None:
    for tasks in using:
        given = {"stages": (0.5,)} if SPARSE in tasks else {}
        assert getattr(Settings(tasks=tasks, **{**given, setting: value}), setting) == value
        assert setting not in Settings(tasks=tasks, **given).unused()
    for tasks in others:
        assert setting in Settings(tasks=tasks).unused()
        with pytest.raises(SettingsError, match=f"`{setting}` must be left out, since it would have no effect"):
            Settings(tasks=tasks, **{setting: value})


@pytest.mark.parametrize(("setting", "task", "using", "others"), OF_TASKS)
def test_settings_of_weights(setting: str, task: dict[str, Any], using: list[Any], others: list[Any]) -> None:
    for tasks in using:
        assert f"weights.{setting}" not in Settings(tasks=(Weights(**task), *tasks)).unused()
    for tasks in others:
        with pytest.raises(SettingsError, match=rf"`weights\.{setting}` must be left out, since it would have"):
            Settings(tasks=(Weights(**task), *tasks))


def test_rules_fit_their_tasks() -> None:
    for task, rule, said in (
        (Nodes, Sign(), r"`nodes\.rule` must be Rms or Gradient\. Received: Sign"),
        (Nodes, Gradient(clip=1.0), r"`nodes\.rule` must be Gradient without clip"),
        (Exact, Gradient(), r"`exact\.rule` must be Rms or PerError or Bits or Standardized\. Received: Gradient"),
        (Exact, Bits(4), r"`exact\.bits` must be a number for each of three stages\. Received: 4"),
        (Weights, Rms(), r"`weights\.rule` must be Gradient or Normalized or Sign or Bits\. Received: Rms"),
        (Weights, Bits((5, 4, 3)), r"`weights\.bits` must be one number\. Received: \(5, 4, 3\)"),
        (Weights, "sign", r"`weights\.rule` must be Gradient or .* Received: 'sign'"),
    ):
        with pytest.raises(SettingsError, match=said):
            task(rule=rule)
    for value, said in (
        (lambda: Bits(8), r"`bits` must be an integer in 1\.\.7\. Received: 8"),
        (lambda: Normalized(clip=-1.0), r"`clip` must be in 0\.\.16384\. Received: -1\.0"),
    ):
        with pytest.raises(SettingsError, match=said):
            value()
