"""Samples that a run rehearses, holds out and is measured on, and data without samples of some class."""

import json
from pathlib import Path

import numpy as np
import pytest

from helpers.commands import files_of, result_of, run
from helpers.injection import inject_all
from helpers.models import MODELS
from tflm_zo.cli.training_report import passed_over
from tflm_zo.converters import load_model, read_metadata
from tflm_zo.data import Data, DataWarning
from tflm_zo.training import Settings, Trainer, Weights, run_data
from tflm_zo.training.run_data import covered, held_out_samples


@pytest.mark.parametrize("algorithm", ["node", "weight"])
def test_rehearsal(algorithm: str, folder: Path) -> None:
    with np.load("d.npz") as data:
        x, y = data["x"], data["y"]
    np.savez("new.npz", x=x[:20], y=y[:20])
    np.savez("old.npz", x=x[20:], y=y[20:])
    shared = ("--algorithm", algorithm, "--steps", 5, "--runtime", "litert", "--held-out", 0)
    result = result_of("train", "p.tflite", "new.npz", "--rehearsal", "old.npz", "-o", "a.tflite", *shared)
    run("train", "p.tflite", "d.npz", "-o", "b.tflite", *shared)
    assert files_of("a") == files_of("b")
    assert (result["samples"], result["rehearsal_samples"]) == (20, 12)
    measured = result_of("evaluate", "a.tflite", "d.npz", "--runtime", "litert")
    assert result["evaluated_on"] == "new.npz and old.npz"
    assert result["accuracy"] == pytest.approx(measured["accuracy"])


@pytest.mark.parametrize("algorithm", ["node", "weight"])
def test_held_out(algorithm: str, folder: Path) -> None:
    """The held-out samples, some of each class, select the best state; rehearsed samples count like new ones."""
    with np.load("d.npz") as data:
        x, y = data["x"], data["y"]
    np.savez("new.npz", x=x[:12], y=y[:12])
    np.savez("old.npz", x=x[12:], y=y[12:])
    shared = ("--algorithm", algorithm, "--runtime", "litert", "--epochs", 2)
    result = result_of(
        *("train", "p.tflite", "new.npz", "--rehearsal", "old.npz", "-o", "a.tflite", "--held-out", 0.25), *shared
    )
    assert result["evaluated_on"] == "8 samples of new.npz and old.npz, held out"
    judged = held_out_samples(y, read_metadata(load_model("a.zo.tflite")).loss, 0.25, 0)
    assert len(judged) == 8 and set(y[judged]) == set(y)
    new = 12 - int((judged < 12).sum())
    assert (result["samples"], result["rehearsal_samples"]) == (new, 24 - new)
    rest = np.setdiff1d(np.arange(32), judged)
    np.savez("rest.npz", x=x[rest], y=y[rest])
    np.savez("judged.npz", x=x[judged], y=y[judged])
    known = result_of("train", "p.tflite", "rest.npz", "-o", "b.tflite", "--validation", "judged.npz", *shared)
    assert files_of("a") == files_of("b")
    for name in ("before", "loss", "accuracy", "measurements", "kept_step"):
        assert result[name] == known[name]


@pytest.mark.parametrize("algorithm", ["node", "weight"])
def test_a_fifth_is_held_out_by_default(algorithm: str, folder: Path) -> None:
    shared = ("train", "p.tflite", "d.npz", "--algorithm", algorithm, "--epochs", 2)
    said = run(*shared, "-o", "a.tflite").stderr
    assert "6 of 32 samples are held out and tell the best weights; --held-out 0 trains on all\n" in said
    result = result_of(*shared, "-o", "b.tflite", "--held-out", 0.2)
    assert files_of("a") == files_of("b")
    assert result["evaluated_on"] == "6 samples of d.npz, held out"


@pytest.mark.parametrize("options", [("--keep", "last"), ("--validation", "d.npz")])
def test_all_samples_are_trained_on_where_none_are_needed(options: tuple[str, ...], folder: Path) -> None:
    done = run("train", "p.tflite", "d.npz", "-o", "a.tflite", "--epochs", 1, "--json", *options)
    assert json.loads(done.stdout)["samples"] == 32
    assert "--held-out 0" not in done.stderr


