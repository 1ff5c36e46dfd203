"""Bad input to node perturbation: one line with the expected value, and nothing is written."""

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
from tflm_zo.adaptation import zo_model
from tflm_zo.cli import training_report
from tflm_zo.training import ALGORITHMS

RNG = np.random.default_rng(0)
X, Y = RNG.integers(-128, 128, (32, 8, 8, 1)).astype(np.int8), RNG.integers(0, 4, 32)


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """Makes models, data and finished runs, by file name."""
    folder = tmp_path_factory.mktemp("base")
    (folder / "p.tflite").write_bytes(MODELS["small_cnn"]())
    inject_all(MODELS["small_cnn"](), batch=8).save(folder / "weight.zo.tflite")
    inject_all(MODELS["small_cnn"](), nodes="auto", headroom=0, batch=8).save(folder / "node.zo.tflite")
    inject_all(MODELS["small_cnn"](5), nodes="auto", headroom=0, batch=8).save(folder / "other.zo.tflite")
    inject_all(MODELS["autoencoder"](), nodes="auto", batch=8).save(folder / "ae.zo.tflite")
    np.savez(folder / "d.npz", x=X, y=Y)
    np.savez(folder / "windows.npz", x=RNG.uniform(-1, 1, (32, 24)).astype(np.float32))
    for model, name in (("node.zo.tflite", "run"), ("weight.zo.tflite", "weights"), ("p.tflite", "plain")):
        done = invoke(*_train(folder, folder / f"{name}.tflite", model))
        assert done.exit_code == 0, done.output
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def _train(folder: Path, output: Any, model: str = "node.zo.tflite", data: str = "d.npz") -> list[Any]:
    return ["train", folder / model, folder / data, "--steps", 6, "-o", output]


