"""train --set layers and --choose-block."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from helpers import commands
from helpers.commands import refused
from helpers.examples import REAL_MODELS, slow_but
from helpers.interpreters import require
from helpers.models import MODELS
from tflm_zo import inject
from tflm_zo.cli.commands import train
from tflm_zo.converters import load_model, read_metadata
from tflm_zo.logs import Log
from tflm_zo.training import (
    ALGORITHMS,
    BlockProbes,
    Callback,
    RunProgress,
    Trainer,
    algorithm,
    choose_block,
    inject_settings,
)
from tflm_zo.training.block_choice import BlockSearch
from tflm_zo.training.injection import inject_for
from tflm_zo.training.setting_texts import changed

BATCH = 8
GIVEN = (
    *("--algorithm", "poor-mans-training", "--batch-size", BATCH, "--learning-rate", 0.05),
    *("--set", "nodes.queries=2"),
)
EXAMPLE_OPTIONS = {"--algorithm", "--batch-size", "--choose-block", "--held-out", "--budget"}
BLOCKS = [["conv1", "conv2"], ["fc1", "fc2"], ["fc3"]]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Makes a folder with LeNet-5 as a plain model, p.tflite, and 40 samples, d.npz."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    Path("p.tflite").write_bytes(MODELS["lenet5"]())
    rng = np.random.default_rng(0)
    np.savez("d.npz", x=rng.integers(-128, 128, (40, 28, 28, 1)).astype(np.int8), y=np.arange(40) % 10)
    return tmp_path


def run(*arguments: Any, code: int = 0, runtime: str = "litert", model: str = "p.tflite") -> Any:
    return commands.run("train", model, "d.npz", "--runtime", runtime, *GIVEN, *arguments, code=code)


def result_of(*arguments: Any, **more: Any) -> Any:
    return json.loads(run(*arguments, "--json", **more).stdout)


def outputs(name: str, zo: str | None = None) -> list[bytes]:
    """Reads the files of a run; `zo`: the ZO model if it is another run's."""
    return [Path(path).read_bytes() for path in (f"{name}.tflite", f"{name}.zolog", f"{zo or name}.zo.tflite")]


def layers_of(name: str) -> list[str]:
    trainable = read_metadata(load_model(f"{name}.zo.tflite")).trainable
    log = Log.read(f"{name}.zolog")
    return [trainable[i].layer for i in sorted(i for task in log.tasks for i in task.tensors)]


def test_only(folder: Path) -> None:
    result = result_of("-o", "a.tflite", "--steps", 2, "--set", "layers=fc?,conv1")
    assert layers_of("a") == ["conv1", "fc1", "fc2", "fc3"]
    assert result["trainable_weights"] == 150 + 48_000 + 10_080 + 840
    assert result["block_choice"] is None
    result_of("-o", "b.tflite", "--steps", 2, "--set", "layers=fc3")
    assert layers_of("b") == ["fc3"]


def test_the_block_is_chosen_and_trained(folder: Path) -> None:
    result = result_of("-o", "a.tflite", "--epochs", 2, "--choose-block", 3, "--held-out", 0.25)
    choice = result["block_choice"]
    with np.load("d.npz") as arrays:
        x, y = arrays["x"], arrays["y"]
    settings = ALGORITHMS["poor-mans-training"](batch_size=BATCH, learning_rate=0.05)
    settings = changed(settings, {"nodes.queries": 2})
    expected = choose_block("a.zo.tflite", settings, x, y, blocks=3, held_out=0.25, runtime="litert")
    assert choice["blocks"] == BLOCKS == [list(block) for block in expected.blocks]
    assert choice["best"] == expected.best and choice["layers"] == list(expected.layers)
    assert choice["values"] == [score / 10 for score in expected.scores]
    assert choice["gains"] == pytest.approx([(s - expected.before) / 10 for s in expected.scores])
    assert choice["equivalents"] == pytest.approx(expected.equivalents, abs=1e-3)
    assert (choice["probed"], choice["measure"], choice["held_out_samples"]) == (True, "accuracy", 10)
    assert layers_of("a") == list(expected.layers)
    layers = f"layers={','.join(expected.layers)}"
    result_of("-o", "b.tflite", "--epochs", 2, "--set", layers, model="a.zo.tflite")
    assert outputs("a", zo="a") == outputs("b", zo="a")


