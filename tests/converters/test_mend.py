"""Files of other converters are mended, that is said, and nothing that kernels compute changes."""

import warnings
from collections.abc import Callable

import numpy as np
import pytest

from helpers.graphs import find
from helpers.injection import inject_all
from helpers.interpreters import inputs_of, require, run_plain
from helpers.models import GraphBuilder, depthwise_separable, small_cnn
from helpers.models.graph_builder import Activation
from tflm_zo.converters import ConversionError, Model, export_model, inject, load_model, read_metadata
from tflm_zo.converters.errors import ConversionWarning
from tflm_zo.converters.model import Signature
from tflm_zo.converters.model.schema import TensorType


def stale_signature(model: Model) -> None:
    graph = model.subgraphs[0]
    ports = [("image", find(model, "conv"))], [("out", graph.outputs[0])]
    model.signatures = [Signature("old", graph, *ports)]


def shared_names(model: Model) -> None:
    for name in ("conv/filter", "fc/filter", "conv/bias"):
        find(model, name).name = "weights"


def empty_names(model: Model) -> None:
    for t in model.subgraphs[0].all_tensors():
        t.name = ""


def dead_channel(model: Model) -> None:
    for name in ("conv/filter", "conv/bias"):
        quantization = find(model, name).quantization
        assert quantization is not None
        quantization.scales[2] = 0


def scale_of_bias(model: Model) -> None:
    for name in ("conv/bias", "fc/bias"):
        quantization = find(model, name).quantization
        assert quantization is not None
        quantization.scales *= np.float32(5)


MENDED: list[tuple[Callable[[Model], None], str]] = [
    (stale_signature, "signature `old` is left out: it names tensor `conv`"),
    (shared_names, "tensors without a name of their own are now called `weights_1`, `weights_2`"),
    (empty_names, "tensors without a name of their own are now called `conv_2d/weights`, "),
    (dead_channel, "`conv`: 1 of 4 channels have scale 0"),
    (scale_of_bias, "the scale of bias `conv/bias` is now input scale"),
]


def warned(model: bytes, message: str) -> Model:
    with pytest.warns(ConversionWarning, match=message):
        return inject(model, parameters="all", trainable="all")


@pytest.mark.parametrize(("change", "message"), MENDED, ids=lambda v: getattr(v, "__name__", ""))
def test_mended(change: Callable[[Model], None], message: str) -> None:
    require("tflm")
    model = load_model(small_cnn())
    change(model)
    data = model.to_bytes()
    zo = warned(data, message)
    assert load_model(data).to_bytes() == data
    plain = export_model(zo).to_bytes()
    inputs = inputs_of(data, 0)
    for runtime in ("litert", "tflm"):
        np.testing.assert_array_equal(run_plain(plain, runtime, inputs)[0], run_plain(data, runtime, inputs)[0])
    names = [t.name for t in read_metadata(zo).trainable]
    assert len({*names}) == len(names) == 4
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        inject(plain, parameters="all", trainable="all")


def test_an_input_without_a_scale_is_refused_by_name() -> None:
    model = load_model(small_cnn())
    for t in model.subgraphs[0].all_tensors():
        if t.quantization is not None and not t.is_constant:
            t.quantization.scales = t.quantization.scales[:0]
    with pytest.raises(ConversionError, match="`image` has no .* scale"):
        inject(model.to_bytes(), parameters="all", trainable="all")


def test_wrong_scales_of_biases_change_nothing() -> None:
    wrong = load_model(small_cnn())
    scale_of_bias(wrong)
    for settings in ({"headroom": 20}, {"parameters": "biases"}, {"parameters": "all"}, {"batch": 4}):
        with pytest.warns(ConversionWarning):
            found = inject_all(wrong, **settings)
        assert found.to_bytes() == inject_all(small_cnn(), **settings).to_bytes()


