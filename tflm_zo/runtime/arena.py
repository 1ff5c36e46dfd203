# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""Size of the arena that a model takes under TFLM."""

from __future__ import annotations

import os
import re
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO

from ..converters import Model
from .tflm import REGISTERER, TflmRuntime, arena_upper_bound

__all__ = ["arena_bytes"]


@contextmanager
def _captured_output() -> Iterator[IO[bytes]]:
    """Catches what the process writes to stdout and stderr, C code included."""
    sys.stdout.flush()
    sys.stderr.flush()
    saved = os.dup(1), os.dup(2)
    with tempfile.TemporaryFile() as report:
        os.dup2(report.fileno(), 1)
        os.dup2(report.fileno(), 2)
        try:
            yield report
        finally:
            for number, copy in zip((1, 2), saved, strict=True):
                os.dup2(copy, number)
                os.close(copy)


def arena_bytes(model: Model) -> int:
    """Returns the arena of a single-subgraph model by TFLM's recording allocator on a 64-bit host.

    Args:
        model: a plain or ZO model.

    Raises:
        RuntimeUnavailableError: TFLM is not installed.
    """
    module = TflmRuntime._import()
    custom = any(op.code.name.startswith("TFLM_ZO_") for op in model.subgraphs[0].operators)
    interpreter = module.Interpreter.from_bytes(
        model.to_bytes(), [REGISTERER] if custom else [], arena_size=arena_upper_bound(model)
    )
    with _captured_output() as report:
        interpreter.print_allocations()
        sys.stderr.flush()
        report.seek(0)
        text = report.read().decode(errors="replace")
    found = re.search(r"Arena allocation total (\d+) bytes", text)
    if found is None:
        raise RuntimeError(f"TFLM's report has no total: {text}")
    return int(found.group(1))
