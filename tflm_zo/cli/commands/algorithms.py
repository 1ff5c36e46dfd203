"""``tflm-zo algorithms``."""

from __future__ import annotations

import inspect
from typing import Annotated, Any

import typer
from rich.console import Console

from ...converters import InjectSettings, Last, ResidualBlocks
from ...io.table import table
from ...training import ALGORITHMS, algorithm, inject_settings
from ...training.algorithms import summary
from ...training.setting_texts import written, written_settings
from ..option_names import options_of
from ..options import Json
from ..results import show
from .inject import inject

EXAMPLE = "tflm-zo algorithms elastic-zo-int8"


def algorithms(
    name: Annotated[
        str | None, typer.Argument(metavar="[NAME]", help="Algorithm whose settings are shown.", show_default=False)
    ] = None,
    as_json: Json = False,
) -> None:
    """List the algorithms of train, or the settings of one algorithm, those of inject included."""
    if name is not None:
        algorithm(name)  # says which there are
    chosen = [name] if name is not None else list(ALGORITHMS)
    result: dict[str, Any] = {"algorithms": [_described(a) for a in chosen]}
    show(result, as_json=as_json, render=lambda console: _render(console, result, name))


def _described(name: str) -> dict[str, Any]:
    settings, usual = algorithm(name), InjectSettings()
    asked = inject_settings(settings)
    differing = {
        key: written(value, key) if isinstance(value, Last | ResidualBlocks) else value
        for key, value in vars(asked).items()
        if value != getattr(usual, key) and key != "algorithm"
    }
    return {
        "name": name,
        "summary": summary(name),
        "tasks": [type(task).__name__.lower() for task in settings.tasks],
        "layerwise": settings.is_layerwise,
        "settings": written_settings(settings),
        "injection": differing,
    }


def _render(console: Console, result: dict[str, Any], name: str | None) -> None:
    found = result["algorithms"]
    rows = [[a["name"], ", ".join(a["tasks"]), a["summary"]] for a in found]
    console.print(table("Algorithms", ["name", "tasks", "what it does"], rows))
    if name is None:
        return
    console.print(inspect.getdoc(ALGORITHMS[name]))
    (one,) = found
    console.print(table("Settings (train --set NAME=VALUE)", ["name", "value"], list(one["settings"].items())))
    if one["injection"]:
        options = {options_of(inject)[name]: value for name, value in one["injection"].items()}
        asked = [[f"--no-{o[2:]}", ""] if value is False else [o, written(value)] for o, value in options.items()]
        console.print(table("What it asks of inject", ["option", "value"], asked))
