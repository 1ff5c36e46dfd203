# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""A progress bar on stderr for work that takes longer than two seconds."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from typing import TypeVar

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

__all__ = ["counting_bar", "progress"]

_T = TypeVar("_T")
_PATIENCE_S = 2.0


def counting_bar() -> Progress:
    """A bar that says how many of how many, gone when it is over; nothing where stderr is no terminal."""
    console = Console(stderr=True)
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        console=console,
        transient=True,
        disable=not console.is_terminal,
    )


def progress(items: Iterable[_T], total: int, what: str) -> Iterator[_T]:
    """Passes the items on; after two seconds a bar shows how many, where stderr is a terminal.

    Args:
        items: items to pass on.
        total: number of items.
        what: one word or two in front of the bar.
    """
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
