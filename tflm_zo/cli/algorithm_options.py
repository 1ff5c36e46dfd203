# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""Settings of an algorithm as options of the command line, whose defaults are the algorithm's own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from ..native import Distribution
from ..training import ALGORITHMS, Algorithm, NodeSettings, SettingsError, TrainSettings
from .distribution import parse_distribution

__all__ = ["ALGORITHM_HELP", "default_of", "make_settings", "parse_queries"]

ALGORITHM_HELP: Final = "; ".join(f"{a.name}: {a.summary}" for a in ALGORITHMS.values())


def default_of(setting: str) -> str:
    """For ``--help``: a setting's default, of each algorithm that has it."""
    values = {
        a.name: _written(setting, a.options[setting]) for a in ALGORITHMS.values() if setting in a.options
    }
    if len(values) < len(ALGORITHMS):
        return "(only " + ", ".join(f"{name}: {value}" for name, value in values.items()) + ")"
    if len(set(values.values())) == 1:
        return f"(default: {next(iter(values.values()))})"
    return "(default: " + ", ".join(f"{name} {value}" for name, value in values.items()) + ")"


def _written(setting: str, value: Any) -> str:
    if value is None:
        return "min(2, 80/√steps)" if setting == "rate" else "auto"
    return "rademacher:2" if value == Distribution.rademacher(2) else str(value)


def _option(setting: str) -> str:
    return "--" + setting.replace("_", "-")


def make_settings(algorithm: Algorithm, given: Mapping[str, Any], batch: int) -> NodeSettings | TrainSettings:
    """The settings of a run.

    Args:
        algorithm: its algorithm.
        given: settings by name, as typer gives them (queries and distribution as text); None: not given.
        batch: of the model; a minibatch that is not given becomes a multiple of it.

    Raises:
        SettingsError: an option is not one of the algorithm's (the message lists those), or a value is
            wrong.
    """
    values = {name: value for name, value in given.items() if value is not None}
    for name in values:
        if name not in algorithm.options:
            own = ", ".join(_option(setting) for setting in algorithm.options)
            raise SettingsError(f"{_option(name)} is no option of algorithm {algorithm.name}; it has {own}")
    if "distribution" in values:
        values["distribution"] = parse_distribution(values["distribution"])
    if "queries" in values:
        values["queries"] = parse_queries(values["queries"])
        if not algorithm.perturbs_nodes and not isinstance(values["queries"], int):
            raise SettingsError(f"--queries: algorithm {algorithm.name} takes one number")
    if "batch_size" not in values:
        usual = int(algorithm.options["batch_size"])
        values["batch_size"] = max(usual // batch, 1) * batch
    return algorithm.make(**values)


def parse_queries(texts: Sequence[str]) -> int | dict[str, int] | None:
    """Reads ``N``, ``auto`` (None) or any number of ``LAYER=N``.

    Raises:
        SettingsError: it is none of these.
    """
    expected = "--queries: expected a number, auto, or LAYER=NUMBER"
    if len(texts) == 1 and texts[0] == "auto":
        return None
    queries: dict[str, int] = {}
    for text in texts:
        layer, equals, number = text.rpartition("=")
        if not number.isascii() or not number.isdecimal() or (equals and not layer):
            raise SettingsError(f"{expected}, got {text!r}")
        if not equals and len(texts) > 1:
            raise SettingsError(f"{expected} for each of several layers, got {' and '.join(texts)}")
        if not equals:
            return int(number)
        if layer in queries:
            raise SettingsError(f"--queries: «{layer}» is given twice")
        queries[layer] = int(number)
    return queries
