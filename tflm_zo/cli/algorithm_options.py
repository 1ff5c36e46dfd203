# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""Settings of an algorithm as options of the command line, whose defaults are the algorithm's own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from ..converters import ZoMetadata
from ..core import Distribution, DistributionKind
from ..training import ALGORITHMS, Algorithm, NodeSettings, SettingsError, TrainSettings
from ..training.tasks import plan_tasks
from .distribution import parse_distribution

__all__ = ["ALGORITHM_HELP", "default_of", "make_settings", "parse_queries", "parse_settings", "written"]

ALGORITHM_HELP: Final = (
    "; ".join(f"{a.name}: {a.summary}" for a in ALGORITHMS.values())
    + ". `tflm-zo algorithms` has their settings"
)

# The two whose defaults `--help` names.
_USUAL: Final = ("node", "weight")


def default_of(setting: str) -> str:
    """For ``--help``: a setting's default, of the two usual algorithms where they have it."""
    usual = [ALGORITHMS[name] for name in _USUAL]
    values = {a.name: written(setting, a.options[setting]) for a in usual if setting in a.options}
    if len(values) < len(usual):
        kind = "layer-wise algorithms" if "node" in values else "algorithm weight and its kin"
        return f"(only {kind}: {next(iter(values.values()))})"
    if len(set(values.values())) == 1:
        return f"(default: {next(iter(values.values()))})"
    return "(default: " + ", ".join(f"{name} {value}" for name, value in values.items()) + ")"


def written(setting: str, value: Any) -> str:
    """A setting's value as one would write it on the command line."""
    if value is None:
        return {"rate": "min(2, 80/√steps)", "weight_rate": "as --rate", "only": "all"}.get(setting, "auto")
    if isinstance(value, Distribution):
        return write_distribution(value)
    if isinstance(value, tuple):
        return ",".join(f"{v:g}" for v in value) or "none"
    return str(value)


def write_distribution(z: Distribution) -> str:
    """A distribution as `parse_distribution` reads it."""
    name = z.kind.name.lower().replace("_", "-")
    size = f"{z.mu / 4096 * 127 / 3.5:.3g}" if z.kind == DistributionKind.GAUSSIAN else str(z.mu)
    return f"{name}:{size}" + (f":{z.p_zero / 256:.2g}" if z.p_zero else "")


def _option(setting: str) -> str:
    return "--" + setting.replace("_", "-")


def parse_settings(algorithm: Algorithm, given: Mapping[str, Any]) -> dict[str, Any]:
    """The settings that were given, as an algorithm's `make` takes them.

    Args:
        algorithm: the algorithm.
        given: settings by name, as typer gives them (queries, distribution and tuples as text); None: not
            given.

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
        if not algorithm.is_layerwise and not isinstance(values["queries"], int):
            raise SettingsError(f"--queries: algorithm {algorithm.name} takes one number")
    for name, value in values.items():
        if isinstance(algorithm.options[name], tuple):
            values[name] = parse_numbers(_option(name), value, integers=name == "exact_bits")
    return values


def make_settings(
    algorithm: Algorithm, values: Mapping[str, Any], metadata: ZoMetadata
) -> NodeSettings | TrainSettings:
    """The settings of a run.

    Args:
        algorithm: its algorithm.
        values: from `parse_settings`.
        metadata: of the model; a minibatch that is not given becomes a multiple of its batch.

    Raises:
        SettingsError: a value is wrong, or changes nothing.
    """
    given = {**values}
    if "batch_size" not in values:
        usual, batch = int(algorithm.options["batch_size"]), metadata.batch
        given["batch_size"] = max(usual // batch, 1) * batch
    settings = algorithm.make(**given)
    if isinstance(settings, NodeSettings):
        kinds = {task.kind for task in plan_tasks(settings, metadata, lambda _: 1.0)}
        # A model without anything to train is refused later, with what is wrong with it.
        inert = settings.without_effect(kinds or None)
    else:
        inert = settings.without_effect()
    for name, reason in inert.items():
        if name in values:
            raise SettingsError(f"{_option(name)} would have no effect: {reason}")
    return settings


def parse_numbers(option: str, text: str, *, integers: bool = False) -> tuple[float, ...]:
    """Reads ``A,B,…``; none: nothing.

    Raises:
        SettingsError: it is something else.
    """
    if text == "none":
        return ()
    try:
        return tuple((int if integers else float)(part) for part in text.split(","))
    except ValueError:
        raise SettingsError(
            f"{option}: expected numbers separated by commas, or none, got {text!r}"
        ) from None


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
