"""``tflm-zo recalibrate``, ``train --recalibrate``, and the kept statistics in the output of ``inspect``."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from helpers.commands import refused, result_of, run
from helpers.models import MODELS
from tflm_zo.converters import load_model
from tflm_zo.recalibration import recalibrate


@pytest.fixture
def files(model_file: Any, data_file: Any) -> tuple[Path, Path, Path]:
    rng = np.random.default_rng(1)
    old = rng.uniform(-1.9, 1.9, (60, 8, 8, 1)).astype(np.float32)
    new = (0.5 * rng.uniform(-1.9, 1.9, (32, 8, 8, 1)) + 0.4).astype(np.float32)
    y = np.arange(32) % 4
    return model_file(), data_file("old.npz", x=old), data_file("new.npz", x=new, y=y)


def test_a_model_is_recalibrated_shown_and_recalibrated_again(cli: Any, files: Any, tmp_path: Path) -> None:
    model, old, new = files
    said = result_of("recalibrate", model, new, "-o", "out.tflite", "--source", old)
    assert (said["samples"], said["source_samples"], said["uneven"]) == (32, 60, False)
    assert [layer["layer"] for layer in said["layers"]] == ["conv", "fc"]
    assert said["layers"][0]["corrected"] == 4 and said["layers"][1]["left_alone"]
    expected = recalibrate(model, new, source=old)
    assert (tmp_path / "out.tflite").read_bytes() == expected.model.to_bytes()
    shown = result_of("inspect", "out.tflite")
    assert shown["statistics"] == {"samples": 60, "layers": 1, "channels": 4}
    assert "keeps statistics of 4 channels in 1 layers, of 60 samples" in cli("inspect", "out.tflite").stdout
    assert result_of("inspect", model)["statistics"] is None
    again = run("recalibrate", "out.tflite", new, "-o", "again.tflite")
    assert "samples" in again.stdout and "the model's answer" in again.stdout


def test_train_recalibrates_what_keeps_statistics(cli: Any, files: Any, tmp_path: Path) -> None:
    model, old, new = files
    run("recalibrate", model, old, "-o", "kept.tflite", "--source", old)
    run("recalibrate", "kept.tflite", new, "-o", "first.tflite")
    runs = {
        "by hand": ("first.tflite", ["--as-is"]),
        "asked": ("kept.tflite", ["--recalibrate"]),
        "by default": ("kept.tflite", []),
        "as it is": ("kept.tflite", ["--as-is"]),
    }
    trained, said = {}, {}
    for name, (source, more) in runs.items():
        done = run("train", source, new, "-o", f"{name}.tflite", "--steps", 4, "--batch-size", 16, *more)
        said[name] = "channels in 1 of 2 layers corrected from 32 new samples" in done.stderr
        trained[name] = (tmp_path / f"{name}.tflite").read_bytes()
    assert said == {"by hand": False, "asked": True, "by default": True, "as it is": False}
    assert trained["by hand"] == trained["asked"] == trained["by default"] != trained["as it is"]
    # A trained layer has another mean and deviation: they are not led back in a second run.
    assert result_of("inspect", "asked.tflite")["statistics"] is None
    again = run("train", "asked.tflite", new, "-o", "again.tflite", "--steps", 4, "--batch-size", 16)
    assert "corrected" not in again.stderr


def test_what_learns_to_reproduce_its_input_is_trained_as_it_is(
    cli: Any, model_file: Any, data_file: Any, tmp_path: Path
) -> None:
    rng = np.random.default_rng(1)
    old, new = rng.uniform(-1.9, 1.9, (60, 24)), 0.5 * rng.uniform(-1.9, 1.9, (40, 24)) + 0.4
    model, old, new = model_file("autoencoder"), data_file("old.npz", x=old), data_file("new.npz", x=new)
    clean = data_file("clean.npz", x=np.load(new)["x"], y=np.load(new)["x"][::-1])
    run("recalibrate", model, old, "-o", "kept.tflite", "--source", old)
    runs = {
        "default": (new, []),
        "as it is": (new, ["--as-is"]),
        "asked": (new, ["--recalibrate"]),
        # With targets of its own the same model reproduces something else than its input.
        "targets": (clean, []),
    }
    trained, said = {}, {}
    for name, (data, more) in runs.items():
        done = run("train", "kept.tflite", data, "-o", f"{name}.tflite", "--steps", 2, "--batch-size", 8, *more)
        lines = [line for line in done.stderr.splitlines() if "recalibrated" in line or "corrected" in line]
        said[name] = [line.split()[0] for line in lines]
        trained[name] = (tmp_path / f"{name}.tflite").read_bytes()
    assert said["default"] == ["nothing"] and said["as it is"] == []
    assert [len(said[name]) for name in ("asked", "targets")] == [1, 1]
    assert "nothing" not in said["asked"] + said["targets"]
    assert trained["default"] == trained["as it is"] != trained["asked"]


def test_refusals_leave_no_file(cli: Any, files: Any, data_file: Any, tmp_path: Path) -> None:
    model, old, new = files
    cases = [
        ([model, new], "keeps no statistics of the data that it was made for; give samples of them as"),
        ([model, data_file("y.npz", y=np.zeros(3)), "--source", old], "no array `x`"),
        ([model, new, "--source", "nowhere.npz"], "nowhere.npz"),
        ([model, new, "--source", data_file("one.npz", x=np.zeros((1, 8, 8, 1)))], "2 samples at least"),
    ]
    for arguments, message in cases:
        refused(tmp_path, "recalibrate", *arguments, "-o", "out.tflite", said=message, last=True)
    refused(tmp_path, "recalibrate", model, new, "-o", old, "--source", old, said="are the same file")
    run("inject", model, "-o", "m.zo.tflite")
    given = ("train", "m.zo.tflite", new, "-o", "t.tflite", "--recalibrate")
    refused(tmp_path, *given, said="recalibrate the plain model")


def test_an_uneven_shift_is_said(cli: Any, files: Any, data_file: Any, tmp_path: Path) -> None:
    model, old, _ = files
    x = np.random.default_rng(2).uniform(-0.5, 0.5, (16, 8, 8, 1)).astype(np.float32)
    x[:, :4] += 1.2
    x[:, 4:] -= 1.2
    result = run("recalibrate", model, data_file("u.npz", x=x), "-o", "out.tflite", "--source", old)
    assert "nothing is recalibrated" in result.stderr
    weights = [
        load_model(p).subgraphs[0].operators[0].inputs[1].quantization.scales  # type: ignore[union-attr]
        for p in (model, tmp_path / "out.tflite")
    ]
    assert np.array_equal(*weights)


def test_convert_keeps_statistics(cli: Any, data_file: Any, tmp_path: Path) -> None:
    keras = pytest.importorskip("keras")
    model = keras.Sequential(
        [keras.Input((8, 8, 1)), keras.layers.Conv2D(4, 3, activation="relu"), keras.layers.Flatten(),
         keras.layers.Dense(3, activation="softmax")]
    )  # fmt: skip
    model.save(tmp_path / "m.keras")
    data = data_file(x=np.random.default_rng(1).normal(size=(60, 8, 8, 1)).astype(np.float32))
    run("convert", "m.keras", data, "-o", "m.tflite")
    assert result_of("inspect", "m.tflite")["statistics"]["samples"] == 60
    assert result_of("recalibrate", "m.tflite", data, "-o", "r.tflite")["layers"][0]["mean_share"] < 0.5


def test_every_model_is_taken_or_refused_with_a_sentence(cli: Any, model_file: Any, data_file: Any) -> None:
    rng = np.random.default_rng(1)
    for name in MODELS:
        model = model_file(name)
        inputs = load_model(model).subgraphs[0].inputs
        arrays = {t.name: rng.uniform(0, 1, (20, *t.shape[1:])).astype(np.float32) for t in inputs}
        data = data_file(f"{name}.npz", **(arrays if len(arrays) > 1 else {"x": next(iter(arrays.values()))}))
        run("recalibrate", model, data, "-o", f"{name}.out.tflite", "--source", data)
