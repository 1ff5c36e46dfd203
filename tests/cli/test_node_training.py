"""train, replay and verify by node perturbation, on plain models and on ZO models."""

import dataclasses
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from helpers.commands import files_of, initial_export, result_of, run
from helpers.examples import slow_but
from helpers.injection import inject_all
from helpers.interpreters import require, run_plain
from helpers.models import MODELS, GraphBuilder
from tflm_zo import inject
from tflm_zo.cli.commands import verify as verify_command
from tflm_zo.converters import load_model, read_metadata, set_batch
from tflm_zo.converters.metadata import with_metadata
from tflm_zo.logs import Log
from tflm_zo.training import ALGORITHMS, Nodes, Settings, Step, Trainer, Weights
from tflm_zo.training.lowering import layerwise_integers
from tflm_zo.training.setting_texts import written

MACS = {"conv1": 117_600, "conv2": 240_000, "fc1": 48_000, "fc2": 10_080, "fc3": 840}  # of lenet5
LENET = sum(MACS.values())


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
    """Measures by LiteRT without anything of ours, one sample at a time."""
    quantization = load_model(model).subgraphs[0].inputs[0].quantization
    assert quantization is not None
    with np.load(data) as arrays:
        levels = np.rint(arrays["x"] / quantization.scale) + quantization.zero_point
        right = [
            run_plain(model.read_bytes(), "litert", [x[None]])[0].argmax() == y
            for x, y in zip(levels.clip(-128, 127).astype(np.int8), arrays["y"], strict=True)
        ]
    return float(np.mean(right))


def costs_by_hand() -> dict[str, Any]:
    """Computes train's costs of LeNet-5, nodes on all but conv1, 320 samples; "history": of the equivalents."""
    # Behind each layer's nodes, in MACs: fc1 fc2 fc3; fc2 fc3; fc3; nothing. Queries whose two forward passes
    # cost a tenth of a whole one, 2..32. An update costs as much as its layer at its nodes: behind its
    # pooling conv2 has a quarter of the outputs.
    behind = [58_920, 10_920, 840, 0]
    queries = [2, 2, 24, 32]
    sample = LENET - MACS["conv1"]
    sample += sum(2 * q * macs for q, macs in zip(queries, behind, strict=True))
    sample += MACS["conv2"] // 4 + MACS["fc1"] + MACS["fc2"] + MACS["fc3"]
    measured = 64 * LENET  # of the rate
    prefix = measured + 320 * MACS["conv1"]
    steps = 30 * 40  # ten epochs would be four hundred
    return {
        "steps": steps,
        "equivalents": pytest.approx((prefix + steps * 8 * sample) / LENET, abs=1e-3),
        "history": [(prefix + 40 * k * 8 * sample) / LENET for k in range(1, 31)],
        "forwards": steps * 8 * (1 + 2 * sum(queries)),
    }


def test_the_defaults_adapt_a_plain_model(folder: Path) -> None:
    Path("lenet5.tflite").write_bytes(MODELS["lenet5"]())
    patterns("lenet5", 10, {"train.npz": 320, "test.npz": 100})
    assert accuracy(folder / "lenet5.tflite", "test.npz") < 0.4
    given = ("--algorithm", "node", "--validation", "test.npz")
    done = run("train", "lenet5.tflite", "train.npz", "-o", "a.tflite", *given, "--json")
    assert "equivalents" in done.stderr
    result = json.loads(done.stdout)
    assert result["algorithm"] == "node"
    assert result["accuracy"] == pytest.approx(accuracy(folder / "a.tflite", "test.npz"))
    assert result["accuracy"] > 0.95

    # The layers with fewer nodes than weights, the batch that the runs of evaluate have, and the original's
    # outputs: no headroom.
    layers = ["conv2", "fc1", "fc2", "fc3"]
    named: Any = {"trainable": layers, "nodes": layers, "headroom": 0, "replay": False, "algorithm": "node"}
    zo = inject("lenet5.tflite", batch=8, export_batch=1, **named)
    of_run = ("batch-size=8", f"measured-rate={written(result['measured_rate'])}")
    run_of_it = dataclasses.replace(read_metadata(zo), run=of_run)
    assert Path("a.zo.tflite").read_bytes() == with_metadata(zo, run_of_it).to_bytes()
    assert result["trainable_weights"] == 2400 + 48_000 + 10_080 + 840
    trained, original = (
        {t.name: t.numpy().tobytes() for t in load_model(p).subgraphs[0].tensors if t.is_constant}
        for p in ("a.tflite", "lenet5.tflite")
    )
    assert trained.keys() == original.keys()
    changed = {name for name in original if trained[name] != original[name]}
    assert changed == {f"{layer}/filter" for layer in layers}
    assert load_model("a.tflite").subgraphs[0].inputs[0].shape == (1, 28, 28, 1)

    # The rate: outputs of every fifth sample, which hardly differ.
    assert result["measured_rate"] == 0.5
    costs = costs_by_hand()
    assert result["history"]["equivalents"] == pytest.approx(costs.pop("history"))
    assert {name: result[name] for name in costs} == costs

    table = run("train", "lenet5.tflite", "train.npz", "-o", "b.tflite", "--steps", 2).stdout
    for said in ("│ exact ", "forward equivalents"):
        assert said in table
    assert "b.zo.tflite: ZO model" in table


