# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""train, replay and verify by node perturbation, on plain models and on ZO models."""

from __future__ import annotations

import dataclasses
import json
import signal
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from helpers.injection import inject_all
from helpers.interpreters import require, run_plain
from helpers.models import MODELS, GraphBuilder
from helpers.processes import start, wait_until
from tflm_zo import inject
from tflm_zo.cli.app import app
from tflm_zo.cli.commands import verify as verify_command
from tflm_zo.converters import load_model, read_metadata, set_batch
from tflm_zo.logs import SeedLog, SnapshotLog
from tflm_zo.training import Callback, Nodes, Settings, Trainer, Weights, best_state
from tflm_zo.training.held_out import held_out_samples
from tflm_zo.training.integers import layerwise_integers

MACS = {"conv1": 117_600, "conv2": 240_000, "fc1": 48_000, "fc2": 10_080, "fc3": 840}  # of lenet5
LENET = sum(MACS.values())


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """small_cnn as a plain model, p.tflite, and 32 samples, d.npz."""
    monkeypatch.chdir(tmp_path)
    Path("p.tflite").write_bytes(MODELS["small_cnn"]())
    rng = np.random.default_rng(0)
    x = rng.integers(-128, 128, (32, 8, 8, 1)).astype(np.int8)
    np.savez("d.npz", x=x, y=rng.integers(0, 4, 32))
    return tmp_path


def run(*arguments: Any, code: int = 0) -> Any:
    done = CliRunner().invoke(app, [str(a) for a in arguments])
    assert done.exit_code == code, done.output
    return done


def result_of(*arguments: Any) -> Any:
    return json.loads(run(*arguments, "--json").stdout)


def files(name: str) -> list[bytes]:
    return [Path(f"{name}{end}").read_bytes() for end in (".tflite", ".zolog", ".zo.tflite")]


def patterns(model: str, classes: int, samples: dict[str, int]) -> None:
    """Writes .npz files of noisy patterns, one for each class, in the units of the model."""
    shape = load_model(MODELS[model]()).subgraphs[0].inputs[0].shape[1:]
    rng = np.random.default_rng(1)
    clean = rng.uniform(-1.5, 1.5, (classes, *shape))
    for name, count in samples.items():
        y = rng.integers(0, classes, count)
        x = np.clip(clean[y] + rng.normal(0, 0.3, (count, *shape)), -1.9, 1.9)
        np.savez(name, x=x.astype(np.float32), y=y)


def accuracy(model: Path, data: str) -> float:
    """By LiteRT without anything of ours, one sample at a time."""
    quantization = load_model(model).subgraphs[0].inputs[0].quantization
    assert quantization is not None
    with np.load(data) as arrays:
        levels = np.rint(arrays["x"] / quantization.scale) + quantization.zero_point
        right = [
            run_plain(model.read_bytes(), "litert", [x[None]])[0].argmax() == y
            for x, y in zip(levels.clip(-128, 127).astype(np.int8), arrays["y"], strict=True)
        ]
    return float(np.mean(right))


