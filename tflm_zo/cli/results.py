"""A command's progress, and its result, for people or as JSON."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final, TypeVar

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from ..io.errors import printable
from ..io.table import table_console
from .output_file import write_output

_T = TypeVar("_T")
_PATIENCE_S: Final = 2.0


def counting_bar() -> Progress:
    """Returns a progress bar with counts, which disappears at the end; without output if stderr is no terminal."""
    console = Console(stderr=True)
    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()
    return Progress(*columns, console=console, transient=True, disable=not console.is_terminal)


def progress(items: Iterable[_T], total: int, what: str) -> Iterator[_T]:
    """Yields the items; after two seconds it shows a bar with a label of one or two words on a terminal."""
    bar = counting_bar()
    task = bar.add_task(what, total=total)
    begin, shown = time.monotonic(), False
    try:
        for i, item in enumerate(items):
            if not shown and time.monotonic() - begin > _PATIENCE_S:
                bar.start()
                shown = True
            bar.update(task, completed=i)
            yield item
    finally:
        if shown:
            bar.stop()


def show(result: Mapping[str, Any], *, as_json: bool, render: str | Callable[[Console], object]) -> None:
    """Prints a result on stdout, as JSON or as `render` has it for people: a text, or a function that prints."""
    if as_json:
        typer.echo(_as_json(result))
    elif isinstance(render, str):
        table_console().print(render)
    else:
        render(table_console())


def write_report(path: Path | None, result: Mapping[str, Any], *, force: bool) -> None:
    """Writes the result as JSON to the file of ``-o``; nothing where that was not given."""
    if path is not None:
        write_output(path, (_as_json(result) + "\n").encode(), force=force)


def _as_json(result: Mapping[str, Any]) -> str:
    return printable(json.dumps(result, ensure_ascii=False, indent=2))
