"""The samples of a run: `fit` holds out, mixes in and counts as the command line does, in any order of the samples."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers.commands import result_of
from helpers.injection import inject_all
from helpers.models import MODELS
from tflm_zo.converters import read_metadata
from tflm_zo.data import Data
from tflm_zo.training import SettingsError, Trainer
from tflm_zo.training.length import usual_epochs
from tflm_zo.training.run_data import held_out_samples, hold_out, usual_held_out_samples

RNG = np.random.default_rng(8)


def samples(count: int) -> tuple[Any, Any]:
    y = np.arange(count) % 4
    return (RNG.integers(-60, 60, (count, 8, 8, 1)) + 15 * y[:, None, None, None]).astype(np.int8), y


X, Y = samples(40)
OLD_X, OLD_Y = samples(10)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("model.tflite").write_bytes(MODELS["small_cnn"]())
    np.savez("data.npz", x=X, y=Y)
    np.savez("old.npz", x=OLD_X, y=OLD_Y)
    return tmp_path


@pytest.mark.parametrize(
    ("options", "arguments"),
    [
        ((), {"validation_split": "auto", "epochs": "auto"}),
        (("--held-out", "0.4", "--epochs", "2"), {"validation_split": 0.4, "epochs": 2}),
        (
            ("--rehearsal", "old.npz", "--steps", "5"),
            {"rehearsal": (OLD_X, OLD_Y), "validation_split": "auto", "steps": 5},
        ),
        (("--validation", "old.npz", "--epochs", "1"), {"validation_data": "old.npz", "epochs": 1}),
        (("--held-out", "0", "--epochs", "1"), {"epochs": 1}),
        (("--keep", "last", "--epochs", "1"), {"epochs": 1, "keep": "last"}),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_fit_makes_the_model_of_the_command(options: tuple[str, ...], arguments: dict[str, Any], folder: Path) -> None:
    found = result_of("train", "model.tflite", "data.npz", "-o", "a.tflite", "--algorithm", "node", *options)
    trainer = Trainer("a.zo.tflite")
    history = trainer.fit(X, Y, **arguments)
    assert trainer.export().to_bytes() == Path("a.tflite").read_bytes()
    assert history.measurements == found["measurements"]
    assert trainer.data is not None
    assert (trainer.data.samples, trainer.step) == (found["samples"], found["steps"])


def test_what_is_trained_and_what_is_held_out() -> None:
    trainer = Trainer(MODELS["small_cnn"]())
    trainer.fit(X, Y, steps=1, validation_split=0.25, rehearsal=(OLD_X, OLD_Y))
    data = trainer.data
    assert data is not None and data.validation is not None
    assert (len(data.train), len(data.validation), data.held_out) == (38, 12, 12)  # of 50
    every = {x.tobytes() for x in (*X, *OLD_X)}
    train, judged = ({x.tobytes() for x in part.inputs[0]} for part in (data.train, data.validation))
    assert train | judged == every and not train & judged
    assert data.samples == sum(x.tobytes() in {own.tobytes() for own in X} for x in data.train.inputs[0])


def test_too_few_of_a_class() -> None:
    trainer = Trainer(MODELS["small_cnn"]())
    trainer.fit(X[:5], Y[:5], epochs="auto", validation_split="auto", keep="last")
    assert trainer.data is not None and trainer.data.too_few and trainer.data.validation is None
    assert trainer.step == usual_epochs(trainer.settings, 5)


def test_refused() -> None:
    trainer = Trainer(MODELS["small_cnn"]())
    with pytest.raises(ValueError, match="`validation_data` must"):
        trainer.fit(X, Y, validation_data=(X, Y), validation_split=0.2)
    with pytest.raises(
        SettingsError, match="`held_out` must divide the 40 labelled samples into two parts that are not empty"
    ):
        trainer.fit(X, Y, validation_split=0.001)
    assert trainer.forwards == 0


CLASSES = read_metadata(inject_all(MODELS["small_cnn"]())).loss
TARGETS = read_metadata(inject_all(MODELS["autoencoder"]())).loss


@given(
    labels=st.lists(st.integers(-1, 3), min_size=8, max_size=80),
    share=st.floats(0.05, 0.95),
    seed=st.integers(0, 2**32 - 1),
)
def test_every_class_has_its_share(labels: list[int], share: float, seed: int) -> None:
    y = np.array(labels, np.int32)
    labelled = int((y >= 0).sum())
    wanted = round(share * labelled)
    if not 0 < wanted < labelled:
        with pytest.raises(SettingsError, match="`held_out` must divide the"):
            held_out_samples(y, CLASSES, share, seed)
        return
    judged = held_out_samples(y, CLASSES, share, seed)
    assert len(judged) == wanted and (np.diff(judged) > 0).all()
    assert (y[judged] >= 0).all()  # an unlabelled sample judges nothing
    for label in range(4):
        count = (y == label).sum()
        assert abs((y[judged] == label).sum() - count * wanted / labelled) <= 1
    np.testing.assert_array_equal(judged, held_out_samples(y, CLASSES, share, seed))


def test_the_seed_chooses() -> None:
    y = np.arange(400, dtype=np.int32) % 4
    first, second = (held_out_samples(y, CLASSES, 0.25, seed) for seed in (1, 2))
    # By chance a quarter of a hundred samples are in both: 25, deviation 3.8 without replacement.
    assert 8 < len(np.intersect1d(first, second)) < 42


def test_both_sides_keep_their_order() -> None:
    x, y = np.arange(20, dtype=np.int8).reshape(20, 1), np.arange(20, dtype=np.int32) % 4
    train, judge = hold_out(Data([x], y), held_out_samples(y, CLASSES, 0.3, 5))
    for part in (train, judge):
        assert (np.diff(part.inputs[0].ravel()) > 0).all()
        np.testing.assert_array_equal(part.inputs[0].ravel() % 4, part.labels)
    assert len(judge) == 6
    assert sorted([*train.inputs[0].ravel(), *judge.inputs[0].ravel()]) == list(range(20))


def test_targets_have_no_classes() -> None:
    y = np.zeros((10, 4), np.int8)
    assert len(held_out_samples(y, TARGETS, 0.4, 0)) == 4


@pytest.mark.parametrize("share", [0.0, 1.0, -0.1, 1.5, float("nan")])
def test_shares_that_leave_nothing(share: float) -> None:
    with pytest.raises(SettingsError, match="held_out"):
        held_out_samples(np.zeros(10, np.int32), CLASSES, share, 0)


@pytest.mark.parametrize(
    ("labels", "held_out"),
    [
        ([0, 1, 2, 3] * 5, 4),
        ([0, 1, 2, 3] * 5 + [-1] * 30, 4),  # a sample without a label judges nothing
        ([0, 1] * 64, 26),
        ([0] * 19 + [1], None),  # one sample cannot be on both sides
        ([0, 1, 2, 3], None),  # one of four would be held out
        ([0, 0], None),  # none would
        ([-1] * 20, None),
    ],
)
def test_every_class_is_on_both_sides(labels: list[int], held_out: int | None) -> None:
    y = np.array(labels, np.int32)
    numbers = usual_held_out_samples(y, CLASSES, 3)
    if held_out is None:
        assert numbers is None
        return
    assert numbers is not None
    train, judged = hold_out(Data([np.arange(len(y), dtype=np.int8).reshape(-1, 1)], y), numbers)
    assert (len(train), len(judged)) == (len(y) - held_out, held_out)
    assert set(judged.labels) == set(train.labels) - {-1} == set(labels) - {-1}


def test_targets_need_one_sample_on_each_side() -> None:
    for samples, held_out in ((2, None), (3, 1), (10, 2)):
        numbers = usual_held_out_samples(np.zeros((samples, 4), np.int8), TARGETS, 0)
        assert (None if numbers is None else len(numbers)) == held_out
