# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""Commands as processes of their own, which tests interrupt."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

RUN = "import sys; from tflm_zo.cli import main; sys.argv[0] = 'tflm-zo'; "


def command(*arguments: Any, before: str = "") -> list[str]:
    """``tflm-zo ARGUMENTS``; `before`: Python that runs first."""
    return [sys.executable, "-c", f"{RUN}{before}main()", *map(str, arguments)]


def start(*arguments: Any, folder: Path | None = None) -> subprocess.Popen[str]:
    """Starts ``tflm-zo ARGUMENTS``."""
    pipe = subprocess.PIPE
    return subprocess.Popen(
        command(*arguments), cwd=folder, text=True, stdout=pipe, stderr=pipe, preexec_fn=_not_ignored
    )


def wait_until(reached: Callable[[], bool], seconds: int = 300) -> None:
    """Waits for what a process does."""
    deadline = time.monotonic() + seconds
    while not reached():
        assert time.monotonic() < deadline
        time.sleep(0.001)


def _not_ignored() -> None:
    """Shells have what they start in the background ignore SIGINT, and nohup SIGHUP."""
    for ending in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(ending, signal.SIG_DFL)
