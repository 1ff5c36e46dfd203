"""train, replay, verify: files, exit codes, and the same bits."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from helpers.commands import invoke
from helpers.injection import inject_all
from helpers.interpreters import require
from helpers.models import MODELS
from tflm_zo.converters import export_model
from tflm_zo.core import Control, SparseUniform
from tflm_zo.logs import Log
from tflm_zo.training import Settings, Step, Weights
from tflm_zo.training.lowering import weight_integers
from tflm_zo.training.rules import Gradient


@pytest.fixture
def files(zo_folder: Path) -> Path:
    return zo_folder


def run(folder: Path, *arguments: str) -> Any:
    paths = [str(folder / a[1:]) if a.startswith("@") else a for a in arguments]
    return invoke(*paths)


TRAIN = ("train", "@m.zo.tflite", "@d.npz", "--batch-size", "16", "--steps", "12", "--json")


def test_train_and_replay(files: Path) -> None:
    done = run(files, *TRAIN, "-o", "@a.tflite", "--validation", "@d.npz", "--csv", "@h.csv")
    assert done.exit_code == 0, done.output
    result = json.loads(done.stdout)
    assert result["steps"] == 12
    assert result["forwards"] == 12 * 2 * 16
    assert 0 <= result["accuracy"] <= 1
    assert (files / "h.csv").read_text().startswith("epoch,loss")
    done = run(files, "replay", "@m.zo.tflite", "@a.zolog", "-o", "@b.tflite", "--json")
    assert done.exit_code == 0, done.output
    replayed = json.loads(done.stdout)
    assert (replayed["steps"], replayed["whole_steps"]) == (result["kept_step"], 12)
    assert (files / "a.tflite").read_bytes() == (files / "b.tflite").read_bytes()


def test_json_has_every_figure(files: Path) -> None:
    done = run(
        *(files, *TRAIN, "-o", "@a.tflite", "--validation", "@d.npz", "--set", "queries=3"), *("--learning-rate", "2")
    )
    result = json.loads(done.stdout)
    history = result.pop("history")
    assert history.keys() == {"loss", "rate", "equivalents", "val_loss", "val_accuracy"}
    assert [len(values) for values in history.values()] == [6] * 5  # 12 steps, 2 to an epoch
    # Every forward pass is a whole one.
    assert history["equivalents"] == [2 * epoch * 2 * 3 * 16 for epoch in range(1, 7)]
    assert result.pop("seconds") > 0
    assert result.pop("equivalents_per_second") > 0
    measurements, before, kept = (result.pop(name) for name in ("measurements", "before", "kept_step"))
    assert [m["step"] for m in measurements] == [0, 2, 4, 6, 8, 10, 12]
    assert [m["loss"] for m in measurements[1:]] == history["val_loss"]
    assert [m["accuracy"] for m in measurements[1:]] == history["val_accuracy"]
    right = [m for m in measurements if m["accuracy"] >= measurements[0]["accuracy"]]
    best = min(right, key=lambda m: m["loss"])
    assert kept == best["step"] and before == {k: v for k, v in measurements[0].items() if k != "step"}
    assert result == {
        "output": str(files / "a.tflite"),
        "log": str(files / "a.zolog"),
        "zo_model": str(files / "m.zo.tflite"),
        "runtime": "litert",
        "algorithm": "weight",
        "samples": 32,
        "rehearsal_samples": 0,
        "missing_classes": [],
        "trains": {
            "layers": ["conv", "fc"],
            "of_layers": 2,
            "weights": 36 + 256,
            "of_weights": 36 + 256,
            "sentence": "trains 2 of 2 layers (100 % of the weights)",
            "biases": 0,
        },
        "trainable_weights": 36 + 256,
        "buffer_bytes": 0,
        "steps": 12,
        "measured_rate": None,
        "equivalents": 12 * 2 * 3 * 16,
        "block_choice": None,
        "interrupted": False,
        "forwards": 12 * 2 * 3 * 16,
        "evaluated_on": str(files / "d.npz"),
        "keep": "best",
        "loss": best["loss"],
        "accuracy": best["accuracy"],
    }
    measured = run(files, "evaluate", "@a.tflite", "@d.npz", "--json")
    assert json.loads(measured.stdout)["loss"] == pytest.approx(result["loss"])
    text = run(files, *TRAIN[:-1], "-o", "@b.tflite", "--learning-rate", "2")  # measures none
    cells = [line.split("│")[1:5] for line in text.stdout.splitlines() if line.startswith("│ weight")]
    assert [[cell.strip() for cell in row] for row in cells] == [["weight", "12", "384", "292"]]
    for said in ("accuracy ", "forward equivalents", "b.tflite: trained model", "b.zolog: log"):
        assert said in text.stdout
    assert "equivalents/s" in text.stderr
    assert "384 equivalents" in text.stderr
    assert text.stderr.startswith("trains 2 of 2 layers (100 % of the weights)\n")


def test_help_states_the_rate_that_a_run_takes(files: Path) -> None:
    said = " ".join(run(files, "train", "--help").stdout.replace("│", " ").split())
    assert "Learning rate at the first step, LSB (default: measured on model and data)." in said
    for algorithm in ("node", "weight"):
        shared = ("train", "@m.zo.tflite" if algorithm == "weight" else "@p.tflite", "@d.npz", "--steps", "1")
        done = run(files, *shared, "-o", f"@{algorithm}.tflite", "--algorithm", algorithm, "--json")
        assert json.loads(done.stdout)["measured_rate"] is not None


EVERY_OPTION = (
    *("--set", "perturbation=sparse-uniform:2:0.5", "--set", "schedule=step", "--set", "decay=0.25"),
    *("--set", "decay-steps=4", "--set", "clip=1.5", "--set", "estimator=one-sided"),
    *("--set", "rule=gradient", "--set", "queries=2", "--learning-rate", "1.5"),
    *("--set", "final-learning-rate=0.25", "--set", "warmup-steps=3", "--set", "scope=blocks"),
    *("--set", "seed=77", "--set", "gradient-norm=true", "--set", "sync-every=0"),
    *("--held-out", "0"),
)


def test_every_option_reaches_the_run(files: Path) -> None:
    """Reads the settings from the log's header."""
    assert run(files, *TRAIN, "-o", "@a.tflite", *EVERY_OPTION).exit_code == 0
    actual = Log.read(files / "a.zolog").settings
    settings = Settings(
        tasks=(
            Weights(
                perturbation=SparseUniform(2, 0.5),
                rule=Gradient(clip=1.5, gradient_norm=True),
                queries=2,
                scope="blocks",
            ),
        ),
        schedule=Step(0.25, 4, final=0.25, warmup=3),
        estimator="one-sided",
        learning_rate=1.5,
        seed=77,
        batch_size=16,
    )
    expected = weight_integers(settings, steps=12, samples=32, batch=8, weights=292, blocks=2)
    assert bytes(actual) == bytes(expected)


