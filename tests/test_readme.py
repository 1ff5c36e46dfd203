# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""The Python in README runs as it stands."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from helpers.interpreters import require
from helpers.models import MODELS
from tflm_zo.cli.app import app

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


def test_command_line_walk_through(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    keras = pytest.importorskip("keras", reason="TensorFlow is not installed")
    require("tflm")
    monkeypatch.chdir(tmp_path)
    from tflm_zo.keras_models import digits_cnn

    keras.utils.set_random_seed(0)
    digits_cnn().save("model.keras")
    rng = np.random.default_rng(0)
    for name in ("calibration", "adapt", "test"):
        x = rng.random((48, 8, 8, 1)).astype(np.float32)
        np.savez(f"{name}.npz", x=x, y=rng.integers(0, 10, 48))
    (block,) = re.findall(r"```sh\n(tflm-zo convert.*?)```", README.read_text(), re.DOTALL)
    for line in block.strip().splitlines():
        done = CliRunner().invoke(app, shlex.split(line)[1:])
        assert done.exit_code == 0, f"{line}\n{done.output}"
    assert Path("again.tflite").read_bytes() == Path("weights.tflite").read_bytes()


def test_files_it_links_to_exist() -> None:
    for target in re.findall(r"\]\(([^)#:]+)\)", README.read_text()):
        assert (README.parent / target).exists(), target
