# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""The Python in README runs as it stands."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from models import MODELS

README = Path(__file__).parents[1] / "README.md"


def test_python_examples(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("model.tflite").write_bytes(MODELS["lenet5"]())
    rng = np.random.default_rng(0)
    names: dict[str, Any] = {
        "x": rng.integers(-128, 128, (32, 28, 28, 1)).astype(np.int8),
        "y": rng.integers(0, 10, 32),
    }
    blocks = re.findall(r"```python\n(.*?)```", README.read_text(), re.DOTALL)
    assert len(blocks) == 3
    for block in blocks:
        exec(compile(block, str(README), "exec"), names)
    assert names["plus"] != names["minus"]
    assert Path("adapted.tflite").is_file()


def test_files_it_links_to_exist() -> None:
    for target in re.findall(r"\]\(([^)#:]+)\)", README.read_text()):
        assert (README.parent / target).exists(), target
