"""Bad input of a training run and its files: one line, exit code 1, and nothing is written or replaced."""

import errno
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from helpers.commands import invoke, refused, run, wrong_usage
from helpers.injection import inject_all
from helpers.models import MODELS
from helpers.moments import Disk
from tflm_zo.adaptation import zo_model
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
WEIGHT, NODE, PLAIN = "weight.zo.tflite", "node.zo.tflite", "p.tflite"


def train(model: str, options: str = "", data: str = "d.npz", output: str = "new.tflite") -> list[str]:
    of_weights = "--batch-size 16 --keep last" if model == WEIGHT else ""
    return f"train {model} {data} --steps {STEPS} -o {output} {of_weights} {options}".split()


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """Makes models, data and a finished run of each model, by file name."""
    folder, model = tmp_path_factory.mktemp("base"), MODELS["small_cnn"]
    (folder / PLAIN).write_bytes(model())
    for seed, prefix in ((0, ""), (5, "other.")):
        inject_all(model(seed), batch=8).save(folder / f"{prefix}{WEIGHT}")
        inject_all(model(seed), nodes="auto", headroom=0, batch=8).save(folder / f"{prefix}{NODE}")
    np.savez(folder / "d.npz", x=X, y=Y)
    np.savez(folder / "windows.npz", x=RNG.uniform(-1, 1, (32, 24)).astype(np.float32))
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        for name, output in ((WEIGHT, "weight"), (NODE, "node"), (PLAIN, "plain")):
            run(*train(name, output=f"{output}.tflite"))
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.fixture
def files(base: dict[str, bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name, content in base.items():
        Path(name).write_bytes(content)
    return tmp_path


BAD_DATA: dict[str, tuple[dict[str, Any], str]] = {
    "no labels": ({"x": X}, "the model's loss (cross_entropy) needs labels: give y, or a file that has an array `y`"),
    "lengths": ({"x": X, "y": Y[1:]}, "x has 32 samples, y has 31 labels"),
    "label": ({"x": X, "y": Y + 1}, "y: label 4 is out of range. It must be in 0..3"),
    "NaN": ({"x": X * np.float32("nan"), "y": Y}, "x contains NaN or infinity"),
}


@pytest.mark.parametrize("name", BAD_DATA)
@pytest.mark.parametrize("where", [WEIGHT, NODE, PLAIN, "validation", "verify"])
def test_data(name: str, where: str, files: Path) -> None:
    arrays, said = BAD_DATA[name]
    np.savez("bad.npz", **arrays)
    commands = {
        "validation": train(WEIGHT, "--validation bad.npz"),
        "verify": ["verify", WEIGHT, "bad.npz", "-o", "new.json"],
    }
    refused(files, *(commands.get(where) or train(where, data="bad.npz")), said=f"bad.npz: {said}")


OF_NODES = {
    "scope=blocks": "`--set scope` must be a setting of algorithm node: batch-size, learning-rate, ",
    "clip=2": "`--set clip` must be a setting of algorithm node: ",
    "last=1": "`--set last` must be a setting of algorithm node: ",
    "sync-every=2": "`--set sync-every` must be left out, since it would have no effect: snapshots are",
    "rule=sign": "`--set nodes.rule` must be one of rms, gradient. Received: 'sign'",
    "gradient-norm=true": "`--set nodes.gradient-norm` must be left out, since rule rms has none",
    "gradient-norm=false": "`--set gradient-norm` must be left out, since rule rms has none",
    "quantization-aware=false": "`--set quantization-aware` must be left out, since rule rms has none",
    "exact.bits=5,4,3": "`--set exact.bits` must be left out, since rule rms has none",
    "stages=0.5": "`--set stages` must be left out, since it would have no effect: nothing changes between",
    "stages=0.5,a": "`--set stages` must be numbers separated by commas, or none",
    "decay=0.5": "`--set decay` must be left out, since schedule linear has none",
}
OF_WEIGHTS = {
    "masked=false": "`--set masked` must be a setting of algorithm weight: batch-size, learning-rate, ",
    "last=1": "`--set last` must be a setting of algorithm weight: ",
    "snapshot-every=5": "`--set snapshot-every` must be left out, since it would have no effect: the log of",
    "step-clip=2": "`--set step-clip` must be left out, since it would have no effect: no step of a weight",
    "perturbation=3": "`--set perturbation` must be one of rademacher:LSB, sparse-uniform:LSB[:ZEROS], gaussian:LSB",
}
NUMBERS = "must have numbers in range"
QUERIES = "`--set queries` must be a number, auto, or LAYER=NUMBER separated by commas. Received"
LAYERS = "`--set layers` must be names of layers separated by commas"

# model, options, error
OPTIONS: list[tuple[str, str, str]] = [
    *((model, f"--set {setting}", said) for setting, said in OF_NODES.items() for model in (NODE, PLAIN)),
    *((WEIGHT, f"--set {setting}", said) for setting, said in OF_WEIGHTS.items()),
    *((PLAIN, f"--algorithm weight --set {setting}", said) for setting, said in OF_WEIGHTS.items()),
    (WEIGHT, "--set perturbation=rademacher", OF_WEIGHTS["perturbation=3"]),
    (WEIGHT, "--set perturbation=rademacher:0", f"{NUMBERS} (`mu` must be in 1..127. Received: 0.)"),
    (WEIGHT, "--set perturbation=rademacher:a", f"{NUMBERS} (invalid literal for int() with base 10: 'a')"),
    (WEIGHT, "--set perturbation=gaussian:-1", "`std` must be"),
    (WEIGHT, "--set perturbation=rademacher:3", "must move weights by at most the headroom 2 LSB, not by 3 LSB"),
    (WEIGHT, "--set queries=fc=2", "`--set weights.queries` must be one number where all layers are perturbed"),
    (WEIGHT, "--set queries=20", "Inject the original model with `--max-queries 20`"),
    (WEIGHT, "--learning-rate nan", "`--learning-rate` must be in 1.52588e-05..16384"),
    (WEIGHT, "--set clip=-1", "`--set weights.clip` must be in 0..16384"),
    (WEIGHT, "--set schedule=step --set decay=2", "`--set decay` must be in 0..1"),
    (WEIGHT, "--steps 0", "`--steps` must be at least 1. Received: 0"),
    (WEIGHT, "--set sync-every=-1", "`--set sync-every` must be in 0..4.29497e+09. Received: -1.0"),
    (WEIGHT, "--algorithm node", "the model, which carries no nodes. Received: 'node'. Give the plain"),
    (WEIGHT, f"--log {WEIGHT} --force", "--log and MODEL are the same file"),
    (WEIGHT, "--log new.tflite", "--log and -o are the same file"),
    (WEIGHT, "--log ./d.npz --force", "--log and DATA are the same file"),
    (WEIGHT, "--log absent/a.zolog", "the folder absent does not exist"),
    (WEIGHT, "-o weight.tflite --log new.zolog", "weight.tflite exists. Choose another name, or use `--force`"),
    (WEIGHT, "--log weight.zolog", "weight.zolog exists"),
    *((NODE, f"--set queries={v}", f"{QUERIES}: '{v}'") for v in ("many", "-1", "fc=", "=3", "3,4", "auto,fc=4")),
    (NODE, "--set queries=3 --set queries=4", "`--set queries` must be given once"),
    (NODE, "--set queries=fc=3,fc=4", "`--set queries` must contain `fc` once"),
    (NODE, "--set queries=conv=3", "`--set nodes.queries` must name layers that are trained so (fc)"),
    (NODE, "--set queries=0", "`--set nodes.queries` must be an integer in 1..32. Received: 0"),
    (NODE, "--set queries=fc=33", "`--set nodes.queries` must be an integer in 1..32. Received: 33"),
    (NODE, "--set perturbation=0", "`--set nodes.perturbation` must be an integer in 1..127. Received: 0"),
    (NODE, "--set perturbation=128", "`--set nodes.perturbation` must be an integer in 1..127"),
    (
        NODE,
        "--set exact.rule=soft",
        "`--set exact.rule` must be one of rms, per-error, bits, standardized. Received: 'soft'",
    ),
    (NODE, "--set exact.rule=bits --set exact.bits=5,4", "`--set exact.bits` must be a number for each of three"),
    (NODE, "--set layers=fc9", "`--set layers` must name trained layers (fc)"),
    (NODE, "--set layers=fc,,conv", LAYERS),
    (NODE, "--set layers=,", LAYERS),
    (NODE, "--set update-bits=8", "`--set update-bits` must be left out, since the model is a ZO model"),
    (NODE, "--learning-rate 0", "`--learning-rate` must be in 1.52588e-05..128"),
    (NODE, "--learning-rate nan", "`--learning-rate` must be in 1.52588e-05..128"),
    (NODE, "--learning-rate 1 --set final-learning-rate=2", "`--set final-learning-rate` must be in 0..1"),
    (NODE, "--set step-clip=0", "`--set step-clip` must be in 1.52588e-05..256"),
    (NODE, "--set snapshot-every=0", "`--set snapshot-every` must be an integer in 1..2147483648"),
    (NODE, "--batch-size 12", "`--batch-size` must be a multiple of the model's batch 8. Received: 12"),
    (NODE, "--zo-model z.tflite", "`--zo-model` must be left out, since the model is a ZO model already"),
    (NODE, "--algorithm weight", "must move weights by at most the headroom 0 LSB, not by 1 LSB"),
    (NODE, "--budget 10", "`--steps` must be the only length of the run. Remove `--budget`"),
    (PLAIN, f"--zo-model {PLAIN} --force", "--zo-model and MODEL are the same file"),
    (PLAIN, "--zo-model new.zolog", "--zo-model and --log are the same file"),
    (PLAIN, "--zo-model absent/z", "the folder absent does not exist"),
    (PLAIN, "--zo-model node.zolog", "node.zolog exists"),
    (PLAIN, "--log new.zo.tflite", "--zo-model and --log are the same file"),
    (PLAIN, "--batch-size 0", "`--batch-size` must be an integer in 1..1048576. Received: 0"),
    (PLAIN, "--validation windows.npz", "windows.npz: `x` must have samples of shape [8, 8, 1]. Received: [24]."),
    (PLAIN, "--validation d.npz --held-out 0.5", "`--held-out` must be left out with --validation"),
    (PLAIN, "--held-out 0.01", "`--held-out` must divide the 32 labelled samples"),
    (PLAIN, "--held-out -0.1", "`--held-out` must be in 0..1"),
    (PLAIN, "--held-out 1.5", "`--held-out` must be in 0..1"),
    (PLAIN, "--rehearsal none.npz", "none.npz: cannot be read: No such file"),
    (PLAIN, "--rehearsal windows.npz", "windows.npz: `x` must have samples of shape"),
]


@pytest.mark.parametrize(("model", "options", "said"), OPTIONS)
def test_options(model: str, options: str, said: str, files: Path) -> None:
    refused(files, *train(model, options), said=said)


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
    line = refused(files, *train(WEIGHT, f"--set {name}={value}"), said=f"{name}` must be one of ")
    assert all(said in line for said in (*choices, f"Received: '{value}'"))


@pytest.mark.parametrize(
    ("command", "option", "value", "choices"),
    [
        (train(WEIGHT), "--runtime", "onnx", tuple(RUNTIMES)),
        (train(WEIGHT), "--keep", "first", KEEPS),
        (train(NODE), "--algorithm", "adam", tuple(ALGORITHMS)),
        (["inject", PLAIN, "-o", "new"], "--algorithm", "adam", tuple(ALGORITHMS)),
    ],
)
def test_unknown_choices_are_wrong_usage(
    command: list[str], option: str, value: str, choices: tuple[str, ...], files: Path
) -> None:
    said = f"Invalid value for '{option}': must be one of {', '.join(choices)}. Received: '{value}'."
    wrong_usage(files, *command, option, value, said=said)


@pytest.mark.parametrize("setting", ["weights.headroom=3", "weights.queries=2", "weights.scope=layers"])
def test_tasks_that_no_layer_is_left_for(setting: str, files: Path) -> None:
    """Trains a ZO model with nodes on all trainable layers."""
    Path(NODE).write_bytes(inject_all(MODELS["small_cnn"](), nodes="auto", trainable="nodes", batch=8).to_bytes())
    said = f"`--set {setting.split('=')[0]}` must be left out, since it would have no effect: no layer of"
    refused(files, *train(NODE, f"--set {setting}"), said=said)


def test_budgets(files: Path) -> None:
    budget = ("train", NODE, "d.npz", "-o", "new", "--held-out", 0, "--budget")
    for value in ("0", "-5", "nan", "inf"):
        refused(files, *budget, value, said="`--budget` must be forward equivalents above 0 and below 2^63")
    # A step of 8 samples, and their prefix: see test_budget.
    said = "`--budget` must be at least 9 forward equivalents, the cost of a step. Received: 7.0"
    refused(files, *budget, 7, said=said)


@pytest.mark.parametrize("name", ["plain.tflite", "plain.zolog", "plain.zo.tflite"])
def test_nothing_is_replaced_unasked(name: str, files: Path) -> None:
    for other in {"plain.tflite", "plain.zolog", "plain.zo.tflite"} - {name}:
        Path(other).unlink()
    said = f"{name} exists. Choose another name, or use `--force`"
    refused(files, *train(PLAIN, output="plain.tflite"), said=said)


NODES_FIT = "`--nodes` must fit a trainable layer: conv"
REPLAY_NODE = f"replay {NODE} node.zolog -o new.tflite"
REPLAY = f"replay {WEIGHT} weight.zolog -o new.tflite"


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (f"train {WEIGHT} absent.npz -o new.tflite", "absent.npz: cannot be read: No such file"),
        (f"train {WEIGHT} {NODE} -o new.tflite", "damaged"),
        ("train absent.tflite d.npz -o new.tflite", "absent.tflite: No such file"),
        ("train d.npz d.npz -o new.tflite", "error: "),
        (f"{REPLAY} --steps -1", f"must be in 0..{STEPS}, the whole steps of the log. Received: -1"),
        (f"{REPLAY} --steps 7", f"must be in 0..{STEPS}, the whole steps of the log. Received: 7"),
        (f"replay {WEIGHT} weight.zolog -o weight.zolog --force", "-o and LOG are the same file"),
        *(
            (f"{command} {WEIGHT} d.npz -o d.npz --force", "-o and DATA are the same file")
            for command in ("calibrate", "convert", "evaluate", "verify")
        ),
        *(
            (f"{command} {WEIGHT} -o {WEIGHT} --force", "-o and MODEL are the same file")
            for command in ("export", "inject", "plan")
        ),
        (f"replay other.{WEIGHT} weight.zolog -o new.tflite", "of another model"),
        (f"replay other.{NODE} node.zolog -o new.tflite", "of another model"),
        *((f"{REPLAY_NODE} --steps {n}", f"after step {n}. It has snapshots after step 6. Other") for n in (-1, 4, 7)),
        (f"inject {PLAIN} -o new --algorithm weight --nodes fc", "`--nodes` must be left out, since algorithm weight"),
        (f"inject {PLAIN} -o new --nodes nowhere", f"{NODES_FIT}, fc"),
        (f"inject {PLAIN} -o new --nodes auto,fc", "`--nodes` must have auto or last:N alone. Received: 'auto,fc'"),
        (f"inject {PLAIN} -o new --nodes fc,", "`--nodes` must be names of layers"),
        (f"inject {PLAIN} -o new --nodes fc --trainable conv", NODES_FIT),
        (
            f"inject {PLAIN} -o new --algorithm weight --trainable nodes",
            "`--nodes` must name a layer where only layers with",
        ),
        (f"inject {PLAIN} -o new --trainable nodes --trainable fc", "must have all, nodes, none or last:N alone"),
        (f"inject {PLAIN} -o new --algorithm node --loss none", "nodes need a loss"),
        (f"inspect {NODE} --nodes", "--nodes takes a plain model"),
    ],
)
def test_other_commands(command: str, said: str, files: Path) -> None:
    refused(files, *command.split(), said=said)


