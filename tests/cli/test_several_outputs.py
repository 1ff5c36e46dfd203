"""Models with several outputs: one line says which one the loss took, and --loss-output chooses."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from helpers.models import MODELS
from tflm_zo.converters import load_model, read_metadata

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
    result = cli(command, *arguments, "--json")
    assert result.exit_code == 0, result.stderr
    assert result.stderr.count(TOOK) == 1
    json.loads(result.stdout)
    chosen = cli(command, *arguments, "--json", "--force", "--loss-output", "softmax")
    assert chosen.exit_code == 0 and "the loss belongs to" not in chosen.stderr


def test_nothing_is_said_of_a_model_with_one_output(cli: Any, model_file: Any) -> None:
    assert "the loss belongs to" not in cli("inject", model_file(), "-o", "z.tflite").stderr


@pytest.mark.parametrize("wanted", ["1", "sigmoid"])
def test_train_and_evaluate_take_the_output_that_was_chosen(
    cli: Any, model_file: Any, data: Path, tmp_path: Path, wanted: str
) -> None:
    model = model_file("two_outputs")
    trained = cli("train", model, data, "-o", "t.tflite", "--steps", 20, "--loss-output", wanted)
    assert trained.exit_code == 0, trained.stderr
    metadata = read_metadata(load_model(tmp_path / "t.zo.tflite"))
    assert metadata.loss is not None and (metadata.loss.output, metadata.loss.elements) == (1, 1)
    measured = cli("evaluate", "t.tflite", data, "--loss-output", wanted, "--json")
    assert json.loads(measured.stdout)["loss_kind"] == "binary_cross_entropy"
    refused = cli("train", "t.zo.tflite", data, "-o", "u.tflite", "--loss-output", 1)
    assert "`--loss-output` must be left out, since the model is a ZO model" in refused.stderr


def test_inspect_takes_the_output_too(cli: Any, model_file: Any) -> None:
    model = model_file("two_outputs")
    for wanted, auto in (("softmax", "class"), ("sigmoid", "detect")):
        told = json.loads(cli("inspect", model, "--nodes", "--loss-output", wanted, "--json").stdout)
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
        done = cli(command, "two.tflite", *choice, "-o", f"{command}.zo.tflite")
        assert done.exit_code == 0, done.stderr
        made = load_model(tmp_path / f"{command}.zo.tflite")
        assert "other trunk" in {t.name for g in made.subgraphs for t in g.all_tensors()}
