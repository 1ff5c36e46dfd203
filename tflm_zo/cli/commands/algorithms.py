# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""``tflm-zo algorithms``."""

from __future__ import annotations

from typing import Annotated, Any

import typer
from rich.console import Console

from ...training import ALGORITHMS, Algorithm
from ...training import algorithm as algorithm_of_name
from ..algorithm_options import written
from ..options import Json
from ..results import show, table

EXAMPLE = "tflm-zo algorithms elastic-zo-int8"


def algorithms(
    name: Annotated[
        str | None, typer.Argument(metavar="[NAME]", help="With its settings.", show_default=False)
    ] = None,
    as_json: Json = False,
) -> None:
    """List the algorithms that train can use, or the settings of one and what it asks of inject."""
    chosen = [algorithm_of_name(name)] if name is not None else list(ALGORITHMS.values())
    result: dict[str, Any] = {"algorithms": [_described(a) for a in chosen]}
    show(result, as_json=as_json, render=lambda console: _render(console, chosen, name is not None))


def _described(a: Algorithm) -> dict[str, Any]:
    return {
        "name": a.name,
        "summary": a.summary,
        "layerwise": a.is_layerwise,
        "settings": {setting: written(setting, value) for setting, value in a.options.items()},
        "injection": {setting: _plain(value) for setting, value in a.injection.items()},
    }


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


def _render(console: Console, chosen: list[Algorithm], detailed: bool) -> None:
    console.print(table("Algorithms", ["name", "what it does"], [[a.name, a.summary] for a in chosen]))
    if not detailed:
        return
    (one,) = chosen
    rows = [["--" + s.replace("_", "-"), written(s, v)] for s, v in one.options.items()]
    console.print(table("Settings of train", ["option", "default"], rows))
    asked = [["--" + s.replace("_", "-"), str(_plain(v))] for s, v in one.injection.items()]
    if asked:
        console.print(table("What it asks of inject", ["setting", "value"], asked))
