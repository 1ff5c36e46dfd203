"""Uses of a model: one of the ways in which the package uses one."""

import contextlib
from pathlib import Path
from random import Random
from typing import Any
from unittest import mock

import tflm_zo
from helpers.injection import inject_all
from tflm_zo import runtime
from tflm_zo.converters import (
    InjectSettings,
    Last,
    Model,
    export_model,
    extract_segment,
    inject,
    load_model,
    possible_cuts,
    read_metadata,
    set_batch,
    step_multipliers,
)
from tflm_zo.converters.inject import node_choices
from tflm_zo.firmware import PLATFORMS, arena, generate_firmware

from . import arrays
from .attempts import FaultError, attempt, cli
from .bases import Bases, data_for
from .cases import Case


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
    settings: dict[str, Any] = {"batch": rng.choice((1, 1, 2, 3, 8))}
    for name, values in {
        "trainable": ("all", "all", Last(1), Last(9), "none", "nodes", "*", "conv"),
        "headroom": (0, 2, 30),
        "update_bits": (8, 16),
        "loss": ("auto", "auto", "cross_entropy", "floor_log2", "binary_cross_entropy", "mse", "none"),
        "loss_output": (None, None, 0, 1),
        "cuts": ((), "layers"),
        "nodes": ((), (), "auto", Last(1), Last(2)),
        "multipliers": (None, None, "quantization-aware"),
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
    if rng.random() < 0.3:
        cli(case, "inspect", "model.tflite", *options, "--report", "out.html", files=("out.html",))
    else:
        cli(case, "inspect", "model.tflite", *options)


def use_inject_command(bases: Bases, case: Case, rng: Random, model: Model) -> None:
    name = rng.choice(("node", "weight", "layer", "qzo-ff", "elastic-zo", "poor-mans-training", "fqt"))
    options = ["--algorithm", name, "--batch", rng.choice(("1", "2", "8"))]
    if rng.random() < 0.3:
        options += ["--loss", rng.choice(("mse", "cross-entropy", "binary-cross-entropy"))]
    cli(case, "inject", "model.tflite", "-o", "out.tflite", *options, files=("out.tflite",))


def use_evaluate(bases: Bases, case: Case, rng: Random, model: Model) -> None:
    which = "litert"
    cli(case, "evaluate", "model.tflite", data_file(bases, case, rng), "--runtime", which)


def use_train(bases: Bases, case: Case, rng: Random, model: Model) -> None:
    options = ["--steps", "2", "--batch-size", "4", "--runtime", "litert"]
    if case.base.endswith(", tail"):
        options += ["--algorithm", "fqt", "--set", "last=3"]
    elif rng.random() < 0.5:
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
    attempt(case, "extract_segment", lambda: extract_segment(model, rng.choice((0, 1, 5))).to_bytes())
    attempt(case, "inject", lambda: inject_all(model).to_bytes())


def use_runtime(bases: Bases, case: Case, rng: Random, model: Model) -> None:
    loaded = attempt(case, "runtime.load", lambda: runtime.load(model, "litert"))
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
    if rng.random() < 0.5:
        cli(case, "replay", "model.tflite", "run.zolog", "-o", "out.tflite", files=("out.tflite",))
    else:
        options = ("--model", "model.tflite", "-o", "out.html")
        cli(case, "report", "run.zolog", *options, files=("out.html",))


def use_firmware(bases: Bases, case: Case, rng: Random, model: Model) -> None:
    """Uses the arena's bound: measuring takes a second, in a runtime that may fail with the model."""

    def generate() -> None:
        made = generate_firmware(model, steps=3, samples=8, name="net", platform=rng.choice(list(PLATFORMS)))
        made.write(Path("firmware"))

    with mock.patch.object(arena, "recorded", return_value=None):
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
