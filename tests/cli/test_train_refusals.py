"""Bad input of a training run: always one line, exit code 1, and nothing written or replaced."""

import errno
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from helpers.commands import invoke, refused, wrong_usage
from helpers.injection import inject_all
from helpers.models import MODELS
from helpers.moments import Disk
from tflm_zo.runtime import RUNTIMES
from tflm_zo.training import ALGORITHMS
from tflm_zo.training.rules import WEIGHT_RULES
from tflm_zo.training.schedules import SCHEDULES
from tflm_zo.training.settings import ESTIMATORS
from tflm_zo.training.tasks import SCOPES
from tflm_zo.training.trainer import KEEPS

RNG = np.random.default_rng(0)
X, Y = RNG.integers(-128, 128, (32, 8, 8, 1)).astype(np.int8), RNG.integers(0, 4, 32)
STEPS, HEADER, RECORD = 6, 132, 24


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """Makes models, data and a finished run, by file name."""
    folder = tmp_path_factory.mktemp("base")
    inject_all(MODELS["small_cnn"](), batch=8).save(folder / "m.zo.tflite")
    inject_all(MODELS["small_cnn"](), batch=4).save(folder / "other.zo.tflite")
    inject_all(MODELS["autoencoder"](), batch=8).save(folder / "ae.zo.tflite")
    np.savez(folder / "d.npz", x=X, y=Y)
    done = invoke(*_train(folder, "-o", folder / "run.tflite"))
    assert done.exit_code == 0, done.output
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def _train(folder: Path, *more: Any, data: str = "d.npz", model: str = "m.zo.tflite") -> list[Any]:
    return ["train", folder / model, folder / data, "--batch-size", 16, "--steps", STEPS, "--keep", "last", *more]


@pytest.fixture
def files(base: dict[str, bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name, content in base.items():
        (tmp_path / name).write_bytes(content)
    return tmp_path


BAD_DATA: dict[str, tuple[dict[str, Any], str]] = {
    "no labels": (
        {"x": X},
        "bad.npz: the model's loss (cross_entropy) needs labels: give y, or a file that has an array `y`",
    ),
    "lengths": ({"x": X, "y": Y[1:]}, "bad.npz: x has 32 samples, y has 31 labels"),
    "NaN": ({"x": X * np.float32("nan"), "y": Y}, "bad.npz: x contains NaN or infinity"),
}


@pytest.mark.parametrize("name", BAD_DATA)
@pytest.mark.parametrize("where", ["train", "validation", "verify"])
def test_data(name: str, where: str, files: Path) -> None:
    arrays, said = BAD_DATA[name]
    np.savez(files / "bad.npz", **arrays)
    if where == "verify":
        command = ["verify", files / "m.zo.tflite", files / "bad.npz", "-o", files / "new.json"]
    elif where == "train":
        command = _train(files, "-o", files / "new.tflite", data="bad.npz")
    else:
        command = _train(files, "-o", files / "new.tflite", "--validation", files / "bad.npz")
    refused(files, *command, said=said)


@pytest.mark.parametrize(
    ("data", "said"), [("absent.npz", "absent.npz: cannot be read: No such file"), ("m.zo.tflite", "damaged")]
)
def test_files_that_are_no_data(data: str, said: str, files: Path) -> None:
    refused(files, *_train(files, "-o", files / "new.tflite", data=data), said=said)


@pytest.mark.parametrize(("model", "said"), [("absent.tflite", "absent.tflite: No such file"), ("d.npz", "error: ")])
def test_files_that_are_no_model(model: str, said: str, files: Path) -> None:
    refused(files, *_train(files, "-o", files / "new.tflite", model=model), said=said)


@pytest.mark.parametrize(
    ("name", "value", "choices"),
    [
        ("estimator", "central", ESTIMATORS),
        ("rule", "adam", tuple(WEIGHT_RULES)),
        ("schedule", "exponential", tuple(SCHEDULES)),
        ("scope", "channels", SCOPES),
        ("perturbation", "cauchy:2", ("rademacher", "sparse-uniform", "gaussian", "coordinate")),
    ],
)
def test_unknown_names_list_what_there_is(name: str, value: str, choices: tuple[str, ...], files: Path) -> None:
    command = _train(files, "-o", files / "new.tflite", "--set", f"{name}={value}")
    for said in (*choices, f"{name}` must be one of ", f"Received: '{value}'"):
        refused(files, *command, said=said)


@pytest.mark.parametrize(
    ("option", "value", "choices"),
    [("--runtime", "onnx", tuple(RUNTIMES)), ("--keep", "first", KEEPS), ("--algorithm", "adam", tuple(ALGORITHMS))],
)
def test_unknown_choices_are_wrong_usage(option: str, value: str, choices: tuple[str, ...], files: Path) -> None:
    said = f"Invalid value for '{option}': must be one of {', '.join(choices)}. Received: '{value}'."
    wrong_usage(files, *_train(files, "-o", files / "new.tflite", option, value), said=said)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (
            ("--set", "perturbation=rademacher"),
            "`--set perturbation` must be one of rademacher:LSB, sparse-uniform:LSB[:ZEROS], gaussian:LSB",
        ),
        (
            ("--set", "perturbation=rademacher:0"),
            "`--set perturbation` must have numbers in range (`mu` must be in 1..127. Received: 0.)",
        ),
        (
            ("--set", "perturbation=rademacher:a"),
            "`--set perturbation` must have numbers in range (invalid literal for int() with base 10: 'a')",
        ),
        (("--set", "perturbation=gaussian:-1"), "`std` must be"),
        (
            ("--set", "perturbation=rademacher:3"),
            "`--set weights.perturbation` must move weights by at most the headroom 2 LSB, not by 3 LSB",
        ),
        (("--learning-rate", "nan"), "`--learning-rate` must be in 1.52588e-05..16384"),
        (("--set", "clip=-1"), "`--set weights.clip` must be in 0..16384"),
        (("--set", "schedule=step", "--set", "decay=2"), "`--set decay` must be in 0..1"),
        (("--steps", "0"), "`--steps` must be at least 1. Received: 0"),
        (("--set", "sync-every=-1"), "`--set sync-every` must be in 0..4.29497e+09. Received: -1.0"),
        (("--log", "m.zo.tflite", "--force"), "--log and MODEL are the same file"),
        (("--log", "new.tflite"), "--log and -o are the same file"),
        (("--csv", "./d.npz", "--force"), "--csv and DATA are the same file"),
        (("--csv", "new.zolog"), "--csv and --log are the same file"),
        (("--csv", "absent/h.csv"), "the folder absent does not exist"),
        (("--log", "absent/a.zolog"), "the folder absent does not exist"),
        (("--log", "run.zolog"), "run.zolog exists"),
        (("--csv", "run.zolog"), "run.zolog exists"),
    ],
)
def test_options(options: tuple[str, ...], said: str, files: Path) -> None:
    refused(files, *_train(files, "-o", files / "new.tflite", *options), said=said)


