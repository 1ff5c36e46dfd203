# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""``--set NAME=VALUE``: every kind of value, names of tasks, and what is refused."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from helpers.runs import settings_of
from tflm_zo.cli.set_option import parse_injection, split_set
from tflm_zo.core import Gaussian, SparseUniform
from tflm_zo.training import ALGORITHMS, Exact, Nodes, SettingsError, Weights, algorithm
from tflm_zo.training.setting_names import changed, names, resolve, value_of
from tflm_zo.training.setting_texts import parse_set, written, written_settings


def made(name: str, *given: str) -> Any:
    """The settings of an algorithm with options of the command line."""
    run, injection = split_set(given)
    assert not injection
    settings = algorithm(name)
    return changed(settings, parse_set(settings, run))


VALUES: list[tuple[str, str, str, Any]] = [
    ("node", "batch-size=48", "batch_size", 48),
    ("node", "learning-rate=0.5", "learning_rate", 0.5),
    ("layer", "learning_rate=auto", "learning_rate", None),
    ("node", "final-learning-rate=1e-3", "final_learning_rate", 0.001),
    ("node", "schedule=cosine", "schedule", "cosine"),
    ("node", "estimator=one-sided", "estimator", "one-sided"),
    ("node", "seed = 7 ", "seed", 7),
    ("node", "masked=false", "masked", False),
    ("node", "masked=Off", "masked", False),
    ("qzo-ff", "sharpness=yes", "sharpness", True),
    ("node", "queries=4", "queries", 4),
    ("node", "queries=auto", "queries", None),
    ("node", "queries=fc1=7, fc3=1", "queries", {"fc1": 7, "fc3": 1}),
    ("node", "queries=a/b=c=2", "queries", {"a/b=c": 2}),
    ("weight", "perturbation=gaussian:0.6", "perturbation", Gaussian(0.6)),
    ("weight", "perturbation=sparse-uniform:3:0.5", "perturbation", SparseUniform(3, 0.5)),
    ("node", "perturbation=3", "perturbation", 3),
    ("node", "layers=fc1, conv*", "layers", ("fc1", "conv*")),
    ("node", "layers=last:2", "layers", "last:2"),
    ("qzo-ff-probe", "layers=auto", "layers", None),
    ("qzo-ff", "int16=last", "int16", "last"),
    ("qzo-ff", "int16=fc1,fc3", "int16", ("fc1", "fc3")),
    ("qzo-ff-probe", "int16=none", "int16", ()),
    ("elastic-zo-int8", "exact.bits=6,5,4", "exact.bits", (6, 5, 4)),
    ("elastic-zo-int8", "stage-p-zero=0.4,0.8", "stage_p_zero", (0.4, 0.8)),
    ("elastic-zo-int8", "stage-p-zero=none", "stage_p_zero", ()),
    ("fqt", "rows=0.2,0.5", "rows", (0.2, 0.5)),
    ("weight", "sync-every=0", "sync_every", 0.0),
    ("weight", "sync-every=none", "sync_every", None),
]


@pytest.mark.parametrize(("name", "given", "setting", "value"), VALUES)
def test_values(name: str, given: str, setting: str, value: Any) -> None:
    found = value_of(made(name, given), setting)
    assert found == value and type(found) is type(value)


@pytest.mark.parametrize("name", ALGORITHMS)
def test_what_is_listed_can_be_given(name: str) -> None:
    """`tflm-zo algorithms NAME` lists values as --set takes them; each gives the same settings again."""
    settings = algorithm(name)
    listed = written_settings(settings)
    assert {"batch-size", "estimator", "seed"} <= listed.keys() or name == "fqt"
    for setting, text in listed.items():
        assert made(name, f"{setting}={text}") == settings, setting


@pytest.mark.parametrize("name", ALGORITHMS)
def test_every_field_has_one_name(name: str) -> None:
    settings = algorithm(name)
    found = [resolve(settings, setting) for setting in names(settings)]
    owners: list[tuple[str, Any]] = [("", settings)]
    owners += [(type(task).__name__.lower(), task) for task in settings.tasks]
    expected = [
        (owner, f.name)
        for owner, own in owners
        for f in dataclasses.fields(own)
        if f.name not in ("tasks", "algorithm")
    ]
    assert sorted(found) == sorted(expected)


def test_a_name_with_a_task_adds_it() -> None:
    assert made("node", "exact.last=2").tasks == (Nodes(), Exact(last=2))
    assert made("weight", "nodes.queries=3").tasks == (*algorithm("weight").tasks, Nodes(queries=3))
    both = made("node", "weights.scope=layers", "weights.rule=gradient", "exact.rule=standardized")
    tasks = {type(task): task for task in both.tasks}
    assert tasks[Weights] == Weights(scope="layers", rule="gradient", clip=3.0)
    assert tasks[Exact] == Exact(rule="standardized")
    # Where the algorithm has the task, its own values stay.
    assert made("fqt", "exact.last=1") == settings_of("fqt", {"last": 1})
    assert made("fqt", "exact.last=1").exact.rule == "standardized"


