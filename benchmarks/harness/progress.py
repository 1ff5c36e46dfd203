# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""A progress bar that leaves the measurement alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import Progress

__all__ = ["progress"]


@contextmanager
def progress(what: str, total: int) -> Iterator[Callable[[int], None]]:
    """Shows a bar on stderr; the context is a function that says how many more are done.

    It is drawn only twice a second: every drawing holds the interpreter lock, which slows the measured code.

    Args:
        what: a word in front of the bar.
        total: number of things to do.
    """
    with Progress(console=Console(stderr=True), refresh_per_second=2) as bar:
        task = bar.add_task(what, total=total)
        yield lambda done: bar.advance(task, done)