def test_the_defaults_adapt_a_plain_model(folder: Path) -> None:
    """LeNet-5 with random weights learns ten patterns; what it cost, by hand."""
    Path("lenet5.tflite").write_bytes(MODELS["lenet5"]())
    patterns("lenet5", 10, {"train.npz": 320, "test.npz": 100})
    assert accuracy(folder / "lenet5.tflite", "test.npz") < 0.4
    done = run("train", "lenet5.tflite", "train.npz", "-o", "a.tflite", "--validation", "test.npz", "--json")
    assert "equivalents" in done.stderr
    result = json.loads(done.stdout)
    assert result["algorithm"] == "node"
    assert result["accuracy"] == pytest.approx(accuracy(folder / "a.tflite", "test.npz"))
    assert result["accuracy"] > 0.95

    # The layers with fewer nodes than weights, the batch that the runs of evaluate have, and the original's
    # outputs: no headroom.
    layers = ["conv2", "fc1", "fc2", "fc3"]
    zo = inject(
        "lenet5.tflite",
        trainable=layers,
        nodes=layers,
        headroom=0,
        replay=False,
        batch=32,
        algorithm="node",
        export_batch=1,
    )
    assert Path("a.zo.tflite").read_bytes() == zo.to_bytes()
    assert result["trainable_weights"] == 2400 + 48_000 + 10_080 + 840
    trained, original = (
        {t.name: t.numpy().tobytes() for t in load_model(p).subgraphs[0].tensors if t.is_constant}
        for p in ("a.tflite", "lenet5.tflite")
    )
    assert trained.keys() == original.keys()
    changed = {name for name in original if trained[name] != original[name]}
    assert changed == {f"{layer}/filter" for layer in layers}
    assert load_model("a.tflite").subgraphs[0].inputs[0].shape == (1, 28, 28, 1)

    # Behind each layer's nodes, in MACs: fc1 fc2 fc3; fc2 fc3; fc3; nothing. Queries whose two forward
    # passes cost a tenth of a whole one, 2..32. An update costs what its layer does at its nodes: behind
    # its pooling conv2 has a quarter of the outputs.
    behind = [58_920, 10_920, 840, 0]
    queries = [2, 2, 24, 32]
    sample = sum(MACS[layer] for layer in layers)
    sample += sum(2 * q * macs for q, macs in zip(queries, behind, strict=True))
    sample += MACS["conv2"] // 4 + MACS["fc1"] + MACS["fc2"] + MACS["fc3"]
    prefix = 320 * MACS["conv1"]
    steps = 30 * 10  # ten epochs would be a hundred
    assert result["steps"] == steps
    assert result["equivalents"] == pytest.approx((prefix + steps * 32 * sample) / LENET, abs=1e-3)
    expected = [(prefix + 10 * k * 32 * sample) / LENET for k in range(1, 31)]
    assert result["history"]["equivalents"] == pytest.approx(expected)
    assert result["forwards"] == steps * 32 * (1 + 2 * sum(queries))
    # Inputs and routes of a minibatch, nodes of a batch, loss differences, a row of the widest filter.
    pairs = 32 * ((14 * 14 * 6 + 400) + (400 + 120) + (120 + 84) + (84 + 10))
    assert result["buffer_bytes"] == pairs + 32 * (400 + 120 + 84 + 10) + 4 * 32 * sum(queries) + 4 * (
        400 + 120
    )

    table = run("train", "lenet5.tflite", "train.npz", "-o", "b.tflite", "--steps", 2).stdout
    for said in ("│ node ", "forward equivalents", "buffer bytes", f"{result['buffer_bytes']:,}"):
        assert said in table
    assert "b.zo.tflite: ZO model" in table


@pytest.mark.parametrize("name", MODELS)
def test_every_model_trains_to_the_same_bits_in_tflm(name: str, folder: Path) -> None:
    """With the defaults; replay gives the same model, and verify agrees."""
    require("tflm")
    Path("p.tflite").write_bytes(MODELS[name]())
    graph = load_model("p.tflite").subgraphs[0]
    metadata = read_metadata(inject_all("p.tflite"))
    rng = np.random.default_rng(0)
    arrays = {
        name: rng.uniform(-1, 1, (40, *t.shape[1:])).astype(np.float32)
        for name, t in zip(metadata.original.inputs, graph.inputs, strict=True)
    }
    arrays = arrays if len(arrays) > 1 else {"x": next(iter(arrays.values()))}
    assert metadata.loss is not None
    if metadata.loss.kind == "cross_entropy":
        arrays["y"] = rng.integers(0, metadata.loss.elements, 40)
    elif metadata.loss.kind == "binary_cross_entropy":
        arrays["y"] = rng.integers(0, 2, (40, metadata.loss.elements))
    np.savez("d.npz", **arrays)
    for runtime in ("litert-ref", "tflm"):
        given = ("--steps", 4, "--runtime", runtime, "-o", f"{runtime}.tflite")
        result = result_of("train", "p.tflite", "d.npz", *given)
        assert (result["algorithm"], result["steps"]) == ("node", 4)
    assert files("litert-ref") == files("tflm")
    run("replay", "tflm.zo.tflite", "tflm.zolog", "-o", "again.tflite", "--batch", 1)
    assert Path("again.tflite").read_bytes() == Path("tflm.tflite").read_bytes()
    assert Path("again.tflite").read_bytes() != run_export("tflm.zo.tflite")
    assert result_of("verify", "tflm.zo.tflite", "d.npz", "--steps", 2)["algorithm"] == "node"


