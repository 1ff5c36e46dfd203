"""Uses of a damaged file, and of the files that go with it."""

import os
import shutil
import warnings
from pathlib import Path
from random import Random

import numpy as np

from tflm_zo.converters import load_model
from tflm_zo.data import Inputs, prepare, read_arrays
from tflm_zo.logs import Log, replay_log

from . import arrays
from .attempts import FaultError, attempt, cli, words
from .bases import Bases
from .cases import Case
from .model_uses import drive_model


def drive(bases: Bases, case: Case, rng: Random) -> bool:
    """Uses a case's files in the current folder; True if the reader took them. Raises FaultError for our faults."""
    for name, data in case.files.items():
        Path(name).write_bytes(data)
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        if case.kind == "data":
            return drive_data(bases, case, rng)
        if case.kind in ("seed log", "snapshot log"):
            return drive_log(bases, case, rng)
        return drive_model(bases, case, rng)


def drive_log(bases: Bases, case: Case, rng: Random) -> bool:
    zo = load_model("model.tflite")
    log = attempt(case, "Log.read", lambda: Log.read("run.zolog"))
    if log is not None:
        attempt(case, "replay_log", lambda: replay_log(zo, log))
    if log is None and rng.random() < 0.8:
        return False
    use = rng.randrange(4)
    if use == 0:
        cli(case, "replay", "model.tflite", "run.zolog", "-o", "out.tflite", files=("out.tflite",))
    elif use == 1:
        options = ("--model", "model.tflite", "-o", "out.html")
        cli(case, "report", "run.zolog", *options, files=("out.html",))
    else:
        Path("samples.npz").write_bytes(arrays.saved(bases.data["small_cnn"]))
        command = (
            "train",
            "model.tflite",
            "samples.npz",
            "-o",
            "out.tflite",
            "--log",
            "run.zolog",
            "--resume",
            *("--held-out", "0"),  # as for the log
        )
        cli(case, *command, *case.options, "--runtime", "litert", files=("out.tflite",))
    return log is not None


def drive_data(bases: Bases, case: Case, rng: Random) -> bool:
    plain = bases.plain[case.base]
    zo = [bases.zo[k] for k in bases.zo if k.startswith(f"{case.base},")]
    data = attempt(case, "read_arrays", lambda: read_arrays("data.npz"))
    if data is None and rng.random() < 0.8:
        return False
    Path("model.tflite").write_bytes(plain)
    use = rng.randrange(4)
    if use == 0:
        cli(case, "evaluate", "model.tflite", "data.npz")
    elif use == 1 and zo:
        Path("model.tflite").write_bytes(rng.choice(zo))
        cli(case, "evaluate", "model.tflite", "data.npz", "--runtime", "litert")
    elif use == 2:
        options = ["-o", "out.tflite", "--steps", "1", "--batch-size", "2"]
        files = ("out.tflite", "out.zolog", "out.zo.tflite")
        cli(case, "train", "model.tflite", "data.npz", *options, files=files)
    elif data is not None and zo:
        inputs = Inputs(rng.choice(zo))
        found = [words(case, lambda x=x: prepare(inputs, x)) for x in (data, "data.npz")]
        if isinstance(found[0], str):
            found[0] = f"data.npz: {found[0]}"
        if str(found[0]) != str(found[1]):
            raise FaultError(f"from a dictionary {found[0]}, from a file {found[1]}")
    return data is not None


def clean() -> None:
    for entry in os.scandir():
        if entry.is_dir(follow_symlinks=False):
            shutil.rmtree(entry.path)
        else:
            os.unlink(entry.path)
