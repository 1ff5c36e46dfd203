"""Names that TensorFlow puts together are shown as the layer's; files and --json have them whole."""

import json
from pathlib import Path
from typing import Any

import pytest

from tflm_zo.converters import load_model
from tflm_zo.converters.passes.layer_names import shown_name

# Of MLPerf Tiny's keyword spotter and person detector, and of TFLM's.
CONV = (
    "functional_1/activation_2/Relu;functional_1/batch_normalization_2/FusedBatchNormV3;functional_1/conv2d_1"
    "/BiasAdd/ReadVariableOp/resource;functional_1/conv2d_1/BiasAdd;functional_1/conv2d_4/Conv2D;functional_1"
    "/conv2d_1/Conv2D1"
)


@pytest.mark.parametrize(
    ("tensor", "shown"),
    [
        (CONV, "conv2d_1"),
        (
            "model/activation_1/Relu;model/batch_normalization_1/FusedBatchNormV3;model/depthwise_conv2d/depthwise;"
            "model/depthwise_conv2d/BiasAdd;model/depthwise_conv2d/BiasAdd/ReadVariableOp/resource1",
            "depthwise_conv2d",
        ),
        ("sequential/re_lu/Relu;sequential/bn/FusedBatchNormV3;sequential/conv/Conv2D", "conv"),
        ("model/dense/MatMul;model/dense/BiasAdd", "dense"),
        ("model/activation_2/Relu;model/add/add", "activation_2"),
        ("MobilenetV1/MobilenetV1/Conv2d_10_pointwise/Relu6", "Conv2d_10_pointwise"),
        ("Identity_int8", "Identity_int8"),
        ("conv/filter", "conv/filter"),
        ("", ""),
        (";", ";"),
        ("x" * 150, "x" * 39 + "…"),
    ],
)
def test_shown_name(tensor: str, shown: str) -> None:
    assert shown_name(tensor) == shown


def test_tables_and_errors_show_the_layer_and_json_the_name(cli: Any, model_file: Any, tmp_path: Path) -> None:
    model = load_model(model_file())
    for tensor in model.subgraphs[0].tensors:
        tensor.name = {"conv": CONV, "conv/filter": "functional_1/conv2d_1/Conv2D"}.get(tensor.name, tensor.name)
    model.save(tmp_path / "long.tflite")
    told = cli("inspect", "long.tflite")
    assert "conv2d_1" in told.stdout and "BatchNorm" not in told.stdout
    names = [op["output"] for op in json.loads(cli("inspect", "long.tflite", "--json").stdout)["operators"]]
    assert CONV in names
    # Names that users have to type again are not shortened.
    assert CONV in cli("inspect", "long.tflite", "--cuts").stdout
    model.subgraphs[0].operators[0].outputs[0].type = 7  # INT16
    model.save(tmp_path / "bad.tflite")
    refused = cli("inject", "bad.tflite", "-o", "z.tflite")
    assert refused.exit_code == 1 and "CONV_2D `conv2d_1`" in refused.stderr
