# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""train, replay, verify: files, exit codes, and the same bits."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from interpreters import require
from models import MODELS
from tflm_zo import inject
from tflm_zo.cli.app import app


@pytest.fixture
def files(tmp_path: Path) -> Path:
    inject(MODELS["small_cnn"](), batch=8).save(tmp_path / "m.zo.tflite")
    rng = np.random.default_rng(0)
    x = rng.integers(-128, 128, (32, 8, 8, 1)).astype(np.int8)
    np.savez(tmp_path / "d.npz", x=x, y=rng.integers(0, 4, 32))
    return tmp_path


def run(folder: Path, *arguments: str) -> Any:
    paths = [str(folder / a[1:]) if a.startswith("@") else a for a in arguments]
    return CliRunner().invoke(app, paths)


TRAIN = ("train", "@m.zo.tflite", "@d.npz", "--batch-size", "16", "--steps", "12", "--json")


def test_train_and_replay(files: Path) -> None:
    done = run(files, *TRAIN, "-o", "@a.tflite", "--validation", "@d.npz", "--csv", "@h.csv")
    assert done.exit_code == 0, done.output
    result = json.loads(done.stdout)
    assert result["steps"] == 12
    assert result["forwards"] == 12 * 2 * 16
    assert 0 <= result["accuracy"] <= 1
    assert (files / "h.csv").read_text().startswith("epoch,loss")
    done = run(files, "replay", "@m.zo.tflite", "@a.zolog", "-o", "@b.tflite", "--json")
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["steps"] == 12
    assert (files / "a.tflite").read_bytes() == (files / "b.tflite").read_bytes()


def test_resume_gives_the_same_bits(files: Path) -> None:
    assert run(files, *TRAIN, "-o", "@a.tflite").exit_code == 0
    whole = (files / "a.zolog").read_bytes()
    (files / "b.zolog").write_bytes(whole[: len(whole) * 2 // 3])
    assert run(files, *TRAIN, "-o", "@b.tflite", "--resume").exit_code == 0
    assert (files / "b.zolog").read_bytes() == whole
    assert (files / "a.tflite").read_bytes() == (files / "b.tflite").read_bytes()


def test_truncated_log_is_replayed_and_said(files: Path) -> None:
    assert run(files, *TRAIN, "-o", "@a.tflite").exit_code == 0
    whole = (files / "a.zolog").read_bytes()
    (files / "a.zolog").write_bytes(whole[:-5])
    done = run(files, "replay", "@m.zo.tflite", "@a.zolog", "-o", "@b.tflite")
    assert done.exit_code == 0
    assert "last whole step (11)" in done.output


def test_verify(files: Path) -> None:
    require("tflm")
    done = run(files, "verify", "@m.zo.tflite", "@d.npz", "--steps", "5", "--json")
    assert done.exit_code == 0, done.output
    result = json.loads(done.stdout)
    assert result["identical"]
    assert {r["runtime"] for r in result["runs"]} >= {"litert-ref", "tflm"}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--rate", "-1"), "rate: expected"),
        (("--rule", "adam"), "there are gradient, normalized, sign"),
        (("--runtime", "onnx"), "no runtime 'onnx'"),
        (("--batch-size", "12"), "multiple of the model's batch 8"),
        (("--queries", "20"), "max_queries=8"),
        (("--resume",), "No such file"),
    ],
)
def test_bad_settings_write_nothing(files: Path, arguments: tuple[str, ...], message: str) -> None:
    before = sorted(files.iterdir())
    done = run(files, *TRAIN, "-o", "@a.tflite", *arguments)
    assert done.exit_code == 1
    assert message in " ".join(done.output.split())
    assert sorted(files.iterdir()) == before


def test_log_of_another_model(files: Path) -> None:
    assert run(files, *TRAIN, "-o", "@a.tflite").exit_code == 0
    inject(MODELS["small_cnn"](), batch=4).save(files / "other.zo.tflite")
    done = run(files, "replay", "@other.zo.tflite", "@a.zolog", "-o", "@b.tflite")
    assert done.exit_code == 1
    assert "another model" in done.output
    assert not (files / "b.tflite").exists()


def test_nothing_is_replaced_unasked(files: Path) -> None:
    assert run(files, *TRAIN, "-o", "@a.tflite").exit_code == 0
    for name in ("a.tflite", "a.zolog"):
        kept = (files / name).read_bytes()
        done = run(files, *TRAIN, "-o", "@a.tflite")
        assert done.exit_code == 1
        assert "--force" in done.output
        assert (files / name).read_bytes() == kept
        (files / "a.tflite").unlink(missing_ok=True)
    assert run(files, *TRAIN, "-o", "@a.tflite", "--force").exit_code == 0
