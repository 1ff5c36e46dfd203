# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""A command's result, for people or as JSON."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from ..converters.model.schema import printable
from .output_file import write_output

__all__ = ["show", "table", "write_report"]

# Of tables in files and pipes.
_WIDTH = 140


def show(result: Mapping[str, Any], *, as_json: bool, render: Callable[[Console], None]) -> None:
    """Prints the result on stdout.

    Args:
        result: what ``--json`` prints: numbers, strings, lists and dictionaries.
        as_json: whether to.
        render: prints it for people otherwise.
    """
    if as_json:
        typer.echo(_as_json(result))
    else:
        console = Console(highlight=False, soft_wrap=True)
        if not console.is_terminal:
            console.width = _WIDTH
        render(console)


def write_report(path: Path | None, result: Mapping[str, Any], *, force: bool) -> None:
    """Writes the result as JSON to the file of ``-o``; nothing where that was not given."""
    if path is not None:
        write_output(path, (_as_json(result) + "\n").encode(), force=force)


def _as_json(result: Mapping[str, Any]) -> str:
    return printable(json.dumps(result, ensure_ascii=False, indent=2))


def table(title: str, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> Table:
    """A table for ``render``: numbers right-aligned with thousands separators, text as it is."""
    result = Table(title=title, title_justify="left", title_style="bold")
    for i, column in enumerate(columns):
        numbers = bool(rows) and all(isinstance(row[i], int | float) for row in rows)
        result.add_column(column, justify="right" if numbers else "left", overflow="fold")
    for row in rows:
        # Text, not markup: names may contain brackets.
        result.add_row(
            *(Text(f"{cell:,}" if isinstance(cell, int) else printable(str(cell))) for cell in row)
        )
    return result
