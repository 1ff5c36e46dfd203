"""Graphs that no converter writes: a sentence, or the right thing, never an IndexError or a KeyError."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from helpers.commands import invoke
from helpers.examples import slow_but
from helpers.graphs import find
from helpers.injection import inject_all
from helpers.models import depthwise_separable, lenet5, small_cnn
from tflm_zo.cli import app
from tflm_zo.converters import ConversionError, Last, export_model, inject, load_model, possible_cuts, read_metadata
from tflm_zo.converters.inject import node_choices
from tflm_zo.converters.kernels import macs
from tflm_zo.converters.model import OperatorCode
from tflm_zo.converters.model.schema import BuiltinOperator
from tflm_zo.runtime import load

KINDS = ("QUANTIZE", "DEQUANTIZE", "SOFTMAX", "LOGISTIC", "RESHAPE", "CONV_2D", "MAX_POOL_2D", "BATCH_MATMUL")


def inspect(path: Path, *options: str) -> Any:
    return invoke("inspect", str(path), *options)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("at", slow_but((0, 3), range(5)))
def test_operators_without_inputs(tmp_path: Path, kind: str, at: int) -> None:
    model = load_model(small_cnn())
    if at >= len(model.subgraphs[0].operators):
        return
    op = model.subgraphs[0].operators[at]
    op.code, op.inputs, op.raw.builtinOptions = OperatorCode(getattr(BuiltinOperator, kind)), [], None
    model.save(tmp_path / "m.tflite")
    possible_cuts(model)
    for option in ("--cuts", "--nodes", "--json"):
        result = inspect(tmp_path / "m.tflite", option)
        assert "internal error" not in result.stderr
    with pytest.raises(ConversionError, match="the file is damaged|is not computed"):
        inject_all(model)


@pytest.mark.parametrize("name", ["pool1", "conv1", "conv2", "pool2"])
@pytest.mark.parametrize("shape", [(), (1,), (1, 14), (1, 14, 14)])
def test_images_of_lower_rank(tmp_path: Path, name: str, shape: tuple[int, ...]) -> None:
    model = load_model(lenet5())
    find(model, name).shape = shape
    model.save(tmp_path / "m.tflite")
    for option in ("--nodes", "--cuts"):
        assert "internal error" not in inspect(tmp_path / "m.tflite", option).stderr
    for attempt in (node_choices, inject):
        with pytest.raises(ConversionError, match=f"`{name}` has shape .*4 dimensions"):
            attempt(model)


@pytest.mark.parametrize(
    ("kind", "shape", "each"),
    [
        ("FULLY_CONNECTED", (), 1),
        ("FULLY_CONNECTED", (3,), 3),
        ("BATCH_MATMUL", (), 1),
        ("BATCH_MATMUL", (3,), 3),
        ("CONV_2D", (3,), 1),
    ],
)
def test_costs_of_matrices_of_lower_rank(kind: str, shape: tuple[int, ...], each: int) -> None:
    """Counts multiply-accumulates of each output: a missing dimension counts as 1."""
    op = load_model(small_cnn()).subgraphs[0].operators[0]
    op.code, op.raw.builtinOptions = OperatorCode(getattr(BuiltinOperator, kind)), None
    for read in op.inputs:
        assert read is not None
        read.shape = shape
    assert macs(op) == each * op.outputs[0].size


def test_an_output_of_another_size_than_what_it_is_computed_from() -> None:
    model = load_model(depthwise_separable())
    output = model.subgraphs[0].outputs[0]
    output.shape = (1, 7)
    with pytest.raises(ConversionError, match=r"SOFTMAX .* has shape \[1, 7\], which \[1, 5\] do not give"):
        inject_all(model)


def test_an_input_with_data() -> None:
    model = load_model(small_cnn())
    read = model.subgraphs[0].inputs[0]
    read.set_data(np.zeros(read.shape, np.int8))
    with pytest.raises(ConversionError, match=f"input `{read.name}` has data of its own"):
        inject_all(model, batch=3)


def test_shapes_that_contradict_the_filter() -> None:
    model = load_model(depthwise_separable())
    find(model, "fc").shape = find(model, "softmax").shape = (1, 10)
    reasons = {choice.layer: choice.reason for choice in node_choices(model)}
    assert reasons["fc"] == "reads 8 values of a sample where its filter and output need 16"
    with pytest.raises(ConversionError, match="include layer `fc`, which reads 8 values of a sample where its filter"):
        inject_all(model, nodes=("fc",), batch=1)
    read_metadata(inject_all(model, nodes=Last(1), batch=1))


@pytest.mark.parametrize("settings", [{}, {"cuts": ["pool"]}, {"nodes": "auto", "headroom": 0}])
def test_an_output_that_is_an_input(settings: dict[str, Any]) -> None:
    model = load_model(small_cnn())
    graph = model.subgraphs[0]
    graph.outputs.append(graph.inputs[0])
    with pytest.raises(ConversionError, match="output `image` is an input of the model as well"):
        inject_all(model, **settings)


def test_names_that_are_no_utf_8(tmp_path: Path) -> None:
    model = load_model(small_cnn())
    for i, t in enumerate(model.subgraphs[0].tensors):
        t.name = f"{i}" + b"\xff\xfe/conv".decode("utf-8", "surrogateescape")
    model.save(tmp_path / "m.tflite")
    for option in ("--nodes", "--cuts", "--json"):
        result = inspect(tmp_path / "m.tflite", option)
        assert result.exit_code == 0, result.stderr
    zo = inject_all(tmp_path / "m.tflite", batch=2)
    zo.save(tmp_path / "z.tflite")
    metadata = read_metadata(load_model(tmp_path / "z.tflite"))
    assert metadata.trainable[0].name.endswith("\ufffd\ufffd/conv")
    json.loads(inspect(tmp_path / "z.tflite", "--json").stdout)
    runtime = load(zo, "litert")
    plain = export_model(zo, runtime.read_weights())
    for a, b in zip(model.subgraphs[0].tensors, plain.subgraphs[0].tensors, strict=False):
        if a.is_constant and a.type_name == "INT8":
            assert np.abs(a.numpy().astype(int) - b.numpy()).max() <= 2
    bad = load_model(tmp_path / "m.tflite")
    bad.subgraphs[0].operators[0].outputs[0].type = 7  # INT16
    bad.save(tmp_path / "bad.tflite")
    refused = CliRunner().invoke(app, ["inject", str(tmp_path / "bad.tflite"), "-o", str(tmp_path / "o.tflite")])
    assert refused.exit_code == 1 and "internal" not in refused.stderr
