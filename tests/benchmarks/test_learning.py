"""The comparison of algorithms: its reports, its resumption, and the methods' budgets."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from helpers.models import MODELS

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "benchmarks" / "learning"


@pytest.fixture
def learning(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Imports its modules as the script itself does."""
    monkeypatch.syspath_prepend(str(FOLDER))
    for name in ("augmentation", "initialization", "cifar", "tasks", "methods", "compare"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    import augmentation
    import compare
    import initialization
    import methods
    import tasks

    modules = (augmentation, compare, initialization, methods, tasks)
    return type("Learning", (), {module.__name__: module for module in modules})


def row(task: str, seed: int, test: float, **more: Any) -> dict[str, Any]:
    shared = {"method": "node", "budget": 1e5, "before": 40.0, "validation": 80.0, "steps": 10}
    return {"task": task, "seed": seed, **shared, "test": test, **more}


def compare(*options: Any) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "benchmarks/learning/compare.py", *map(str, options)]
    return subprocess.run(command, capture_output=True, text=True, timeout=300, cwd=ROOT)


def reported(folder: Path, *options: str) -> Any:
    done = compare("--methods", "node", "--budgets", "1e5", "--json", "--work", folder, *options)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_summary(learning: Any) -> None:
    """Averages speakers first; mean and spread are over seeds."""
    rows = [row("rotated", s, t, old=50.0 + s) for s, t in enumerate([90.0, 92.0, 97.0])]
    rows += [row(f"speaker-{i}", s, 80.0 + 10 * i + 2 * s) for i in range(2) for s in range(2)]
    rotated, speakers = learning.compare.summary(rows)
    assert (rotated["task"], rotated["seeds"], rotated["runs"]) == ("rotated", 3, 3)
    assert rotated["test"] == pytest.approx(93)
    assert rotated["test_sd"] == pytest.approx(np.std([90, 92, 97], ddof=1))
    assert rotated["old"] == pytest.approx(51)
    assert (speakers["task"], speakers["seeds"], speakers["runs"]) == ("speakers", 2, 4)
    assert speakers["test"] == pytest.approx(86)  # (85 + 87) / 2
    assert speakers["test_sd"] == pytest.approx(np.sqrt(2))
    assert "old" not in speakers


def test_a_line_that_was_cut_short_does_not_count(learning: Any, tmp_path: Path) -> None:
    path = tmp_path / "results.jsonl"
    whole = json.dumps(row("rotated", 0, 90.0))
    path.write_text(whole + "\n" + whole[:40])
    assert learning.compare.read(path) == [json.loads(whole)]
    assert learning.compare.read(tmp_path / "none") == []


def test_complete_results_are_only_reported(tmp_path: Path) -> None:
    path = tmp_path / "results.jsonl"
    path.write_text("".join(json.dumps(row("rotated", s, 90.0 + s)) + "\n" for s in range(3)))
    before = path.read_bytes()
    (line,) = reported(tmp_path, "--seeds", "2")
    assert (line["test"], line["seeds"]) == (pytest.approx(90.5), 2)
    assert path.read_bytes() == before


@pytest.mark.parametrize(("options", "accuracy"), [((), 90.0), (("--guard",), 80.0), (("--guard", "training"), 70.0)])
def test_results_of_a_guard(options: tuple[str, ...], accuracy: float, tmp_path: Path) -> None:
    """Tells each from the others, also if a row is older and has one guard, or none."""
    guarded = {"last": 75.0, "ended_worse": 1.0}
    rows = [row("rotated", 0, 90.0), row("rotated", 0, 80.0, guard=True, **guarded)]
    rows += [row("rotated", 0, 70.0, guard="training", **guarded)]
    (tmp_path / "results.jsonl").write_text("".join(json.dumps(one) + "\n" for one in rows))
    assert [line["test"] for line in reported(tmp_path, "--seeds", "1", *options)] == [accuracy]


@pytest.mark.parametrize("option", [["--tasks", "mnist"], ["--methods", "adam"]])
def test_unknown_names(option: list[str], tmp_path: Path) -> None:
    done = compare("--work", tmp_path / "new", *option)
    assert done.returncode == 2
    assert f"no {option[0][2:-1]} '{option[1]}'; there are " in done.stderr
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("name", ["node", "node-exact", "weight", "head-zo", "head-exact", "node-rehearsal"])
def test_methods(learning: Any, name: str, tmp_path: Path) -> None:
    path = tmp_path / "model.tflite"
    path.write_bytes(MODELS["small_cnn"]())
    random = np.random.default_rng(0)

    def data(samples: int) -> tuple[Any, Any]:
        return random.integers(-128, 128, (samples, 8, 8, 1)).astype(np.int8), random.integers(0, 4, samples)

    task = learning.tasks.Task(
        path, data(40), data(20), data(20), data(20), data(10), tmp_path / "none.keras", data(4)[0]
    )
    found = learning.methods.adapt(task, learning.methods.METHODS[name], 2000.0, 0)
    assert found["equivalents"] <= 2000
    assert found["steps"] >= 1
    assert all(0 <= found[part] <= 100 for part in ("before", "validation", "test", "old"))
    assert found == learning.methods.adapt(task, learning.methods.METHODS[name], 2000.0, 0)


