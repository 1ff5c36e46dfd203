# SPDX-License-Identifier: Apache-2.0
"""Models that cannot be trained: refused by name, and nothing is written."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from ai_edge_litert import schema_py_generated as schema

from helpers.injection import inject_all
from helpers.models import GraphBuilder, small_cnn, two_inputs
from helpers.models.graph_builder import Activation
from tflm_zo.converters import ConversionError, Model, load_model, read_metadata
from tflm_zo.converters.model import Metadata, Operator, OperatorCode, Subgraph, Tensor

TensorType = schema.TensorType
BuiltinOperator = schema.BuiltinOperator


def tensor(model: Model, name: str) -> Tensor:
    return next(t for t in model.subgraphs[0].all_tensors() if t.name == name)


def operator(model: Model, name: str) -> Operator:
    return next(op for op in model.subgraphs[0].operators if op.outputs and op.outputs[0].name == name)


def float_model(model: Model) -> None:
    for t in model.subgraphs[0].tensors:
        t.type, t.quantization = TensorType.FLOAT32, None
        if t.is_constant and "shape" not in t.name:
            t.buffer = type(t.buffer)(bytes(4 * t.size))


def dynamic_range(model: Model) -> None:
    for name in ("image", "conv"):
        tensor(model, name).type = TensorType.FLOAT32


def float16_weights(model: Model) -> None:
    graph = model.subgraphs[0]
    half = Tensor("half", (4, 9), TensorType.FLOAT16, type(model.buffers[0])(bytes(72)))
    full = Tensor("full", (4, 9), TensorType.FLOAT32, model.empty_buffer)
    graph.operators.insert(0, Operator(OperatorCode(BuiltinOperator.DEQUANTIZE), [half], [full]))


def int16_activations(model: Model) -> None:
    tensor(model, "pool").type = TensorType.INT16


def uint8(model: Model) -> None:
    tensor(model, "pool").type = TensorType.UINT8


def int4(model: Model) -> None:
    tensor(model, "fc/filter").type = TensorType.INT4


def sparse(model: Model) -> None:
    tensor(model, "fc/filter").raw.sparsity = schema.SparsityParametersT()


def variable(model: Model) -> None:
    tensor(model, "pool").is_variable = True


def metadata(model: Model) -> None:
    model.metadata = [Metadata("tflm_zo", model.empty_buffer)]


def own_operator(model: Model) -> None:
    model.subgraphs[0].operators[0].code = OperatorCode.of_custom("TFLM_ZO_LOSS")


def custom(model: Model) -> None:
    operator(model, "pool").code = OperatorCode.of_custom("MyOp")


def compiled_by_vela(model: Model) -> None:
    operator(model, "pool").code = OperatorCode.of_custom("ethos-u")


def unsupported(model: Model) -> None:
    operator(model, "pool").code = OperatorCode(BuiltinOperator.EXP)


def control_flow(model: Model) -> None:
    operator(model, "pool").code = OperatorCode(BuiltinOperator.WHILE)


def subgraphs(model: Model) -> None:
    model.subgraphs.append(Subgraph("second"))


def no_scale(model: Model) -> None:
    tensor(model, "pool").quantization = None


def zero_point(model: Model) -> None:
    quantization = tensor(model, "conv/filter").quantization
    assert quantization is not None
    quantization.zero_points[0] = 3


def nan_scale(model: Model) -> None:
    quantization = tensor(model, "conv/filter").quantization
    assert quantization is not None
    quantization.scales[1] = np.nan


def channel_axis(model: Model) -> None:
    quantization = tensor(model, "conv/filter").quantization
    assert quantization is not None
    quantization.axis = 3


def order(model: Model) -> None:
    model.subgraphs[0].operators.reverse()


def no_operators(model: Model) -> None:
    model.subgraphs[0].operators.clear()


def no_filter(model: Model) -> None:
    operator(model, "conv").inputs[1] = None


def no_stride(model: Model) -> None:
    operator(model, "conv").options.strideW = 0


def negative_dilation(model: Model) -> None:
    operator(model, "conv").options.dilationHFactor = -1


def no_window(model: Model) -> None:
    operator(model, "pool").options.filterHeight = 0


def bias(model: Model) -> None:
    found = tensor(model, "conv/bias")
    found.shape = (2,)
    found.set_data(np.zeros(2, np.int32))


def kind_of_bias(model: Model) -> None:
    found = tensor(model, "conv/bias")
    found.type = TensorType.INT8
    found.set_data(np.zeros(found.shape, np.int8))


def scales(model: Model) -> None:
    quantization = tensor(model, "conv/filter").quantization
    assert quantization is not None
    quantization.scales = quantization.scales[:3]


def rank_of_input(model: Model) -> None:
    tensor(model, "pool").shape = (tensor(model, "pool").size,)


def unprintable(model: Model) -> None:
    operator(model, "pool").code = OperatorCode.of_custom("\udc80")


def no_options(model: Model) -> None:
    operator(model, "conv").raw.builtinOptions = None


# What a model is refused for when it is injected.
OF_PLAIN_MODELS = [
    (int4, "`fc/filter` is INT4"),
    (float_model, "CONV_2D `conv`.*FLOAT32.*full int8"),
    (dynamic_range, "CONV_2D `conv`.*`image` is FLOAT32.*dynamic-range"),
    (float16_weights, "`half`"),
    (metadata, "is a ZO model already"),
    (own_operator, "is a ZO model already"),
    (control_flow, "WHILE `pool`.*control flow"),
    (subgraphs, "2 subgraphs"),
    (order, "is not computed before it is read"),
    (no_operators, "no operators"),
]
# Likewise, and a ZO model for when it is read.
OF_BOTH = [
    (int16_activations, "MAX_POOL_2D `pool`.*INT16"),
    (uint8, "`pool`.*UINT8.*old quantization"),
    (sparse, "`fc/filter` is sparse"),
    (variable, "`pool` is a variable"),
    (custom, "`pool`.*custom operator `MyOp`"),
    (compiled_by_vela, "ethos-u `pool`: vela has compiled layers .* take the int8 model that vela was given"),
    (unsupported, "EXP `pool`: TFLM has no int8 kernel"),
    (no_scale, "`pool` has no"),
    (zero_point, "`conv/filter` has a zero point"),
    (nan_scale, "`conv/filter` has a quantization scale"),
    (channel_axis, "`conv/filter` is not quantized per output channel"),
    (no_filter, "CONV_2D `conv`"),
    (no_stride, "CONV_2D `conv`: strideW is 0, it must be at least 1"),
    (negative_dilation, "CONV_2D `conv`: dilationHFactor is -1"),
    (no_window, "MAX_POOL_2D `pool`: filterHeight is 0"),
    (no_options, "CONV_2D `conv`: strideH is 0"),
    (bias, "bias `conv/bias` has 2 values for 4 channels"),
    (kind_of_bias, "bias `conv/bias` is INT8"),
    (scales, "`conv/filter` is not quantized per output channel"),
    (rank_of_input, "`pool` has shape .*, images have 4 dimensions"),
    (unprintable, "custom operator `\N{REPLACEMENT CHARACTER}` is unknown"),
]


@pytest.mark.parametrize(("change", "message"), [*OF_PLAIN_MODELS, *OF_BOTH])
def test_refused_by_name_without_a_file(
    change: Callable[[Model], None], message: str, tmp_path: Path
) -> None:
    model = load_model(small_cnn())
    change(model)
    with pytest.raises(ConversionError) as e:
        inject_all(model).save(tmp_path / "zo.tflite")
    assert re.search(message, str(e.value)), e.value
    assert "\n" not in str(e.value)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(("change", "message"), OF_BOTH)
def test_zo_models_are_refused_for_the_same(change: Callable[[Model], None], message: str) -> None:
    model = load_model(inject_all(small_cnn()).to_bytes())
    read_metadata(model)
    change(model)
    with pytest.raises(ConversionError) as e:
        read_metadata(model)
    assert re.search(message, str(e.value)), e.value


def test_an_int16_layer_is_refused_for_what_the_layer_would_be() -> None:
    model = load_model(inject_all(small_cnn(), int16="last").to_bytes())
    read_metadata(model)
    found = tensor(model, "fc/bias")
    found.shape = (2,)
    found.set_data(np.zeros(2, np.int32))
    with pytest.raises(ConversionError, match="bias `fc/bias` has 2 values for 4 channels"):
        read_metadata(model)


def test_injected_models_are_refused() -> None:
    zo = inject_all(small_cnn())
    with pytest.raises(ConversionError, match="already"):
        inject_all(zo)
    zo.metadata = None
    with pytest.raises(ConversionError, match="already"):
        inject_all(zo.to_bytes())


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
    tensor(model, "features").shape = (4, 10)
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

    with pytest.raises(ConversionError, match="`late_bias` is not a constant"):
        build(40)
    build(0)


def test_stale_memory_plan_is_dropped() -> None:
    model = load_model(small_cnn())
    model.metadata = [
        Metadata("OfflineMemoryAllocation", model.empty_buffer),
        Metadata("x", model.empty_buffer),
    ]
    assert [m.name for m in inject_all(model).metadata or ()] == ["x", "tflm_zo"]
