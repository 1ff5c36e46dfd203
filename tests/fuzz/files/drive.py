# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""What is done with a damaged file: the public functions and commands, and what counts as their fault."""

from __future__ import annotations

import contextlib
import io
import linecache
import os
import shutil
import sys
import traceback
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any
from unittest import mock

import numpy as np
import typer

import tflm_zo
from helpers.injection import inject_all
from tflm_zo import runtime
from tflm_zo.cli import app
from tflm_zo.converters import (
    ConversionError,
    InjectSettings,
    Model,
    export_model,
    extract_segment,
    inject,
    load_model,
    possible_cuts,
    read_metadata,
    set_batch,
    step_multipliers,
    update_masks,
)
from tflm_zo.converters.node_choice import node_choices
from tflm_zo.core import NativeError
from tflm_zo.data import DataError, prepare, read_arrays
from tflm_zo.firmware import PLATFORMS, arena, generate_firmware
from tflm_zo.logs import LogError, SeedLog, SnapshotLog, is_snapshot_log
from tflm_zo.runtime import InvokeError, ModelError, RuntimeUnavailableError
from tflm_zo.training import SettingsError, replay_log

from . import arrays, logs, metadata, models
from .bases import Bases, choose, data_for
from .values import damaged

DOCUMENTED = (
    *(ConversionError, DataError, LogError, SettingsError, ModelError, InvokeError, NativeError),
    *(RuntimeUnavailableError, MemoryError, typer.BadParameter),
)
COMMAND = typer.main.get_command(app)  # built once: that takes longer than most commands
PACKAGE = str(Path(tflm_zo.__file__).parent)
CONVERTERS = str(Path(sys.modules["tflm_zo.converters"].__file__ or "").parent)
KINDS = {
    "model": 30,
    "zo model": 14,
    "bytes": 10,
    "metadata": 20,
    "seed log": 10,
    "snapshot log": 10,
    "data": 10,
}


class FaultError(Exception):
    """The package broke its word."""


@dataclass
class Case:
    """A damaged file, and others that go with it.

    Attributes:
        seed: "seed/number", from which everything follows.
        kind: one of `KINDS`.
        base: what it was made from.
        files: by name; the damaged one comes first.
        options: of the command that goes with it.
        used: what has been called with it.
    """

    seed: str
    kind: str
    base: str
    files: dict[str, bytes]
    options: tuple[str, ...] = ()
    used: list[str] = field(default_factory=list)


def make(bases: Bases, seed: str) -> tuple[Case, Random]:
    """The case of a number, and the source of what is done with it."""
    rng = Random(seed)
    kind = rng.choices(list(KINDS), list(KINDS.values()))[0]
    if kind in ("seed log", "snapshot log"):
        run = rng.choice(bases.runs[kind])
        files = {"run.zolog": logs.mutated(rng, run.log), "model.tflite": run.model}
        return Case(seed, kind, kind, files, run.options), rng
    if kind == "data":
        name = rng.choice([n for n in bases.plain if n != "autoencoder"])
        return Case(seed, kind, name, {"data.npz": arrays.mutated(rng, bases.data[name])}), rng
    zo = kind in ("zo model", "metadata") or (kind == "bytes" and rng.random() < 0.4)
    name, data = choose(rng, bases.zo if zo else bases.plain)
    if kind == "metadata":
        data = metadata.mutated(rng, data)
    elif kind == "bytes":
        data = damaged(rng, data, choose(rng, bases.plain)[1])
    else:
        data = models.mutated(rng, data)
    return Case(seed, kind, name, {"model.tflite": data}), rng


def drive(bases: Bases, case: Case, rng: Random) -> bool:
    """Uses the files of a case in the current folder, which is empty; True where its reader took it.

    Raises:
        FaultError: something other than a documented error, or a promise that was not kept.
    """
    for name, data in case.files.items():
        Path(name).write_bytes(data)
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        if case.kind == "data":
            return drive_data(bases, case, rng)
        if case.kind in ("seed log", "snapshot log"):
            return drive_log(bases, case, rng)
        return drive_model(bases, case, rng)


# --- what may happen --------------------------------------------------------------------------------------


def attempt(case: Case, name: str, function: Callable[[], Any]) -> Any:
    """Its result, or None where it refused as documented."""
    case.used.append(name)
    try:
        return function()
    except Exception as error:
        check(error)
        return None