@pytest.mark.parametrize("name", slow_but(("small_cnn", "residual", "two_inputs"), MODELS))
def test_every_model_trains_to_the_same_bits_in_tflm(name: str, folder: Path) -> None:
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
    for runtime in ("litert", "tflm"):
        given = ("--steps", 12, "--keep", "last", "--held-out", 0, "--runtime", runtime)
        result = result_of("train", "p.tflite", "d.npz", *given, "-o", f"{runtime}.tflite")
        assert (result["algorithm"], result["steps"]) == ("node", 12)
    assert files_of("litert") == files_of("tflm")
    run("replay", "tflm.zo.tflite", "tflm.zolog", "-o", "again.tflite", "--batch", 1)
    assert Path("again.tflite").read_bytes() == Path("tflm.tflite").read_bytes()
    assert Path("again.tflite").read_bytes() != initial_export("tflm.zo.tflite")
    verified = result_of("verify", "tflm.zo.tflite", "d.npz", "--steps", 2)
    assert verified["algorithm"] == "node" and verified["identical"]
    assert {r["runtime"] for r in verified["runs"]} >= {"litert", "tflm"}


EVERY_OPTION = (
    *("--set", "schedule=step", "--set", "decay=0.25", "--set", "decay-steps=4", "--set", "step-clip=1.5"),
    *("--learning-rate", 1.5, "--set", "final-learning-rate=0.25", "--set", "warmup-steps=3", "--set", "seed=77"),
    *("--set", "perturbation=5", "--batch-size", 16, "--set", "snapshot-every=7", "--held-out", 0),
)


