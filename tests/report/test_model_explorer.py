"""Node data for Model Explorer: the right numbers, under the ids that its own adapter gives operators."""

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from helpers.commands import invoke
from helpers.models import MODELS
from tflm_zo.converters import Model, export_model, load_model
from tflm_zo.converters.model.schema import BuiltinOperator
from tflm_zo.report import read_run

# Prints the ids and labels of a model's nodes by graph, and refuses node data that its own classes refuse.
_ADAPTER = """
import json, sys
from model_explorer.builtin_tflite_flatbuffer_adapter import BuiltinTfliteFlatbufferAdapter
from model_explorer.node_data_builder import GraphNodeData, ModelNodeData, NodeDataResult
model, *files = sys.argv[1:]
found = {}
for collection in BuiltinTfliteFlatbufferAdapter().convert(model, {})["graphCollections"]:
    for graph in collection.graphs:
        found[graph["id"]] = {node["id"]: node["label"] for node in graph["nodes"]}
for file in files:
    data = json.load(open(file))
    built = {g: GraphNodeData(**{**d, "results": {i: NodeDataResult(**r) for i, r in d["results"].items()}})
             for g, d in data.items()}
    assert json.loads(ModelNodeData(built).to_json_string())
print(json.dumps(found))
"""


@pytest.fixture(scope="module")
def nodes(runs: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns `report`'s folder of the two runs."""
    folder = tmp_path_factory.mktemp("explorer") / "nodes"
    logs = [str(runs / f"{name}.zolog") for name in ("node", "weight")]
    page = str(folder.with_name("page.html"))
    result = invoke("report", *logs, "-o", page, "--model-explorer", str(folder))
    assert result.exit_code == 0, result.output
    return folder


def values(path: Path) -> dict[tuple[str, int], float]:
    """Returns values by graph and operator."""
    found: dict[str, Any] = json.loads(path.read_text())
    return {(g, int(i)): r["value"] for g, d in found.items() for i, r in d["results"].items()}


def test_the_files_are_those_that_the_page_names(nodes: Path) -> None:
    of_models = {"macs", "weights", "moved", "mean_move"}
    assert {p.name for p in nodes.iterdir()} == {
        f"{run}.{prefix}{name}.json"
        for run, names in (("node", {*of_models, "training"}), ("weight", of_models))
        for name in names
        for prefix in ("", "zo.")
    }
    docs = (Path(__file__).parents[2] / "docs" / "reports.md").read_text()
    assert all(f"`run.{name}.json`" in docs for name in (*of_models, "training"))


def weights_of(model: Model) -> list[tuple[int, Any]]:
    """Returns number and filter of the operators that have one."""
    kinds = (BuiltinOperator.CONV_2D, BuiltinOperator.DEPTHWISE_CONV_2D, BuiltinOperator.FULLY_CONNECTED)
    operators = list(enumerate(model.subgraphs[0].operators))
    return [(i, op.inputs[1].numpy()) for i, op in operators if op.builtin in kinds and op.inputs[1]]


@pytest.mark.parametrize("name", ["node", "weight"])
def test_moves_are_those_of_the_exported_models(name: str, runs: Path, nodes: Path) -> None:
    run = read_run(runs / f"{name}.zolog", [])
    before = weights_of(export_model(run.zo.model))
    after = weights_of(export_model(run.zo.model, run.weights))
    every = {i: w.astype(int) - b.astype(int) for (i, b), (_, w) in zip(before, after, strict=True)}
    # Layers that the ZO model does not train have no number, and have not moved.
    moves = {i: m for i, m in every.items() if m.any()}
    assert len(moves) == len(run.metadata.trainable)
    shares = {("main", i): 100 * float((m != 0).mean()) for i, m in moves.items()}
    assert values(nodes / f"{name}.moved.json") == pytest.approx(shares, rel=1e-5)
    means = {("main", i): float(np.abs(m).mean()) for i, m in moves.items()}
    assert values(nodes / f"{name}.mean_move.json") == pytest.approx(means, rel=1e-5)
    sizes = {("main", i): m.size for i, m in every.items()}
    assert values(nodes / f"{name}.weights.json") == sizes
    # The same numbers, in the graphs of the segments.
    segments = values(nodes / f"{name}.zo.moved.json")
    assert sorted(segments.values()) == pytest.approx(sorted(shares.values()), rel=1e-5)


def test_costs_add_up_to_the_runs(runs: Path, nodes: Path) -> None:
    """Adds up all tasks and the forward passes from the first trained layer on."""
    run = read_run(runs / "node.zolog", [])
    training = values(nodes / "node.training.json")
    forward = 1.0  # of a sample, once, as far as nothing in it is trained
    assert 8 * (forward + sum(training.values())) == pytest.approx(run.cost(1), rel=1e-5)
    macs = values(nodes / "node.macs.json")
    assert macs == {("main", 0): 8 * 8 * 4 * 9, ("main", 3): 64 * 4}


def test_what_exists_is_not_replaced(runs: Path, nodes: Path) -> None:
    again = ("report", str(runs / "node.zolog"), "-o", str(nodes.with_name("other.html")))
    result = invoke(*again, "--model-explorer", str(nodes))
    assert result.exit_code == 1 and "node.zo.moved.json" in result.output
    assert not nodes.with_name("other.html").exists()
    assert invoke(*again, "--model-explorer", str(nodes), "--force").exit_code == 0


def test_inspect_writes_them_of_any_model(tmp_path: Path) -> None:
    model = tmp_path / "cnn.tflite"
    model.write_bytes(MODELS["small_cnn"]())
    assert invoke("inspect", str(model), "--model-explorer", str(tmp_path / "nodes")).exit_code == 0
    assert {p.name for p in (tmp_path / "nodes").iterdir()} == {"cnn.macs.json", "cnn.weights.json"}
    assert values(tmp_path / "nodes" / "cnn.weights.json") == {("main", 0): 36, ("main", 3): 256}


@pytest.mark.parametrize("name", ["plain", "zo", "unnamed"])
def test_its_own_adapter_calls_the_operators_so(name: str, runs: Path, nodes: Path, tmp_path: Path) -> None:
    python = os.environ.get("MODEL_EXPLORER_PYTHON")
    if not python:
        pytest.skip(
            "MODEL_EXPLORER_PYTHON IS NOT SET: NODE IDS WERE NOT COMPARED WITH MODEL EXPLORER'S OWN (it is "
            "the Python of an environment that has ai-edge-model-explorer)"
        )
    model = load_model(runs / "node.zo.tflite")
    files = sorted(nodes.glob("node.zo.*.json"))
    if name != "zo":
        model = export_model(model)
        files = sorted(set(nodes.glob("node.*.json")) - set(files))
    if name == "unnamed":
        model.subgraphs[0].name, model.subgraphs[0].raw.name = "", b""
        folder = tmp_path / "own"
        model.save(tmp_path / "model.tflite")
        invoke("inspect", str(tmp_path / "model.tflite"), "--model-explorer", str(folder))
        files = sorted(folder.iterdir())
    model.save(tmp_path / "model.tflite", force=True)
    command = [python, "-c", _ADAPTER, str(tmp_path / "model.tflite"), *map(str, files)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    for path in files:
        for graph, i in values(path):
            number = next(k for k, g in enumerate(model.subgraphs) if len(found) == 1 or g.name == graph)
            op = model.subgraphs[number].operators[i]
            assert found[graph][str(i)] == op.code.name.lower()
    assert len(files) >= 2
