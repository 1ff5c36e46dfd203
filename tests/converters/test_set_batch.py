"""A batch of four equals four single runs; models that would mix samples are refused."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from ai_edge_litert import schema_py_generated as schema
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers.injection import inject_all
from helpers.interpreters import inputs_of, run
from helpers.models import MODELS, GraphBuilder, lenet5, small_cnn
from helpers.models.graph_builder import Activation, Value
from tflm_zo.converters import ConversionError, load_model, set_batch


def check_equal_to_single_runs(data: bytes, batch: int, seed: int = 0) -> None:
    batched = set_batch(load_model(data), batch).to_bytes()
    inputs = inputs_of(batched, seed)
    together = run(batched, inputs)
    for i in range(batch):
        alone = run(data, [x[i : i + 1] for x in inputs])
        for a, b in zip(together, alone, strict=True):
            np.testing.assert_array_equal(a[i : i + 1], b)


@settings(max_examples=40, deadline=None)
@given(name=st.sampled_from(sorted(set(MODELS) - {"lenet5"})), seed=st.integers(0, 2**31), batch=st.integers(1, 5))
def test_generated_models(name: str, seed: int, batch: int) -> None:
    check_equal_to_single_runs(MODELS[name](seed=seed), batch, seed)  # type: ignore[call-arg]


def test_lenet5() -> None:
    check_equal_to_single_runs(lenet5(), 4)


def test_real_models(real_model: bytes) -> None:
    check_equal_to_single_runs(real_model, 4)


def test_argument_is_not_changed_and_shape_signatures_are_fixed() -> None:
    model = load_model(small_cnn())
    for tensor in model.subgraphs[0].tensors:
        if not tensor.is_constant:
            tensor.shape_signature = (-1, *tensor.shape[1:])
    before = model.to_bytes()
    result = load_model(set_batch(model, 4).to_bytes())
    assert model.to_bytes() == before
    for tensor in result.subgraphs[0].tensors:
        if not tensor.is_constant:
            assert tensor.shape_signature == tensor.shape
            assert tensor.shape[0] == 4
    again = set_batch(result, 4)
    assert again.to_bytes() == result.to_bytes()
    with pytest.raises(ConversionError, match="batch size must be 1 or 8"):
        set_batch(result, 8)


@pytest.mark.parametrize("batch", [0, -1, 1.5, True, "4"])
def test_batch_must_be_a_positive_integer(batch: Any) -> None:
    with pytest.raises(ConversionError, match=r"`batch` must be an integer in 1\.\.1048576"):
        set_batch(load_model(small_cnn()), batch)


def test_zo_models_are_refused() -> None:
    with pytest.raises(ConversionError, match="ZO model is fixed"):
        set_batch(inject_all(small_cnn()), 2)


def one_operator(
    code: str,
    shape: list[int],
    out: list[int],
    constants: Sequence[Any] = (),
    options: str = "",
    data_at: int = 0,
    **fields: Any,
) -> bytes:
    g = GraphBuilder(1)
    x = g.input("x", shape)
    y = g.value("y", out, x.scale, x.zero_point, x.rms)
    inputs = [g.int32(f"constant{i}", c) for i, c in enumerate(constants)]
    inputs.insert(data_at, x.index)
    g.operator(code, inputs, [y.index], options, **fields)
    return g.build([g.dense(y, "fc", 3, Activation.NONE)])


@pytest.mark.parametrize(
    "data",
    [
        one_operator("PAD", [1, 4, 4, 2], [1, 6, 5, 2], [[[0, 0], [1, 1], [0, 1], [0, 0]]], "Pad"),
        one_operator("TRANSPOSE", [1, 4, 3], [1, 3, 4], [[0, 2, 1]], "Transpose"),
        one_operator("MEAN", [1, 4, 3], [1, 3], [[1]], "Reducer"),
        one_operator("SLICE", [1, 6], [1, 3], [[0, 2], [1, 3]], "Slice"),
        one_operator("SLICE", [1, 6], [1, 4], [[0, 2], [-1, -1]], "Slice"),
        one_operator("STRIDED_SLICE", [1, 6], [1, 2], [[0, 1], [1, 5], [1, 2]], "StridedSlice"),
        one_operator("STRIDED_SLICE", [1, 6], [1, 2], [[0, 1], [0, 5], [1, 2]], "StridedSlice", beginMask=1, endMask=1),
        one_operator("SQUEEZE", [1, 1, 6], [1, 6], [], "Squeeze", squeezeDims=np.array([1], np.int32)),
        one_operator("EXPAND_DIMS", [1, 6], [1, 1, 6], [[1]], "ExpandDims"),
        one_operator("SPACE_TO_DEPTH", [1, 4, 4, 2], [1, 2, 2, 8], [], "SpaceToDepth", blockSize=2),
        one_operator("RESIZE_NEAREST_NEIGHBOR", [1, 2, 2, 1], [1, 4, 4, 1], [[4, 4]]),
        one_operator("RESHAPE", [1, 2, 6], [1, 12], [], "Reshape", newShape=np.array([1, 12], np.int32)),
        one_operator("RESHAPE", [1, 2, 6], [1, 12], [[-1, 12]]),
        one_operator("LEAKY_RELU", [1, 6], [1, 6], [], "LeakyRelu", alpha=0.25),
    ],
    ids=lambda data: load_model(data).subgraphs[0].operators[0].code.name.lower(),
)
def test_single_operators(data: bytes) -> None:
    check_equal_to_single_runs(data, 4)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (one_operator("PAD", [1, 4], [2, 4], [[[0, 1], [0, 0]]], "Pad"), "pads the batch"),
        (one_operator("TRANSPOSE", [1, 4], [4, 1], [[1, 0]], "Transpose"), "moves the batch"),
        (one_operator("MEAN", [1, 4], [1, 4], [[0]], "Reducer", keepDims=True), "reduces over"),
        (one_operator("MEAN", [1, 4], [1, 4], [[-2]], "Reducer", keepDims=True), "reduces over"),
        (one_operator("RESHAPE", [1, 4, 3], [4, 3], [[4, 3]]), "merges the batch"),
        (one_operator("SQUEEZE", [1, 4, 1], [4], [], "Squeeze"), "removes the batch"),
        (one_operator("EXPAND_DIMS", [1, 6], [1, 1, 6], [[0]], "ExpandDims"), "before the batch"),
        (one_operator("SLICE", [1, 6], [1, 3], [[0, 2], [0, 3]], "Slice"), "part of the batch"),
        (
            one_operator("STRIDED_SLICE", [1, 6], [6], [[0, 0], [1, 6], [1, 1]], "StridedSlice", shrinkAxisMask=1),
            "removes, inserts",
        ),
        (
            one_operator("SPACE_TO_BATCH_ND", [1, 4, 4, 1], [4, 2, 2, 1], [[2, 2], [[0, 0], [0, 0]]]),
            "batch axis and the image",
        ),
        (one_operator("SOFTMAX", [1], [1], [], "Softmax", beta=1.0), "only axis"),
    ],
)
def test_what_moves_or_merges_the_batch(data: bytes, message: str) -> None:
    with pytest.raises(ConversionError, match=message):
        set_batch(load_model(data), 4)
    # At its own batch size there is nothing to move.
    set_batch(load_model(data), 1)


def test_fully_connected_that_merges_axes() -> None:
    g = GraphBuilder(2)
    x = g.input("x", [1, 3, 8])
    row = Value(x.index, (1, 8), x.scale, x.zero_point, x.rms)
    g.dense(row, "y", 4)
    g.tensors[-1].shape = np.array([3, 4], np.int32)
    y = Value(len(g.tensors) - 1, (3, 4), 1.0, 0, 1.0)
    with pytest.raises(ConversionError, match="FULLY_CONNECTED `y`.*merges the batch"):
        set_batch(load_model(g.build([y])), 4)


def test_fully_connected_that_keeps_axes() -> None:
    g = GraphBuilder(2)
    x = g.input("x", [1, 3, 8])
    row = Value(x.index, (1, 8), x.scale, x.zero_point, x.rms)
    y = g.dense(row, "y", 4)
    g.tensors[y.index].shape = np.array([1, 3, 4], np.int32)
    g.operators[0].builtinOptions.keepNumDims = True
    check_equal_to_single_runs(g.build([y]), 4)


@pytest.mark.parametrize("axis", [1, -1])
def test_constant_operands(axis: int) -> None:
    g = GraphBuilder(4)
    x = g.input("x", [1, 6])
    constant = g.tensor("offset", [1, 6], schema.TensorType.INT8, data=bytes(range(6)), scales=[0.05], zero_points=[1])
    y = g.add(x, Value(constant, (1, 6), 0.05, 1, 1.0), "y", Activation.NONE)
    z = g.concat([y, y], "z", axis)
    check_equal_to_single_runs(g.build([z]), 3)


def refused(build: Callable[[GraphBuilder, Value], Value], message: str) -> None:
    g = GraphBuilder(4)
    data = g.build([build(g, g.input("x", [1, 6]))])
    with pytest.raises(ConversionError, match=message):
        set_batch(load_model(data), 3)


def test_operands_with_an_axis_where_the_batch_is() -> None:
    def add(g: GraphBuilder, x: Value) -> Value:
        constant = g.tensor("table", [4, 6], schema.TensorType.INT8, data=bytes(24), scales=[0.05], zero_points=[1])
        y = g.add(x, Value(constant, (4, 6), 0.05, 1, 1.0), "y")
        g.tensors[y.index].shape = np.array([4, 6], np.int32)
        return y

    refused(add, "operand `table`")
    refused(lambda g, x: g.concat([x, x], "y", 0), "along the batch axis")


def test_constants_that_others_use_too_are_left_alone() -> None:
    g = GraphBuilder(6)
    x = g.input("x", [1, 2, 6])
    y = g.reshape(x, "y", [1, 12])
    z = g.dense(y, "fc", 12, Activation.NONE)
    w = g.reshape(z, "w", [1, 12])
    shape = g.operators[0].inputs[1]
    g.operators[2].inputs[1] = shape
    data = g.build([w, shape])
    model = load_model(set_batch(load_model(data), 4).to_bytes())
    np.testing.assert_array_equal(model.subgraphs[0].outputs[1].numpy(), [1, 12])
    for op in (model.subgraphs[0].operators[0], model.subgraphs[0].operators[2]):
        assert op.inputs[1] is not None
        np.testing.assert_array_equal(op.inputs[1].numpy(), [4, 12])
        np.testing.assert_array_equal(op.options.newShape, [4, 12])


def test_dynamic_flatten_of_keras() -> None:
    """SHAPE, STRIDED_SLICE and PACK compute the target of RESHAPE at run time."""
    g = GraphBuilder(7)
    x = g.input("x", [1, 3, 4])
    shape = g.tensor("shape", [3], schema.TensorType.INT32)
    g.operator("SHAPE", [x.index], [shape], "Shape", outType=schema.TensorType.INT32)
    first = g.tensor("first", [], schema.TensorType.INT32)
    inputs = [shape, *(g.int32(f"p{i}", [v]) for i, v in enumerate((0, 1, 1)))]
    g.operator("STRIDED_SLICE", inputs, [first], "StridedSlice", shrinkAxisMask=1)
    twelve = g.int32("twelve", 12)
    target = g.tensor("target", [2], schema.TensorType.INT32)
    g.operator("PACK", [first, twelve], [target], "Pack", valuesCount=2)
    y = g.value("y", [1, 12], x.scale, x.zero_point, x.rms)
    g.operator("RESHAPE", [x.index, target], [y.index])
    data = g.build([g.dense(y, "fc", 4, Activation.NONE)])
    check_equal_to_single_runs(data, 3)
    inject_all(data, batch=3)
