# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""How a command refuses what it cannot use."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from helpers.commands import invoke


def refused(folder: Path, *arguments: Any, said: str, last: bool = False) -> str:
    """The command fails as it should, and the folder is as it was. Returns its last line.

    `last`: a progress bar was on the screen before.
    """
    done = _without_a_trace(folder, arguments)
    assert done.exit_code == 1, done.output
    lines = done.stderr.splitlines()
    assert lines[-1].startswith("error: ") and said in lines[-1], done.stderr
    assert last or len(lines) == 1, done.stderr
    assert "Traceback" not in done.stderr and "internal error" not in done.stderr
    return str(lines[-1])


def wrong_usage(folder: Path, *arguments: Any, said: str) -> None:
    """The command line itself is wrong: exit code 2, and the folder is as it was."""
    done = _without_a_trace(folder, arguments)
    assert done.exit_code == 2, done.output
    text = " ".join(done.stderr.replace("│", " ").split())
    assert text.startswith("Usage: ") and said in text, done.stderr


def _without_a_trace(folder: Path, arguments: tuple[Any, ...]) -> Any:
    before = {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}
    done = invoke(*arguments)
    assert done.stdout == ""
    assert {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()} == before
    return done