def test_parts_in_float_are_taken_in_int8() -> None:
    """One part keeps its scale, one has another one, and nothing reads the third."""
    require("tflm")
    g = GraphBuilder(5)
    x = g.conv(g.input("image", [1, 6, 5, 2]), "conv", 9)
    shape = [1, 6, 5, 3]
    parts = [g.tensor(f"part{i}", shape, TensorType.FLOAT32) for i in range(3)]
    g.operator("SPLIT", [g.int32("axis", [3]), g.dequantize(x, "float")], parts, "Split", numSplits=3)
    same = g.quantize(parts[2], "same", shape, x.scale, x.zero_point)
    other = g.quantize(parts[0], "other", shape, 1.7 * x.scale, 5)
    y = g.dense(g.flatten(g.add(same, other, "sum"), "flat"), "fc", 4, Activation.NONE)
    data = g.build([g.softmax(y, "softmax")])
    zo = warned(data, "SPLIT `part0` parts int8 values now")
    made = [op for graph in zo.subgraphs for op in graph.operators]
    assert [op.code.name for op in made if "QUANT" in op.code.name] == ["QUANTIZE"]
    plain, inputs = export_model(zo).to_bytes(), inputs_of(data, 0)
    for runtime in ("litert", "tflm"):
        for source in (data, plain):
            np.testing.assert_array_equal(run_plain(source, runtime, inputs)[0], run_plain(data, "litert", inputs)[0])


def two_subgraphs() -> Model:
    model, other = load_model(small_cnn()), load_model(depthwise_separable())
    model.subgraphs.append(other.subgraphs[0])
    model.subgraphs[0].name, model.subgraphs[1].name = "main", "other"
    graph = model.subgraphs[1]
    ports = [("in", graph.inputs[0])], [("out", graph.outputs[0])]
    model.signatures = [Signature("train", graph, *ports)]
    return model


def test_one_of_several_subgraphs() -> None:
    for name, whole in (("main", small_cnn()), ("train", depthwise_separable())):
        zo = inject_all(two_subgraphs(), signature=name)
        assert [t.name for t in read_metadata(zo).trainable] == [
            t.name for t in read_metadata(inject_all(whole)).trainable
        ]
    with pytest.raises(ConversionError, match="`signature` must name one of 2 subgraphs: `train`, `main`"):
        inject_all(two_subgraphs())
    with pytest.raises(ConversionError, match="`signature` must be one of `train`, `main`. Received: 'second'"):
        inject_all(two_subgraphs(), signature="second")


def classifier(classes: int, end: str, beta: float = 1.0) -> bytes:
    g = GraphBuilder(3)
    y = g.dense(g.input("x", [1, classes]), "fc", classes, Activation.NONE)
    y = g.softmax(y, "softmax", beta)
    if end == "float":
        return g.build([g.dequantize(y, "real")])
    if end == "uint8":
        pixels = g.tensor("bytes", [1, classes], TensorType.UINT8, scales=[1 / 256], zero_points=[0])
        g.operator("QUANTIZE", [y.index], [pixels], "Quantize")
        return g.build([pixels])
    return g.build([y])


@pytest.mark.parametrize("end", ["int8", "uint8", "float"])
def test_softmax_of_many_classes(end: str) -> None:
    require("tflm")
    data = classifier(512, end)
    with pytest.warns(ConversionWarning, match="SOFTMAX `softmax` is left out.* 511 equal ones, and it has 512"):
        zo = inject_all(data, batch=1)
    loss, expected = read_metadata(zo).loss, read_metadata(inject_all(classifier(511, end))).loss
    assert loss is not None and expected is not None
    assert (loss.kind, loss.elements) == ("cross_entropy", 512)
    assert loss.scale == pytest.approx(expected.scale, rel=0.5)
    x, plain = inputs_of(data, 0), export_model(zo).to_bytes()
    found = run_plain(plain, "tflm", x)[0]
    np.testing.assert_array_equal(found, run_plain(plain, "litert", x)[0])
    output = load_model(plain).subgraphs[0].outputs[0]
    real = found.astype(np.float64)
    if output.quantization is not None and end != "float":
        real = (real - output.quantization.zero_point) * output.quantization.scale
    shares = np.exp(real - real.max())
    wanted = run_plain(data, "litert", x)[0].astype(np.float64)
    wanted = wanted if end == "float" else (wanted + (128 if end == "int8" else 0)) / 256
    np.testing.assert_allclose(shares / shares.sum(), wanted, atol=1 / 256)


