# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""``--set NAME=VALUE``: settings of a run, and how they are written, for every command that has them."""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, Final

import typer

from ..converters import ZoMetadata
from ..converters.settings import LAST
from ..core import Distribution
from ..training import ALGORITHMS, Settings, SettingsError
from ..training.algorithms import fitting_batch_size
from ..training.plan import plan_tasks
from ..training.setting_names import TASKS, changed, full_name, names, resolve, value_of
from .distribution import parse_distribution, written_distribution
from .injection import layers_or_blocks, parse_nodes
from .option_names import OF_INJECT

__all__ = [
    "ALGORITHM_HELP",
    "SetOption",
    "make_settings",
    "parse_injection",
    "parse_set",
    "split_set",
    "written_settings",
]

ALGORITHM_HELP: Final = f"{', '.join(ALGORITHMS)}; `tflm-zo algorithms` describes them"

SetOption = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="NAME=VALUE",
        help="A setting of the algorithm; repeatable. `tflm-zo algorithms NAME` lists them: queries=4, "
        "schedule=cosine, exact.last=block.",
        show_default=False,
        rich_help_panel="Algorithm",
    ),
]

_SWITCHES: Final = {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}


def split_set(given: Sequence[str] | None) -> tuple[dict[str, str], dict[str, str]]:
    """The names and texts of ``--set`` options: those of a run's settings, and those of inject's.

    Raises:
        SettingsError: a text is not NAME=VALUE, or a name is given twice.
    """
    run: dict[str, str] = {}
    injection: dict[str, str] = {}
    for item in given or ():
        name, equals, text = item.partition("=")
        name = name.strip().replace("-", "_")
        if not equals or not name or not text:
            raise SettingsError(f"--set: expected NAME=VALUE, got {item!r}")
        into = injection if name in OF_INJECT else run
        if name in into:
            raise SettingsError(f"--set: {name.replace('_', '-')} is given twice")
        into[name] = text.strip()
    return run, injection


def parse_set(settings: Settings, given: Mapping[str, str]) -> dict[str, Any]:
    """Values of settings, for `changed`.

    Args:
        settings: settings of the algorithm.
        given: texts by name, from `split_set`.

    Raises:
        SettingsError: no setting has that name, or a text is no value of its setting.
    """
    values: dict[str, Any] = {}
    names: dict[tuple[str, str], str] = {}
    for name, text in given.items():
        try:
            owner, field = meant = resolve(settings, name)
        except SettingsError as error:
            raise SettingsError(f"--set {error}") from None
        if meant in names:
            raise SettingsError(f"--set: {names[meant]} and {name} are the same setting".replace("_", "-"))
        names[meant] = name
        values[name] = _value(TASKS[owner] if owner else Settings, field, name, text)
    return values


def parse_injection(given: Mapping[str, str]) -> dict[str, Any]:
    """Values of inject's settings, from `split_set`."""
    values: dict[str, Any] = {}
    for name, text in given.items():
        if name in ("update_bits", "sparse_seed"):
            values[name] = _number(f"--set {name.replace('_', '-')}", text, int)
        elif name == "nodes":
            values[name] = parse_nodes([text], "--set nodes")
        else:
            values[name] = text.replace("-", "_") if name == "loss" else text
    return values


def _value(kind: type[Any], field: str, name: str, text: str) -> Any:
    if field == "last":
        return layers_or_blocks(text)
    if field == "queries":
        return _queries(name, text)
    if field == "layers":
        return None if text == "auto" else text if text.startswith("last:") else _names(name, text)
    if field == "int16":
        return () if text == "none" else text if text == LAST else _names(name, text)
    hint = typing.get_type_hints(kind)[field]
    if hint is Distribution:
        try:
            return parse_distribution(text)
        except SettingsError as error:
            raise SettingsError(f"{name}: {error}") from None
    arguments = typing.get_args(hint) if isinstance(hint, types.UnionType) else (hint,)
    if type(None) in arguments and text in ("auto", "none"):
        return None
    (only,) = (a for a in arguments if a is not type(None))
    if typing.get_origin(only) is tuple:
        return _numbers(name, text, typing.get_args(only)[0])
    if only is bool:
        if text.lower() not in _SWITCHES:
            raise SettingsError(f"{name}: expected true or false, got {text!r}")
        return _SWITCHES[text.lower()]
    return _number(name, text, only) if only in (int, float) else text


def _number(name: str, text: str, kind: Callable[[str], Any]) -> Any:
    try:
        return kind(text)
    except ValueError:
        what = "an integer" if kind is int else "a number"
        raise SettingsError(f"{name}: expected {what}, got {text!r}") from None


def _numbers(name: str, text: str, kind: Callable[[str], Any]) -> tuple[Any, ...]:
    if text == "none":
        return ()
    try:
        return tuple(kind(part) for part in text.split(","))
    except ValueError:
        what = "integers" if kind is int else "numbers"
        raise SettingsError(f"{name}: expected {what} separated by commas, or none, got {text!r}") from None


def _names(name: str, text: str) -> tuple[str, ...]:
    found = tuple(part.strip() for part in text.split(","))
    if not all(found):
        raise SettingsError(f"{name}: expected names of layers separated by commas, got {text!r}")
    return found


def _queries(name: str, text: str) -> int | dict[str, int] | None:
    expected = f"{name}: expected a number, auto, or LAYER=NUMBER separated by commas"
    if text == "auto":
        return None
    queries: dict[str, int] = {}
    for part in text.split(","):
        layer, equals, number = part.strip().rpartition("=")
        if not number.isascii() or not number.isdecimal() or (equals and not layer):
            raise SettingsError(f"{expected}, got {text!r}")
        if not equals:
            if "," in text:
                raise SettingsError(f"{expected}, got {text!r}")
            return int(number)
        if layer in queries:
            raise SettingsError(f"{name}: `{layer}` is given twice")
        queries[layer] = int(number)
    return queries


def make_settings(usual: Settings, given: Mapping[str, Any], metadata: ZoMetadata) -> Settings:
    """The settings of a run.

    Args:
        usual: settings that the algorithm has by default.
        given: the values that differ, by name.
        metadata: metadata of the ZO model; a minibatch that is not given becomes a multiple of its batch.

    Raises:
        SettingsError: a value is wrong, or changes nothing.
    """
    settings = changed(usual, given)
    if "batch_size" not in given:
        size = fitting_batch_size(settings, metadata.batch)
        settings = dataclasses.replace(settings, batch_size=size)
    kinds = None
    if settings.is_layerwise:
        # A model without anything to train is refused later, with what is wrong with it.
        kinds = {task.kind for task in plan_tasks(settings, metadata, lambda _: 1.0)} or None
    inert = settings.without_effect(kinds)
    for name in given:
        reason = inert.get(full_name(settings, name))
        if reason is not None:
            raise SettingsError(f"{name} would have no effect: {reason}")
    return settings


def written_settings(settings: Settings) -> dict[str, str]:
    """Settings that have an effect, as one writes them after ``--set``."""
    inert = settings.without_effect()
    found = {}
    for name in names(settings):
        if full_name(settings, name) not in inert:
            found[name.replace("_", "-")] = written(value_of(settings, name))
    return found


def written(value: Any) -> str:
    """A value as one writes it on the command line."""
    if value is None:
        return "auto"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, Distribution):
        return written_distribution(value)
    if isinstance(value, tuple):
        return ",".join(v if isinstance(v, str) else f"{v:g}" for v in value) or "none"
    return f"{value:g}" if isinstance(value, float) else str(value)
