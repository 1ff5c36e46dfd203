"""The loss of a ZO model: its output and its input."""

import struct

import numpy as np
import pytest

from helpers.graphs import find, reload
from helpers.injection import inject_all
from helpers.models import MODELS, GraphBuilder, lenet5, two_outputs
from helpers.models.graph_builder import Activation
from tflm_zo.converters import ConversionError, Model, read_metadata


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
    """Reads the operands and the label of a cross-entropy, and a kind of its own."""
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
        match=r"`loss` must be `binary_cross_entropy` or `mse`, because output `c` of shape \[1, 4, 4, 3\]",
    ):
        inject_all(image)
    with pytest.raises(ConversionError, match="one vector of at least two"):
        inject_all(image, loss="cross_entropy")
    assert loss_fields(inject_all(image, loss="mse"))[2] == 48
    with pytest.raises(
        ConversionError, match="`loss` must be `cross_entropy`, `floor_log2` or `mse` behind SOFTMAX `softmax`"
    ):
        inject_all(lenet5(), loss="binary_cross_entropy")
    for kind in ("cross_entropy", "floor_log2"):
        with pytest.raises(
            ConversionError, match="must be `binary_cross_entropy` or `mse` behind LOGISTIC `probability`"
        ):
            inject_all(MODELS["logistic_head"](), loss=kind)
    with pytest.raises(ConversionError, match="one vector of at least two"):
        inject_all(image, loss="floor_log2")
