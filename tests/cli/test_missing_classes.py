"""Data without samples of some class: a run says so, and calls nothing a success that it cannot measure."""

from pathlib import Path

import numpy as np
import pytest

from helpers.commands import result_of, run
from helpers.injection import inject_all
from helpers.models import MODELS
from tflm_zo.converters import read_metadata
from tflm_zo.data import Data, DataWarning
from tflm_zo.training import Settings, Trainer, Weights
from tflm_zo.training.run_data import covered

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
    assert "accuracy" not in done.stdout
    assert "val" not in said.split("trains ")[1].split("warning")[0]  # nor in the bar
    assert "nothing shows that a.tflite is better than p.tflite" in said
    result = result_of(*TRAIN, "-o", "b.tflite")
    assert result["missing_classes"] == ["0", "1", "3"]
    assert "accuracy" not in result and "accuracy" not in result["before"]
    assert not any("accuracy" in m for m in result["measurements"])
    assert "val_accuracy" not in result["history"]


def test_rehearsed_classes_are_measured(one_class: Path) -> None:
    """Measures all classes: the held-out samples have the old ones, too, so losses on them count."""
    done = run(*TRAIN, "-o", "a.tflite", "--rehearsal", "others.npz")
    assert "missing" not in done.stderr and "nothing shows" not in done.stderr
    result = result_of(*TRAIN, "-o", "b.tflite", "--rehearsal", "others.npz")
    assert result["evaluated_on"] == "20 samples of one.npz and others.npz, held out"
    assert result["missing_classes"] == []
    assert result["accuracy"] >= result["before"]["accuracy"]
    assert (result["samples"], result["rehearsal_samples"]) == (32, 48)


def test_validation_of_all_classes_tells_the_best_weights(one_class: Path) -> None:
    """Reports training on one class; the weights kept are right as often as the first ones."""
    done = run(*TRAIN, "-o", "a.tflite", "--validation", "all.npz")
    assert ONE in done.stderr and "nothing shows" not in done.stderr
    result = result_of(*TRAIN, "-o", "b.tflite", "--validation", "all.npz")
    assert result["accuracy"] >= result["before"]["accuracy"]


def test_validation_without_a_class(one_class: Path) -> None:
    done = run("train", "p.tflite", "all.npz", "-o", "a.tflite", "--epochs", 1, "--validation", "one.npz")
    said = " ".join(done.stderr.split())
    assert f"the validation data have {ONE}" in said and "the training data" not in said
    assert "nothing shows that a.tflite is better" in said


def test_blocks_warn_before_their_probes(one_class: Path) -> None:
    done = run(
        *(*TRAIN, "-o", "a.tflite", "--choose-block", 1, "--algorithm", "poor-mans-training"),
        *("--batch-size", 8, "--rehearsal", "one.npz"),
    )
    said = " ".join(done.stderr.split())
    assert said.count(ONE) == 1 and said.index(ONE) < said.index("trains ")


def test_last_weights_that_are_worse(one_class: Path) -> None:
    """Trains one class for a long time, measured on all of them."""
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
    """Each output has two classes."""
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
