"""Tables on the console."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from rich.console import Console
from rich.table import Table
from rich.text import Text

from .errors import printable

# Of tables in files and pipes.
_WIDTH: Final = 140


def table_console() -> Console:
    """Returns a console on stdout, which is wide enough for tables if stdout is no terminal."""
    console = Console(highlight=False, markup=False, soft_wrap=True)
    if not console.is_terminal and not console.is_jupyter:
        console.width = _WIDTH
    return console


def table(title: str, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> Table:
    """Returns a table of rich: numbers right-aligned with thousands separators, text unchanged."""
    result = Table(title=title, title_justify="left", title_style="bold")
    for i, column in enumerate(columns):
        numbers = bool(rows) and all(isinstance(row[i], int | float) for row in rows)
        result.add_column(column, justify="right" if numbers else "left", overflow="fold")
    for row in rows:
        # Text, not markup: names may contain brackets.
        result.add_row(*(Text(f"{cell:,}" if isinstance(cell, int) else printable(str(cell))) for cell in row))
    return result