def run_export(model: str) -> bytes:
    run("export", model, "-o", "initial.tflite", "--batch", 1, "--force")
    return Path("initial.tflite").read_bytes()


EVERY_OPTION = (
    *("--set", "schedule=step", "--set", "decay=0.25", "--set", "decay-steps=4", "--set", "step-clip=1.5"),
    *("--learning-rate", 1.5, "--set", "final-learning-rate=0.25", "--set", "warmup-steps=3", "--seed", 77),
    *("--set", "perturbation=5", "--batch-size", 16, "--set", "snapshot-every=7"),
)


def test_every_option_reaches_the_run(folder: Path) -> None:
    """The log's header has the settings."""
    run("train", "p.tflite", "d.npz", "-o", "a.tflite", "--steps", 12, "--set", "queries=3", *EVERY_OPTION)
    log = SnapshotLog.read("a.zolog")
    settings = Settings(
        tasks=(Nodes(perturbation=5),),
        schedule="step",
        decay=0.25,
        decay_steps=4,
        learning_rate=1.5,
        final_learning_rate=0.25,
        warmup_steps=3,
        seed=77,
        batch_size=16,
        step_clip=1.5,
    )
    expected = layerwise_integers(settings, steps=12, samples=32, batch=16)
    assert bytes(log.settings) == bytes(expected)
    assert [(t.queries, t.mu) for t in log.tasks] == [(3, 5)]
    assert log.interval == 7


def test_help_has_the_defaults_of_each_algorithm() -> None:
    text = " ".join(run("train", "--help").stdout.replace("│", " ").split())
    for said in (
        *(
            "(default: node 32, weight 64)",
            "(default: node 1, weight min(2, 80/√steps))",
            "(default: 10, or as many as take 300 steps)",
        ),
    ):
        assert said in text


@pytest.mark.parametrize(
    ("options", "queries"),
    [
        ((), [2, 2, 24, 32]),
        (("--set", "exact.last=3"), [2, 0, 0, 0]),
        (("--set", "queries=auto"), [2, 2, 24, 32]),
        (("--set", "queries=5"), [5, 5, 5, 5]),
        (("--set", "queries=fc1=7,fc3=1"), [2, 7, 24, 1]),
        (("--set", "exact.last=1"), [2, 2, 24, 0]),
    ],
)
def test_queries_of_layers(options: tuple[str, ...], queries: list[int], folder: Path) -> None:
    Path("p.tflite").write_bytes(MODELS["lenet5"]())
    patterns("lenet5", 10, {"d.npz": 32})
    run("train", "p.tflite", "d.npz", "-o", "a.tflite", "--steps", 1, *options)
    assert [t.queries for t in SnapshotLog.read("a.zolog").tasks] == queries


def test_budget(folder: Path) -> None:
    """small_cnn: 2,304 MACs of conv and 256 of fc, which alone has fewer nodes than weights."""
    given = ("train", "p.tflite", "d.npz", "--budget", 100, "-o")
    result = result_of(*given, "a.tflite")
    # The prefix of 32 samples costs 28.8; a step of 32 passes and updates of fc 6.4.
    assert result["steps"] == 11
    assert result["equivalents"] == pytest.approx(28.8 + 11 * 6.4)
    result = result_of(*given, "b.tflite", "--algorithm", "weight", "--batch-size", 8)
    assert (result["algorithm"], result["steps"], result["equivalents"]) == ("weight", 6, 96)


