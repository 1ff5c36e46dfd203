# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""The demo, shortened: every part of the story holds."""

from __future__ import annotations

from pathlib import Path

import pytest
from tflm_zo.converters import load_model

from interpreters import require
from tflm_zo.demo import run_demo


def test_story(tmp_path: Path) -> None:
    pytest.importorskip("tensorflow", reason="TensorFlow is not installed")
    pytest.importorskip("sklearn", reason="scikit-learn is not installed")
    require("tflm")
    said: list[str] = []
    result = run_demo(tmp_path / "out", steps=300, say=said.append)
    assert result.upright > 0.9
    assert result.before < 0.4
    assert result.after > result.before + 0.15  # 300 of 3,000 steps
    assert result.replayed
    assert result.tflm_identical
    assert result.forwards == 300 * 2 * 64
    assert result.training_arena is not None and result.inference_arena is not None
    assert result.training_arena - result.inference_arena - 2 * result.weights < 1024
    adapted = load_model(result.files["adapted int8 model"])
    assert not any("TFLM_ZO" in op.code.name for op in adapted.subgraphs[0].operators)
    assert said[-1] == "repeating the run in TFLM"


def test_unknown_dataset(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="there are digits, mnist"):
        run_demo(tmp_path, dataset="cifar")
