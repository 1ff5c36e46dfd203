# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""The examples run."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from helpers.interpreters import require

EXAMPLES = Path(__file__).parents[1] / "examples"


def test_one_step() -> None:
    require("tflm")
    command = [sys.executable, EXAMPLES / "one_step/one_step.py"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert "the weights are identical in litert-ref and tflm" in done.stdout