def check(error: BaseException) -> None:
    """Raises `FaultError` for what is no documented refusal in one line."""
    text = described(error)
    if not (isinstance(error, DOCUMENTED) or (isinstance(error, ValueError | RuntimeError) and meant(error))):
        raise FaultError(text)
    if isinstance(error, ConversionError | DataError | LogError) and ("\n" in str(error) or not str(error)):
        raise FaultError(f"a message that is not one line\n{text}")


def described(error: BaseException) -> str:
    """Its type, and its traceback."""
    return "\n".join((type(error).__name__, *traceback.format_exception(error)))


def meant(error: BaseException) -> bool:
    """Whether a `raise` in our own code says it, not NumPy or a conversion that nobody thought of."""
    frame = traceback.extract_tb(error.__traceback__)[-1]
    ours = frame.filename.startswith((PACKAGE, CONVERTERS))
    line = linecache.getline(frame.filename, frame.lineno or 0).strip()
    return ours and line.startswith("raise")


def cli(case: Case, *arguments: str, files: tuple[str, ...] = ()) -> bool:
    """Runs a command in this process; True where it succeeded. It writes the given files, or none of them."""
    case.used.append(" ".join(("tflm-zo", *arguments)))
    before, out, err = set(os.listdir()), io.StringIO(), io.StringIO()
    code, cause = 0, None
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            COMMAND.main([*arguments], prog_name="tflm-zo")
        except SystemExit as error:
            code, cause = int(error.code or 0), error
        except Exception as error:
            raise FaultError(described(error)) from error
    if code == 2:
        raise FaultError(f"wrong usage, in the fuzzer: {arguments}\n{err.getvalue()}")
    if code:
        origin: BaseException | None = cause
        while isinstance(origin, SystemExit | typer.Exit):
            origin = origin.__context__
        if origin is None:
            raise FaultError(f"exit code {code} without an error: {arguments}\n{err.getvalue()}")
        check(origin)
        last = err.getvalue().strip().splitlines()[-1:]
        if not last or not last[0].startswith("error: ") or "internal error" in last[0]:
            raise FaultError(f"no line that says what is wrong: {arguments}\n{err.getvalue()}")
    # A run that has begun leaves its log, and the ZO model that it belongs to, however it ends.
    kept = {name for name in files if name.endswith((".zolog", ".zo.tflite"))}
    for name in set(os.listdir()) - before:
        if name not in (kept if code else files):
            raise FaultError(f"{name} was left behind: {arguments}\n{err.getvalue()}")
    for name in files:
        if not code and not os.path.exists(name):
            raise FaultError(f"{name} was not written: {arguments}\n{err.getvalue()}")
    return code == 0


# --- models -----------------------------------------------------------------------------------------------


def drive_model(bases: Bases, case: Case, rng: Random) -> bool:
    model = attempt(case, "load_model", lambda: load_model("model.tflite"))
    if model is None:
        return False
    if rng.random() < 0.3:
        written = attempt(case, "to_bytes", model.to_bytes)
        if written is not None and load_model(written).to_bytes() != written:
            raise FaultError("load_model(model.to_bytes()).to_bytes() differs from model.to_bytes()")
    zo = attempt(case, "read_metadata", lambda: read_metadata(model))
    is_zo = any(m.name == "tflm_zo" for m in model.metadata or ())
    uses = ZO_USES if is_zo else PLAIN_USES
    rng.choices(list(uses), list(uses.values()))[0](bases, case, rng, model)
    return zo is not None if is_zo else True


def data_file(bases: Bases, case: Case, rng: Random) -> str:
    """Samples for the model: of its base, or in the shape that it has become."""
    base = case.base.split(", ")[0]
    found = bases.data[base]
    if rng.random() < 0.3:
        with contextlib.suppress(Exception):
            if all(0 < tensor.size < 10_000 for tensor in load_model("model.tflite").subgraphs[0].inputs):
                found = data_for(case.files["model.tflite"])
    Path("samples.npz").write_bytes(arrays.saved(found))
    return "samples.npz"


