# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""Makes docs/algorithms.md of the functions of tflm_zo/training/algorithms.py and the settings' docstrings.

python docs/generate_algorithms.py
"""

from __future__ import annotations

import dataclasses
import inspect
import re
from pathlib import Path
from typing import Any

from tflm_zo import Exact, Nodes, Settings, Weights
from tflm_zo.cli.set_option import written, written_settings
from tflm_zo.training import ALGORITHMS
from tflm_zo.training.algorithms import DEFAULT, summary
from tflm_zo.training.setting_names import full_name

PAGE = Path(__file__).with_name("algorithms.md")

HEAD = """# Algorithms

<!-- Made by docs/generate_algorithms.py. Change the docstrings in tflm_zo/training, then run it again. -->

An algorithm says how a run trains: what is perturbed, what a step is made of, and with which settings. It is
chosen by `--algorithm NAME` of `tflm-zo train`, `inject` and `firmware`, or in Python by a function of
`tflm_zo.algorithms`. The default is `{default}`. `tflm-zo algorithms NAME` prints the settings of one.

In the equations, W and w are weights, y the outputs of a layer, a its inputs, z a random direction, mu its
size, L a loss, and G an estimate of the gradient. An LSB is one level of an int8 weight or activation.

| `--algorithm` | what it does |
| --- | --- |
"""
SETTINGS = """
## The settings

A run has the settings of `Settings` and those of its tasks, each of which is a class in Python.
`--set NAME=VALUE` of `train` and `firmware` gives a setting another value. The task's name and the dot may be
left out where no other part of the run has a setting of that name. `auto` on the command line is `None` in
Python.
"""
KINDS: dict[str, type[Any]] = {"": Settings, "nodes": Nodes, "weights": Weights, "exact": Exact}
NOT_SET = ("tasks", "algorithm")  # not by --set


def page() -> str:
    """The whole text of docs/algorithms.md."""
    rows = [f"| [`{name}`](#{name}) | {summary(name)} |" for name in ALGORITHMS]
    parts = [HEAD.format(default=DEFAULT) + "\n".join(rows) + "\n"]
    parts += [algorithm_section(name) for name in ALGORITHMS]
    parts += [SETTINGS, *(settings_section(task, kind) for task, kind in KINDS.items())]
    return "".join(parts)


def algorithm_section(name: str) -> str:
    """An algorithm: what it does, its equation, remarks, its function, its settings and its paper."""
    function, settings = ALGORITHMS[name], ALGORITHMS[name]()
    text, _, references = (inspect.getdoc(function) or "").partition("\n\nReferences:\n")
    own = [
        f"{p.name}={p.default!r}" for p in inspect.signature(function).parameters.values() if p.name != "run"
    ]
    tasks = ", ".join(f"`{type(task).__name__}`" for task in settings.tasks)
    values = [
        f"`{key}={value}`" for key, value in written_settings(settings).items() if differs(settings, key)
    ]
    return (
        f"\n## {name}\n\n{paragraphs(text)}\n"
        f"* In Python: `tflm_zo.algorithms.{function.__name__}({', '.join([*own, '…'])})`\n"
        f"* Tasks: {tasks}\n"
        f"* Settings that are not the tasks' defaults: {', '.join(values) or 'none'}\n"
        f"* Paper: {markdown(references)}\n"
    )


def differs(settings: Settings, name: str) -> bool:
    """Whether a setting, as the command line calls it, has another value than its class gives it."""
    owner, _, field = full_name(settings, name.replace("-", "_")).rpartition(".")
    kind = KINDS[owner]
    return bool(getattr(getattr(settings, owner) if owner else settings, field) != default_of(kind, field))


def default_of(kind: type[Any], name: str) -> Any:
    """The value that a class gives to a field."""
    field = next(field for field in dataclasses.fields(kind) if field.name == name)
    return field.default_factory() if callable(field.default_factory) else field.default


def settings_section(task: str, kind: type[Any]) -> str:
    """The fields of a class of settings, by the names that they have on the command line."""
    text, _, rest = (inspect.getdoc(kind) or "").partition("\n\nAttributes:\n")
    described = attributes(rest.partition("\n\nRaises:")[0])
    head = "| setting | default | what it is |\n| --- | --- | --- |\n"
    rows = [f"\n### {kind.__name__}\n\n{paragraphs(text)}\n{head}"]
    for field in dataclasses.fields(kind):
        if field.name not in NOT_SET:
            name = f"{task}.{field.name}".lstrip(".").replace("_", "-")
            value = written(default_of(kind, field.name))
            rows.append(f"| `{name}` | {value} | {described[field.name]} |\n")
    return "".join(rows)


def paragraphs(text: str) -> str:
    """A docstring's paragraphs as Markdown; indented ones are equations."""
    equation = "```text\n{}\n```\n"
    return "\n".join(
        equation.format(inspect.cleandoc(p)) if p.startswith("    ") else markdown(p) + "\n"
        for p in text.split("\n\n")
    )


def attributes(section: str) -> dict[str, str]:
    """What a docstring's section "Attributes" says of each, as Markdown."""
    found = re.findall(r"^    (\w+): (.*(?:\n {8}.*)*)", section, re.MULTILINE)
    return {name: markdown(text).replace("|", "\\|") for name, text in found}


def markdown(text: str) -> str:
    """A paragraph of a docstring on one line, with no asterisk that Markdown would read."""
    return " ".join(text.split()).replace("*", "\\*")


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