def test_a_zo_model_is_trained_by_what_it_was_made_for(folder: Path) -> None:
    run("inject", "p.tflite", "-o", "node.zo.tflite", "--algorithm", "node", "--batch", 8)
    run("inject", "p.tflite", "-o", "weight.zo.tflite", "--algorithm", "weight", "--batch", 8)
    both = inject_all("p.tflite", nodes="auto", batch=8)
    both.save("both.zo.tflite")
    for model, options, algorithm in (
        ("node", (), "node"),
        ("weight", (), "weight"),
        ("both", (), "node"),
        ("both", ("--algorithm", "weight"), "weight"),
    ):
        given = ("--steps", 2, "-o", "a.tflite", "--force", *options)
        result = result_of("train", f"{model}.zo.tflite", "d.npz", *given)
        assert result["algorithm"] == algorithm
        assert result["zo_model"] == f"{model}.zo.tflite"
        assert not Path("a.zo.tflite").exists()
        log: Any = SnapshotLog.read("a.zolog") if algorithm == "node" else SeedLog.read("a.zolog")
        usual: Any = Settings() if algorithm == "node" else Settings(tasks=(Weights(),), batch_size=64)
        assert log.settings.parts * log.settings.batch == usual.batch_size
        assert load_model("a.tflite").subgraphs[0].inputs[0].shape[0] == 8


