"""The extent of tests: examples of properties, parameters of a test."""

import os
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Any

import pytest


def examples(count: int) -> int:
    """`count` if ``CI`` is set, or a quarter of it on somebody's own machine."""
    return count if os.environ.get("CI") else max(count // 4, 10)


def slow_but(kept: Collection[Any], values: Iterable[Any]) -> list[Any]:
    """Makes parameters of a test that takes long for all of them: those not kept are slow, for `.ci/run`."""
    values = list(values)
    assert all(value in values for value in kept), (kept, values)
    return [value if value in kept else pytest.param(value, marks=pytest.mark.slow) for value in values]


_folder = os.environ.get("TFLM_ZO_MODELS")
_paths = sorted(Path(_folder).glob("*.tflite")) if _folder else []

REAL_MODELS: list[Any] = [pytest.param(path.read_bytes, id=path.stem) for path in _paths] or [
    pytest.param(
        None,
        id="none",
        marks=pytest.mark.skip("TFLM_ZO_MODELS names no folder with .tflite files (MLPerf Tiny's, say)"),
    )
]
