"""The demo, shortened: every part of the story holds."""

import dataclasses
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from helpers.commands import invoke
from helpers.interpreters import require
from tflm_zo.converters import load_model
from tflm_zo.demo import SCENARIOS, DemoResult, run_demo, story
from tflm_zo.demo.scenarios import fsdd, read_spoken_digits
from tflm_zo.demo.story import backpropagation_bytes
from tflm_zo.training import Callback, RunProgress


def pretrain_for(epochs: int, patch: pytest.MonkeyPatch) -> None:
    """Shortens the pre-training before a tested story."""
    scenarios = {
        name: lambda make=make: dataclasses.replace(make(), epochs=epochs)  # type: ignore
        for name, make in SCENARIOS.items()
    }
    patch.setattr(story, "SCENARIOS", scenarios)


def check_story(result: DemoResult, said: list[str]) -> None:
    """Checks invariants of an adaptation of any length."""
    assert list(result.adaptations) == ["node", "exact", "weight"]
    for adaptation in result.adaptations.values():
        assert adaptation.replayed
        assert adaptation.tflm_identical
        assert 0.8 * result.budget < adaptation.equivalents <= result.budget
        adapted = load_model(adaptation.files["adapted int8 model"])
        assert not any("TFLM_ZO" in op.code.name for op in adapted.subgraphs[0].operators)
    # Weight perturbation keeps nothing of a sample, node perturbation the inputs of its updates.
    weight, node = result.adaptations["weight"], result.adaptations["node"]
    assert weight.arena - result.inference_arena - 2 * weight.weights < 1024
    assert weight.workspace < 64 < node.workspace
    # A query of weight perturbation takes two forward passes, an exact gradient errors and an update besides one.
    assert 2 < weight.inferences < 3 and 1 < result.adaptations["exact"].inferences < 8
    assert said[-1] == "repeating the run in TFLM"


@pytest.mark.slow
def test_story(tmp_path: Path) -> None:
    pytest.importorskip("tensorflow", reason="TensorFlow is not installed")
    pytest.importorskip("sklearn", reason="scikit-learn is not installed")
    require("tflm")
    said: list[str] = []
    result = run_demo(tmp_path / "out", budget=10_000, say=said.append)
    assert result.upright > 0.9
    assert result.before < 0.4
    node, exact, weight = (result.adaptations[name].accuracy for name in ("node", "exact", "weight"))
    assert node > result.before + 0.4  # a tenth of the demo's budget
    assert exact > 0.8 and node > weight > result.before
    check_story(result, said)


