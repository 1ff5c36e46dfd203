"""Layers that are trainable, the blocks that they make, and the output that the loss belongs to."""

from typing import Any

import numpy as np
import pytest

from helpers.injection import inject_all
from helpers.models import GraphBuilder, lenet5, two_outputs
from helpers.models.graph_builder import Activation
from tflm_zo.converters import ConversionError, Last, Model, load_model, read_metadata
from tflm_zo.converters.inject import node_choices
from tflm_zo.training import Settings, Trainer, Weights


@pytest.mark.parametrize(
    ("trainable", "layers"),
    [
        ("all", ["conv1", "conv2", "fc1", "fc2", "fc3"]),
        (Last(2), ["fc2", "fc3"]),
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
        ({"trainable": "conv9"}, "`trainable` must fit a layer: conv1, conv2, fc1, fc2, fc3"),
        ({"trainable": Last(6)}, "`trainable` must be at most the 5 layers of the model"),
        ({"blocks": {"a": "conv9"}}, "`blocks` must fit a layer: conv1.* Received: 'conv9'"),
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


def boxes_and_classes() -> bytes:
    """Builds a detector: raw box coordinates first, class probabilities last, on a common trunk."""
    g = GraphBuilder(21)
    x = g.input("image", [1, 6, 6, 1])
    x = g.flatten(g.conv(x, "trunk", 4, stride=2), "flatten")
    boxes = g.dense(g.dense(x, "box_hidden", 16), "boxes", 4, Activation.NONE)
    return g.build([boxes, g.softmax(g.dense(x, "class", 3, Activation.NONE), "classes")])


def trained(model: Model) -> list[str]:
    return [t.layer for t in read_metadata(model).trainable]


def test_the_loss_belongs_to_the_first_output_behind_a_softmax_or_sigmoid() -> None:
    loss = read_metadata(inject_all(boxes_and_classes())).loss
    assert loss is not None and (loss.output, loss.kind, loss.elements) == (1, "cross_entropy", 3)
    first = read_metadata(inject_all(two_outputs())).loss
    assert first is not None and first.output == 0


@pytest.mark.parametrize(("wanted", "layers"), [(0, ["trunk", "class"]), (1, ["trunk", "detect"])])
def test_layers_that_the_loss_does_not_read_are_not_trainable(wanted: int, layers: list[str]) -> None:
    assert trained(inject_all(two_outputs(), loss_output=wanted)) == layers
    assert trained(inject_all(two_outputs(), loss_output=wanted, trainable=["*"])) == layers
    assert trained(inject_all(two_outputs(), loss_output=wanted, trainable=Last(1))) == layers[1:]
    assert trained(inject_all(two_outputs(), loss_output=wanted, nodes="auto", trainable="nodes")) == layers[1:]


def test_without_a_loss_every_layer_is_trainable() -> None:
    assert trained(inject_all(two_outputs(), loss="none")) == ["trunk", "class", "detect"]


def test_a_layer_that_the_loss_does_not_read_is_refused_by_name() -> None:
    for settings in ({"trainable": "detect"}, {"blocks": {"both": ["trunk", "detect"]}}):
        with pytest.raises(
            ConversionError,
            match="which does not feed what the loss reads .`class`..*Choose another output with `loss_",
        ):
            inject_all(two_outputs(), **settings)


def test_inspect_says_that_it_does_not_feed_the_loss() -> None:
    choices = {c.layer: c for c in node_choices(load_model(two_outputs()))}
    assert "does not feed what the loss reads" in choices["detect"].reason
    assert not choices["detect"].auto and choices["class"].auto


def test_weights_of_the_other_head_stay_as_they_are() -> None:
    """Weight perturbation let them walk at random: the loss never tells it to stop."""
    x = np.random.default_rng(0).integers(-128, 128, (32, 6, 6, 1)).astype(np.int8)
    y = (x.mean((1, 2, 3)) > 0).astype(np.int32)
    trainer = Trainer(
        inject_all(boxes_and_classes(), batch=8), Settings(tasks=(Weights(),), batch_size=8), runtime="litert"
    )
    trainer.fit(x, y, steps=60, keep="last")
    before, after = (
        {t.name: t.numpy() for t in m.subgraphs[0].tensors if t.is_constant and t.name.endswith("/filter")}
        for m in (load_model(boxes_and_classes()), trainer.export())
    )
    moved = {name for name in before if not np.array_equal(before[name], after[name])}
    assert moved == {"trunk/filter", "class/filter"}
