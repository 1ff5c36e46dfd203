"""Callbacks: their events, in order, and the behaviour of the package's own."""

import csv
import dataclasses
import io
from typing import Any

import numpy as np
import pytest
from rich.console import Console

from helpers.weight_runs import SETTINGS, X, Y, zo_model
from tflm_zo.io.files import NewFile
from tflm_zo.training import Callback, CSVLogger, EarlyStopping, ProgressBar, RunProgress, Trainer


def test_csv(tmp_path):
    trainer = Trainer(zo_model(), SETTINGS)
    history = trainer.fit(
        X, Y, epochs=3, validation_data=(X, Y), callbacks=[CSVLogger(tmp_path / "log.csv")], keep="last"
    )
    with open(tmp_path / "log.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row.pop("epoch") for row in rows] == ["0", "1", "2"]
    for i, row in enumerate(rows):
        assert {k: float(v) for k, v in row.items()} == {k: v[i] for k, v in history.history.items()}
    assert history.history["loss"] == pytest.approx(np.mean(np.reshape(history.steps, (3, 3)), 1).tolist())


def test_a_table_is_replaced_when_what_is_kept_of_it_is_written(tmp_path, monkeypatch):
    path = tmp_path / "log.csv"
    path.write_text("old")
    monkeypatch.setattr(NewFile, "publish", lambda *_, **__: path.write_text("old, still"))
    Trainer(zo_model(), SETTINGS).fit(X, Y, callbacks=[CSVLogger(path)], keep="last")
    assert path.read_text() == "old, still" and list(tmp_path.iterdir()) == [path]


def test_early_stopping():
    trainer = Trainer(zo_model(), SETTINGS)
    stopping = EarlyStopping("loss", patience=2, min_delta=100.0)
    for _ in range(2):  # it forgets the run before
        history = trainer.fit(X, Y, epochs=10, callbacks=[stopping], keep="last")
        assert len(history.history["loss"]) == 3
    with pytest.raises(ValueError, match="`monitor` must be one of loss, rate"):
        trainer.fit(X, Y, epochs=2, callbacks=[EarlyStopping("val_accuracy")], keep="last")
    with pytest.raises(ValueError, match="patience"):
        EarlyStopping(patience=0)


def test_progress_bar():
    text = io.StringIO()
    bar = ProgressBar(Console(file=text, force_terminal=True, width=120))
    trainer = Trainer(zo_model(), dataclasses.replace(SETTINGS, learning_rate=1.0))  # measures none
    trainer.fit(X, Y, epochs=2, validation_data=(X, Y), callbacks=[bar], keep="last")
    output = text.getvalue()
    assert "equivalents/s" in output and "/6" in output and "val " in output
    # Six steps of two queries, two passes of 8 samples each.
    assert "192 equivalents" in output


@pytest.mark.filterwarnings("error")
def test_a_notebook_without_widgets_gets_a_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("rich.console._is_jupyter", lambda: True)
    trainer = Trainer(zo_model(), SETTINGS)
    trainer.fit(X[:16], Y[:16], steps=3, callbacks=[ProgressBar()], keep="last")
    assert "3/3" in capsys.readouterr().err


def test_what_callbacks_are_told():
    calls: list[Any] = []

    class Tell(Callback):
        def on_train_begin(self, progress: RunProgress) -> None:
            calls.append(("begin", progress.step, progress.total))

        def on_step_end(self, progress: RunProgress, logs: dict[str, float]) -> None:
            calls.append(("step", progress.step, progress.epoch, sorted(logs)))

        def on_epoch_end(self, progress: RunProgress, logs: dict[str, float]) -> None:
            calls.append(("epoch", progress.epoch, sorted(logs)))

        def on_train_end(self, progress: RunProgress) -> None:
            calls.append(("end", progress.step))

    Trainer(zo_model(), SETTINGS).fit(X[:16], Y[:16], steps=3, callbacks=[Tell()], keep="last")
    assert calls == [
        ("begin", 0, 3),
        ("step", 1, 0, ["loss", "rate"]),
        ("step", 2, 0, ["loss", "rate"]),
        ("epoch", 0, ["equivalents", "loss", "rate"]),
        ("step", 3, 1, ["loss", "rate"]),
        ("epoch", 1, ["equivalents", "loss", "rate"]),
        ("end", 3),
    ]
