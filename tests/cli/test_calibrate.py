"""calibrate: the threshold of an anomaly, its check, and the log that keeps it."""

import json
from pathlib import Path

import numpy as np
import pytest

import tflm_zo as zo
from helpers.commands import refused, result_of, run
from helpers.models import MODELS


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Makes the working directory, with an autoencoder, normal samples, and known ones."""
    monkeypatch.chdir(tmp_path)
    Path("m.tflite").write_bytes(MODELS["autoencoder"]())
    rng = np.random.default_rng(1)
    x = rng.normal(0, 0.4, (150, 24)).astype(np.float32)
    np.savez("normal.npz", x=x[:110])
    np.save("normal.npy", x[:110])
    np.savez("known.npz", x=x[100:], y=np.arange(50) >= 20)
    return tmp_path


def test_what_is_said(folder: Path) -> None:
    wanted = zo.calibrate("m.tflite", "normal.npz", test="known.npz")
    known = wanted.detection
    assert known is not None
    done = run("calibrate", "m.tflite", "normal.npz", "--test", "known.npz")
    first, second = done.stdout.splitlines()
    assert first.startswith(f"threshold {wanted.threshold:,} (mean squared error {wanted.loss:.5g}): percentile 99 of")
    assert "110 normal samples, 1 above" in first and done.stderr == ""
    assert second == (
        f"detected {known.detected} of 30 anomalies, {known.false_alarms} false alarms in 20 normal samples, "
        f"area under the curve {known.auc:.3f}"
    )
    assert run("calibrate", "m.tflite", "normal.npy").stdout.splitlines() == [first]
    found = result_of("calibrate", "m.tflite", "normal.npz", "--test", "known.npz", "-o", "report.json")
    assert (found["threshold"], found["detection"]["auc"], found["above"]) == (wanted.threshold, known.auc, 1)
    assert json.loads(Path("report.json").read_text()) == found


def test_too_few_samples(folder: Path) -> None:
    done = run("calibrate", "m.tflite", "normal.npz", "--percentile", 99.9)
    assert done.stderr.splitlines() == [
        "warning: 110 normal samples do not resolve the percentile 99.9, which needs 1,000: the threshold is the "
        "largest loss"
    ]
    assert "110 normal samples, 0 above" in done.stdout
    assert run("calibrate", "m.tflite", "normal.npz", "--percentile", 100).stderr == ""


@pytest.mark.parametrize("algorithm", ["node", "weight"])
def test_the_log_keeps_it(folder: Path, algorithm: str) -> None:
    run("train", "m.tflite", "normal.npz", "-o", "t.tflite", "--algorithm", algorithm, "--steps", 8)
    assert result_of("replay", "t.zo.tflite", "t.zolog", "-o", "r.tflite")["threshold"] is None
    found = result_of("calibrate", "t.zo.tflite", "normal.npz", "--log", "t.zolog", "--percentile", 97.5)
    assert found["threshold"] == result_of("calibrate", "t.tflite", "normal.npz", "--percentile", 97.5)["threshold"]
    done = run("replay", "t.zo.tflite", "t.zolog", "-o", "r.tflite", "--force")
    assert f"; threshold {found['threshold']:,}, percentile 97.5 of 110 samples" in done.stdout
    assert done.stderr == "" and Path("r.tflite").read_bytes() == Path("t.tflite").read_bytes()
    kept = result_of("replay", "t.zo.tflite", "t.zolog", "-o", "r.tflite", "--force")["threshold"]
    assert kept == {"threshold": found["threshold"], "percentile": 97.5, "samples": 110}
    run("report", "t.zolog", "-o", "r.html")
    run("train", "m.tflite", "normal.npz", "-o", "other.tflite", "--algorithm", "exact", "--steps", 8)
    refused(folder, "calibrate", "other.zo.tflite", "normal.npz", "--log", "t.zolog", said="is of another model")


def test_refusals(folder: Path) -> None:
    bad = np.load("normal.npy")
    np.savez("flat.npz", x=bad[:, :20])
    bad[2, 3] = np.nan
    np.savez("nan.npz", x=bad)
    np.savez("none.npz", x=bad[:0])
    Path("c.tflite").write_bytes(MODELS["small_cnn"]())
    for arguments, said in (
        (("m.tflite", "nan.npz"), "nan.npz: x contains NaN or infinity"),
        (("m.tflite", "none.npz"), "none.npz: x is empty"),
        (("m.tflite", "flat.npz"), "`x` must have samples of shape [24]. Received: [20]."),
        (("m.tflite", "normal.npz", "--test", "normal.npz"), "`test` must have y, 0 for a normal sample"),
        (("m.tflite", "normal.npz", "--percentile", "99.999"), "must be a multiple of 0.01 in 0.01..100"),
        (("m.tflite", "normal.npz", "--log", "m.tflite"), "m.tflite"),
        (("c.tflite", "normal.npz"), "must have samples of shape"),
        (("m.tflite", "missing.npz"), "missing.npz"),
    ):
        refused(folder, "calibrate", *arguments, said=said)