def chosen(rng: Random) -> dict[str, Any]:
    """Settings of inject."""
    settings: dict[str, Any] = {"batch": rng.choice((1, 1, 2, 3, 8))}
    for name, values in {
        "trainable": ("all", "all", "last:1", "last:9", "none", "nodes", "*", "conv"),
        "headroom": (0, 2, 30),
        "update_bits": (8, 16),
        "loss": ("auto", "auto", "cross_entropy", "floor_log2", "binary_cross_entropy", "mse", "none"),
        "loss_output": (None, None, 0, 1),
        "cuts": ((), "layers"),
        "nodes": ((), (), "auto", "last:1", "last:2"),
        "multipliers": (None, None, "quantization-aware", "kernel-norm"),
        "sparse": (None, None, None, "top-k:0.1", "random:3", "threshold:50"),
        "int16": ((), (), (), "last"),
        "replay": (True, False),
    }.items():
        settings[name] = rng.choice(values)
    return settings


def use_inject(bases: Bases, case: Case, rng: Random, model: Model) -> None:
    settings = attempt(case, "InjectSettings", lambda: InjectSettings(**chosen(rng)))
    if settings is None:
        return
    before = model.to_bytes()
    zo = attempt(case, f"inject {settings}", lambda: inject(model, settings))
    if model.to_bytes() != before:
        raise FaultError("inject has changed its argument")
    if zo is None:
        return
    data = zo.to_bytes()
    again = load_model(data)
    if again.to_bytes() != data:
        raise FaultError("a ZO model changes when it is read and written")
    read_metadata(again)
    if attempt(case, "export_model", lambda: export_model(again).to_bytes()) is None:
        raise FaultError("inject made a ZO model that export_model refuses")


def use_cuts(bases: Bases, case: Case, rng: Random, model: Model) -> None:
    cuts = attempt(case, "possible_cuts", lambda: possible_cuts(model))
    if cuts:
        some = rng.sample(cuts, min(len(cuts), 2))
        attempt(case, f"inject cuts={some}", lambda: inject_all(model, cuts=some, loss="none").to_bytes())


def use_functions(bases: Bases, case: Case, rng: Random, model: Model) -> None:
    attempt(case, "node_choices", lambda: node_choices(model))
    attempt(case, "set_batch", lambda: set_batch(model, rng.choice((1, 2, 7))).to_bytes())
    attempt(case, "extract_segment", lambda: extract_segment(model, 0).to_bytes())


def use_inspect(bases: Bases, case: Case, rng: Random, model: Model) -> None:
    options = [o for o in ("--cuts", "--nodes", "--json") if rng.random() < 0.5]
    cli(case, "inspect", "model.tflite", *options)


def use_inject_command(bases: Bases, case: Case, rng: Random, model: Model) -> None:
    name = rng.choice(("node", "weight", "layer", "qzo-ff", "elastic-zo", "poor-mans-training", "fqt"))
    options = ["--algorithm", name, "--batch", rng.choice(("1", "2", "8"))]
    if rng.random() < 0.3:
        options += ["--loss", rng.choice(("mse", "cross-entropy", "binary-cross-entropy"))]
    cli(case, "inject", "model.tflite", "-o", "out.tflite", *options, files=("out.tflite",))


def use_evaluate(bases: Bases, case: Case, rng: Random, model: Model) -> None:
    which = rng.choice(("litert", "litert-ref", "litert-ref"))
    cli(case, "evaluate", "model.tflite", data_file(bases, case, rng), "--runtime", which)


def use_train(bases: Bases, case: Case, rng: Random, model: Model) -> None:
    options = ["--steps", "2", "--batch-size", "4", "--runtime", "litert-ref"]
    if rng.random() < 0.5:
        options += ["--algorithm", rng.choice(("weight", "layer", "elastic-zo", "fqt"))]
    files = ["out.tflite", "out.zolog"]
    if not any(m.name == "tflm_zo" for m in model.metadata or ()):
        files.append("out.zo.tflite")
    data = data_file(bases, case, rng)
    cli(case, "train", "model.tflite", data, "-o", "out.tflite", *options, files=tuple(files))


def use_export(bases: Bases, case: Case, rng: Random, model: Model) -> None:
    options = [o for o in (["--re-range"], ["--batch", "2"]) if rng.random() < 0.3]
    flat = [word for option in options for word in option]
    cli(case, "export", "model.tflite", "-o", "out.tflite", *flat, files=("out.tflite",))


