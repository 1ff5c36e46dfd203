# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""Settings as texts: how people write them, and how a ZO model keeps those of its run."""

from __future__ import annotations

import dataclasses
import re
import types
import typing
from collections.abc import Callable, Mapping
from typing import Any, Final

from ..converters import Model, ZoMetadata, read_metadata
from ..converters.metadata import with_metadata
from ..converters.selections import Last, ResidualBlocks
from ..core import Distribution
from .checks import SettingsError
from .distribution_texts import parse_distribution, written_distribution
from .schedules import Step
from .setting_names import PARTS, TASKS, full_name, has_part, names, resolve, value_of
from .settings import Settings

__all__ = [
    "BESIDES",
    "FOUND",
    "parse_layers",
    "parse_number",
    "parse_set",
    "parse_tail",
    "run_of",
    "with_found",
    "with_run",
    "written",
    "written_settings",
]

_SWITCHES: Final = {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}
#: What a run finds before its first step: the layers of the block that it has chosen, and the learning rate
#: that it has measured, or "none".
FOUND: Final = ("block", "measured-rate")
#: What the metadata of a ZO model has of its run besides settings.
BESIDES: Final = ("epochs", "steps", "choose-block", *FOUND)


def run_of(metadata: ZoMetadata) -> dict[str, str]:
    """Returns the settings of the run that a ZO model was made for, and its length, as texts by name."""
    return dict(item.split("=", 1) for item in metadata.run)


def with_run(zo: Model, settings: Settings, usual: Settings, length: Mapping[str, object]) -> Model:
    """Returns a ZO model that keeps the settings of its run.

    Args:
        zo: the ZO model; it is not changed.
        settings: settings of the run.
        usual: those of its algorithm.
        length: values of `BESIDES` by name; None where one is not given, "auto" for what the run will find.
    """
    given = (f"{name}={value}" for name, value in length.items() if value is not None)
    run = (*_written_changes(settings, usual), *given)
    return with_metadata(zo, dataclasses.replace(read_metadata(zo), run=run))


def with_found(zo: Model, name: str, value: str) -> Model:
    """Returns a ZO model with what its run has found, where that was "auto"; else the model itself."""
    metadata = read_metadata(zo)
    run = tuple(f"{name}={value}" if item == f"{name}=auto" else item for item in metadata.run)
    return zo if run == metadata.run else with_metadata(zo, dataclasses.replace(metadata, run=run))


def parse_layers(name: str, text: str) -> Last | tuple[str, ...]:
    """Reads "last:N", or names of layers separated by commas.

    Raises:
        SettingsError: N is no integer from 1 on, or a name is empty; the message names the setting.
    """
    kind, colon, number = text.partition(":")
    if kind == "last" and colon:
        if not number.isascii() or not number.isdigit() or int(number) < 1:
            raise SettingsError(name, "have N >= 1 in 'last:N'", text)
        return Last(int(number))
    found = tuple(part.strip() for part in text.split(","))
    if not all(found):
        raise SettingsError(name, "be names of layers separated by commas", text)
    return found


def parse_tail(name: str, text: str) -> int | ResidualBlocks:
    """Reads a number of last layers, or "block" or "N blocks" for last residual blocks.

    Raises:
        SettingsError: the text is something else; the message names the setting.
    """
    found = re.fullmatch(r"(-?[0-9]+)|block|([0-9]+) blocks?", text)
    if found is None or found[2] == "0":
        raise SettingsError(name, "be a number of layers, 'block' or 'N blocks' with N >= 1", text)
    return int(found[1]) if found[1] else ResidualBlocks(int(found[2] or 1))


def parse_set(settings: Settings, given: Mapping[str, str]) -> dict[str, Any]:
    """Values of settings, for `changed`.

    Args:
        settings: settings of the algorithm.
        given: texts by name, from `split_set`.

    Raises:
        SettingsError: no setting has that name, or a text is no value of its setting.
    """
    values: dict[str, Any] = {}
    known: dict[tuple[str, str], str] = {}
    for name, text in given.items():
        owner, field = meant = resolve(settings, name)
        if meant in known:
            raise SettingsError(name, f"be given once. It is the setting {known[meant]}")
        known[meant] = name
        values[name] = _value(TASKS[owner] if owner else Settings, field, name, text)
    return values


