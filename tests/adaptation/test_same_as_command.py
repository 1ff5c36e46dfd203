"""`zo.adapt` and `zo.evaluate` against the commands: the same bits for the same options."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tflm_zo as zo
from helpers.commands import files_of, result_of, run
from helpers.injection import inject_all
from helpers.models import MODELS
from helpers.runs import random_samples

node, weight = zo.algorithms.node, zo.algorithms.weight

STEPS = ("--steps", 6)

#: Options of the command, and arguments of the function.
OPTIONS: dict[str, tuple[tuple[Any, ...], dict[str, Any]]] = {
    "bare": ((), {}),
    "seed": ((*STEPS, "--algorithm", "node", "--set", "seed=7"), {"settings": node(seed=7), "steps": 6}),
    "steps": (STEPS, {"steps": 6}),
    "epochs": (("--epochs", 3), {"epochs": 3}),
    "budget": (("--budget", 900), {"budget": 900}),
    "weights": ((*STEPS, "--algorithm", "weight"), {"settings": "weight", "steps": 6}),
    "minibatch": ((*STEPS, "--algorithm", "weight", "--batch-size", 8), {"settings": weight(batch_size=8), "steps": 6}),
    "rate and schedule": (
        (*STEPS, "--algorithm", "node", "--learning-rate", 2, "--set", "schedule=step", "--set", "decay-steps=2"),
        {"settings": node(learning_rate=2, schedule=zo.Step(every=2)), "steps": 6},
    ),
    "layers": (
        (*STEPS, "--algorithm", "weight", "--set", "layers=fc"),
        {"settings": weight(layers=("fc",)), "steps": 6},
    ),
    "settings of inject": ((*STEPS, "--set", "update-bits=8"), {"inject": {"update_bits": 8}, "steps": 6}),
    "held out": ((*STEPS, "--held-out", 0.25), {"validation_split": 0.25, "steps": 6}),
    "all trained": ((*STEPS, "--held-out", 0), {"validation_split": 0.0, "steps": 6}),
    "last": ((*STEPS, "--keep", "last"), {"keep": "last", "steps": 6}),
    "validation": ((*STEPS, "--validation", "other.npz"), {"validation_data": Path("other.npz"), "steps": 6}),
    "rehearsal": ((*STEPS, "--rehearsal", "other.npz"), {"rehearsal": Path("other.npz"), "steps": 6}),
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Makes the working directory, with a plain model that keeps no statistics, and samples."""
    monkeypatch.chdir(tmp_path)
    Path("p.tflite").write_bytes(MODELS["small_cnn"]())
    for seed, name in enumerate(("d", "other")):
        x, y = random_samples(seed, 48)
        np.savez(f"{name}.npz", x=x, y=y)
    return tmp_path


def adapted(name: str, model: Any, **arguments: Any) -> list[bytes]:
    """Returns trained model, log and ZO model of `zo.adapt` on the samples as arrays."""
    with np.load("d.npz") as data:
        x, y = data["x"], data["y"]
    is_plain = model != "m.zo.tflite"
    kept = {"zo_model": f"{name}.zo.tflite"} if is_plain else {}
    found = zo.adapt(model, x, y, log=f"{name}.zolog", **kept, **arguments)
    found.save(f"{name}.tflite")
    if not is_plain:
        Path(f"{name}.zo.tflite").write_bytes(found.trainer.model.to_bytes())
    return files_of(name)


@pytest.mark.parametrize("options", OPTIONS)
def test_same_files(options: str, folder: Path) -> None:
    given, arguments = OPTIONS[options]
    run("train", "p.tflite", "d.npz", "-o", "command.tflite", *given)
    assert adapted("python", "p.tflite", **arguments) == files_of("command")


def test_same_files_of_a_zo_model(folder: Path) -> None:
    inject_all(MODELS["small_cnn"](), batch=8).save("m.zo.tflite")
    run("train", "m.zo.tflite", "d.npz", "-o", "command.tflite", *STEPS)
    assert adapted("python", "m.zo.tflite", steps=6)[:2] == [
        Path(f"command{end}").read_bytes() for end in (".tflite", ".zolog")
    ]


@pytest.mark.parametrize(("option", "wanted"), [("", None), ("--as-is", False), ("--recalibrate", True)])
def test_same_files_of_a_model_that_keeps_statistics(option: str, wanted: bool | None, folder: Path) -> None:
    run("recalibrate", "p.tflite", "other.npz", "--source", "other.npz", "-o", "kept.tflite")
    with np.load("d.npz") as data:
        np.savez("d.npz", x=data["x"] // 2 + 20, y=data["y"])
    run("train", "kept.tflite", "d.npz", "-o", "command.tflite", *STEPS, *option.split())
    assert adapted("python", "kept.tflite", steps=6, recalibrate=wanted) == files_of("command")


def test_same_files_of_a_resumed_run(folder: Path) -> None:
    train = ("train", "p.tflite", "d.npz", "-o", "command.tflite", "--algorithm", "weight", *STEPS)
    run(*train)
    whole = Path("command.zolog").read_bytes()
    for name in ("command", "python"):
        Path(f"{name}.zolog").write_bytes(whole[: len(whole) * 2 // 3])
    Path("python.zo.tflite").write_bytes(Path("command.zo.tflite").read_bytes())
    run(*train, "--resume")
    assert adapted("python", "p.tflite", settings="weight", steps=6, resume=True) == files_of("command")
    assert Path("command.zolog").read_bytes() == whole


def test_same_result(folder: Path) -> None:
    said = result_of("train", "p.tflite", "d.npz", "-o", "command.tflite", *STEPS)
    found = zo.adapt("p.tflite", Path("d.npz"), steps=6)
    assert found.after == {"loss": said["loss"], "accuracy": said["accuracy"]}
    assert found.before == said["before"] and found.history.kept_step == said["kept_step"]
    assert found.trained.weights == said["trainable_weights"]
    assert found.parts is not None and f"{found.parts.held_out} samples" in said["evaluated_on"]
    measured = zo.evaluate(found.model, Path("other.npz"))
    found.save("python.tflite")
    said = result_of("evaluate", "python.tflite", "other.npz")
    assert (measured.loss, measured.accuracy, measured.samples) == (said["loss"], said["accuracy"], said["samples"])


def test_a_result_that_is_worse(folder: Path) -> None:
    """Training unlearns the answers that it is measured on."""
    x, _ = random_samples(0, 48)
    answers = zo.Trainer("p.tflite").predict(x).argmax(1)
    last, best = (
        zo.adapt("p.tflite", x, (answers + 1) % 4, steps=40, validation_data=(x, answers), keep=keep)
        for keep in ("last", "best")
    )
    assert last.before is not None and last.after is not None and best.after is not None
    assert last.before["accuracy"] == best.after["accuracy"] == 1.0 > last.after["accuracy"]
    assert last.is_worse and not last.is_unchanged
    assert best.is_unchanged and not best.is_worse
