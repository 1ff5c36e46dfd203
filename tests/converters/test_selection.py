"""Layers that are trainable, the blocks that they make, the loss, its output and its input."""

import struct
from typing import Any

import numpy as np
import pytest

from helpers.graphs import find, reload
from helpers.injection import inject_all
from helpers.models import MODELS, GraphBuilder, lenet5, two_outputs
from helpers.models.graph_builder import Activation
from tflm_zo.converters import ConversionError, Last, Model, load_model, read_metadata
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
        said = "which does not feed what the loss reads .`class`..*Choose another output with `loss_"
        with pytest.raises(ConversionError, match=said):
            inject_all(two_outputs(), **settings)


def test_weights_of_the_other_head_stay_as_they_are() -> None:
    """Weight perturbation let them walk at random: the loss never tells it to stop."""
    x = np.random.default_rng(0).integers(-128, 128, (32, 6, 6, 1)).astype(np.int8)
    y = (x.mean((1, 2, 3)) > 0).astype(np.int32)
    settings = Settings(tasks=(Weights(),), batch_size=8)
    trainer = Trainer(inject_all(boxes_and_classes(), batch=8), settings, runtime="litert")
    trainer.fit(x, y, steps=60, keep="last")
    before, after = (
        {t.name: t.numpy() for t in m.subgraphs[0].tensors if t.is_constant and t.name.endswith("/filter")}
        for m in (load_model(boxes_and_classes()), trainer.export())
    )
    moved = {name for name in before if not np.array_equal(before[name], after[name])}
    assert moved == {"trunk/filter", "class/filter"}


def loss_fields(model: Model) -> tuple[str, int, int, int, int, int, str]:
    op = model.subgraphs[-1].operators[-1]
    assert op.custom_options is not None
    version, kind, zero, elements, zero_point, first, second = struct.unpack("<BBHIiII", op.custom_options)
    assert (version, zero) == (1, 0)
    logits = op.inputs[0]
    assert logits is not None
    return logits.name, kind, elements, zero_point, first, second, op.code.name


def scale_of(model: Model, name: str) -> tuple[float, int]:
    quantization = find(model, name).quantization
    assert quantization is not None
    return quantization.scale, quantization.zero_point


@pytest.mark.parametrize(
    ("name", "logits", "beta"),
    [("lenet5", "fc3", 1), ("dense_after_4d", "fc2", 2), ("float_edges", "fc2", 1), ("small_cnn", "fc", 1)],
)
def test_cross_entropy(name: str, logits: str, beta: float) -> None:
    model = inject_all(MODELS[name]())
    found, kind, _, zero_point, first, second, _ = loss_fields(model)
    assert (found, kind, zero_point) == (logits, 0, 0)
    scale = scale_of(model, logits)[0] * beta
    assert first == round(scale * np.log2(np.e) * 2**24)
    assert second == round(scale * 2**24)
    assert find(model, "zo_label").shape == (1,)


@pytest.mark.parametrize(("name", "logits", "beta"), [("lenet5", "fc3", 1), ("dense_after_4d", "fc2", 2)])
def test_floor_log2(name: str, logits: str, beta: float) -> None:
    exact, model = inject_all(MODELS[name](), batch=2), inject_all(MODELS[name](), batch=2, loss="floor_log2")
    found, kind, elements, zero_point, first, second, _ = loss_fields(model)
    assert (found, kind, zero_point) == (logits, 3, 0)
    assert (elements, first, second) == (*loss_fields(exact)[2:3], *loss_fields(exact)[4:6])
    assert first == round(scale_of(model, logits)[0] * beta * np.log2(np.e) * 2**24)
    label = find(model, "zo_label")
    assert (label.shape, label.type_name) == ((2,), "INT32")
    loss = read_metadata(reload(model)).loss
    assert loss is not None and (loss.kind, loss.of_classes, loss.squashed) == ("floor_log2", True, True)


def test_binary_cross_entropy() -> None:
    model = inject_all(MODELS["logistic_head"](), batch=2)
    found, kind, elements, zero_point, _, second, _ = loss_fields(model)
    scale, zero = scale_of(model, "fc")
    assert (found, kind, elements, zero_point, second) == ("fc", 1, 3, zero, round(scale * 2**24))
    label = find(model, "zo_label")
    assert (label.shape, label.type_name) == ((2, 3), "INT32")


def test_mean_squared_error() -> None:
    model = inject_all(MODELS["autoencoder"](), batch=3)
    found, kind, elements, zero_point, multiplier, shift, _ = loss_fields(model)
    scale, zero = scale_of(model, "decoder2")
    assert (found, kind, elements, zero_point) == ("decoder2", 2, 24, 0)
    assert 2**30 <= multiplier < 2**31
    assert 0 <= shift <= 62
    assert multiplier * 2.0**-shift == pytest.approx(2**16 / (24 * 8**2), rel=2**-30)
    loss = read_metadata(reload(model)).loss
    assert loss is not None and loss.unit == (8 * scale) ** 2
    label = find(model, "zo_label")
    assert (label.shape, label.type_name) == ((3, 24), "INT8")
    assert scale_of(model, "zo_label") == (scale, zero)


def test_mean_squared_error_of_a_sigmoid_reads_the_output() -> None:
    model = inject_all(MODELS["logistic_head"](), loss="mse")
    assert loss_fields(model)[0] == "probability"


def test_loss_output() -> None:
    assert loss_fields(inject_all(two_outputs()))[:2] == ("class", 0)
    assert loss_fields(inject_all(two_outputs(), loss_output=1))[:2] == ("detect", 1)
    assert loss_fields(inject_all(two_outputs(), loss_output="sigmoid"))[:2] == ("detect", 1)
    for wrong in (2, "sigmoids"):
        with pytest.raises(ConversionError, match="0 `softmax`, 1 `sigmoid`"):
            inject_all(two_outputs(), loss_output=wrong)


def test_loss_errors() -> None:
    g = GraphBuilder()
    x = g.conv(g.input("x", [1, 4, 4, 1]), "c", 3, activation=Activation.NONE)
    image = g.build([x])
    with pytest.raises(
        ConversionError,
        match=r"`cross_entropy`, `binary_cross_entropy` or `mse`, because output `c` of shape \[1, 4, 4",
    ):
        inject_all(image)
    with pytest.raises(ConversionError, match="two logits at least in its last dimension, once"):
        inject_all(image, loss="floor_log2")
    one = GraphBuilder()
    with pytest.raises(ConversionError, match="two logits at least in its last dimension, not"):
        inject_all(one.build([one.dense(one.input("x", [1, 4]), "f", 1)]), loss="cross_entropy")
    assert loss_fields(inject_all(image, loss="mse"))[2] == 48
    with pytest.raises(
        ConversionError, match="must be `cross_entropy`, `floor_log2` or `mse` behind SOFTMAX `softmax`"
    ):
        inject_all(lenet5(), loss="binary_cross_entropy")
    for kind in ("cross_entropy", "floor_log2"):
        with pytest.raises(ConversionError, match="`binary_cross_entropy` or `mse` behind LOGISTIC `probability`"):
            inject_all(MODELS["logistic_head"](), loss=kind)
