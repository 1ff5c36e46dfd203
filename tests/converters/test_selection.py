# SPDX-License-Identifier: Apache-2.0
"""Which layers are trainable, and the blocks that they make."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from helpers.injection import inject_all
from helpers.models import GraphBuilder, lenet5
from helpers.models.graph_builder import Activation
from tflm_zo.converters import ConversionError, load_model, read_metadata


@pytest.mark.parametrize(
    ("trainable", "layers"),
    [
        ("all", ["conv1", "conv2", "fc1", "fc2", "fc3"]),
        ("last:2", ["fc2", "fc3"]),
        ("conv*", ["conv1", "conv2"]),
        (["fc3", "conv1"], ["conv1", "fc3"]),
        ("fc1/filter", ["fc1"]),
    ],
)
def test_selection(trainable: Any, layers: list[str]) -> None:
    model = inject_all(lenet5(), trainable=trainable)
    metadata = read_metadata(model)
    assert [t.layer for t in metadata.trainable] == layers
    assert [t.stream for t in metadata.trainable] == list(range(len(layers)))
    assert sum(t.is_variable for t in model.subgraphs[0].tensors) == len(layers) + 2  # zo_fraction, zo_state


def test_blocks() -> None:
    metadata = read_metadata(inject_all(lenet5(), blocks={"head": ["fc2", "fc3"], "features": "conv*"}))
    assert metadata.blocks == ("features", "fc1", "head")
    assert [t.block for t in metadata.trainable] == [0, 0, 1, 2, 2]
    only = read_metadata(inject_all(lenet5(), blocks={"head": ["fc2", "fc3"]}, trainable="head"))
    assert only.blocks == ("head",)
    assert [t.layer for t in only.trainable] == ["fc2", "fc3"]


def test_selection_errors() -> None:
    for overrides, message in [
        ({"trainable": "conv9"}, "`conv9` fits no layer; there are: conv1, conv2, fc1, fc2, fc3"),
        ({"trainable": "last:6"}, "only 5 layers"),
        ({"blocks": {"a": "conv9"}}, "block `a`.*there are: conv1"),
        ({"blocks": {"a": "conv1", "b": "conv*"}}, "two blocks"),
        ({"blocks": {"fc1": "conv1"}}, "`fc1` has the name of a layer"),
    ]:
        with pytest.raises(ConversionError, match=message):
            inject_all(lenet5(), **overrides)


def test_tied_filter_is_one_trainable_tensor() -> None:
    g = GraphBuilder()
    x = g.input("x", [1, 6], 1 / 64, 0)
    y = g.dense(x, "a", 6)
    z = g.dense(y, "b", 6, Activation.NONE)
    tied = g.operators[0].inputs[1]
    g.operators[1].inputs = np.array([y.index, tied, -1], np.int32)
    model = inject_all(g.build([z]), loss="mse", headroom=30)
    assert [t.name for t in read_metadata(model).trainable] == ["a/filter"]
    readers = [op for op in model.subgraphs[0].operators if op.code.name == "FULLY_CONNECTED"]
    assert readers[0].inputs[1] is readers[1].inputs[1]
    with pytest.raises(ConversionError, match="a/filter.*shared by layers of different segments"):
        inject_all(g.build([z]), loss="mse", cuts=["a"])


def test_layer_names_of_converters() -> None:
    g = GraphBuilder()
    x = g.input("x", [1, 6, 6, 1])
    x = g.conv(x, "net/conv2d/Relu;net/bn/FusedBatchNormV3;net/conv2d/Conv2D", 2)
    x = g.depthwise(x, "net/depthwise_conv2d/depthwise")
    x = g.dense(x, "net/dense/MatMul;net/dense/BiasAdd", 4)
    data = g.build([g.dense(x, "arith.constant7", 3)])
    model = load_model(data)
    for op in model.subgraphs[0].operators:
        weights = op.inputs[1]
        assert weights is not None
        weights.name = "arith.constant3" if "conv2d/Relu" in weights.name else weights.name[:-7]
    names = [t.layer for t in read_metadata(inject_all(model)).trainable]
    assert names[:3] == ["conv2d", "depthwise_conv2d", "dense"]
    assert len(set(names)) == 4
