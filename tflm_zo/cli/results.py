# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""A command's result, for people or as JSON."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import typer
from rich.console import Console

from ..io.errors import printable
from ..io.table import table_console
from .output_file import write_output

__all__ = ["show", "write_report"]


def show(result: Mapping[str, Any], *, as_json: bool, render: Callable[[Console], None]) -> None:
    """Prints the result on stdout.

    Args:
        result: result that ``--json`` prints: numbers, strings, lists and dictionaries.
        as_json: True to print the result as JSON.
        render: function that prints the result for people.
    """
    if as_json:
        typer.echo(_as_json(result))
    else:
        render(table_console())


def write_report(path: Path | None, result: Mapping[str, Any], *, force: bool) -> None:
    """Writes the result as JSON to the file of ``-o``; nothing where that was not given."""
    if path is not None:
        write_output(path, (_as_json(result) + "\n").encode(), force=force)


def _as_json(result: Mapping[str, Any]) -> str:
    return printable(json.dumps(result, ensure_ascii=False, indent=2))