def test_interrupted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ends the demo with Ctrl-C, not just its training."""
    pytest.importorskip("tensorflow", reason="TensorFlow is not installed")
    pytest.importorskip("sklearn", reason="scikit-learn is not installed")

    class Interrupt(Callback):
        def on_step_end(self, progress: RunProgress, logs: dict[str, float]) -> None:
            raise KeyboardInterrupt

    pretrain_for(1, monkeypatch)
    with pytest.raises(KeyboardInterrupt):
        run_demo(tmp_path, budget=1000, callbacks=(Interrupt(),))
    assert not list(tmp_path.glob("*.adapted.tflite"))


@pytest.mark.parametrize(
    "name",
    [
        *("digits.tflite", "digits.zo.tflite", "digits.zolog"),
        *("digits.exact.zolog", "digits.weight.adapted.tflite"),
    ],
)
def test_files_of_an_earlier_demo_are_kept(name: str, tmp_path: Path) -> None:
    """Keeps them unless --force replaces them; found before anything is trained."""
    (tmp_path / name).write_bytes(b"precious")
    done = invoke("demo", "-o", str(tmp_path))
    assert done.exit_code == 1
    (line,) = done.stderr.splitlines()
    assert line.startswith("error: ") and "exists" in line and "--force" in line
    assert [path.name for path in tmp_path.iterdir()] == [name]
    assert (tmp_path / name).read_bytes() == b"precious"
    # The next thing that is wrong is said.
    done = invoke("demo", "-o", str(tmp_path), "--force", "--dataset", "cifar")
    assert "no dataset 'cifar'" in done.stderr


def test_the_files_are_those_of_the_algorithms() -> None:
    """Leaves other files alone, such as one that is named after the default."""
    names = story.file_names("digits")
    assert len(names) == len(set(names)) == 10 and "digits.adapted.tflite" in names
    assert not any("node" in name for name in names)


def test_unknown_dataset(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="there are digits, mnist, fsdd"):
        run_demo(tmp_path, dataset="cifar")


# --- spoken digits ------------------------------------------------------------------------------------------


def spoken_digits(**changed: Any) -> dict[str, Any]:
    """Makes six speakers' digits in fsdd.npz's arrays: a tone for each digit, higher for each speaker."""
    y, speaker, take = (a.ravel() for a in np.meshgrid(np.arange(10), np.arange(6), [0, 7, 20]))
    time = np.arange(8000) / 8000
    hertz = 200 * 1.25 ** (y + 0.1 * speaker)
    noise = np.random.default_rng(0).normal(0, 30, (len(y), 8000))
    x = 5000 * np.sin(2 * np.pi * hertz[:, None] * time) * (time < 0.6) + noise
    return {
        "x": x.astype(np.int16),
        "length": np.full(len(y), 4800, np.uint16),
        "y": y.astype(np.uint8),
        "speaker": speaker.astype(np.uint8),
        "take": take.astype(np.uint8),
        "speakers": np.array(["ann", "bob", "cy", "dee", "eve", "fay"]),
        **changed,
    }


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TFLM_ZO_DATA", str(tmp_path))
    return tmp_path


@pytest.mark.slow
def test_spoken_digits_story(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("tensorflow", reason="TensorFlow is not installed")
    require("tflm")
    np.savez(folder / "fsdd.npz", **spoken_digits())
    pretrain_for(2, monkeypatch)
    said: list[str] = []
    result = run_demo(folder / "out", dataset="fsdd", budget=1000, say=said.append)
    check_story(result, said)
    assert "never heard before (fay)" in result.title
    assert "% on 5 known speakers, " in said[2] and "% on the new one" in said[2]
    assert sorted(p.name for p in (folder / "out").iterdir()) == [
        "fsdd.adapted.tflite", "fsdd.exact.adapted.tflite", "fsdd.exact.zo.tflite", "fsdd.exact.zolog", "fsdd.tflite",
        "fsdd.weight.adapted.tflite", "fsdd.weight.zo.tflite",
        "fsdd.weight.zolog", "fsdd.zo.tflite", "fsdd.zolog",
    ]  # fmt: skip


def test_spoken_digits_splits(folder: Path) -> None:
    arrays = spoken_digits()
    np.savez(folder / "fsdd.npz", **arrays)
    scenario = fsdd("cy")
    # Every utterance is used once, in one part, told apart by its features.
    parts = {name: getattr(scenario, name) for name in ("pretrain", "upright", "adapt", "test")}
    assert {name: len(y) for name, (_, y) in parts.items()} == {
        "pretrain": 100, "upright": 50, "adapt": 20, "test": 10,
    }  # fmt: skip
    from tflm_zo.features import log_mel

    # (speaker is cy, take)
    kinds = {
        log_mel(x).tobytes(): (s == 2, t)
        for x, s, t in zip(arrays["x"], arrays["speaker"], arrays["take"], strict=True)
    }
    seen = {name: {kinds[v.tobytes()] for v in x} for name, (x, _) in parts.items()}
    assert seen["pretrain"] == {(False, 7), (False, 20)}
    assert seen["upright"] == {(False, 0)}
    assert seen["adapt"] == {(True, 0), (True, 7)}
    assert seen["test"] == {(True, 20)}
    with pytest.raises(ValueError, match="no speaker 'zoe'; there are ann, bob"):
        fsdd("zoe")


def test_missing_spoken_digits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    arguments = ["demo", "--dataset", "fsdd", "-o", str(tmp_path / "out")]
    for value, where in (("", "TFLM_ZO_DATA is not set"), (str(tmp_path), "fsdd.npz does not exist")):
        monkeypatch.setenv("TFLM_ZO_DATA", value)
        done = invoke(*arguments)
        assert done.exit_code == 1 and not done.stdout
        (line,) = done.stderr.splitlines()[1:]  # after "loading data"
        assert line.startswith("error: ") and where in line
        assert "x int16 [n, 8000] (8 kHz" in line and "free-spoken-digit-dataset" in line
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"x": np.zeros((180, 4000), np.int16)}, r"expected x int16 \[n, 8000\], got int16 \[180, 4000\]"),
        ({"x": np.zeros((180, 8000), np.float32)}, "got float32"),
        ({"y": np.zeros(179, np.uint8)}, r"expected y integers \[180\], got uint8 \[179\]"),
        ({"y": np.full(180, 10)}, r"expected y in 0..9, got 10..10"),
        ({"speaker": np.full(180, 6)}, r"expected speaker in 0..5"),
        ({"take": np.zeros(180)}, "expected take integers"),
        ({"take": np.zeros(180, int)}, "no utterance for 'pretrain'"),
    ],
)
def test_wrong_spoken_digits(folder: Path, changed: dict[str, Any], message: str) -> None:
    np.savez(folder / "fsdd.npz", **spoken_digits(**changed))
    with pytest.raises(ValueError, match=message):
        fsdd()


def test_spoken_digits_of_another_format(folder: Path) -> None:
    path = folder / "fsdd.npz"
    np.savez(path, images=np.zeros(3))
    with pytest.raises(ValueError, match=r"no array speaker, speakers, take, x, y; expected x int16"):
        read_spoken_digits()
    path.write_bytes(b"text")
    with pytest.raises(ValueError, match="no .npz or .npy file of numbers, or damaged"):
        read_spoken_digits()


@pytest.mark.slow
def test_spoken_digits_of_a_new_speaker(tmp_path: Path) -> None:
    """Gains in a part of the real run most of the whole run's accuracy."""
    if not os.environ.get("TFLM_ZO_DATA"):
        pytest.skip("TFLM_ZO_DATA, the folder with fsdd.npz, is not set")
    pytest.importorskip("tensorflow", reason="TensorFlow is not installed")
    require("tflm")
    said: list[str] = []
    result = run_demo(tmp_path, dataset="fsdd", budget=5000, say=said.append)
    assert result.upright > 0.8
    assert result.adaptations["node"].accuracy > result.before + 0.05
    check_story(result, said)


# --- memory -------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_backpropagation_of_a_depthwise_separable_network() -> None:
    """Compares with a count by hand over Keras' layers: batch norm and ReLU are part of the convolutions."""
    pytest.importorskip("tensorflow", reason="TensorFlow is not installed")
    from tflm_zo.conversion.keras import convert
    from tflm_zo.keras_models import ds_cnn

    model = ds_cnn((49, 20, 1), classes=10, filters=24, blocks=3, stride=(4, 2))
    x = np.random.default_rng(0).random((60, 49, 20, 1), np.float32)
    for layer in model.layers:
        if "_bn" in layer.name:
            layer.momentum = 0.0
    model(x, training=True)
    model.layers[-1].bias.assign(np.linspace(0.1, 1, 10))  # the converter drops biases of zeros
    weights = 40 * 24 + 3 * (9 * 24 + 24 * 24) + 24 * 10
    biases = 24 + 3 * (24 + 24) + 10
    # 13 x 10 positions of 7 convolutions, the average, logits and probabilities.
    activations = 7 * 13 * 10 * 24 + 24 + 10 + 10
    assert backpropagation_bytes(convert(model, x).model) == 2 * (weights + biases) + 2 * activations
