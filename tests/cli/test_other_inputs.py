"""Models with uint8 or floating-point inputs and outputs, and with several outputs."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from ai_edge_litert.schema_py_generated import TensorType

from helpers.commands import result_of, run
from helpers.interpreters import require, run_plain
from helpers.models import MODELS, GraphBuilder
from helpers.models.graph_builder import Activation
from tflm_zo.converters import load_model, read_metadata

EDGES = {"uint8_edges": ("image", (8, 8, 1), 5), "float_edges": ("input", (16,), 5)}


def samples(name: str) -> tuple[Any, Any]:
    _, shape, classes = EDGES[name]
    rng = np.random.default_rng(5)
    y = rng.integers(0, classes, 60)
    x = np.clip(rng.normal(0.1 + 0.2 * y, 0.1, (*shape, 60)).T.reshape(60, *shape), 0, 1)
    return x.astype(np.float32), y


@pytest.mark.parametrize("runtime", ["litert", "tflm"])
@pytest.mark.parametrize("algorithm", ["node", "weight"])
@pytest.mark.parametrize("name", EDGES)
def test_train_evaluate_and_replay(
    cli: Any, model_file: Any, data_file: Any, tmp_path: Path, name: str, algorithm: str, runtime: str
) -> None:
    require(runtime)
    x, y = samples(name)
    model, data = model_file(name), data_file(x=x, y=y)
    options = ["--algorithm", algorithm, "--runtime", runtime, "--steps", 60, "--batch-size", 20, "--json"]
    run("train", model, data, "-o", "t.tflite", *options)
    before = result_of("evaluate", model, data, "--runtime", runtime)
    after = result_of("evaluate", "t.tflite", data, "--runtime", runtime)
    assert after["loss"] < before["loss"]
    edges = [
        [(t.name, t.type, t.shape) for t in (*m.subgraphs[0].inputs, *m.subgraphs[0].outputs)]
        for m in (load_model(model), load_model(tmp_path / "t.tflite"))
    ]
    assert edges[0] == edges[1]
    run("replay", "t.zo.tflite", "t.zolog", "-o", "again.tflite")
    again, first = (load_model(tmp_path / f"{stem}.tflite") for stem in ("again", "t"))
    weights = [
        {t.name: t.numpy().tobytes() for t in m.subgraphs[0].tensors if t.name.endswith("/filter")}
        for m in (again, first)
    ]
    assert weights[0] == weights[1]


def test_pixels_and_real_values_of_a_uint8_input_are_the_same(cli: Any, model_file: Any, data_file: Any) -> None:
    x, y = samples("uint8_edges")
    pixels = np.rint(x * 255).astype(np.uint8)
    told = [
        result_of("evaluate", model_file("uint8_edges"), data_file(x=given, y=y))
        for given in (pixels, pixels.astype(np.float32) / 255)
    ]
    assert told[0] == told[1]
    outputs = [run_plain(MODELS["uint8_edges"](), "litert", [p[None]])[0][0] for p in pixels]
    assert outputs[0].dtype == np.uint8
    assert told[0]["accuracy"] == pytest.approx(float((np.argmax(outputs, 1) == y).mean()))


def int8_in_uint8_out() -> bytes:
    """Builds two sigmoids, requantized to uint8 with a scale of its own."""
    g = GraphBuilder(31)
    x = g.logistic(g.dense(g.input("x", [1, 6]), "fc", 2, Activation.NONE), "sigmoid")
    scores = g.tensor("scores", [1, 2], TensorType.UINT8, scales=[1 / 64], zero_points=[60])
    g.operator("QUANTIZE", [x.index], [scores], "Quantize")
    return g.build([scores])


def test_uint8_sigmoids_are_read_with_their_scale(cli: Any, tmp_path: Path, data_file: Any) -> None:
    """They were divided by 255 and compared with 0.5, as if they were pixels."""
    (tmp_path / "m.tflite").write_bytes(int8_in_uint8_out())
    rows = np.random.default_rng(0).integers(-128, 128, (40, 6)).astype(np.int8)
    truth = np.array([run_plain(int8_in_uint8_out(), "litert", [row[None]])[0][0] for row in rows])
    y = ((truth.astype(int) - 60) / 64 > 0.5).astype(np.int64)
    assert 0 < y.mean() < 1
    told = result_of("evaluate", "m.tflite", data_file(x=rows, y=y))
    assert told["accuracy"] == 1.0


@pytest.mark.usefixtures("nothing_is_measured")
def test_firmware_says_their_types(cli: Any, tmp_path: Path) -> None:
    models = {"INPUT_0_TYPE float": MODELS["float_edges"](), "OUTPUT_TYPE uint8_t": int8_in_uint8_out()}
    for what, built in models.items():
        (tmp_path / "m.tflite").write_bytes(built)
        run("inject", "m.tflite", "-o", "z.tflite", "--force")
        run("firmware", "z.tflite", "-o", "folder", "--force")
        (config,) = (tmp_path / "folder").glob("*_zo_config.h")
        assert f"_ZO_{what}\n" in config.read_text()


TOOK = "the loss belongs to output 0 of 2, `softmax`; --loss-output chooses another"


@pytest.fixture
def data(data_file: Any) -> Path:
    x = np.random.default_rng(1).uniform(-1.9, 1.9, (32, 6, 6, 1)).astype(np.float32)
    written: Path = data_file(x=x, y=(x.mean((1, 2, 3)) > 0).astype(np.int64))
    return written


@pytest.mark.parametrize("command", ["inject", "train", "evaluate"])
def test_it_is_said_once_which_output_the_loss_took(cli: Any, model_file: Any, data: Path, command: str) -> None:
    output = {"inject": ["-o", "z.tflite"], "train": ["-o", "t.tflite", "--steps", 2], "evaluate": []}
    arguments = [model_file("two_outputs"), *([] if command == "inject" else [data]), *output[command]]
    result = run(command, *arguments, "--json")
    assert result.stderr.count(TOOK) == 1
    json.loads(result.stdout)
    chosen = run(command, *arguments, "--json", "--force", "--loss-output", "softmax")
    assert "the loss belongs to" not in chosen.stderr


def test_nothing_is_said_of_a_model_with_one_output(cli: Any, model_file: Any) -> None:
    assert "the loss belongs to" not in cli("inject", model_file(), "-o", "z.tflite").stderr


@pytest.mark.parametrize("wanted", ["1", "sigmoid"])
def test_train_and_evaluate_take_the_output_that_was_chosen(
    cli: Any, model_file: Any, data: Path, tmp_path: Path, wanted: str
) -> None:
    model = model_file("two_outputs")
    run("train", model, data, "-o", "t.tflite", "--steps", 20, "--loss-output", wanted)
    metadata = read_metadata(load_model(tmp_path / "t.zo.tflite"))
    assert metadata.loss is not None and (metadata.loss.output, metadata.loss.elements) == (1, 1)
    measured = cli("evaluate", "t.tflite", data, "--loss-output", wanted, "--json")
    assert json.loads(measured.stdout)["loss_kind"] == "binary_cross_entropy"
    refused = cli("train", "t.zo.tflite", data, "-o", "u.tflite", "--loss-output", 1)
    assert "`--loss-output` must be left out, since the model is a ZO model" in refused.stderr


def test_inspect_takes_the_output_too(cli: Any, model_file: Any) -> None:
    model = model_file("two_outputs")
    for wanted, auto in (("softmax", "class"), ("sigmoid", "detect")):
        told = result_of("inspect", model, "--nodes", "--loss-output", wanted)
        reasons = {c["layer"]: c["reason"] for c in told["node_choices"]}
        unread = {"class": "detect", "detect": "class"}[auto]
        assert reasons[auto] == "" and reasons[unread] == "does not feed what the loss reads"
    assert "needs --cuts or --nodes" in cli("inspect", model, "--loss-output", 1).stderr


def test_one_of_several_subgraphs_is_chosen(cli: Any, data: Path, tmp_path: Path) -> None:
    model = load_model(MODELS["two_outputs"]())
    model.subgraphs.append(model.copy().subgraphs[0])
    model.subgraphs[0].name, model.subgraphs[1].name, model.signatures = "main", "second", None
    model.subgraphs[1].operators[0].outputs[0].name = "other trunk"
    model.save(tmp_path / "two.tflite")
    refused = cli("train", "two.tflite", data, "-o", "t.tflite", "--steps", 2)
    assert refused.exit_code == 1 and "`--set signature` must name one of 2 subgraphs" in refused.stderr
    for command, *choice in (
        ["train", data, "--steps", 2, "--set", "signature=second"],
        ["inject", "--signature", "second"],
    ):
        run(command, "two.tflite", *choice, "-o", f"{command}.zo.tflite")
        made = load_model(tmp_path / f"{command}.zo.tflite")
        assert "other trunk" in {t.name for g in made.subgraphs for t in g.all_tensors()}