@pytest.fixture
def files(base: dict[str, bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name, content in base.items():
        (tmp_path / name).write_bytes(content)
    return tmp_path


SETTINGS = "batch-size, learning-rate, "
OF_NODES = {
    "scope=blocks": f"`--set scope` must be a setting of algorithm node: {SETTINGS}",
    "clip=2": f"`--set clip` must be a setting of algorithm node: {SETTINGS}",
    "last=1": f"`--set last` must be a setting of algorithm node: {SETTINGS}",
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
    "masked=false": f"`--set masked` must be a setting of algorithm weight: {SETTINGS}",
    "last=1": f"`--set last` must be a setting of algorithm weight: {SETTINGS}",
    "snapshot-every=5": "`--set snapshot-every` must be left out, since it would have no effect: the log of",
    "step-clip=2": "`--set step-clip` must be left out, since it would have no effect: no step of a weight",
    "perturbation=3": "`--set perturbation` must be one of rademacher:LSB, sparse-uniform:LSB[:ZEROS]",
}


@pytest.mark.parametrize("model", ["p.tflite", "node.zo.tflite"])
@pytest.mark.parametrize("setting", OF_NODES)
def test_settings_of_node_perturbation(model: str, setting: str, files: Path) -> None:
    refused(files, *_train(files, "new.tflite", model), "--set", setting, said=OF_NODES[setting])


@pytest.mark.parametrize("setting", OF_WEIGHTS)
@pytest.mark.parametrize("model", [("weight.zo.tflite",), ("p.tflite", "--algorithm", "weight")], ids=lambda m: m[0])
def test_settings_of_weight_perturbation(setting: str, model: tuple[str, ...], files: Path) -> None:
    command = (*_train(files, "new.tflite", model[0]), *model[1:], "--set", setting)
    refused(files, *command, said=OF_WEIGHTS[setting])


@pytest.mark.parametrize("setting", ["weights.headroom=3", "weights.queries=2", "weights.scope=layers"])
def test_tasks_that_no_layer_is_left_for(setting: str, files: Path) -> None:
    """Trains a ZO model with nodes on all trainable layers."""
    zo = inject_all(MODELS["small_cnn"](), nodes="auto", trainable="nodes", batch=8)
    (files / "node.zo.tflite").write_bytes(zo.to_bytes())
    said = f"`--set {setting.split('=')[0]}` must be left out, since it would have no effect: no layer of"
    refused(files, *_train(files, "new.tflite"), "--set", setting, said=said)


def test_unknown_algorithms_list_what_there_is(files: Path) -> None:
    said = f"must be one of {', '.join(ALGORITHMS)}. Received: 'adam'"
    for command in (_train(files, "new"), ["inject", files / "p.tflite", "-o", "new"]):
        wrong_usage(files, *command, "--algorithm", "adam", said=said)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (
            ("--set", "queries=many"),
            "`--set queries` must be a number, auto, or LAYER=NUMBER separated by commas. Received: 'many'",
        ),
        (
            ("--set", "queries=-1"),
            "`--set queries` must be a number, auto, or LAYER=NUMBER separated by commas. Received: '-1'",
        ),
        (
            ("--set", "queries=fc="),
            "`--set queries` must be a number, auto, or LAYER=NUMBER separated by commas. Received: 'fc='",
        ),
        (
            ("--set", "queries==3"),
            "`--set queries` must be a number, auto, or LAYER=NUMBER separated by commas. Received: '=3'",
        ),
        (
            ("--set", "queries=3,4"),
            "`--set queries` must be a number, auto, or LAYER=NUMBER separated by commas. Received: '3,4'",
        ),
        (("--set", "queries=3", "--set", "queries=4"), "`--set queries` must be given once"),
        (
            ("--set", "queries=auto,fc=4"),
            "`--set queries` must be a number, auto, or LAYER=NUMBER separated by commas. Received",
        ),
        (("--set", "queries=fc=3,fc=4"), "`--set queries` must contain `fc` once"),
        (("--set", "queries=conv=3"), "`--set nodes.queries` must name layers that are trained so (fc)"),
        (("--set", "queries=0"), "`--set nodes.queries` must be an integer in 1..32. Received: 0"),
        (("--set", "queries=fc=33"), "`--set nodes.queries` must be an integer in 1..32. Received: 33"),
        (("--set", "perturbation=0"), "`--set nodes.perturbation` must be an integer in 1..127. Received: 0"),
        (("--set", "perturbation=128"), "`--set nodes.perturbation` must be an integer in 1..127"),
        (("--set", "exact.rule=soft"), "`--set exact.rule` must be one of rms, bits, standardized. Received: 'soft'"),
        (("--set", "schedule=exponential"), "`--set schedule` must be one of constant, linear, cosine, step"),
        (("--learning-rate", "0"), "`--learning-rate` must be in 1.52588e-05..128"),
        (("--learning-rate", "nan"), "`--learning-rate` must be in 1.52588e-05..128"),
        (("--learning-rate", "1", "--set", "final-learning-rate=2"), "`--set final-learning-rate` must be in 0..1"),
        (("--set", "step-clip=0"), "`--set step-clip` must be in 1.52588e-05..256"),
        (("--set", "snapshot-every=0"), "`--set snapshot-every` must be an integer in 1..2147483648"),
        (("--batch-size", "12"), "`--batch-size` must be a multiple of the model's batch 8. Received: 12"),
        (("--zo-model", "z.tflite"), "`--zo-model` must be left out, since the model is a ZO model already"),
        (("--log", "run.zolog"), "run.zolog exists"),
        (
            ("--algorithm", "weight"),
            "`--set weights.perturbation` must move weights by at most the headroom 0 LSB, not by 1 LSB",
        ),
    ],
)
def test_options(options: tuple[str, ...], said: str, files: Path) -> None:
    refused(files, *_train(files, "new.tflite"), *options, said=said)


