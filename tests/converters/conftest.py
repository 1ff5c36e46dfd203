# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import os
from pathlib import Path

import pytest

from helpers.models import MODELS


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """``built`` runs a test over every generated model, ``real_model`` over the files of TFLM_ZO_MODELS."""
    if "built" in metafunc.fixturenames:
        metafunc.parametrize("built", [pytest.param(build(), id=name) for name, build in MODELS.items()])
    if "real_model" in metafunc.fixturenames:
        folder = os.environ.get("TFLM_ZO_MODELS")
        if not folder:
            skip = pytest.mark.skip(reason="TFLM_ZO_MODELS names no folder of .tflite models")
            metafunc.parametrize("real_model", [pytest.param(None, marks=skip, id="none")])
            return
        files = sorted(Path(folder).glob("*.tflite"))
        metafunc.parametrize("real_model", [pytest.param(f.read_bytes(), id=f.stem) for f in files])
