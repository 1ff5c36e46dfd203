"""train, replay, verify: files, exit codes, and the same bits."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from helpers.commands import result_of, run
from helpers.injection import inject_all
from helpers.interpreters import require
from helpers.models import MODELS
from tflm_zo.converters import export_model, load_model, read_metadata
from tflm_zo.core import Control, SparseUniform
from tflm_zo.logs import Log
from tflm_zo.training import ALGORITHMS, Settings, Step, Weights
from tflm_zo.training.lowering import weight_integers
from tflm_zo.training.rules import Gradient

TRAIN = ("train", "m.zo.tflite", "d.npz", "--batch-size", "16", "--steps", "12")


def test_json_has_every_figure(zo_folder: Path) -> None:
    measured = ("--validation", "d.npz", "--learning-rate", 2)
    result = result_of(*TRAIN, "-o", "a.tflite", *measured, "--set", "queries=3")
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
        "output": "a.tflite",
        "log": "a.zolog",
        "zo_model": "m.zo.tflite",
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
        "steps": 12,
        "measured_rate": None,
        "choice": None,
        "ram_bytes": None,
        "equivalents": 12 * 2 * 3 * 16,
        "interrupted": False,
        "forwards": 12 * 2 * 3 * 16,
        "evaluated_on": "d.npz",
        "keep": "best",
        "loss": best["loss"],
        "accuracy": best["accuracy"],
    }
    assert result_of("evaluate", "a.tflite", "d.npz")["loss"] == pytest.approx(result["loss"])
    text = run(*TRAIN, "-o", "b.tflite", "--learning-rate", "2")  # measures none
    cells = [line.split("│")[1:5] for line in text.stdout.splitlines() if line.startswith("│ weight")]
    assert [[cell.strip() for cell in row] for row in cells] == [["weight", "12", "384", "292"]]
    for said in ("accuracy ", "forward equivalents", "b.tflite: trained model", "b.zolog: log"):
        assert said in text.stdout
    assert "equivalents/s" in text.stderr and "384 equivalents" in text.stderr
    assert text.stderr.startswith("trains 2 of 2 layers (100 % of the weights)\n")


EVERY_OPTION = (
    *("--set", "perturbation=sparse-uniform:2:0.5", "--set", "schedule=step", "--set", "decay=0.25"),
    *("--set", "decay-steps=4", "--set", "clip=1.5", "--set", "estimator=one-sided"),
    *("--set", "rule=gradient", "--set", "queries=2", "--learning-rate", "1.5"),
    *("--set", "final-learning-rate=0.25", "--set", "warmup-steps=3", "--set", "scope=blocks"),
    *("--set", "seed=77", "--set", "gradient-norm=true", "--set", "sync-every=0"),
    *("--held-out", "0"),
)


def test_every_option_reaches_the_run(zo_folder: Path) -> None:
    run(*TRAIN, "-o", "a.tflite", *EVERY_OPTION)
    actual = Log.read("a.zolog").settings
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
def test_same_bits_in_tflm(options: tuple[str, ...], zo_folder: Path) -> None:
    require("tflm")
    for runtime in ("litert", "tflm"):
        run(*TRAIN, "-o", f"{runtime}.tflite", "--runtime", runtime, *options)
    for end in ("tflite", "zolog"):
        assert Path(f"litert.{end}").read_bytes() == Path(f"tflm.{end}").read_bytes()


def test_copies_of_the_log(zo_folder: Path) -> None:
    arguments = (*TRAIN, "--learning-rate", "6", "--validation", "d.npz")
    result = result_of(*arguments, "-o", "a.tflite")
    steps = result["kept_step"]
    log = Path("a.zolog").read_bytes()
    Path("best.zolog").write_bytes(log)
    assert result["loss"] == min(m["loss"] for m in result["measurements"])
    assert result["before"] == {"loss": result["measurements"][0]["loss"], "accuracy": 0.25}
    made = result_of("replay", "m.zo.tflite", "best.zolog", "-o", "best.tflite")
    assert (made["steps"], made["whole_steps"]) == (steps, 12)
    assert Path("best.tflite").read_bytes() == Path("a.tflite").read_bytes()

    made = run("replay", "m.zo.tflite", "a.zolog", "-o", "part.tflite", "--steps", str(steps))
    assert f"after {steps} of the run's 12 steps" in made.stdout
    assert Path("part.tflite").read_bytes() == Path("best.tflite").read_bytes()
    run("replay", "m.zo.tflite", "a.zolog", "-o", "none.tflite", "--steps", "0")
    assert Path("none.tflite").read_bytes() == export_model("m.zo.tflite").to_bytes()

    Path("best.zolog").write_bytes(log[: len(log) // 2])
    run(*arguments, "-o", "b.tflite", "--log", "best.zolog", "--resume")
    assert Path("best.zolog").read_bytes() == Path("a.zolog").read_bytes()
    assert Path("b.tflite").read_bytes() == Path("a.tflite").read_bytes()


def test_truncated_log_is_replayed_and_said(zo_folder: Path) -> None:
    run(*TRAIN, "-o", "a.tflite")
    whole = Path("a.zolog").read_bytes()
    Path("a.zolog").write_bytes(whole[: -28 - 5])  # the measurement after the last step, and a part of it
    done = run("replay", "m.zo.tflite", "a.zolog", "-o", "b.tflite")
    assert "last complete step, 11" in done.output


def test_verify_interrupted(zo_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Gives no verdict on runs that were cut short."""

    def interrupt(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Control, "report", interrupt)
    done = run("verify", "m.zo.tflite", "d.npz", "-o", "r.json", code=130)
    assert done.stdout == ""
    assert done.stderr.endswith("interrupted\n")
    assert not Path("r.json").exists()