def use_zo_functions(bases: Bases, case: Case, rng: Random, model: Model) -> None:
    attempt(case, "step_multipliers", lambda: step_multipliers(model))
    attempt(case, "update_masks", lambda: update_masks(model))
    attempt(case, "extract_segment", lambda: extract_segment(model, rng.choice((0, 1, 5))).to_bytes())
    attempt(case, "inject", lambda: inject_all(model).to_bytes())


def use_runtime(bases: Bases, case: Case, rng: Random, model: Model) -> None:
    loaded = attempt(case, "runtime.load", lambda: runtime.load(model, rng.choice(("litert", "litert-ref"))))
    if loaded is None:
        return

    def step() -> None:
        loaded.invoke(loaded.command())
        loaded.invoke(loaded.command().perturb([(1, 1)], tflm_zo.Rademacher(1)))
        loaded.status()
        loaded.read_weights()
        loaded.losses()

    attempt(case, "invoke", step)


def use_replay(bases: Bases, case: Case, rng: Random, model: Model) -> None:
    run = rng.choice(bases.runs[rng.choice(("seed log", "snapshot log"))])
    Path("run.zolog").write_bytes(run.log)
    cli(case, "replay", "model.tflite", "run.zolog", "-o", "out.tflite", files=("out.tflite",))


def use_firmware(bases: Bases, case: Case, rng: Random, model: Model) -> None:
    """Its arena is the bound: to measure it takes a second, in a runtime that may fall over the model."""

    def generate() -> None:
        made = generate_firmware(model, steps=3, samples=8, name="net", platform=rng.choice(list(PLATFORMS)))
        made.write(Path("firmware"))

    with mock.patch.object(arena, "_recorded", return_value=None):
        attempt(case, "generate_firmware", generate)


PLAIN_USES = {
    use_inject: 10,
    use_cuts: 3,
    use_functions: 4,
    use_inspect: 3,
    use_inject_command: 3,
    use_evaluate: 2,
    use_train: 1,
}
ZO_USES = {
    use_export: 3,
    use_inspect: 3,
    use_zo_functions: 4,
    use_runtime: 4,
    use_evaluate: 2,
    use_train: 2,
    use_replay: 1,
    use_firmware: 1,
}


# --- logs and data ----------------------------------------------------------------------------------------


def drive_log(bases: Bases, case: Case, rng: Random) -> bool:
    zo = load_model("model.tflite")
    kind = SnapshotLog if is_snapshot_log("run.zolog") else SeedLog
    log = attempt(case, f"{kind.__name__}.read", lambda: kind.read("run.zolog"))
    if log is not None:
        attempt(case, "replay_log", lambda: replay_log(zo, log))
    if log is None and rng.random() < 0.8:
        return False
    if rng.random() < 0.5:
        cli(case, "replay", "model.tflite", "run.zolog", "-o", "out.tflite", files=("out.tflite",))
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
        )
        cli(case, *command, *case.options, "--runtime", "litert-ref", files=("out.tflite",))
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
        cli(case, "evaluate", "model.tflite", "data.npz", "--runtime", "litert-ref")
    elif use == 2:
        options = ["-o", "out.tflite", "--steps", "1", "--batch-size", "2"]
        files = ("out.tflite", "out.zolog", "out.zo.tflite")
        cli(case, "train", "model.tflite", "data.npz", *options, files=files)
    elif data is not None and zo:
        inputs = runtime.Inputs(rng.choice(zo))
        found = [words(case, lambda x=x: prepare(inputs, x)) for x in (data, "data.npz")]
        if isinstance(found[0], str):
            found[0] = f"data.npz: {found[0]}"
        if str(found[0]) != str(found[1]):
            raise FaultError(f"from a dictionary {found[0]}, from a file {found[1]}")
    return data is not None


def words(case: Case, function: Callable[[], Any]) -> Any:
    """Its result, or what it says where it refuses."""
    case.used.append("prepare")
    try:
        return function()
    except DataError as error:
        check(error)
        return str(error)


def clean() -> None:
    """Empties the current folder."""
    for entry in os.scandir():
        if entry.is_dir(follow_symlinks=False):
            shutil.rmtree(entry.path)
        else:
            os.unlink(entry.path)
