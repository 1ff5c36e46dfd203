# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""``--set NAME=VALUE``: settings of a run, and how they are written, for every command that has them."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final

import typer

from ..converters import ZoMetadata
from ..training import ALGORITHMS, Settings, SettingsError
from ..training.algorithms import fitting_batch_size
from ..training.plan import plan_tasks
from ..training.setting_names import changed, full_name
from ..training.setting_texts import parse_number
from .injection import parse_nodes
from .option_names import OF_INJECT

__all__ = [
    "ALGORITHM_HELP",
    "SetOption",
    "make_settings",
    "parse_injection",
    "split_set",
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
            raise SettingsError("--set", "be NAME=VALUE", item)
        into = injection if name in OF_INJECT else run
        if name in into:
            raise SettingsError(f"--set {name.replace('_', '-')}", "be given once")
        into[name] = text.strip()
    return run, injection


def parse_injection(given: Mapping[str, str]) -> dict[str, Any]:
    """Values of inject's settings, from `split_set`."""
    values: dict[str, Any] = {}
    for name, text in given.items():
        if name in ("update_bits", "sparse_seed"):
            values[name] = parse_number(f"--set {name.replace('_', '-')}", text, int)
        elif name == "nodes":
            values[name] = parse_nodes([text], "--set nodes")
        else:
            values[name] = text.replace("-", "_") if name == "loss" else text
    return values


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
        kinds = {task.setting for task in plan_tasks(settings, metadata, lambda _: 1.0)} or None
    inert = settings.without_effect(kinds)
    for name in given:
        reason = inert.get(full_name(settings, name))
        if reason is not None:
            raise SettingsError(name, f"be left out, since it would have no effect: {reason}")
    return settings