def test_the_table(folder: Path) -> None:
    found = result_of("-o", "a.tflite", "--steps", 1, "--choose-block", 3)["block_choice"]
    said = run("-o", "b.tflite", "--steps", 1, "--choose-block", 3).stdout
    assert f"Probes: {found['before']:.1%} before, 8 samples held out" in said
    assert f"{found['equivalents']:,.0f} forward equivalents" in said
    rows = [line for line in said.splitlines() if "│" in line and "points" in line]
    for number, (row, layers) in enumerate(zip(rows, BLOCKS, strict=True)):
        cells = [cell.strip() for cell in row.strip("│ ").split("│")]
        assert cells[:2] == [str(number + 1), ", ".join(layers)]
        assert cells[2] == f"{found['values'][number]:.1%}"
        assert cells[3] == f"{100 * found['gains'][number]:+.1f} points"
        assert (cells[4:] == ["trained"]) == (number == found["best"])


def test_the_probes_are_part_of_the_budget(folder: Path) -> None:
    result = result_of("-o", "a.tflite", "--budget", 1000, "--choose-block", 3)
    spent = result["block_choice"]["equivalents"]
    layers = f"layers={','.join(layers_of('a'))}"
    left = result_of("-o", "b.tflite", "--budget", 1000 - spent, "--set", layers, model="a.zo.tflite")
    assert result["steps"] == left["steps"] > 1
    assert spent + result["equivalents"] <= 1000
    assert outputs("a", zo="a") == outputs("b", zo="a")


def test_same_choice_in_tflm(folder: Path) -> None:
    require("tflm")
    found = [
        result_of("-o", f"{name}.tflite", "--steps", 2, "--choose-block", 2, runtime=name)["block_choice"]
        for name in ("litert", "tflm")
    ]
    assert found[0] == found[1]
    assert outputs("litert") == outputs("tflm")


class Interrupted(Callback):
    """Ctrl-C after a number of steps."""

    def __init__(self, steps: int) -> None:
        self._left = steps

    def on_step_end(self, progress: RunProgress, logs: dict[str, float]) -> None:
        self._left -= 1
        if self._left == 0:
            raise KeyboardInterrupt