def _value(kind: type[Any], field: str, name: str, text: str) -> Any:
    if field == "last":
        return parse_tail(name, text)
    if field == "schedule":
        return text
    if field == "queries":
        return _queries(name, text)
    if field == "layers":
        return None if text == "auto" else parse_layers(name, text)
    if field == "int16":
        return () if text == "none" else Last(1) if text == "last" else parse_layers(name, text)
    hint = typing.get_type_hints(Step if field in PARTS else kind)[PARTS.get(field, field)]
    if hint is Distribution:
        return parse_distribution(text, name)
    arguments = typing.get_args(hint) if isinstance(hint, types.UnionType) else (hint,)
    if type(None) in arguments and text in ("auto", "none"):
        return None
    (only,) = (a for a in arguments if a is not type(None))
    if typing.get_origin(only) is tuple:
        return _numbers(name, text, typing.get_args(only)[0])
    if only is bool:
        if text.lower() not in _SWITCHES:
            raise SettingsError(name, "be true or false", text)
        return _SWITCHES[text.lower()]
    return parse_number(name, text, only) if only in (int, float) else text


def parse_number(name: str, text: str, kind: Callable[[str], Any]) -> Any:
    """Reads a number of a kind, int or float.

    Raises:
        SettingsError: the text is none; the message names the setting.
    """
    try:
        return kind(text)
    except ValueError:
        what = "an integer" if kind is int else "a number"
        raise SettingsError(name, f"be {what}", text) from None


def _numbers(name: str, text: str, kind: Callable[[str], Any]) -> tuple[Any, ...]:
    if text == "none":
        return ()
    try:
        return tuple(kind(part) for part in text.split(","))
    except ValueError:
        what = "integers" if kind is int else "numbers"
        raise SettingsError(name, f"be {what} separated by commas, or none", text) from None


def _queries(name: str, text: str) -> int | dict[str, int] | None:
    wrong = SettingsError(name, "be a number, auto, or LAYER=NUMBER separated by commas", text)
    if text == "auto":
        return None
    queries: dict[str, int] = {}
    for part in text.split(","):
        layer, equals, number = part.strip().rpartition("=")
        if not number.isascii() or not number.isdecimal() or (equals and not layer):
            raise wrong
        if not equals:
            if "," in text:
                raise wrong
            return int(number)
        if layer in queries:
            raise SettingsError(name, f"contain `{layer}` once", text)
        queries[layer] = int(number)
    return queries


def written_settings(settings: Settings) -> dict[str, str]:
    """Settings that have an effect, as one writes them after ``--set``."""
    inert = settings.without_effect()
    found = {}
    for name in names(settings):
        if full_name(settings, name) not in inert and has_part(settings.schedule, name):
            found[name.replace("_", "-")] = written(value_of(settings, name), name)
    return found


def _written_changes(settings: Settings, usual: Settings) -> tuple[str, ...]:
    """Returns the minibatch and what differs from other settings of a run, as NAME=VALUE each, for
    `parse_set`; not `sync_every`, which changes no bit of a run.
    """
    own = [("", name) for name in names(Settings()) if not resolve(Settings(), name)[0]]
    own += [(t, f.name) for t, kind in TASKS.items() if settings.has(kind) for f in dataclasses.fields(kind)]
    found = []
    for owner, field in own:
        name = f"{owner}.{field}" if owner else field
        kept = name == "batch_size" or (owner and not usual.has(TASKS[owner]))
        if field != "sync_every" and (kept or value_of(settings, name) != value_of(usual, name)):
            found.append(f"{name.replace('_', '-')}={written(value_of(settings, name), name)}")
    return tuple(found)


def written(value: Any, name: str = "") -> str:
    """Returns a value as the command line writes it for the setting of a name."""
    if value is None:
        return "auto"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, Distribution):
        return written_distribution(value)
    if isinstance(value, tuple):
        return ",".join(map(written, value)) or "none"
    if isinstance(value, Last):
        return "last" if name.endswith("int16") and value.n == 1 else f"last:{value.n}"
    if isinstance(value, ResidualBlocks):
        return "block" if value.n == 1 else str(value)
    if isinstance(value, Mapping):
        return ",".join(f"{layer}={number}" for layer, number in value.items())
    return repr(value).removesuffix(".0") if isinstance(value, float) else str(value)