def test_every_option_reaches_the_run(folder: Path) -> None:
    run("train", "p.tflite", "d.npz", "-o", "a.tflite", "--steps", 12, "--set", "queries=3", *EVERY_OPTION)
    log = Log.read("a.zolog")
    settings = Settings(
        tasks=(Nodes(perturbation=5),),
        schedule=Step(0.25, 4, final=0.25, warmup=3),
        learning_rate=1.5,
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
    minibatches = ", ".join(f"{name} {ALGORITHMS[name]().batch_size}" for name in ("exact", "node", "weight"))
    for said in (minibatches, "measured on model and data", "10, or as many as take 300 steps"):
        assert f"(default: {said})" in text


@pytest.mark.parametrize(
    ("options", "queries"),
    [
        (("--algorithm", "node"), [2, 2, 24, 32]),
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
    assert [t.queries for t in Log.read("a.zolog").tasks] == queries


def test_budget(folder: Path) -> None:
    """Checks small_cnn: 2,304 MACs of conv and 256 of fc, which alone has fewer nodes than weights."""
    given = ("train", "p.tflite", "d.npz", "--held-out", 0, "--budget", 100, "-o")
    result = result_of(*given, "a.tflite")
    # The prefix of 32 samples costs 28.8; a step of 8 passes and updates of fc 1.6.
    assert result["steps"] == 44
    assert result["equivalents"] == pytest.approx(28.8 + 44 * 1.6)
    result = result_of(*given, "b.tflite", "--algorithm", "weight", "--batch-size", 8)
    assert (result["algorithm"], result["steps"], result["equivalents"]) == ("weight", 6, 96)


def test_a_budget_is_a_limit(folder: Path) -> None:
    given = ("train", "p.tflite", "d.npz", "--algorithm", "node", "--budget", 10**6, "-o")
    done = run(*given, "a.tflite")
    said = " ".join(done.stderr.split())
    result = result_of(*given, "b.tflite")
    assert "--budget is a limit: it pays for" in said and "of which the run does 8,000 at most" in said
    assert result["steps"] < 8000  # measurements stopped to get better
    took = f"took {result['equivalents']:,.0f} of the budget's 1,000,000 equivalents. It ended after"
    assert f"{took} {result['steps']:,} of 8,000 steps, since its last measurements brought nothing" in said


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
        log: Any = Log.read("a.zolog")
        usual: Any = Settings() if algorithm == "node" else Settings(tasks=(Weights(),), batch_size=64)
        assert log.settings.parts * log.settings.batch == usual.batch_size
        assert load_model("a.tflite").subgraphs[0].inputs[0].shape[0] == 8


@pytest.mark.parametrize(
    ("own", "options", "batch", "minibatch"),
    [
        (1, ("--algorithm", "node"), 8, 8),
        (1, (), 1, 1),
        (1, ("--batch-size", 32), 32, 32),
        (1, ("--batch-size", 20), 20, 20),
        (1, ("--batch-size", 48), 24, 48),
        (1, ("--batch-size", 37), 1, 37),
        (1, ("--algorithm", "weight"), 32, 64),
        (6, (), 6, 6),
        (6, ("--algorithm", "node"), 6, 6),
        (40, ("--algorithm", "node"), 40, 40),
        (6, ("--batch-size", 12), 6, 12),
    ],
)
def test_batch_of_a_plain_model(own: int, options: tuple[Any, ...], batch: int, minibatch: int, folder: Path) -> None:
    """Sets a batch of the minibatch, of 32 at most, if possible; the trained model has the original's again."""
    set_batch(load_model(MODELS["small_cnn"]()), own).save("own.tflite")
    run("train", "own.tflite", "d.npz", "-o", "a.tflite", "--steps", 1, *options)
    assert read_metadata(load_model("a.zo.tflite")).batch == batch
    settings = Log.read("a.zolog", layerwise="weight" not in options).settings
    assert (settings.batch, settings.parts) == (batch, minibatch // batch)
    assert load_model("a.tflite").subgraphs[0].inputs[0].shape == (own, 8, 8, 1)


def test_without_a_layer_for_nodes(folder: Path) -> None:
    """Chooses weight perturbation then, and reports it; unless node perturbation was requested."""
    g = GraphBuilder(1)
    x = g.depthwise(g.input("image", [1, 8, 8, 1]), "depthwise", multiplier=4)
    x = g.flatten(g.pool(x, "average", 4, average=True), "flatten")
    Path("p.tflite").write_bytes(g.build([g.softmax(x, "softmax")]))
    done = run("train", "p.tflite", "d.npz", "-o", "a.tflite", "--steps", 2, "--json")
    assert json.loads(done.stdout)["algorithm"] == "weight"
    assert "weights, as is, " in done.stderr
    done = run("train", "p.tflite", "d.npz", "-o", "b.tflite", "--algorithm", "node", code=1)
    assert done.stderr.startswith("error: no trainable layer can carry")
    assert not Path("b.tflite").exists()


def test_other_files(folder: Path) -> None:
    more = ("--zo-model", "z", "--log", "l", "--validation", "d.npz")
    result = result_of("train", "p.tflite", "d.npz", "-o", "a.tflite", "--epochs", 3, *more)
    assert (result["zo_model"], result["log"]) == ("z", "l")
    assert {p.name for p in folder.iterdir()} == {"p.tflite", "d.npz", "a.tflite", "z", "l"}
    run("replay", "z", "l", "-o", "b.tflite", "--batch", 1)
    assert Path("b.tflite").read_bytes() == Path("a.tflite").read_bytes()


# --- verify, and the whole way ------------------------------------------------------------------------------


def test_verify_a_model_of_any_batch(folder: Path) -> None:
    """5 does not divide the usual minibatch."""
    for algorithm in ("node", "weight"):
        given = ("-o", "m.zo.tflite", "--algorithm", algorithm, "--batch", 5, "--force")
        run("inject", "p.tflite", *given)
        result = result_of("verify", "m.zo.tflite", "d.npz", "--steps", 2, "--runtime", "litert")
        assert (result["algorithm"], result["identical"]) == (algorithm, True)


@pytest.mark.parametrize(
    "change", [{"losses": [0.0] * 3}, {"checksum": 0}, {"log": b""}, {"exported": b""}], ids=lambda c: [*c][0]
)
def test_verify_sees_every_difference(change: dict[str, Any], folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run("inject", "p.tflite", "-o", "m.zo.tflite", "--nodes", "fc", "--batch", 8)
    real = verify_command.compare_runtimes

    def compare(*given: Any, runtimes: list[str], **more: Any) -> Any:
        runs = real(*given, runtimes=["litert"], **more)
        if runtimes == ["tflm"]:
            runs = [dataclasses.replace(r, runtime="tflm", **change) for r in runs]
        return runs

    monkeypatch.setattr(verify_command, "compare_runtimes", compare)
    given = ("verify", "m.zo.tflite", "d.npz", "--steps", 3, "--runtime", "litert", "--runtime", "tflm")
    assert [r["identical"] for r in result_of(*given, code=1)["runs"]] == [True, False]
    assert "DIFFERENT" in run(*given, code=1).stdout
    change.clear()
    assert result_of(*given)["identical"]


def test_the_whole_way(folder: Path) -> None:
    keras = pytest.importorskip("keras", reason="TensorFlow is not installed")
    keras.utils.set_random_seed(0)
    layers = [keras.layers.Dense(12, activation="relu"), keras.layers.Dense(3, activation="softmax")]
    keras.Sequential([keras.Input((6,)), *layers]).save("model.keras")
    rng = np.random.default_rng(0)
    for name, samples in (("calibration", 60), ("adapt", 320), ("test", 200)):
        x = rng.normal(size=(samples, 6)).astype(np.float32)
        np.savez(f"{name}.npz", x=x, y=x[:, :3].argmax(1))
    assert result_of("convert", "model.keras", "calibration.npz", "-o", "model.tflite")["int8_accuracy"] is not None
    before = result_of("evaluate", "model.tflite", "test.npz")
    given = ("adapt.npz", "-o", "a.tflite", "--epochs", 30, "--validation", "test.npz", "--as-is")
    trained = result_of("train", "model.tflite", *given)
    after = result_of("evaluate", "a.tflite", "test.npz")
    assert after["accuracy"] == pytest.approx(trained["accuracy"])
    assert after["accuracy"] > max(0.75, before["accuracy"] + 0.2)
    run("replay", "a.zo.tflite", "a.zolog", "-o", "again.tflite", "--batch", 1)
    assert Path("again.tflite").read_bytes() == Path("a.tflite").read_bytes()
    assert result_of("evaluate", "a.zo.tflite", "test.npz")["loss"] == before["loss"]


@pytest.mark.parametrize("taken", ["-o", "--zo-model", "--log"])
def test_another_run_that_would_write_the_same_is_told_at_once(
    taken: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Refuses while the first one trains, and has not written its output yet."""
    first = {"-o": "a.tflite", "--log": "a.zolog", "--zo-model": "a.zo"}
    second = {"-o": "b.tflite", "--log": "b.zolog", "--zo-model": "b.zo"} | {taken: first[taken]}
    real, codes = Trainer.fit, []

    def fit(trainer: Trainer, *given: Any, **options: Any) -> Any:
        if not codes:
            codes.append(0)
            options_of_second = [word for pair in second.items() for word in pair]
            done = run("train", "p.tflite", "d.npz", "--steps", 1, "--force", *options_of_second, code=1)
            codes[0] = done.exit_code
            assert f"{first[taken]}: another run is writing it; wait for its end" in done.stderr
        return real(trainer, *given, **options)

    monkeypatch.setattr(Trainer, "fit", fit)
    run("train", "p.tflite", "d.npz", "--steps", 1, *[word for pair in first.items() for word in pair])
    assert codes == [1]
    assert not list(folder.glob("b.*")) and not list(folder.glob(".*"))
    run("train", "p.tflite", "d.npz", "--steps", 1, "--force", *[w for pair in second.items() for w in pair])