@pytest.mark.parametrize(("guard", "trained"), [("held-out", 32), ("training", 40)])
def test_guards(learning: Any, guard: str, trained: int, tmp_path: Path) -> None:
    """Trains on the samples that are not held out, so the equivalents of an epoch differ."""
    path = tmp_path / "model.tflite"
    path.write_bytes(MODELS["small_cnn"]())
    random = np.random.default_rng(0)

    def data(samples: int) -> tuple[Any, Any]:
        return random.integers(-128, 128, (samples, 8, 8, 1)).astype(np.int8), np.arange(samples) % 4

    task = learning.tasks.Task(path, data(40), data(20), data(20), None, None, tmp_path / "none", data(4)[0])
    method = learning.methods.Method("", "node", settings={"learning_rate": 1.0, "batch_size": 32}, steps=2)
    found = learning.methods.adapt(task, method, 2000.0, 0, guard)
    # The prefix of all samples that are trained on, 0.9 of conv, and two steps of 32, 0.2 each of fc.
    assert found["equivalents"] == pytest.approx(0.9 * trained + 2 * 32 * 0.2)
    assert found["kept_step"] in (0, 1, 2) and found["ended_worse"] in (0, 1)
    if found["kept_step"] != 1:
        assert found["test"] == (found["last"] if found["kept_step"] else found["before"])


# --- inputs of the models -----------------------------------------------------------------------------------


class Chosen:
    """A generator with the same draws everywhere, so that results are known."""

    def __init__(self, share: float) -> None:
        self.share = share

    def uniform(self, low: float, high: float, size: Any) -> Any:
        return np.full(size, low + self.share * (high - low))


@pytest.mark.parametrize(("share", "frames_later"), [(0.0, -1.0), (0.5, 1.5), (0.75, 2.75), (1.0, 4.0)])
def test_shifts(learning: Any, share: float, frames_later: float) -> None:
    """Compares with NumPy's interpolation of each band, with silence beyond both ends."""
    x = np.random.default_rng(0).random((3, 30, 12, 1)).astype(np.float32)
    y = learning.augmentation.shifted(x, Chosen(share))
    assert y.dtype == np.float32 and y.shape == x.shape
    silent = np.pad(x, ((0, 0), (6, 6), (0, 0), (0, 0)))
    for i, band in np.ndindex(3, 12):
        expected = np.interp(np.arange(30) - frames_later, np.arange(-6, 36), silent[i, :, band, 0])
        np.testing.assert_allclose(y[i, :, band, 0], expected, atol=1e-6)


def test_shifts_at_random(learning: Any) -> None:
    """Shifts one impulse, whose place shows the shift: each recording by its own, -1 to 4 frames."""
    x = np.zeros((50, 49, 20, 1), np.float32)
    x[:, 20] = 0.5
    before = x.copy()
    y = learning.augmentation.shifted(x, np.random.default_rng(1))
    np.testing.assert_array_equal(x, before)
    np.testing.assert_array_equal(y, learning.augmentation.shifted(x, np.random.default_rng(1)))
    later = (y[..., 0, 0] * np.arange(49)).sum(1) / y[..., 0, 0].sum(1) - 20
    assert -1 <= later.min() < 0 and 3 < later.max() <= 4
    assert len(np.unique(later.round(4))) == 50


def test_unit_outputs(learning: Any) -> None:
    pytest.importorskip("tensorflow", reason="TensorFlow is not installed")
    import keras

    from tflm_zo.keras_models import digits_cnn

    keras.utils.set_random_seed(0)
    model = digits_cnn()
    x = np.random.default_rng(0).random((100, 8, 8, 1), np.float32)
    activations = [layer.activation for layer in model.layers if layer.weights]
    learning.initialization.unit_outputs(model, x, 1.5)
    assert [layer.activation for layer in model.layers if layer.weights] == activations
    values = x
    for layer in model.layers[1:]:
        if layer.weights:
            kernel, bias = (np.asarray(w) for w in layer.weights)
            assert not bias.any()
            if kernel.ndim == 2:
                assert (values @ kernel).std() == pytest.approx(1.5, rel=1e-3)
            else:
                import tensorflow as tf

                outputs = tf.nn.conv2d(values, kernel, 1, layer.padding.upper())
                assert outputs.numpy().std() == pytest.approx(1.5, rel=1e-3)
        values = np.asarray(layer(values))