def test_softmax_of_many_classes_that_is_needed() -> None:
    for data, settings in ((classifier(512, "int8", beta=2.0), {}), (classifier(512, "int8"), {"loss": "mse"})):
        with pytest.raises(ConversionError, match="at more than 511 equal values kernels end the process"):
            inject_all(data, **settings)


def test_argmax_at_the_end() -> None:
    g = GraphBuilder(3)
    y = g.dense(g.input("x", [1, 6]), "fc", 4, Activation.NONE)
    best = g.tensor("class", [1], TensorType.INT32)
    g.operator("ARG_MAX", [y.index, g.int32("axis", [1])], [best], "ArgMax", outputType=TensorType.INT32)
    data = g.build([best])
    with pytest.warns(ConversionWarning, match="output `fc` is added.* ARG_MAX `class` compares"):
        zo = inject_all(data)
    loss = read_metadata(zo).loss
    assert loss is not None and (loss.kind, loss.output, loss.elements) == ("cross_entropy", 1, 4)
    x = inputs_of(data, 0)
    outputs = run_plain(export_model(zo).to_bytes(), "litert", x)
    np.testing.assert_array_equal(outputs[0], run_plain(data, "litert", x)[0])
    assert outputs[0][0] == outputs[1][0].argmax()


@pytest.mark.parametrize(("name", "kind"), [("LOG_SOFTMAX", "cross_entropy"), ("LOGISTIC", "binary_cross_entropy")])
def test_float_behind_the_last_dequantize(name: str, kind: str) -> None:
    require("tflm")
    g = GraphBuilder(3)
    y = g.dequantize(g.dense(g.input("x", [1, 6]), "fc", 4, Activation.NONE), "real")
    shares = g.tensor("shares", [1, 4], TensorType.FLOAT32)
    g.operator(name, [y], [shares])
    data = g.build([shares])
    zo = inject_all(data)
    loss = read_metadata(zo).loss
    assert loss is not None and loss.kind == kind
    plain, x = export_model(zo).to_bytes(), inputs_of(data, 0)
    for runtime in ("litert", "tflm"):
        np.testing.assert_array_equal(run_plain(plain, runtime, x)[0], run_plain(data, runtime, x)[0])
    np.testing.assert_allclose(run_plain(plain, "litert", x)[0], run_plain(plain, "tflm", x)[0], rtol=1e-5, atol=1e-6)


def test_a_vector_beside_another_input_is_no_target() -> None:
    """It may be shaped like the logits; an input alone that is shaped so is an autoencoder's."""
    g = GraphBuilder(3)
    x, context = g.input("x", [1, 8]), g.input("context", [1, 4])
    y = g.add(g.dense(x, "a", 4), g.dense(context, "b", 4), "sum")
    model = load_model(g.build([g.dense(y, "fc", 4, Activation.NONE)]))
    for _ in range(2):
        loss = read_metadata(inject_all(model)).loss
        assert loss is not None and loss.kind == "cross_entropy"
        model.subgraphs[0].inputs.reverse()
    g = GraphBuilder(3)
    y = g.dense(g.dense(g.input("x", [1, 8]), "a", 2), "b", 8, Activation.NONE)
    loss = read_metadata(inject_all(g.build([y]))).loss
    assert loss is not None and loss.kind == "mse"
