"""Firmware of the files that `tflm-zo train` wrote is the run that `train` did."""

import re
import shlex
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tflm_zo as zo
from helpers.commands import invoke, result_of
from helpers.examples import slow_but
from helpers.models import MODELS
from tflm_zo import load_model
from tflm_zo.converters import read_metadata
from tflm_zo.firmware import generate_firmware
from tflm_zo.training import ALGORITHMS, algorithm
from tflm_zo.training.algorithms import algorithm_for, usual_settings
from tflm_zo.training.setting_texts import changed, with_run

RNG = np.random.default_rng(0)


@pytest.fixture(autouse=True)
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("model.tflite").write_bytes(MODELS["small_cnn"]())
    x = RNG.uniform(-1.9, 1.9, (40, 8, 8, 1)).astype(np.float32)
    np.savez("adapt.npz", x=x, y=RNG.integers(0, 4, 40))
    return tmp_path


def constants(path: str) -> list[bytes]:
    return [bytes(t.buffer.data) for t in load_model(path).subgraphs[0].all_tensors()]


def sizes_and_settings(folder: str) -> list[str]:
    text = Path(folder, "m_zo_config.h").read_text()
    found = re.findall(r"^#define .*|^ \* +\w.*: .*", text, re.M)
    return [line for line in found if "firmware" not in line]


GIVEN = (
    ("--batch-size", "8", "--steps", "3", "--set", "queries=3", "--set", "seed=7"),
    ("--set", "exact.last=1", "--set", "step-clip=2.71828182", "--epochs", "1"),
    ("--algorithm", "weight", "--set", "perturbation=sparse-uniform:3:0.33", "--learning-rate", "0.123456789"),
    ("--algorithm", "mezo", "--batch-size", "20", "--set", "schedule=cosine"),
)


@pytest.mark.parametrize("given", slow_but(GIVEN[1:3], GIVEN))
def test_it_is_the_run_of_train(given: tuple[str, ...]) -> None:
    before = result_of("train", "model.tflite", "adapt.npz", "-o", "trained.tflite", "--keep", "last", *given)
    made = result_of("firmware", "trained.zo.tflite", "-o", "out", "--name", "m", "--data", "adapt.npz")
    assert made["steps"] == before["steps"]
    # The device's ZO model repeats the run on the desktop, to the bit.
    own = read_metadata(load_model(made["zo_model"]))
    assert own.batch == 1
    told = ["--steps", before["steps"], "--keep", "last"]
    again = result_of("train", made["zo_model"], "adapt.npz", "-o", "again.tflite", *told)
    assert constants("again.tflite") == constants("trained.tflite") != constants("model.tflite")
    assert again["measured_rate"] == before["measured_rate"]
    # It has the same options as firmware of the plain model.
    words = [w for w in given if w not in ("--batch-size", "--learning-rate")]
    for option in ("batch-size", "learning-rate"):
        if f"--{option}" in given:
            i = words.index(given[given.index(f"--{option}") + 1])
            words[i : i + 1] = ["--set", f"{option}={words[i]}"]
    plain = result_of("firmware", "model.tflite", "-o", "plain", "--name", "m", "--data", "adapt.npz", *words)
    assert plain["ram_bytes"] == made["ram_bytes"]
    assert sizes_and_settings("out") == sizes_and_settings("plain")


def test_options_come_before_what_the_model_keeps() -> None:
    result_of("train", "model.tflite", "adapt.npz", "-o", "t.tflite", "--steps", 2, "--set", "queries=3")
    made = result_of("firmware", "t.zo.tflite", "-o", "out", "--steps", 5, "--set", "queries=2")
    assert made["steps"] == 5
    kept = read_metadata(load_model(made["zo_model"]))
    assert "nodes.queries=2" in kept.run and "steps=5" in kept.run
    # Another algorithm has its own settings.
    assert algorithm_for(kept, "fqt") == algorithm_for(read_metadata(zo.inject("model.tflite")), "fqt")


def test_the_zo_model_of_train_is_not_written_over() -> None:
    result_of("train", "model.tflite", "adapt.npz", "-o", "t.tflite", "--steps", 2, "--algorithm", "node")
    before = Path("t.zo.tflite").read_bytes()
    result = invoke("firmware", "t.zo.tflite", "-o", "t", "--force")
    assert result.exit_code == 1 and "choose another name" in result.output
    assert Path("t.zo.tflite").read_bytes() == before