def test_other_refusals(files: Path) -> None:
    budget = ("train", "node.zo.tflite", "d.npz", "-o", "new", "--budget")
    refused(files, *budget, 10, "--steps", 3, said="`--steps` must be the only length of the run. Remove `--budget`")
    for value in ("0", "-5", "nan", "inf"):
        refused(files, *budget, value, said="`--budget` must be forward equivalents above 0 and below 2^63")
    # A step of 32 samples, and the prefix of 32: see test_budget.
    refused(
        files,
        *budget,
        30,
        "--held-out",
        0,
        said="`--budget` must be at least 35 forward equivalents, the cost of a step. Received: 30.0",
    )
    weight = _train(files, "new.tflite", "weight.zo.tflite")
    refused(
        files,
        *weight,
        "--algorithm",
        "node",
        said="the model, which carries no nodes. Received: 'node'. Give the plain",
    )
    said = "`--set weights.queries` must be one number where all layers are perturbed together"
    refused(files, *weight, "--set", "queries=fc=2", said=said)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--zo-model", "p.tflite", "--force"), "--zo-model and MODEL are the same file"),
        (("--zo-model", "new.zolog"), "--zo-model and --log are the same file"),
        (("--zo-model", "absent/z"), "the folder absent does not exist"),
        (("--zo-model", "run.zolog"), "run.zolog exists"),
        (("--log", "new.zo.tflite"), "--zo-model and --log are the same file"),
        (("--batch-size", "0"), "`--batch-size` must be an integer in 1..1048576. Received: 0"),
        (("--validation", "windows.npz"), "windows.npz: `x` must have samples of shape [8, 8, 1]. Received: [24]."),
    ],
)
def test_options_of_a_plain_model(options: tuple[str, ...], said: str, files: Path) -> None:
    refused(files, *_train(files, "new.tflite", "p.tflite"), *options, said=said)


@pytest.mark.parametrize("name", ["plain.tflite", "plain.zolog", "plain.zo.tflite"])
def test_nothing_is_replaced_unasked(name: str, files: Path) -> None:
    for other in ("plain.tflite", "plain.zolog", "plain.zo.tflite"):
        if other != name:
            (files / other).unlink()
    refused(
        files, *_train(files, "plain.tflite", "p.tflite"), said=f"{name} exists. Choose another name, or use `--force`"
    )


@pytest.mark.parametrize("model", ["p.tflite", "node.zo.tflite"])
def test_data(model: str, files: Path) -> None:
    np.savez(files / "bad.npz", x=X, y=Y + 1)
    said = "bad.npz: y: label 4 is out of range. It must be in 0..3"
    refused(files, *_train(files, "new.tflite", model, "bad.npz"), said=said)


# --- logs ---------------------------------------------------------------------------------------------------


def test_logs_of_other_runs(files: Path) -> None:
    resume = [*_train(files, "new.tflite"), "--resume", "--log"]
    refused(files, *resume, "weights.zolog", said="weights.zolog is no snapshot log of this version, but a seed log")
    weight = [*_train(files, "new.tflite", "weight.zo.tflite"), "--resume", "--log"]
    refused(files, *weight, "run.zolog", said="run.zolog is no seed log of this version, but a snapshot log")
    other = [*_train(files, "new.tflite", "other.zo.tflite"), "--resume", "--log", "run.zolog"]
    refused(files, *other, said="of another model")
    said = "other settings, data or number of steps"
    for change in (
        ("--set", "seed=5"),
        ("--steps", 7),
        ("--set", "perturbation=3"),
        ("--set", "queries=2"),
        ("--set", "snapshot-every=7"),
    ):
        refused(files, *resume, "run.zolog", *change, said=said)
    np.savez(files / "d.npz", x=X, y=Y[::-1])
    refused(files, *resume, "run.zolog", said="on other data")
    replay = ("replay", files / "other.zo.tflite", files / "run.zolog", "-o", "new.tflite")
    refused(files, *replay, said="of another model")
    replay = ("replay", files / "node.zo.tflite", files / "run.zolog", "-o", "new.tflite", "--steps")
    for steps in (-1, 4, 7):
        refused(
            files, *replay, steps, said=f"must have a snapshot after step {steps}. It has snapshots after steps 5 and 6"
        )


def test_resuming_another_plain_model(files: Path) -> None:
    """Refuses it: the ZO model beside the output is that of the run."""
    resume = (*_train(files, "plain.tflite", "p.tflite"), "--resume")
    (files / "p.tflite").write_bytes(MODELS["small_cnn"](5))
    refused(files, *resume, said="plain.zo.tflite is another ZO model than the given")
    (files / "plain.zo.tflite").unlink()
    refused(files, *resume, said="of another model")


def _logs(whole: bytes) -> dict[str, tuple[bytes, str]]:
    return {
        "foreign": (b"my diary\n" * 30, "is no s"),
        "damaged header": (whole[:60] + bytes([whole[60] ^ 255]) + whole[61:], "its header is damaged"),
        "an empty file": (b"", "ends within its header: there is no step in it"),
        "a few bytes": (whole[:7], "ends within its header: there is no step in it"),
        "half a header": (whole[:90], "ends within its header: there is no step in it"),
    }