def test_unwritable_folder(files: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tests may run as root, whom permissions do not stop."""
    real = os.access
    monkeypatch.setattr(os, "access", lambda path, mode, **more: mode != os.W_OK and real(path, mode, **more))
    refused(files, *_train(files, "-o", files / "new.tflite"), said="cannot be written to")
    refused(
        files,
        *("replay", files / "m.zo.tflite", files / "run.zolog", "-o", files / "new.tflite"),
        said="cannot be written to",
    )


def test_force_replaces_a_log_only_once_all_is_well(files: Path) -> None:
    """Keeps the old log if --force meets bad settings or data."""
    for bad in (("--steps", 0), ("--learning-rate", -1), ("--set", "queries=20"), ("--validation", "absent.npz")):
        refused(files, *_train(files, "-o", files / "run.tflite", "--force", *bad), said="error: ")


# --- logs ---------------------------------------------------------------------------------------------------


def _logs(base: dict[str, bytes]) -> dict[str, tuple[bytes, str]]:
    whole = base["run.zolog"]
    assert len(whole) == HEADER + STEPS * RECORD
    return {
        "foreign": (b"my diary\n" * 30, "is no seed log of this version"),
        "short and foreign": (b"my diary", "is no seed log of this version"),
        "damaged header": (whole[:60] + b"\xff" + whole[61:], "its header is damaged"),
        "an empty file": (b"", "ends within its header: there is no step in it"),
        "half a header": (whole[:64], "ends within its header: there is no step in it"),
    }


@pytest.mark.parametrize("name", ["foreign", "short and foreign", "damaged header"])
def test_what_is_no_log_is_not_resumed(name: str, files: Path, base: dict[str, bytes]) -> None:
    content, said = _logs(base)[name]
    (files / "new.zolog").write_bytes(content)
    refused(files, *_train(files, "-o", files / "new.tflite", "--resume"), said=said)


@pytest.mark.parametrize("name", _logs({"run.zolog": bytes(HEADER + STEPS * RECORD)}))
def test_what_is_no_log_is_not_replayed(name: str, files: Path, base: dict[str, bytes]) -> None:
    content, said = _logs(base)[name]
    (files / "new.zolog").write_bytes(content)
    command = ("replay", files / "m.zo.tflite", files / "new.zolog", "-o", files / "new.tflite")
    refused(files, *command, said=said)


@pytest.mark.parametrize("exists", [False, True])
def test_resume_without_a_step_begins(exists: bool, files: Path, base: dict[str, bytes]) -> None:
    """Warns, and trains to the same bits, if the log was not there or its header not complete."""
    if exists:
        (files / "new.zolog").write_bytes(base["run.zolog"][:77])
    arguments = _train(files, "-o", files / "new.tflite", "--resume")
    done = invoke(*arguments)
    assert done.exit_code == 0
    assert "training from the beginning" in done.stderr.splitlines()[0]
    assert done.stderr.startswith("warning: ")
    assert (files / "new.zolog").read_bytes() == base["run.zolog"]
    assert (files / "new.tflite").read_bytes() == base["run.tflite"]


def test_logs_of_other_runs(files: Path) -> None:
    out = ("-o", files / "new.tflite")
    resume = (*out, "--resume", "--log", files / "run.zolog")
    said = "of another model"
    refused(files, *_train(files, *resume, model="other.zo.tflite"), said=said)
    refused(files, "replay", files / "other.zo.tflite", files / "run.zolog", *out, said=said)
    said = "other settings, data or number of steps"
    for change in (("--set", "seed=5"), ("--steps", STEPS + 1), ("--learning-rate", 1.5)):
        refused(files, *_train(files, *resume, *change), said=said)
    np.savez(files / "d.npz", x=X[1:], y=Y[1:])
    refused(files, *_train(files, *resume), said=said)


def test_steps_that_a_log_does_not_have(files: Path) -> None:
    command = ("replay", files / "m.zo.tflite", files / "run.zolog", "-o", files / "new.tflite", "--steps")
    for steps in (-1, STEPS + 1):
        refused(files, *command, steps, said=f"must be in 0..{STEPS}, the whole steps of the log. Received: {steps}")
    refused(files, *command[:4], files / "run.zolog", "--force", said="-o and LOG are the same file")


# --- full disks ---------------------------------------------------------------------------------------------


def test_full_disk_while_the_model_is_written(files: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keeps the complete log, and replay makes the model of it."""
    real = os.fsync
    calls = [0]

    def fsync(handle: int) -> None:
        calls[0] += 1
        if calls[0] > 3:  # the log's beginning, its folder, its end
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        real(handle)

    arguments = [str(a) for a in _train(files, "-o", files / "new.tflite")]
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", fsync)
        done = invoke(*arguments)
    assert done.exit_code == 1
    assert done.stderr.splitlines()[-1] == (
        f"error: {files / 'new.tflite'}: No space left on device; nothing is lost: "
        f"tflm-zo replay makes the model of {files / 'm.zo.tflite'} and {files / 'new.zolog'}"
    )
    assert not (files / "new.tflite").exists()
    assert (files / "new.zolog").read_bytes() == (files / "run.zolog").read_bytes()
    command = ("replay", files / "m.zo.tflite", files / "new.zolog", "-o", files / "new.tflite")
    assert invoke(*command).exit_code == 0
    assert (files / "new.tflite").read_bytes() == (files / "run.tflite").read_bytes()
    assert not list(files.glob(".*"))


@pytest.mark.parametrize("steps", [-1, 0, 1, 4])
def test_full_disk_while_the_log_is_written(
    steps: int, files: Path, base: dict[str, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Leaves room for so many steps and a half: one line, complete steps only, and --resume ends with the
    same bits."""
    arguments = [str(a) for a in _train(files, "-o", files / "new.tflite")]
    with monkeypatch.context() as patch:
        Disk(patch, HEADER + steps * RECORD + RECORD // 2)
        if steps < 0:
            refused(files, *arguments, said="new.zolog: No space left on device", last=True)
        else:
            done = invoke(*arguments)
            assert done.exit_code == 1
            assert f"{files / 'new.zolog'}: No space left on device" in done.stderr.splitlines()[-1]
            assert (files / "new.zolog").read_bytes() == base["run.zolog"][: HEADER + steps * RECORD]
    assert not (files / "new.tflite").exists()
    assert invoke(*arguments, "--resume").exit_code == 0
    assert (files / "new.zolog").read_bytes() == base["run.zolog"]
    assert (files / "new.tflite").read_bytes() == base["run.tflite"]