def test_inject_a_layer_that_cannot(files: Path) -> None:
    Path(PLAIN).write_bytes(MODELS["two_inputs"]())
    said = "`--nodes` must not include layer `fc_features`, which reads the input `features`; of the"
    refused(files, "inject", PLAIN, "-o", "new.zo.tflite", "--nodes", "fc_features", said=said)


def test_unwritable_folder(files: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tests may run as root, whom permissions do not stop."""
    real = os.access
    monkeypatch.setattr(os, "access", lambda path, mode, **more: mode != os.W_OK and real(path, mode, **more))
    for command in (train(WEIGHT), REPLAY.split()):
        refused(files, *command, said="cannot be written to")


def test_force_replaces_a_log_only_once_all_is_well(files: Path) -> None:
    for bad in ("--steps 0", "--learning-rate -1", "--set queries=20", "--validation absent.npz"):
        refused(files, *train(WEIGHT, f"--force {bad}", output="weight.tflite"), said="error: ")


# --- logs ---------------------------------------------------------------------------------------------------


def _logs(whole: bytes, kind: str) -> dict[str, tuple[bytes, str]]:
    return {
        "foreign": (b"my diary\n" * 30, f"is no {kind}"),
        "damaged header": (whole[:60] + bytes([whole[60] ^ 255]) + whole[61:], "its header is damaged"),
        "an empty file": (b"", "ends within its header: there is no step in it"),
        "a few bytes": (whole[:7], "ends within its header: there is no step in it"),
        "half a header": (whole[:90], "ends within its header: there is no step in it"),
    }


@pytest.mark.parametrize(("model", "kind"), [(WEIGHT, "seed log of this version"), (NODE, "s")])
@pytest.mark.parametrize("name", [*_logs(bytes(HEADER), ""), "none"])
def test_what_is_no_log(name: str, model: str, kind: str, files: Path, base: dict[str, bytes]) -> None:
    """Resuming warns, and trains to the same bits, if the log was not there or its header not complete."""
    output = model.partition(".")[0]
    if name == "none":
        said = "ends within its header"
    else:
        content, said = _logs(base[f"{output}.zolog"], kind)[name]
        Path("new.zolog").write_bytes(content)
        refused(files, "replay", model, "new.zolog", "-o", "new.tflite", said=said)
    if "ends" not in said:
        refused(files, *train(model, "--resume"), said=said)
    else:
        done = run(*train(model, "--resume"))
        assert done.stderr.startswith("warning: ") and "training from the beginning" in done.stderr.splitlines()[0]
        for end in ("zolog", "tflite"):
            assert Path(f"new.{end}").read_bytes() == base[f"{output}.{end}"]


def test_a_short_foreign_file_is_no_log(files: Path) -> None:
    Path("new.zolog").write_bytes(b"my diary")
    for command in (train(WEIGHT, "--resume"), REPLAY.replace("weight.zolog", "new.zolog").split()):
        refused(files, *command, said="is no seed log of this version")


OTHER_RUNS = {
    WEIGHT: ("--set seed=5", "--steps 7", "--learning-rate 1.5"),
    NODE: ("--set seed=5", "--steps 7", "--set perturbation=3", "--set queries=2", "--set snapshot-every=7"),
}


@pytest.mark.parametrize("model", OTHER_RUNS)
def test_logs_of_other_runs(model: str, files: Path) -> None:
    resume = f"--resume --log {model.partition('.')[0]}.zolog"
    refused(files, *train(f"other.{model}", resume), said="of another model")
    for change in OTHER_RUNS[model]:
        refused(files, *train(model, f"{resume} {change}"), said="other settings, data or number of steps")
    x, y, said = (X[1:], Y[1:], "data or number of steps") if model == WEIGHT else (X, Y[::-1], "on other data")
    np.savez("d.npz", x=x, y=y)
    refused(files, *train(model, resume), said=said)


def test_logs_of_the_other_kind(files: Path) -> None:
    said = "weight.zolog is no snapshot log of this version, but a seed log"
    refused(files, *train(NODE, "--resume --log weight.zolog"), said=said)
    said = "node.zolog is no seed log of this version, but a snapshot log"
    refused(files, *train(WEIGHT, "--resume --log node.zolog"), said=said)


def test_resuming_another_plain_model(files: Path) -> None:
    resume = train(PLAIN, "--resume", output="plain.tflite")
    Path(PLAIN).write_bytes(MODELS["small_cnn"](5))
    refused(files, *resume, said="plain.zo.tflite is another ZO model than the given")
    Path("plain.zo.tflite").unlink()
    refused(files, *resume, said="of another model", last=True)


# --- full disks ---------------------------------------------------------------------------------------------


def test_no_room_for_the_zo_model(files: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any, **__: Any) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(zo_model, "write_output", full)
    refused(files, *train(PLAIN), said="No space left on device", last=True)


def test_no_room_for_the_log(files: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Disk(monkeypatch, 0)
    refused(files, *train(PLAIN), said="new.zolog: No space left on device", last=True)


def test_no_room_for_the_model(files: Path, base: dict[str, bytes], monkeypatch: pytest.MonkeyPatch) -> None:
    real, calls = os.fsync, [0]

    def fsync(handle: int) -> None:
        calls[0] += 1
        if calls[0] > 3:  # the log's beginning, its folder, its end
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        real(handle)

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", fsync)
        done = invoke(*train(WEIGHT))
    assert done.exit_code == 1
    assert done.stderr.splitlines()[-1] == (
        "error: new.tflite: No space left on device; nothing is lost: "
        f"tflm-zo replay makes the model of {WEIGHT} and new.zolog"
    )
    assert not Path("new.tflite").exists() and Path("new.zolog").read_bytes() == base["weight.zolog"]
    run("replay", WEIGHT, "new.zolog", "-o", "new.tflite")
    assert Path("new.tflite").read_bytes() == base["weight.tflite"]
    assert not list(files.glob(".*"))