def test_too_few_samples_are_all_trained_on(folder: Path) -> None:
    """Of a class with one sample none is left to train on, or none to measure."""
    with np.load("d.npz") as data:
        np.savez("few.npz", x=data["x"], y=[3] + [0, 1] * 15 + [2])
    shared = ("train", "p.tflite", "few.npz", "--steps", 3, "--algorithm", "node")
    said = run(*shared, "-o", "a.tflite").stderr
    assert "32 samples are too few to hold some of every class out: the best weights are told by" in said
    result = result_of(*shared, "-o", "b.tflite", "--held-out", 0)
    assert files_of("a") == files_of("b")
    assert (result["samples"], result["evaluated_on"]) == (32, "few.npz")


@pytest.mark.parametrize("keep", ["best", "last"])
def test_it_says_that_it_was_measured_on_a_part(folder: Path, keep: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_data, "_MOST_SAMPLES", 10)
    shared = ("--steps", 2, "--keep", keep, "--held-out", 0)
    result = result_of("train", "p.tflite", "d.npz", "-o", "a.tflite", *shared)
    assert result["evaluated_on"] == "10 of the 32 samples of d.npz"
    assert result["accuracy"] * 10 == pytest.approx(round(result["accuracy"] * 10))


@pytest.mark.parametrize(
    "accuracies, losses, kept, passes",
    [
        ((0.5, 0.4, 0.5), (3.0, 1.0, 2.0), 2, True),
        ((0.5, 0.4), (3.0, 1.0), 0, True),
        ((0.5, 0.4), (3.0, 4.0), 0, False),
        ((0.5, 0.6), (3.0, 1.0), 1, False),
        (None, (3.0, 1.0), 1, False),  # the mean squared error
    ],
)
def test_why_a_smaller_loss_was_not_kept(
    accuracies: tuple[float, ...] | None, losses: tuple[float, ...], kept: int, passes: bool
) -> None:
    measurements = [{"step": i, "loss": loss} for i, loss in enumerate(losses)]
    for m, accuracy in zip(measurements, accuracies or (), strict=False):
        m["accuracy"] = accuracy
    said = passed_over(measurements, losses[kept])
    assert ("a smaller loss came with fewer right outputs" in said) == passes


ONE = "samples of 1 of 4 classes; missing: 0, 1, 3"


@pytest.fixture
def one_class(folder: Path) -> Path:
    """Makes one.npz, 40 samples of class 2; others.npz, of the other classes; all.npz, of all."""
    rng = np.random.default_rng(0)
    x = rng.uniform(-1.9, 1.9, (120, 8, 8, 1)).astype(np.float32)
    y = np.array([2] * 40 + [0, 1, 3] * 20 + [0, 1, 2, 3] * 5)
    for name, rows in (("one", slice(0, 40)), ("others", slice(40, 100)), ("all", slice(100, 120))):
        np.savez(f"{name}.npz", x=x[rows], y=y[rows])
    return folder


TRAIN = ("train", "p.tflite", "one.npz", "--epochs", 3)


def test_one_class_is_no_success(one_class: Path) -> None:
    done = run(*TRAIN, "-o", "a.tflite")
    said = " ".join(done.stderr.split())
    assert said.count(ONE) == 1
    assert said.index(ONE) < said.index("trains ")  # before the first step
    assert "%" not in done.stdout
    assert " val" not in said.split("trains ")[1].split("warning")[0]  # nor in the bar
    assert "nothing shows that a.tflite is better than p.tflite" in said
    result = result_of(*TRAIN, "-o", "b.tflite")
    assert result["missing_classes"] == ["0", "1", "3"]
    assert "accuracy" not in result and "accuracy" not in result["before"]
    assert not any("accuracy" in m for m in result["measurements"])
    assert "val_accuracy" not in result["history"]