REFUSED: list[tuple[str, tuple[str, ...], str]] = [
    ("poor-mans-training", ("queries=4",), "--set queries: say which, nodes.queries or weights.queries"),
    ("elastic-zo", ("rule=bits",), "--set rule: say which, exact.rule or weights.rule"),
    ("elastic-zo-int8", ("bits=3",), "--set bits: say which, exact.bits or weights.bits"),
    ("node", ("foo=1",), "--set foo: algorithm node has no such setting; it has batch-size, learning-rate, "),
    ("node", ("momentum_terms=1",), "--set momentum-terms: algorithm node has no such setting; it has "),
    ("node", ("nodes.clip=1",), "--set nodes.clip: task nodes has no such setting; it has queries, "),
    ("node", ("head.last=1",), "--set head.last: there is no task head; there are nodes, exact, weights"),
    ("node", ("tasks=nodes",), "--set tasks: algorithm node has no such setting"),
    ("node", ("algorithm=weight",), "--set algorithm: algorithm node has no such setting"),
    ("node", ("seed=1", "seed=2"), "--set: seed is given twice"),
    ("node", ("batch-size=16", "batch_size=16"), "--set: batch-size is given twice"),
    ("node", ("rule=rms", "nodes.rule=rms"), "--set: rule and nodes.rule are the same setting"),
    ("node", ("seed",), "--set: expected NAME=VALUE, got 'seed'"),
    ("node", ("seed=",), "--set: expected NAME=VALUE, got 'seed='"),
    ("node", ("=1",), "--set: expected NAME=VALUE, got '=1'"),
    ("node", ("seed=1.5",), "seed: expected an integer, got '1.5'"),
    ("node", ("decay=half",), "decay: expected a number, got 'half'"),
    ("node", ("masked=perhaps",), "masked: expected true or false, got 'perhaps'"),
    ("node", ("queries=3,fc1=2",), "queries: expected a number, auto, or LAYER=NUMBER separated by commas"),
    ("node", ("queries=fc1=2,fc1=2",), "queries: `fc1` is given twice"),
    ("node", ("layers=fc1,,fc2",), "layers: expected names of layers separated by commas, got 'fc1,,fc2'"),
    ("weight", ("perturbation=2",), "perturbation: no '2'; there are rademacher:LSB"),
    ("weight", ("perturbation=rademacher:x",), "perturbation: 'rademacher:x': "),
    ("elastic-zo-int8", ("exact.bits=5,4",), "exact.bits: expected a number for each of three stages"),
    ("elastic-zo-int8", ("exact.bits=5,4,x",), "exact.bits: expected integers separated by commas, or none"),
    ("fqt", ("rows=0.1;1",), "rows: expected numbers separated by commas, or none, got '0.1;1'"),
    ("node", ("schedule=slow",), "schedule: no 'slow'; there are constant, linear, cosine, step"),
]


@pytest.mark.parametrize(("name", "given", "said"), REFUSED)
def test_refused(name: str, given: tuple[str, ...], said: str) -> None:
    with pytest.raises(SettingsError) as error:
        made(name, *given)
    assert str(error.value).startswith(said)


def test_settings_of_inject() -> None:
    run, injection = split_set(
        ["loss=floor-log2", "nodes=fc1, fc3", "update-bits=8", "sparse=top-k:0.1", "sparse-seed=3", "seed=1"]
    )
    assert run == {"seed": "1"}
    assert parse_injection(injection) == {
        "loss": "floor_log2",
        "nodes": ["fc1", "fc3"],
        "update_bits": 8,
        "sparse": "top-k:0.1",
        "sparse_seed": 3,
    }
    assert parse_injection({"nodes": "last:2"}) == {"nodes": "last:2"}
    for given, said in (
        ({"update_bits": "many"}, "--set update-bits: expected an integer, got 'many'"),
        ({"nodes": "fc1,"}, "--set nodes takes names of layers, not 'fc1,'"),
        ({"nodes": "auto,fc1"}, "--set nodes auto and last:N cannot be combined with others"),
    ):
        with pytest.raises(ValueError, match=said):
            parse_injection(given)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (True, "true"),
        (False, "false"),
        (None, "auto"),
        ((), "none"),
        (("a", "b"), "a,b"),
        ((0.5,), "0.5"),
    ],
)
def test_how_values_are_shown(value: Any, text: str) -> None:
    """As one gives them."""
    assert written(value) == text
