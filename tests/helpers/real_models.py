# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""Real models that the tests run on where there are any: every .tflite in the folder TFLM_ZO_MODELS."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

__all__ = ["REAL_MODELS"]

_folder = os.environ.get("TFLM_ZO_MODELS")
_paths = sorted(Path(_folder).glob("*.tflite")) if _folder else []

REAL_MODELS: list[Any] = [pytest.param(path.read_bytes, id=path.stem) for path in _paths] or [
    pytest.param(
        None,
        id="none",
        marks=pytest.mark.skip("TFLM_ZO_MODELS names no folder with .tflite files (MLPerf Tiny's, say)"),
    )
]