def test_rehearsed_classes_are_measured(one_class: Path) -> None:
    done = run(*TRAIN, "-o", "a.tflite", "--rehearsal", "others.npz")
    assert "missing" not in done.stderr and "nothing shows" not in done.stderr
    result = result_of(*TRAIN, "-o", "b.tflite", "--rehearsal", "others.npz")
    assert result["evaluated_on"] == "24 samples of one.npz and others.npz, held out in 3 parts by chance"
    assert result["missing_classes"] == []
    assert result["accuracy"] >= result["before"]["accuracy"]
    assert (result["samples"], result["rehearsal_samples"]) == (40, 60)


def test_validation_of_all_classes_tells_the_best_weights(one_class: Path) -> None:
    done = run(*TRAIN, "-o", "a.tflite", "--validation", "all.npz")
    assert ONE in done.stderr and "nothing shows" not in done.stderr
    result = result_of(*TRAIN, "-o", "b.tflite", "--validation", "all.npz")
    assert result["accuracy"] >= result["before"]["accuracy"]


def test_validation_without_a_class(one_class: Path) -> None:
    done = run("train", "p.tflite", "all.npz", "-o", "a.tflite", "--epochs", 1, "--validation", "one.npz")
    said = " ".join(done.stderr.split())
    assert f"the validation data have {ONE}" in said and "the training data" not in said
    assert "nothing shows that a.tflite is better" in said


def test_last_weights_that_are_worse(one_class: Path) -> None:
    done = run(
        *("train", "p.tflite", "one.npz", "-o", "a.tflite", "--validation", "others.npz", "--keep", "last"),
        *("--learning-rate", 8, "--epochs", 20),
    )
    said = " ".join(done.stderr.split())
    assert "warning: the result is worse than MODEL on others.npz: accuracy" in said
    assert "Use --keep best" in said


def test_python_warns(one_class: Path) -> None:
    trainer = Trainer(inject_all(MODELS["small_cnn"]()), Settings(tasks=(Weights(),), batch_size=8))
    with pytest.warns(DataWarning, match=ONE):
        history = trainer.fit("one.npz", steps=1, validation_data="one.npz")
    assert "val_accuracy" not in history.history and "accuracy" not in history.measurements[0]
    assert "accuracy" in trainer.evaluate("one.npz")  # of a class, which somebody asks for


@pytest.mark.parametrize(
    ("labels", "present", "missing", "constant"),
    [
        ([[0, 1], [1, 1]], 3, ("0 of output 1",), False),
        ([[0, 1], [0, 1]], 2, ("1 of output 0", "0 of output 1"), True),
        ([[0, -1], [-1, 1]], 2, ("1 of output 0", "0 of output 1"), True),
        ([[0, 1], [1, 0]], 4, (), False),
    ],
)
def test_binary_outputs(labels: list[list[int]], present: int, missing: tuple[str, ...], constant: bool) -> None:
    model = inject_all(MODELS["small_cnn"](), loss="binary_cross_entropy")
    loss = read_metadata(model).loss
    assert loss is not None and loss.elements == 4
    y = np.array([[*row, *row] for row in labels], np.int32)
    found = covered(Data([np.zeros((len(y), 1))], y), loss)
    assert (found.present, found.constant) == (2 * present, constant)
    assert len(found.missing) == 2 * len(missing) and set(missing) <= set(found.missing)


def test_targets_and_many_classes() -> None:
    targets = read_metadata(inject_all(MODELS["autoencoder"]())).loss
    assert targets is not None
    assert not covered(Data([np.zeros((3, 1))], np.zeros((3, targets.elements), np.int8)), targets).constant
    loss = read_metadata(inject_all(MODELS["small_cnn"]())).loss
    assert loss is not None
    of_many = type(loss)(kind="cross_entropy", elements=1000, scale=0.1, zero_point=0)
    found = covered(Data([np.zeros((3, 1))], np.array([5, 1, -1], np.int32)), of_many)
    assert found.sentence == "2 of 1000 classes; missing: 0, 2, 3, 4, 6, 7, 8, 9, 10, 11 and 988 more"
