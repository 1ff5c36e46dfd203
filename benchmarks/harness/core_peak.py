# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""How many int8 multiply-accumulates a second this machine's core can do at most."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from tflm_zo import exact_delegate

__all__ = ["core_peak"]

_KERNELS = ("avx512-vnni", "avx2", "neon-dot", "neon")


def _fastest() -> str | None:
    for name in _KERNELS:
        try:
            exact_delegate(kernels=name)
        except ValueError:
            continue
        return name
    return None


def core_peak(kernels: str | None) -> float | None:
    """Measures 10^9 multiply-accumulates a second with a kernel set's multiply instruction.

    Args:
        kernels: name of the kernel set; None: the fastest that the machine can run.

    Returns:
        The peak of one core in registers; None for portable kernels, and without a C compiler ($CC, or cc).
    """
    name = kernels or _fastest()
    compiler = shutil.which(os.environ.get("CC", "cc"))
    if name not in _KERNELS or compiler is None:
        return None
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder) / "core_peak"
        source = Path(__file__).with_suffix(".c")
        subprocess.run([compiler, "-O2", "-std=gnu99", str(source), "-o", str(program)], check=True)
        done = subprocess.run([program, name], capture_output=True, text=True)
    return float(done.stdout) if done.returncode == 0 else None