@pytest.mark.parametrize("options", [(), EVERY_OPTION], ids=["default", "every option"])
def test_same_bits_in_tflm(options: tuple[str, ...], files: Path) -> None:
    require("tflm")
    written = []
    for runtime in ("litert", "tflm"):
        done = run(files, *TRAIN, "-o", f"@{runtime}.tflite", "--runtime", runtime, *options)
        assert done.exit_code == 0, done.output
        written.append([(files / f"{runtime}{suffix}").read_bytes() for suffix in (".tflite", ".zolog")])
    assert written[0] == written[1]


def test_copies_of_the_log(files: Path) -> None:
    """Restores the best weights and those of any step from the log. A run resumes from a part of it."""
    arguments = (*TRAIN, "--learning-rate", "6", "--validation", "@d.npz")
    done = run(files, *arguments, "-o", "@a.tflite")
    assert done.exit_code == 0, done.output
    result = json.loads(done.stdout)
    steps = result["kept_step"]
    log = (files / "a.zolog").read_bytes()
    (files / "best.zolog").write_bytes(log)
    assert result["loss"] == min(m["loss"] for m in result["measurements"])
    assert result["before"] == {"loss": result["measurements"][0]["loss"], "accuracy": 0.25}
    made = run(files, "replay", "@m.zo.tflite", "@best.zolog", "-o", "@best.tflite", "--json")
    assert json.loads(made.stdout)["steps"] == steps
    assert (files / "best.tflite").read_bytes() == (files / "a.tflite").read_bytes()

    made = run(files, "replay", "@m.zo.tflite", "@a.zolog", "-o", "@part.tflite", "--steps", str(steps))
    assert f"after {steps} of the run's 12 steps" in made.stdout
    assert (files / "part.tflite").read_bytes() == (files / "best.tflite").read_bytes()
    none = run(files, "replay", "@m.zo.tflite", "@a.zolog", "-o", "@none.tflite", "--steps", "0")
    assert none.exit_code == 0
    assert (files / "none.tflite").read_bytes() == export_model(files / "m.zo.tflite").to_bytes()

    (files / "best.zolog").write_bytes(log[: len(log) // 2])
    again = run(files, *arguments, "-o", "@b.tflite", "--log", "@best.zolog", "--resume")
    assert again.exit_code == 0, again.output
    assert (files / "best.zolog").read_bytes() == (files / "a.zolog").read_bytes()
    assert (files / "b.tflite").read_bytes() == (files / "a.tflite").read_bytes()


def test_resume_gives_the_same_bits(files: Path) -> None:
    assert run(files, *TRAIN, "-o", "@a.tflite").exit_code == 0
    whole = (files / "a.zolog").read_bytes()
    (files / "b.zolog").write_bytes(whole[: len(whole) * 2 // 3])
    assert run(files, *TRAIN, "-o", "@b.tflite", "--resume").exit_code == 0
    assert (files / "b.zolog").read_bytes() == whole
    assert (files / "a.tflite").read_bytes() == (files / "b.tflite").read_bytes()


def test_truncated_log_is_replayed_and_said(files: Path) -> None:
    assert run(files, *TRAIN, "-o", "@a.tflite").exit_code == 0
    whole = (files / "a.zolog").read_bytes()
    (files / "a.zolog").write_bytes(whole[: -28 - 5])  # the measurement after the last step, and a part of it
    done = run(files, "replay", "@m.zo.tflite", "@a.zolog", "-o", "@b.tflite")
    assert done.exit_code == 0
    assert "last whole step (11)" in done.output


def test_verify(files: Path) -> None:
    require("tflm")
    done = run(files, "verify", "@m.zo.tflite", "@d.npz", "--steps", "5", "--json")
    assert done.exit_code == 0, done.output
    result = json.loads(done.stdout)
    assert result["identical"]
    assert {r["runtime"] for r in result["runs"]} >= {"litert", "tflm"}


def test_verify_interrupted(files: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Gives no verdict on runs that were cut short."""

    def interrupt(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Control, "report", interrupt)
    done = run(files, "verify", "@m.zo.tflite", "@d.npz", "-o", "@r.json")
    assert (done.exit_code, done.stdout) == (130, "")
    assert done.stderr.endswith("interrupted\n")
    assert not (files / "r.json").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--learning-rate", "-1"), "`--learning-rate` must be in"),
        (("--set", "rule=adam"), "must be one of gradient, normalized, sign"),
        (("--batch-size", "12"), "multiple of the model's batch 8"),
        (("--set", "queries=20"), "`--max-queries 20`"),
    ],
)
def test_bad_settings_write_nothing(files: Path, arguments: tuple[str, ...], message: str) -> None:
    before = sorted(files.iterdir())
    done = run(files, *TRAIN, "-o", "@a.tflite", *arguments)
    assert done.exit_code == 1
    assert message in " ".join(done.output.split())
    assert sorted(files.iterdir()) == before


def test_log_of_another_model(files: Path) -> None:
    assert run(files, *TRAIN, "-o", "@a.tflite").exit_code == 0
    inject_all(MODELS["small_cnn"](), batch=4).save(files / "other.zo.tflite")
    done = run(files, "replay", "@other.zo.tflite", "@a.zolog", "-o", "@b.tflite")
    assert done.exit_code == 1
    assert "another model" in done.output
    assert not (files / "b.tflite").exists()


def test_nothing_is_replaced_unasked(files: Path) -> None:
    assert run(files, *TRAIN, "-o", "@a.tflite").exit_code == 0
    for name in ("a.tflite", "a.zolog"):
        kept = (files / name).read_bytes()
        done = run(files, *TRAIN, "-o", "@a.tflite")
        assert done.exit_code == 1
        assert "--force" in done.output
        assert (files / name).read_bytes() == kept
        (files / "a.tflite").unlink(missing_ok=True)
    assert run(files, *TRAIN, "-o", "@a.tflite", "--force").exit_code == 0


# --- every kind of data -------------------------------------------------------------------------------------


def test_autoencoder_trains_without_labels(tmp_path: Path) -> None:
    """Trains from .npz and .npy, in the model's units or quantized already; with y given, the same."""
    inject_all(MODELS["autoencoder"](), batch=8).save(tmp_path / "m.zo.tflite")
    x = np.random.default_rng(0).uniform(-1.5, 1.5, (32, 24)).astype(np.float32)
    np.savez(tmp_path / "x.npz", x=x)
    np.savez(tmp_path / "xy.npz", x=x, y=x)
    np.save(tmp_path / "x.npy", x)
    exported = []
    for data in ("x.npz", "xy.npz", "x.npy"):
        output = f"@{data}.tflite"
        done = run(tmp_path, "train", "@m.zo.tflite", f"@{data}", "-o", output, *AUTOENCODER)
        assert done.exit_code == 0, done.output
        result = json.loads(done.stdout)
        assert "accuracy" not in result and result["loss"] > 0
        exported.append((tmp_path / f"{data}.tflite").read_bytes())
        evaluated = run(tmp_path, "evaluate", f"@{data}.tflite", f"@{data}", "--json")
        assert json.loads(evaluated.stdout)["loss"] == pytest.approx(result["loss"], rel=0.02)
        verified = run(tmp_path, "verify", "@m.zo.tflite", f"@{data}", "--steps", "2")
        assert verified.exit_code == 0, verified.output
    assert exported[0] == exported[1] == exported[2]


AUTOENCODER = ("--batch-size", "16", "--steps", "12", "--held-out", "0", "--json")