@pytest.mark.parametrize("name", _logs(bytes(100)))
def test_what_is_no_log(name: str, files: Path, base: dict[str, bytes]) -> None:
    content, said = _logs(base["run.zolog"])[name]
    (files / "new.zolog").write_bytes(content)
    replay = ("replay", files / "node.zo.tflite", files / "new.zolog", "-o", files / "new.tflite")
    refused(files, *replay, said=said)
    resume = [*map(str, _train(files, "new.tflite")), "--resume"]
    if "header" not in said or "damaged" in said:
        refused(files, *resume, said=said)
    else:
        done = invoke(*resume)
        assert done.exit_code == 0
        assert "training from the beginning" in done.stderr.splitlines()[0]
        assert (files / "new.zolog").read_bytes() == base["run.zolog"]
        assert (files / "new.tflite").read_bytes() == base["run.tflite"]


# --- full disks ---------------------------------------------------------------------------------------------


def _full(*_: Any, **__: Any) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_no_room_for_the_zo_model(files: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(zo_model, "write_output", _full)
    refused(files, *_train(files, "new.tflite", "p.tflite"), said="No space left on device", last=True)


def test_no_room_for_the_log(files: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Leaves no ZO model without a log."""
    Disk(monkeypatch, 0)
    said = "new.zolog: No space left on device"
    refused(files, *_train(files, "new.tflite", "p.tflite"), said=said, last=True)


def test_no_room_for_the_model(files: Path, base: dict[str, bytes], monkeypatch: pytest.MonkeyPatch) -> None:
    """Names replay's inputs if the model does not fit the disk: the run is not lost."""
    arguments = [str(a) for a in _train(files, "new.tflite", "p.tflite")]
    with monkeypatch.context() as patch:
        patch.setattr(training_report, "write_output", _full)
        done = invoke(*arguments)
    assert done.exit_code == 1
    assert done.stderr.splitlines()[-1] == (
        "error: new.tflite: No space left on device; nothing is lost: "
        "tflm-zo replay makes the model of new.zo.tflite and new.zolog"
    )
    assert not (files / "new.tflite").exists()
    replay = ("replay", "new.zo.tflite", "new.zolog", "-o", "new.tflite", "--batch", "1")
    assert invoke(*replay).exit_code == 0
    assert (files / "new.tflite").read_bytes() == base["plain.tflite"]


# --- inject and inspect -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (
            ("--algorithm", "weight", "--nodes", "fc"),
            "`--nodes` must be left out, since algorithm weight perturbs weights",
        ),
        (("--nodes", "nowhere"), "`--nodes` must fit a trainable layer: conv, fc"),
        (("--nodes", "auto,fc"), "`--nodes` must have auto or last:N alone. Received: 'auto,fc'"),
        (("--nodes", "fc,"), "`--nodes` must be names of layers"),
        (("--nodes", "fc", "--trainable", "conv"), "`--nodes` must fit a trainable layer: conv"),
        (
            ("--algorithm", "weight", "--trainable", "nodes"),
            "`--nodes` must name a layer where only layers with nodes are trainable",
        ),
        (("--trainable", "nodes", "--trainable", "fc"), "`--trainable` must have all, nodes, none or last:N alone"),
        (("--algorithm", "node", "--loss", "none"), "nodes need a loss"),
    ],
)
def test_inject(options: tuple[str, ...], said: str, files: Path) -> None:
    refused(files, "inject", files / "p.tflite", "-o", "new.zo.tflite", *options, said=said)


def test_inject_a_layer_that_cannot(files: Path) -> None:
    (files / "p.tflite").write_bytes(MODELS["two_inputs"]())
    command = ("inject", files / "p.tflite", "-o", "new.zo.tflite", "--nodes", "fc_features")
    refused(
        files, *command, said="`--nodes` must not include layer `fc_features`, which reads the input `features`; of the"
    )


def test_inspect_nodes_of_a_zo_model(files: Path) -> None:
    refused(files, "inspect", files / "node.zo.tflite", "--nodes", said="--nodes takes a plain model")