def test_autoencoder_trains_without_labels(cli: Any) -> None:
    inject_all(MODELS["autoencoder"](), batch=8).save("m.zo.tflite")
    x = np.random.default_rng(0).uniform(-1.5, 1.5, (32, 24)).astype(np.float32)
    np.savez("x.npz", x=x)
    np.savez("xy.npz", x=x, y=x)
    np.save("x.npy", x)
    for data in ("x.npz", "xy.npz", "x.npy"):
        options = ("--batch-size", 16, "--steps", 12, "--held-out", 0)
        result = result_of("train", "m.zo.tflite", data, "-o", f"{data}.tflite", *options)
        assert "accuracy" not in result and result["loss"] > 0
        assert Path(f"{data}.tflite").read_bytes() == Path("x.npz.tflite").read_bytes()
        measured = result_of("evaluate", f"{data}.tflite", data)
        assert (measured["loss_kind"], measured["accuracy"]) == ("mse", None)
        assert measured["loss"] == pytest.approx(result["loss"], rel=0.02)
        run("verify", "m.zo.tflite", data, "--steps", 2)


STEPS = ("--steps", "6", "--runtime", "litert")
RUNS = {
    **{name: ("--algorithm", name) for name in ALGORITHMS},
    "layers": ("--algorithm", "node", "--set", "layers=fc"),
    "exact head": ("--algorithm", "fqt", "--set", "last=1"),
    "keep last": ("--algorithm", "weight", "--keep", "last"),
}


@pytest.mark.parametrize("name", RUNS)
def test_same_bytes(name: str, folder: Path) -> None:
    result = result_of("train", "p.tflite", "d.npz", "-o", "a.tflite", *STEPS, *RUNS[name])
    assert result["algorithm"] == read_metadata(load_model("a.zo.tflite")).algorithm == RUNS[name][1]
    run("replay", "a.zo.tflite", "a.zolog", "-o", "b.tflite")
    assert Path("a.tflite").read_bytes() == Path("b.tflite").read_bytes()
    model = load_model("b.tflite")
    assert model.subgraphs[0].inputs[0].shape[0] == 1  # as the plain model, not as the ZO model
    # A run of the ZO model that train has written, which names its algorithm, is the same run.
    run("train", "a.zo.tflite", "d.npz", "-o", "c.tflite", *STEPS, *RUNS[name][2:])
    assert Path("c.tflite").read_bytes() == Path("a.tflite").read_bytes()
    # Neither is one that was resumed.
    log = Path("a.zolog").read_bytes()
    Path("a.zolog").write_bytes(log[: -40 - len(log) % 7])
    run("train", "p.tflite", "d.npz", "-o", "a.tflite", *STEPS, *RUNS[name], "--resume")
    assert Path("a.zolog").read_bytes() == log
    assert Path("c.tflite").read_bytes() == Path("a.tflite").read_bytes()
