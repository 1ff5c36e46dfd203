"""Models with uint8 or floating-point inputs and outputs: fed, trained, measured, exported and replayed."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from ai_edge_litert.schema_py_generated import TensorType

from helpers.interpreters import require, run_plain
from helpers.models import MODELS, GraphBuilder
from helpers.models.graph_builder import Activation
from tflm_zo.converters import load_model

EDGES = {"uint8_edges": ("image", (8, 8, 1), 5), "float_edges": ("input", (16,), 5)}


def samples(name: str) -> tuple[Any, Any]:
    """Draws real values whose mean is the class, 60 samples."""
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
    trained = cli("train", model, data, "-o", "t.tflite", *options)
    assert trained.exit_code == 0, trained.stderr
    before = json.loads(cli("evaluate", model, data, "--runtime", runtime, "--json").stdout)
    after = json.loads(cli("evaluate", "t.tflite", data, "--runtime", runtime, "--json").stdout)
    assert after["loss"] < before["loss"]
    edges = [
        [(t.name, t.type, t.shape) for t in (*m.subgraphs[0].inputs, *m.subgraphs[0].outputs)]
        for m in (load_model(model), load_model(tmp_path / "t.tflite"))
    ]
    assert edges[0] == edges[1]
    assert cli("replay", "t.zo.tflite", "t.zolog", "-o", "again.tflite").exit_code == 0
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
        json.loads(cli("evaluate", model_file("uint8_edges"), data_file(x=given, y=y), "--json").stdout)
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
    told = json.loads(cli("evaluate", "m.tflite", data_file(x=rows, y=y), "--json").stdout)
    assert told["accuracy"] == 1.0


@pytest.mark.usefixtures("nothing_is_measured")
def test_firmware_refuses_them_before_anything_is_written(cli: Any, tmp_path: Path) -> None:
    models = {"input 0": MODELS["float_edges"](), "output 0": int8_in_uint8_out()}
    for what, built in models.items():
        (tmp_path / "m.tflite").write_bytes(built)
        assert cli("inject", "m.tflite", "-o", "z.tflite", "--force").exit_code == 0
        refused = cli("firmware", "z.tflite", "-o", "folder")
        assert refused.exit_code == 1
        assert f"{what} is not int8: firmware" in refused.stderr
        assert not (tmp_path / "folder").exists()
