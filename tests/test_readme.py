# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""The Python in README runs as it stands."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import typer
from typer.testing import CliRunner

from helpers.interpreters import require
from helpers.models import MODELS
from tflm_zo.cli.app import app
from tflm_zo.cli.option_names import OF_INJECT
from tflm_zo.training import ALGORITHMS
from tflm_zo.training.algorithms import summary
from tflm_zo.training.setting_names import every_name

README = Path(__file__).parents[1] / "README.md"
COMMANDS: dict[str, Any] = typer.main.get_command(app).commands  # type: ignore[attr-defined]


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


def test_algorithms_are_those_that_there_are() -> None:
    """Their names and the first sentences of their docstrings, in the order of `tflm-zo algorithms`."""
    table = README.read_text().partition("| `--algorithm` | what it does |\n| --- | --- |\n")[2]
    rows = table.partition("\n\n")[0].splitlines()
    assert rows == [f"| `{name}` | {summary(name)} |" for name in ALGORITHMS]


@pytest.mark.parametrize(
    "path", [README, *sorted((README.parent / "docs").rglob("*.md"))], ids=lambda p: p.name
)
def test_options_that_it_names_exist(path: Path) -> None:
    """Those of tflm-zo: on its command lines, and in words between backticks."""
    known = {
        name for command in COMMANDS.values() for p in command.params for name in (*p.opts, *p.secondary_opts)
    }
    text = path.read_text()
    lines = re.findall(r"^tflm-zo .*$", text.replace("\\\n", " "), re.MULTILINE)
    spans = re.findall(r"`((?:(?:tflm-zo )?(?:" + "|".join(COMMANDS) + r") )?--[^`]+)`", text)
    named = {name for words in (*lines, *spans) for name in re.findall(r"(?<!\S)--[a-z][\w-]*", words)}
    named -= {"--ablations"}  # of benchmarks/learning/compare.py
    assert named <= known, named - known
    settings = {name.replace("_", "-") for name in (*every_name(), *OF_INJECT)}
    given = set(re.findall(r"--set\s+([a-z][\w.-]*)=", text))
    assert given <= settings, given - settings


def test_files_it_links_to_exist() -> None:
    for target in re.findall(r"\]\(([^)#:]+)\)", README.read_text()):
        assert (README.parent / target).exists(), target