@pytest.mark.parametrize(
    ("own", "options", "batch", "minibatch"),
    [
        (1, (), 32, 32),
        (1, ("--batch-size", 20), 20, 20),
        (1, ("--batch-size", 48), 24, 48),
        (1, ("--batch-size", 37), 1, 37),
        (1, ("--algorithm", "weight"), 32, 64),
        (6, (), 6, 30),
        (40, (), 40, 40),
        (6, ("--batch-size", 12), 6, 12),
    ],
)
def test_batch_of_a_plain_model(
    own: int, options: tuple[Any, ...], batch: int, minibatch: int, folder: Path
) -> None:
    """32 where that can be had; the trained model has the original's again."""
    set_batch(load_model(MODELS["small_cnn"]()), own).save("own.tflite")
    run("train", "own.tflite", "d.npz", "-o", "a.tflite", "--steps", 1, *options)
    assert read_metadata(load_model("a.zo.tflite")).batch == batch
    log: Any = SeedLog if "weight" in options else SnapshotLog
    settings = log.read("a.zolog").settings
    assert (settings.batch, settings.parts) == (batch, minibatch // batch)
    assert load_model("a.tflite").subgraphs[0].inputs[0].shape == (own, 8, 8, 1)


def test_without_a_layer_for_nodes(folder: Path) -> None:
    """By weight perturbation then, and it is said; unless node perturbation was asked for."""
    g = GraphBuilder(1)
    x = g.depthwise(g.input("image", [1, 8, 8, 1]), "depthwise", multiplier=4)
    x = g.flatten(g.pool(x, "average", 8, average=True), "flatten")
    Path("p.tflite").write_bytes(g.build([g.softmax(x, "softmax")]))
    done = run("train", "p.tflite", "d.npz", "-o", "a.tflite", "--steps", 2, "--json")
    assert json.loads(done.stdout)["algorithm"] == "weight"
    first = done.stderr.splitlines()[0]
    assert first.startswith("warning: training by weight perturbation, not by node perturbation: ")
    assert "«depthwise» is a DEPTHWISE_CONV_2D" in first
    done = run("train", "p.tflite", "d.npz", "-o", "b.tflite", "--algorithm", "node", code=1)
    assert done.stderr.startswith("error: no trainable layer can carry")
    assert not Path("b.tflite").exists()


def test_other_files(folder: Path) -> None:
    """--zo-model, --log, --checkpoint and --csv; a checkpoint is replayed."""
    more = ("--zo-model", "z", "--log", "l", "--checkpoint", "c", "--csv", "h.csv", "--validation", "d.npz")
    result = result_of("train", "p.tflite", "d.npz", "-o", "a.tflite", "--epochs", 3, *more)
    assert (result["zo_model"], result["log"], result["checkpoint"]) == ("z", "l", "c")
    assert {p.name for p in folder.iterdir()} == {"p.tflite", "d.npz", "a.tflite", "z", "l", "c", "h.csv"}
    header, *lines = Path("h.csv").read_text().splitlines()
    column = header.split(",").index("equivalents")
    assert [float(line.split(",")[column]) for line in lines] == result["history"]["equivalents"]
    run("replay", "z", "c", "-o", "b.tflite", "--batch", 1)
    assert Path("b.tflite").read_bytes() == Path("a.tflite").read_bytes()


# --- interruptions ------------------------------------------------------------------------------------------

STEPS, EVERY = 600, 50


def arguments(name: str, *more: Any) -> list[Any]:
    given = ("--steps", STEPS, "--set", f"snapshot-every={EVERY}", "--batch-size", 16)
    return ["train", "p.tflite", "d.npz", "-o", f"{name}.tflite", *given, *more]


def wait_for_steps(log: Path, steps: int) -> None:
    wait_until(lambda: log.exists() and len(SnapshotLog.read(log).losses) >= steps)


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX signals")
def test_ctrl_c_and_kill(folder: Path) -> None:
    """Ctrl-C, a kill, then to the end from the plain model: the bits of one go."""
    run(*arguments("whole"))
    log = folder / "cut.zolog"

    child = start(*arguments("cut"))
    wait_for_steps(log, EVERY + 10)
    child.send_signal(signal.SIGINT)
    _, stderr = child.communicate(timeout=60)
    assert child.returncode == 130, stderr
    read = SnapshotLog.read(log)
    done = len(read.losses)
    assert read.snapshot is not None and read.snapshot.step == done
    assert EVERY < done < STEPS
    assert "Traceback" not in stderr
    assert read.best is not None
    kept = read.best.step
    what = "the same" if kept == done else f"the best measured ({kept})"
    assert stderr.splitlines()[-1] == (
        f"warning: interrupted: cut.zolog is that of the last whole step ({done}), cut.tflite that of "
        f"{what}; the same command with --resume goes on"
    )
    replayed = result_of("replay", "cut.zo.tflite", log, "-o", "part.tflite", "--batch", 1)
    assert (replayed["steps"], replayed["whole_steps"], replayed["steps_beyond"]) == (kept, done, 0)
    assert Path("part.tflite").read_bytes() == Path("cut.tflite").read_bytes()

    child = start(*arguments("cut", "--resume"))
    wait_for_steps(log, done + EVERY + 10)
    child.kill()
    child.communicate()
    assert child.returncode == -signal.SIGKILL
    read = SnapshotLog.read(log)
    assert read.snapshot is not None and done < read.snapshot.step <= len(read.losses) < STEPS

    result = result_of(*arguments("cut", "--resume"))
    assert result["steps"] == STEPS
    assert files("cut") == files("whole")
    # Of the whole run, not only of what was left of it: fc's share of small_cnn is a tenth.
    assert result["equivalents"] == pytest.approx(32 * 0.9 + STEPS * 16 * 0.2)


class KilledAt(Callback):
    """Copies the log as a kill after a step would leave it."""

    def __init__(self, step: int, log: str, copy: str) -> None:
        self._step, self._log, self._copy = step, Path(log), Path(copy)

    def on_step_end(self, trainer: Trainer, step: int, logs: dict[str, float]) -> None:
        """Copies."""
        if trainer.step == self._step:
            self._copy.write_bytes(self._log.read_bytes())


def test_replay_says_what_needs_the_data(folder: Path) -> None:
    """A run of 12 steps with snapshots after 5 and 10, killed after 8, and before its first snapshot."""
    options = ("--keep", "last", "--steps", 12, "--set", "snapshot-every=5", "--batch-size", 16)
    run("train", "p.tflite", "d.npz", "-o", "whole.tflite", *options)
    trainer = Trainer("whole.zo.tflite", Settings(batch_size=16, snapshot_every=5))
    with np.load("d.npz") as arrays:
        x, y = arrays["x"], arrays["y"]
    copies = [KilledAt(8, "api.zolog", "killed.zolog"), KilledAt(3, "api.zolog", "early.zolog")]
    trainer.fit(x, y, steps=12, log="api.zolog", callbacks=copies, keep="last")
    assert Path("api.zolog").read_bytes() == Path("whole.zolog").read_bytes()

    replay = ("replay", "whole.zo.tflite", "killed.zolog", "-o", "b.tflite", "--batch", 1)
    done = run(*replay, "--json")
    result = json.loads(done.stdout)
    assert result == {
        "output": "b.tflite",
        "steps": 5,
        "whole_steps": 5,
        "steps_of_run": 12,
        "steps_beyond": 3,
        "torn_bytes": 0,
    }
    assert done.stderr == (
        "warning: killed.zolog: 3 steps after its last snapshot (5) are not in the model: they need the "
        "data; train --resume repeats them\n"
    )
    five = Trainer("whole.zo.tflite", Settings(batch_size=16, snapshot_every=5))
    stop = StopAt(5)
    five.fit(x, y, steps=12, callbacks=[stop], keep="last")
    assert Path("b.tflite").read_bytes() == five.export(batch=1).to_bytes()
    done = run(*replay, "--steps", 5, "--force")
    assert "after 5 of the run's 12 steps" in done.stdout and done.stderr == ""
    for steps in (4, 8, 12):
        done = run(*replay, "--steps", steps, "--force", code=1)
        assert f"error: --steps: the log has snapshots after 5 steps, got {steps}" in done.stderr

    assert result_of(*replay[:2], "early.zolog", *replay[3:], "--force")["steps"] == 0
    assert Path("b.tflite").read_bytes() == run_export("whole.zo.tflite")
    for name in ("killed", "early"):
        Path(f"{name}.zo.tflite").write_bytes(Path("whole.zo.tflite").read_bytes())
        run("train", "p.tflite", "d.npz", "-o", f"{name}.tflite", *options, "--resume")
        assert files(name) == files("whole")


class StopAt(Callback):
    """Ends the run after so many steps."""

    def __init__(self, step: int) -> None:
        self._step = step

    def on_step_end(self, trainer: Trainer, step: int, logs: dict[str, float]) -> None:
        """Ends it."""
        trainer.stop_training = trainer.step == self._step


# --- verify, and the whole way ------------------------------------------------------------------------------


def test_verify_a_model_of_any_batch(folder: Path) -> None:
    """5 does not divide the usual minibatch."""
    for algorithm in ("node", "weight"):
        given = ("-o", "m.zo.tflite", "--algorithm", algorithm, "--batch", 5, "--force")
        run("inject", "p.tflite", *given)
        result = result_of("verify", "m.zo.tflite", "d.npz", "--steps", 2, "--runtime", "litert-ref")
        assert (result["algorithm"], result["identical"]) == (algorithm, True)


@pytest.mark.parametrize(
    "change", [{"losses": [0.0] * 3}, {"checksum": 0}, {"log": b""}, {"exported": b""}], ids=lambda c: [*c][0]
)
def test_verify_sees_every_difference(
    change: dict[str, Any], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run("inject", "p.tflite", "-o", "m.zo.tflite", "--nodes", "fc", "--batch", 8)
    real = verify_command.compare_runtimes

    def compare(*given: Any, runtimes: list[str], **more: Any) -> Any:
        runs = real(*given, runtimes=["litert-ref"], **more)
        if runtimes == ["tflm"]:
            runs = [dataclasses.replace(r, runtime="tflm", **change) for r in runs]
        return runs

    monkeypatch.setattr(verify_command, "compare_runtimes", compare)
    given = ("verify", "m.zo.tflite", "d.npz", "--steps", 3, "--runtime", "litert-ref", "--runtime", "tflm")
    done = run(*given, "--json", code=1)
    result = json.loads(done.stdout)
    assert [r["identical"] for r in result["runs"]] == [True, False]
    assert "DIFFERENT" in run(*given, code=1).stdout
    change.clear()
    assert result_of(*given)["identical"]


def test_the_whole_way(folder: Path) -> None:
    """From Keras, with random weights, to a plain model that has learned its classes."""
    keras = pytest.importorskip("keras", reason="TensorFlow is not installed")
    keras.utils.set_random_seed(0)
    layers = [keras.layers.Dense(12, activation="relu"), keras.layers.Dense(3, activation="softmax")]
    keras.Sequential([keras.Input((6,)), *layers]).save("model.keras")
    rng = np.random.default_rng(0)
    for name, samples in (("calibration", 60), ("adapt", 320), ("test", 200)):
        x = rng.normal(size=(samples, 6)).astype(np.float32)
        np.savez(f"{name}.npz", x=x, y=x[:, :3].argmax(1))
    run("convert", "model.keras", "calibration.npz", "-o", "model.tflite")
    before = result_of("evaluate", "model.tflite", "test.npz")
    given = ("adapt.npz", "-o", "a.tflite", "--epochs", 30, "--validation", "test.npz")
    trained = result_of("train", "model.tflite", *given)
    after = result_of("evaluate", "a.tflite", "test.npz")
    assert after["accuracy"] == pytest.approx(trained["accuracy"])
    assert after["accuracy"] > max(0.75, before["accuracy"] + 0.2)
    run("replay", "a.zo.tflite", "a.zolog", "-o", "again.tflite", "--batch", 1)
    assert Path("again.tflite").read_bytes() == Path("a.tflite").read_bytes()
    run("export", "a.zo.tflite", "-o", "initial.tflite", "--batch", 1)
    assert result_of("evaluate", "initial.tflite", "test.npz")["loss"] == before["loss"]
    assert result_of("evaluate", "a.zo.tflite", "test.npz")["loss"] == before["loss"]


@pytest.mark.parametrize("algorithm", ["node", "weight"])
def test_rehearsal(algorithm: str, folder: Path) -> None:
    """The same as training on both files' samples, which the best state is measured on, too."""
    with np.load("d.npz") as data:
        x, y = data["x"], data["y"]
    np.savez("new.npz", x=x[:20], y=y[:20])
    np.savez("old.npz", x=x[20:], y=y[20:])
    shared = ("--algorithm", algorithm, "--steps", 5, "--runtime", "litert-ref")
    result = result_of("train", "p.tflite", "new.npz", "--rehearsal", "old.npz", "-o", "a.tflite", *shared)
    run("train", "p.tflite", "d.npz", "-o", "b.tflite", *shared)
    assert files("a") == files("b")
    assert (result["samples"], result["rehearsal_samples"]) == (20, 12)
    measured = result_of("evaluate", "a.tflite", "d.npz", "--runtime", "litert-ref")
    assert result["evaluated_on"] == "new.npz and old.npz"
    assert result["accuracy"] == pytest.approx(measured["accuracy"])


@pytest.mark.parametrize("algorithm", ["node", "weight"])
def test_held_out(algorithm: str, folder: Path) -> None:
    """The run of the samples that are left; the others, some of each class, tell its best state."""
    shared = ("--algorithm", algorithm, "--runtime", "litert-ref", "--rehearsal", "d.npz", "--epochs", 2)
    result = result_of("train", "p.tflite", "d.npz", "-o", "a.tflite", "--held-out", 0.25, *shared)
    assert result["evaluated_on"] == "8 samples of d.npz, held out"
    assert (result["samples"], result["rehearsal_samples"]) == (24, 32)
    with np.load("d.npz") as data:
        x, y = data["x"], data["y"]
    judged = held_out_samples(y, read_metadata(load_model("a.zo.tflite")).loss, 0.25, 0)
    assert len(judged) == 8 and set(y[judged]) == set(y)
    rest = np.setdiff1d(np.arange(32), judged)
    np.savez("rest.npz", x=x[rest], y=y[rest])
    np.savez("judged.npz", x=x[judged], y=y[judged])
    known = result_of(
        "train", "p.tflite", "rest.npz", "-o", "b.tflite", "--validation", "judged.npz", *shared
    )
    assert files("a") == files("b")
    for name in ("before", "loss", "accuracy", "measurements", "kept_step"):
        assert result[name] == known[name]


def test_held_out_refused(folder: Path) -> None:
    before = sorted(folder.iterdir())
    for options, said in (
        ((0.5, "--validation", "d.npz"), "--held-out, --validation: give one of them"),
        ((0,), "--held-out: expected a share that leaves samples"),
        ((1.5,), "--held-out: expected 0..1"),
    ):
        done = run("train", "p.tflite", "d.npz", "-o", "a.tflite", "--held-out", *options, code=1)
        assert said in done.stderr
        assert len(done.stderr.strip().splitlines()) == 1
    assert sorted(folder.iterdir()) == before


@pytest.mark.parametrize("keep", ["best", "last"])
def test_it_says_that_it_was_measured_on_a_part(
    folder: Path, keep: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(best_state, "_MOST_SAMPLES", 10)
    result = result_of("train", "p.tflite", "d.npz", "-o", "a.tflite", "--steps", 2, "--keep", keep)
    assert result["evaluated_on"] == "10 of the 32 samples of d.npz"
    assert result["accuracy"] * 10 == pytest.approx(round(result["accuracy"] * 10))


@pytest.mark.parametrize("taken", ["-o", "--checkpoint", "--csv"])
def test_another_run_that_would_write_the_same_is_told_at_once(
    taken: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While the first one trains, and has not written its output yet."""
    first = {"-o": "a.tflite", "--log": "a.zolog", "--zo-model": "a.zo", "--checkpoint": "c", "--csv": "t"}
    second = {"-o": "b.tflite", "--log": "b.zolog", "--zo-model": "b.zo"} | {taken: first[taken]}
    real, codes = Trainer.fit, []

    def fit(trainer: Trainer, *arguments: Any, **options: Any) -> Any:
        if not codes:
            codes.append(0)
            options_of_second = [word for pair in second.items() for word in pair]
            done = run("train", "p.tflite", "d.npz", "--steps", 1, "--force", *options_of_second, code=1)
            codes[0] = done.exit_code
            assert f"{first[taken]}: another run is writing it; wait for its end" in done.stderr
        return real(trainer, *arguments, **options)

    monkeypatch.setattr(Trainer, "fit", fit)
    run("train", "p.tflite", "d.npz", "--steps", 1, *[word for pair in first.items() for word in pair])
    assert codes == [1]
    assert not list(folder.glob("b.*")) and not list(folder.glob(".*"))
    run("train", "p.tflite", "d.npz", "--steps", 1, "--force", *[w for pair in second.items() for w in pair])


def test_rehearsal_refused(folder: Path) -> None:
    before = sorted(folder.iterdir())
    np.savez("wide.npz", x=np.zeros((4, 9, 9, 1), np.int8), y=np.zeros(4, int))
    for name, said in (("none.npz", "none.npz"), ("wide.npz", "wide.npz: x: expected samples of shape")):
        done = run("train", "p.tflite", "d.npz", "--rehearsal", name, "-o", "a.tflite", code=1)
        assert said in done.stderr
        assert len(done.stderr.strip().splitlines()) == 1
    Path("wide.npz").unlink()
    assert sorted(folder.iterdir()) == before
