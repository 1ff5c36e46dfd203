"""Models that cannot be trained: refused by name, and nothing is written."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from ai_edge_litert import schema_py_generated as schema

from helpers.graphs import find
from helpers.injection import inject_all
from helpers.models import GraphBuilder, small_cnn, two_inputs
from helpers.models.graph_builder import Activation
from tflm_zo.converters import ConversionError, Model, load_model, read_metadata
from tflm_zo.converters.model import Metadata, Operator, OperatorCode, Quantization, Subgraph, Tensor

TensorType = schema.TensorType
BuiltinOperator = schema.BuiltinOperator
Change = Callable[[Model], Any]


def operator(model: Model, name: str) -> Operator:
    return next(op for op in model.subgraphs[0].operators if op.outputs and op.outputs[0].name == name)


def float_model(model: Model) -> None:
    for t in model.subgraphs[0].tensors:
        t.type, t.quantization = TensorType.FLOAT32, None
        if t.is_constant and "shape" not in t.name:
            t.buffer = type(t.buffer)(bytes(4 * t.size))


def float16_weights(model: Model) -> None:
    graph = model.subgraphs[0]
    half = Tensor("half", (4, 9), TensorType.FLOAT16, type(model.buffers[0])(bytes(72)))
    full = Tensor("full", (4, 9), TensorType.FLOAT32, model.empty_buffer)
    graph.operators.insert(0, Operator(OperatorCode(BuiltinOperator.DEQUANTIZE), [half], [full]))


def on_tensors(*names: str, **values: Any) -> Change:
    def change(model: Model) -> None:
        for name in names:
            vars(find(model, name)).update(values)

    return change


def on_quantization(name: str, change: Callable[[Quantization], None]) -> Change:
    def apply(model: Model) -> None:
        quantization = find(model, name).quantization
        assert quantization is not None
        change(quantization)

    return apply


def on_options(name: str, **values: int) -> Change:
    return lambda model: vars(operator(model, name).options).update(values)


def pool_as(code: OperatorCode) -> Change:
    return lambda model: setattr(operator(model, "pool"), "code", code)


def bias_as(data: np.ndarray) -> Change:
    """Replaces the bias of the convolution, whose four channels have int32 values."""

    def change(model: Model) -> None:
        found = find(model, "conv/bias")
        found.shape, found.type = data.shape, TensorType.INT8 if data.dtype == np.int8 else TensorType.INT32
        found.set_data(data)

    return change


def rank_of_input(model: Model) -> None:
    find(model, "pool").shape = (find(model, "pool").size,)


# Reasons for which a model is refused when it is injected.
OF_PLAIN_MODELS: list[tuple[Change, str]] = [
    (on_tensors("fc/filter", type=TensorType.INT4), "`fc/filter` is INT4; convert the model with int8 weights"),
    (lambda model: setattr(model, "metadata", [Metadata("COMPRESSION_METADATA", model.empty_buffer)]), "compressed"),
    (float_model, "CONV_2D `conv`.*FLOAT32.*full int8"),
    (on_tensors("image", "conv", type=TensorType.FLOAT32), "CONV_2D `conv`.*`image` is FLOAT32.*dynamic-range"),
    (float16_weights, "`half`"),
    (pool_as(OperatorCode(BuiltinOperator.WHILE)), "WHILE `pool`.*control flow"),
    (lambda model: model.subgraphs.append(Subgraph("second")), "2 subgraphs"),
    (lambda model: model.subgraphs[0].operators.reverse(), "is not computed before it is read"),
    (lambda model: model.subgraphs[0].operators.clear(), "no operators"),
]
NOT_PER_CHANNEL = "`conv/filter` is not quantized per output channel"
# Reasons for which a plain model is refused when it is injected, and a ZO model when it is read.
OF_BOTH: list[tuple[Change, str]] = [
    (on_tensors("pool", type=TensorType.INT16), "MAX_POOL_2D `pool`.*INT16"),
    (on_tensors("pool", type=TensorType.UINT8), "`pool`.*UINT8.*old quantization"),
    (lambda m: setattr(find(m, "fc/filter").raw, "sparsity", schema.SparsityParametersT()), "`fc/filter` is sparse"),
    (on_tensors("pool", is_variable=True), "`pool` is a variable"),
    (pool_as(OperatorCode.of_custom("MyOp")), "`pool`.*custom operator `MyOp`"),
    (pool_as(OperatorCode.of_custom("ethos-u")), "vela has compiled .* take .*, or cut the file behind `pool`"),
    (pool_as(OperatorCode.of_custom("TFLM_DECODE")), "`pool`: TFLM has compressed .* before compression"),
    (pool_as(OperatorCode.of_custom("\udc80")), "custom operator `\N{REPLACEMENT CHARACTER}` is unknown"),
    (pool_as(OperatorCode(BuiltinOperator.EXP)), "EXP `pool`: TFLM has no int8 kernel"),
    (on_tensors("pool", quantization=None), "`pool` has no"),
    (on_quantization("conv/filter", lambda q: q.zero_points.__setitem__(0, 3)), "`conv/filter` has a zero point"),
    (on_quantization("conv/filter", lambda q: q.scales.__setitem__(1, np.nan)), "`conv/filter` has a quantization sc"),
    (on_quantization("conv/filter", lambda q: setattr(q, "axis", 3)), NOT_PER_CHANNEL),
    (on_quantization("conv/filter", lambda q: setattr(q, "scales", q.scales[:3])), NOT_PER_CHANNEL),
    (lambda model: operator(model, "conv").inputs.__setitem__(1, None), "CONV_2D `conv`"),
    (on_options("conv", strideW=0), "CONV_2D `conv`: strideW is 0, it must be at least 1"),
    (on_options("conv", dilationHFactor=-1), "CONV_2D `conv`: dilationHFactor is -1"),
    (on_options("pool", filterHeight=0), "MAX_POOL_2D `pool`: filterHeight is 0"),
    (lambda model: setattr(operator(model, "conv").raw, "builtinOptions", None), "CONV_2D `conv`: strideH is 0"),
    (bias_as(np.zeros(2, np.int32)), "bias `conv/bias` has 2 values for 4 channels"),
    (bias_as(np.zeros(4, np.int8)), "bias `conv/bias` is INT8"),
    (rank_of_input, "`pool` has shape .*, images have 4 dimensions"),
]


@pytest.mark.parametrize(("change", "message"), [*OF_PLAIN_MODELS, *OF_BOTH])
def test_refused_by_name_without_a_file(change: Change, message: str, tmp_path: Path) -> None:
    model = load_model(small_cnn())
    change(model)
    with pytest.raises(ConversionError) as e:
        inject_all(model).save(tmp_path / "zo.tflite")
    assert re.search(message, str(e.value)), e.value
    assert "\n" not in str(e.value)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(("change", "message"), OF_BOTH)
def test_zo_models_are_refused_for_the_same(change: Change, message: str) -> None:
    model = load_model(inject_all(small_cnn()).to_bytes())
    read_metadata(model)
    change(model)
    with pytest.raises(ConversionError) as e:
        read_metadata(model)
    assert re.search(message, str(e.value)), e.value


def test_injected_models_are_refused() -> None:
    named, zo = load_model(small_cnn()), inject_all(small_cnn())
    named.metadata = [Metadata("tflm_zo", named.empty_buffer)]
    zo.metadata = None
    for model in (named, zo, zo.to_bytes()):
        with pytest.raises(ConversionError, match="is a ZO model already"):
            inject_all(model)


def test_nothing_to_train() -> None:
    g = GraphBuilder()
    data = g.build([g.softmax(g.input("x", [1, 4]), "softmax")])
    with pytest.raises(ConversionError, match="no layer to train"):
        inject_all(data)


def test_other_batch_size() -> None:
    g = GraphBuilder()
    data = g.build([g.dense(g.input("x", [3, 8]), "fc", 4, Activation.NONE)])
    with pytest.raises(ConversionError, match="`x`.*batch size must be 1 or 2"):
        inject_all(data, batch=2)
    inject_all(data, batch=3)
    model = load_model(two_inputs())
    find(model, "features").shape = (4, 10)
    with pytest.raises(ConversionError, match="differ in batch size"):
        inject_all(model, batch=4)


def test_filter_that_is_read_as_something_else() -> None:
    g = GraphBuilder()
    x = g.input("x", [1, 8])
    y = g.dense(x, "fc", 8, Activation.NONE)
    data = g.build([y, g.operators[0].inputs[1]])
    with pytest.raises(ConversionError, match="fc/filter.*input or output"):
        inject_all(data, loss="mse")


def test_bias_that_is_no_constant() -> None:
    def build(headroom: int) -> Any:
        g = GraphBuilder()
        x = g.input("x", [1, 8])
        b = g.tensor("late_bias", [8], TensorType.INT32, scales=[0.01])
        g.inputs.append(b)
        y = g.dense(x, "fc", 8, Activation.NONE)
        g.operators[0].inputs[2] = b
        model = load_model(g.build([y]))
        model.subgraphs[0].inputs[1].shape = (1, 8)
        return inject_all(model, loss="mse", headroom=headroom)

    with pytest.raises(ConversionError, match="`headroom` must be 0, because FULLY_CONNECTED `fc` has a bias `late_b"):
        build(40)
    build(0)


def test_stale_memory_plan_is_dropped() -> None:
    model = load_model(small_cnn())
    model.metadata = [Metadata("OfflineMemoryAllocation", model.empty_buffer), Metadata("x", model.empty_buffer)]
    assert [m.name for m in inject_all(model).metadata or ()] == ["x", "tflm_zo"]