def repeated(made: dict[str, Any]) -> None:
    again = result_of("train", made["zo_model"], "adapt.npz", "-o", "again.tflite", "--steps", 3, "--keep", "last")
    assert again["measured_rate"] is None
    assert constants("again.tflite") == constants("t.tflite") != constants("model.tflite")


def test_without_data_it_takes_the_rate_that_train_measured() -> None:
    given = ("train", "model.tflite", "adapt.npz", "-o", "t.tflite", "--steps", 3, "--keep", "last")
    before = result_of(*given)
    assert before["measured_rate"]
    made = result_of("firmware", "t.zo.tflite", "-o", "out", "--samples", 40)
    repeated(made)
    told = invoke("firmware", "t.zo.tflite", "-o", "told", "--force")
    assert f"rate that train measured, {before['measured_rate']:g} LSB" in told.output
    assert not made["rate_assumed"] and "highest learning rate" not in told.output
    for rate, assumed in ("auto", True), ("0.5", False):
        words = ("--set", f"learning-rate={rate}", "--force")
        assert result_of("firmware", "t.zo.tflite", "-o", "other", *words)["rate_assumed"] == assumed
        assert ("learning-rate=0.5" in read_metadata(load_model("other.zo.tflite")).run) != assumed
    # The ZO model belongs to the log, also of a run that is resumed.
    log = Path("t.zolog").read_bytes()
    files = [Path(name).read_bytes() for name in ("t.zo.tflite", "t.tflite")]
    Path("t.zolog").write_bytes(log[:-1])
    result_of(*given, "--resume")
    assert [Path(name).read_bytes() for name in ("t.zo.tflite", "t.tflite", "t.zolog")] == [*files, log]


def test_what_older_models_tell_of_layers_that_a_run_chose() -> None:
    """Is passed over: such a model is trained by its other settings."""
    settings = algorithm("node")
    model = zo.inject("model.tflite", zo.training.inject_settings(settings))
    given = {"steps": 3, "choose-block": 2, "block": "conv", "measured-rate": 0.5}
    with_run(model, changed(settings, {"seed": 7}), settings, given).save("old.zo.tflite")
    assert algorithm_for(read_metadata(load_model("old.zo.tflite"))).seed == 7
    assert result_of("firmware", "old.zo.tflite", "-o", "out")["trains"]["layers"] == ["fc"]


@pytest.mark.parametrize("name", ALGORITHMS)
def test_settings_come_back_as_they_were(name: str) -> None:
    """Keeps all settings of a run that differ from its algorithm's, floats to the bit."""
    settings = algorithm(name)
    model = zo.inject("model.tflite", zo.training.inject_settings(settings))
    changes: dict[str, Any] = {"seed": 4_000_000_001, "batch_size": 24, "layers": ("conv*", "fc1")}
    if "schedule" not in settings.unused():
        changes |= {"schedule": "step", "decay": 1 / 3, "learning_rate": 0.1 + 0.2}
    wanted = changed(settings, changes)
    metadata = read_metadata(with_run(model, wanted, settings, {"steps": 3, "epochs": None}))
    kept = algorithm_for(type(metadata)(**{**vars(metadata), "algorithm": name}))
    assert changed(kept, {}) == changed(wanted, {})


def test_python_takes_them_too() -> None:
    result_of("train", "model.tflite", "adapt.npz", "-o", "t.tflite", "--steps", 2, "--set", "queries=3")
    settings = usual_settings(read_metadata(load_model("t.zo.tflite")))
    assert settings.nodes.queries == 3
    made = generate_firmware("t.zo.tflite", steps=2, samples=4)
    told = generate_firmware("t.zo.tflite", settings, steps=2, samples=4)
    assert made.files == told.files


def test_the_commands_of_a_plan_are_one_run() -> None:
    plan = zo.plan("model.tflite", board="pico")
    assert plan.best is not None
    train, firmware = (shlex.split(line)[1:] for line in plan.commands())
    before, made = result_of(*train), result_of(*firmware)
    assert before["steps"] == made["steps"]
    told = ["--steps", before["steps"], "--keep", "last"]
    result_of("train", made["zo_model"] or firmware[1], "adapt.npz", "-o", "again.tflite", *told)
    assert constants("again.tflite") == constants("model.trained.tflite")
    others = max(made["arena_bytes"], made["arena_bytes_mve"]) - made["arena_bytes"]
    assert made["ram_bytes"] - others == before["ram_bytes"] <= plan.target.ram
