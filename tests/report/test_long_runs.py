# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""Reports of long runs: the page stays small, and it is made in seconds."""

from __future__ import annotations

import resource
import subprocess
from pathlib import Path

from helpers.processes import command


def test_a_hundred_thousand_steps(runs: Path, tmp_path: Path) -> None:
    """Of LeNet-5, 61,470 weights. Time is that of the processor: other tests run beside this one."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    output = tmp_path / "long.html"
    done = subprocess.run(
        command("report", runs / "long.zolog", "-o", output), capture_output=True, text=True, timeout=120
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert done.returncode == 0, done.stderr
    assert "100,000" in output.read_text(encoding="utf-8")
    assert output.stat().st_size < 1_000_000
    assert after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime < 3


def test_pages_are_small(pages: dict[str, str]) -> None:
    assert all(len(text.encode()) < 1_000_000 for text in pages.values())
    assert len(pages["long"].encode()) < 100_000
