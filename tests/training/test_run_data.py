# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""The samples of a run: `fit` holds out, mixes in and counts as the command line does."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from helpers.commands import result_of
from helpers.models import MODELS
from tflm_zo.training import SettingsError, Trainer
from tflm_zo.training.length import usual_epochs

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
def test_fit_makes_the_model_of_the_command(
    options: tuple[str, ...], arguments: dict[str, Any], folder: Path
) -> None:
    found = result_of("train", "model.tflite", "data.npz", "-o", "a.tflite", *options)
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
    assert trainer.step == usual_epochs(5, trainer.settings.batch_size)


def test_refused() -> None:
    trainer = Trainer(MODELS["small_cnn"]())
    with pytest.raises(ValueError, match="validation_data, validation_split: give one of them"):
        trainer.fit(X, Y, validation_data=(X, Y), validation_split=0.2)
    with pytest.raises(SettingsError, match="expected a share that leaves samples to train on"):
        trainer.fit(X, Y, validation_split=0.001)
    assert trainer.forwards == 0