@pytest.mark.slow
@pytest.mark.parametrize("limit", slow_but([("--steps", 6)], [("--steps", 6), ("--budget", 1000)]))
def test_a_resumed_run_does_not_probe_again(
    limit: tuple[Any, ...], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = (*limit, "--choose-block", 3, "--set", "snapshot-every=2")
    whole = result_of("-o", "whole.tflite", *given)
    with monkeypatch.context() as patch:
        patch.setattr(train, "ProgressBar", lambda: Interrupted(3))
        cut = result_of("-o", "cut.tflite", *given, code=130)
    assert cut["interrupted"] and cut["steps"] == 3
    assert cut["block_choice"] == whole["block_choice"]
    with monkeypatch.context() as patch:
        patch.setattr(BlockProbes, "run", None)  # calling it fails
        resumed = result_of("-o", "cut.tflite", *given, "--resume")
        said = run("-o", "cut.tflite", *given, "--resume").stdout
    assert outputs("cut") == outputs("whole")
    choice = resumed["block_choice"]
    assert choice["probed"] is False
    for key in ("best", "layers", "blocks", "equivalents"):
        assert choice[key] == whole["block_choice"][key]
    assert resumed["steps"] == whole["steps"]
    assert "Block, as the log has it" in said and "trained" in said
    # Without a log, or with a part of its header, there is nothing to read it off.
    Path("cut.zolog").write_bytes(Path("whole.zolog").read_bytes()[:40])
    for name in ("new", "cut"):
        again = result_of("-o", f"{name}.tflite", *given, "--resume")
        assert again["block_choice"] == whole["block_choice"] and again["block_choice"]["probed"] is True
        assert outputs(name) == outputs("whole")


def test_ctrl_c_in_a_probe(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: Any, **__: Any) -> Any:
        raise KeyboardInterrupt

    before = sorted(folder.iterdir())
    monkeypatch.setattr(Trainer, "_loop", interrupted)
    done = run("-o", "a.tflite", "--steps", 2, "--choose-block", 3, code=130)
    assert "interrupted" in done.stderr
    assert sorted(folder.iterdir()) == before


def test_losses_of_an_autoencoder(folder: Path) -> None:
    Path("p.tflite").write_bytes(MODELS["autoencoder"]())
    settings = inject_settings(algorithm("node"), batch=8, nodes="*", trainable="all")
    inject("p.tflite", settings).save("z.tflite")
    shape = Trainer("z.tflite").runtime.input_details()[0][1:]
    np.savez("d.npz", x=np.random.default_rng(0).uniform(-1, 1, (20, *shape)).astype(np.float32))
    given = ["train", "z.tflite", "d.npz", "-o", "a.tflite", "--steps", "1", "--choose-block", "2"]
    choice = commands.result_of(*given, "--batch-size", "8")["block_choice"]
    assert choice["measure"] == "loss"
    assert choice["best"] == int(np.argmin(choice["values"]))
    assert choice["gains"] == pytest.approx([choice["before"] - value for value in choice["values"]])
    assert "held-out loss" in commands.run(*given, "--batch-size", "8", "--force").stdout


@pytest.mark.parametrize(
    ("options", "message"),
    [
        *((v, f"`--choose-block` must be N or N:EPOCHS. Received: '{v}'") for v in ("0", "2:0", "2:", "2:1:1", "two")),
        ("6", "`--choose-block` must be in 1..5, the number of trained layers (conv1"),
        ("2 --held-out 0", "`--held-out` must divide the 40 labelled samples into"),
        ("2 --held-out 2", "`--held-out` must be in 0..1"),
        ("2 --epochs 0", "`--epochs` must be at least 1. Received: 0"),
        ("2 --steps 1 --budget 1000", "`--steps` must be the only length of the run. Remove `--budget`"),
        ("2 --budget 100", "`--budget` must be at least 441 forward equivalents: 364"),
        ("2 --budget nan", "`--budget` must be forward equivalents above 0 and below 2^63. Received: nan"),
        ("2 --set layers=fc3", "`--choose-block` must be in 1..1, the number of"),
    ],
)
def test_refused(options: str, message: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(BlockProbes, "run", None)
    given = ("train", "p.tflite", "d.npz", "-o", "a.tflite", *GIVEN, "--choose-block", *options.split())
    refused(folder, *given, said=message)


def test_a_log_of_other_layers(folder: Path) -> None:
    run("-o", "z.tflite", "--steps", 1)
    run("-o", "a.tflite", "--steps", 2, "--set", "layers=fc1", model="z.zo.tflite")
    before = outputs("a", zo="z")
    told = "--steps", 2, "--choose-block", 3, "--resume"
    done = run("-o", "a.tflite", *told, model="z.zo.tflite", code=1)
    assert "trains fc1, which is none of the blocks" in done.stderr
    assert outputs("a", zo="z") == before


@pytest.mark.parametrize("model", [MODELS["lenet5"], *REAL_MODELS])
def test_the_example_of_the_help(model: Any) -> None:
    """Its algorithm, blocks and budget suit real networks and 300 samples: probes leave most of it."""
    words = (train.train.__doc__ or "").split()
    begin = words.index("tflm-zo", words.index("Tasks"))
    given = {w: words[begin + i + 1] for i, w in enumerate(words[begin:-1]) if w in EXAMPLE_OPTIONS}
    assert set(given) == EXAMPLE_OPTIONS
    settings = ALGORITHMS[given["--algorithm"]](batch_size=int(given["--batch-size"]))
    trainer = Trainer(inject_for(load_model(model()), settings), settings)
    loss = trainer.runtime.metadata.loss
    assert loss is not None
    x = np.zeros((300, *trainer.runtime.input_details(0)[0][1:]), np.int8)
    y = np.arange(300) % loss.elements if loss.of_classes else None
    blocks, held_out, budget = (given[o] for o in ("--choose-block", "--held-out", "--budget"))
    probes = BlockProbes(trainer, None, x, y, BlockSearch(int(blocks), float(held_out)))
    assert len(probes.blocks) == int(blocks)
    assert probes.rest_of(float(budget), 300) > float(budget) / 2
