"""Samples that a run rehearses, holds out and is measured on."""

import json
from pathlib import Path

import numpy as np
import pytest

from helpers.commands import files_of, result_of, run
from tflm_zo.cli.training_report import passed_over
from tflm_zo.converters import load_model, read_metadata
from tflm_zo.training import run_data
from tflm_zo.training.run_data import held_out_samples


@pytest.mark.parametrize("algorithm", ["node", "weight"])
def test_rehearsal(algorithm: str, folder: Path) -> None:
    """Compares with training on both files' samples, which also select the best state."""
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
    """Trains on the remaining samples; the others, some of each class, select its best state. Samples that
    are rehearsed count like new ones.
    """
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


@pytest.mark.parametrize(
    "options",
    [
        ("--keep", "last"),
        ("--validation", "d.npz"),
        ("--choose-block", 1, "--algorithm", "poor-mans-training", "--batch-size", 8),
    ],
)
def test_all_samples_are_trained_on_where_none_are_needed(options: tuple[str, ...], folder: Path) -> None:
    done = run("train", "p.tflite", "d.npz", "-o", "a.tflite", "--epochs", 1, "--json", *options)
    assert json.loads(done.stdout)["samples"] == 32
    assert "--held-out 0" not in done.stderr


def test_too_few_samples_are_all_trained_on(folder: Path) -> None:
    """Of a class with one sample none is left to train on, or none to measure."""
    with np.load("d.npz") as data:
        np.savez("few.npz", x=data["x"], y=[3] + [0, 1] * 15 + [2])
    shared = ("train", "p.tflite", "few.npz", "--steps", 3)
    said = run(*shared, "-o", "a.tflite").stderr
    assert "32 samples are too few to hold some of every class out: the best weights are told by" in said
    result = result_of(*shared, "-o", "b.tflite", "--held-out", 0)
    assert files_of("a") == files_of("b")
    assert (result["samples"], result["evaluated_on"]) == (32, "few.npz")


def test_held_out_refused(folder: Path) -> None:
    before = sorted(folder.iterdir())
    for options, said in (
        ((0.5, "--validation", "d.npz"), "`--held-out` must be left out with --validation"),
        ((0.01,), "`--held-out` must divide the 32 labelled samples"),
        ((-0.1,), "`--held-out` must be in 0..1"),
        ((1.5,), "`--held-out` must be in 0..1"),
    ):
        done = run("train", "p.tflite", "d.npz", "-o", "a.tflite", "--held-out", *options, code=1)
        assert said in done.stderr
        assert len(done.stderr.strip().splitlines()) == 1
    assert sorted(folder.iterdir()) == before


@pytest.mark.parametrize("keep", ["best", "last"])
def test_it_says_that_it_was_measured_on_a_part(folder: Path, keep: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_data, "_MOST_SAMPLES", 10)
    shared = ("--steps", 2, "--keep", keep, "--held-out", 0)
    result = result_of("train", "p.tflite", "d.npz", "-o", "a.tflite", *shared)
    assert result["evaluated_on"] == "10 of the 32 samples of d.npz"
    assert result["accuracy"] * 10 == pytest.approx(round(result["accuracy"] * 10))


def test_rehearsal_refused(folder: Path) -> None:
    before = sorted(folder.iterdir())
    np.savez("wide.npz", x=np.zeros((4, 9, 9, 1), np.int8), y=np.zeros(4, int))
    for name, said in (("none.npz", "none.npz"), ("wide.npz", "wide.npz: `x` must have samples of shape")):
        done = run("train", "p.tflite", "d.npz", "--rehearsal", name, "-o", "a.tflite", code=1)
        assert said in done.stderr
        assert len(done.stderr.strip().splitlines()) == 1
    Path("wide.npz").unlink()
    assert sorted(folder.iterdir()) == before


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
