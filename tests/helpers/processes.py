# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""Commands as processes of their own, which tests interrupt."""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

RUN = "import sys; from tflm_zo.cli import main; sys.argv[0] = 'tflm-zo'; "


def command(*arguments: Any, before: str = "") -> list[str]:
    """``tflm-zo ARGUMENTS``; `before`: Python that runs first."""
    return [sys.executable, "-c", f"{RUN}{before}main()", *map(str, arguments)]


def start(*arguments: Any, folder: Path | None = None, **more: Any) -> subprocess.Popen[str]:
    """Starts ``tflm-zo ARGUMENTS``; `more`: of `subprocess.Popen`."""
    pipe = subprocess.PIPE
    return subprocess.Popen(
        command(*arguments),
        cwd=folder,
        text=True,
        stdout=pipe,
        stderr=pipe,
        preexec_fn=_not_ignored,
        **more,
    )


class Ended(NamedTuple):
    """How a process ended (negative: by a signal), and what it wrote to standard error."""

    returncode: int | None
    stderr: str


def run(*arguments: Any) -> Ended:
    """``tflm-zo ARGUMENTS`` to its end in a process of its own, which corrupted memory would end by a signal.

    It is forked off one that has imported the package already.
    """
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["tflm_zo.cli"])
    with tempfile.NamedTemporaryFile("r") as errors:
        process = context.Process(target=_run, args=([str(a) for a in arguments], errors.name))
        process.start()
        process.join(120)
        assert process.exitcode is not None, "it does not end"
        return Ended(process.exitcode, errors.read())


def _run(arguments: list[str], errors: str) -> None:
    from tflm_zo.cli import main

    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    os.dup2(os.open(errors, os.O_WRONLY), 2)
    sys.argv = ["tflm-zo", *arguments]
    main()


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
