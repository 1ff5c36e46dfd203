"""The table of operators against the operators that the pinned TFLM registers, prepares and runs."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from ai_edge_litert import schema_py_generated as schema

from helpers.injection import inject_all
from helpers.interpreters import random_inputs, require, run_plain
from helpers.models import GraphBuilder
from helpers.models.single_operators import NOT_IN_LITERT, NOT_IN_REFERENCE, SINGLE_OPERATORS, WITHOUT_SPECIMEN
from tflm_zo.converters import ConversionError, load_model, set_batch
from tflm_zo.converters.kernels import CONTROL_FLOW, KERNELS
from tflm_zo.converters.model import Model
from tflm_zo.data import ModelError
from tflm_zo.firmware.resolver import _adder
from tflm_zo.runtime import load

NAMES = {number: name for name, number in vars(schema.BuiltinOperator).items() if isinstance(number, int)}
TAKEN = {NAMES[number] for number in KERNELS}
# Operators of variables become others in `open_states`.
VARIABLES = {"ASSIGN_VARIABLE", "CALL_ONCE", "READ_VARIABLE", "VAR_HANDLE"}
REFUSED = {NAMES[number] for number in CONTROL_FLOW} | VARIABLES


def inputs_of(model: bytes, seed: int = 0) -> list[Any]:
    tensors = load_model(model).subgraphs[0].inputs
    return random_inputs([(t.shape, np.int8) for t in tensors], seed)


def test_every_operator_of_the_resolver_is_tried() -> None:
    require("tflm")
    import tflite_micro

    library = next(Path(tflite_micro.__file__).parent.rglob("_runtime*.so")).read_bytes()
    registered = {m.decode() for m in re.findall(rb"5micro\d+Register_([A-Z0-9_]+)Ev\0", library)}
    known = registered & set(NAMES.values())
    assert known == set(SINGLE_OPERATORS) | set(WITHOUT_SPECIMEN)
    assert len(known) > 90


@pytest.mark.parametrize("name", SINGLE_OPERATORS)
def test_the_table_has_what_tflm_runs_on_int8(name: str) -> None:
    require("tflm")
    model = SINGLE_OPERATORS[name]
    try:
        outputs = run_plain(model, "tflm", inputs_of(model))
    except RuntimeError:
        outputs = None
    assert (outputs is not None) == (name in TAKEN | REFUSED)


def test_the_table_has_nothing_else() -> None:
    assert set(SINGLE_OPERATORS) >= TAKEN
    assert not TAKEN & REFUSED
    assert set(WITHOUT_SPECIMEN) <= REFUSED


# A kernel for int8 is missing in LiteRT, or (ELU) among its reference kernels.
@pytest.mark.parametrize("name", sorted(TAKEN.difference(NOT_IN_LITERT, NOT_IN_REFERENCE)))
def test_litert_computes_the_same(name: str) -> None:
    require("tflm")
    model = SINGLE_OPERATORS[name]
    for seed in range(3):
        inputs = inputs_of(model, seed)
        for a, b in zip(run_plain(model, "tflm", inputs), run_plain(model, "litert", inputs), strict=True):
            np.testing.assert_array_equal(a, b)


def with_operator(name: str) -> Model:
    g = GraphBuilder()
    x = g.input("x", [1, 8], 1 / 16, -128)
    y = g.value("y", [1, 8], 1 / 16, -128, 1.0)
    g.operator(name, [x.index], [y.index])
    return load_model(g.build([g.softmax(g.dense(y, "fc", 4), "softmax")]))


@pytest.mark.parametrize("name", sorted(set(NAMES.values()) - TAKEN - REFUSED - {"CUSTOM"}))
def test_an_operator_without_an_int8_kernel_is_refused(name: str) -> None:
    with pytest.raises(ConversionError, match=f"{name} `y`: TFLM has no int8 kernel for it; convert"):
        inject_all(with_operator(name))


@pytest.mark.parametrize("name", ["ASSIGN_VARIABLE", "READ_VARIABLE"])
def test_a_variable_without_a_handle(name: str) -> None:
    with pytest.raises(ConversionError, match=f"{name} `y`: its variable has no VAR_HANDLE"):
        inject_all(with_operator(name))


@pytest.mark.parametrize("name", ["RSQRT", "ELU"])
def test_a_model_with_such_an_operator_runs_and_trains(name: str) -> None:
    zo = inject_all(with_operator(name), batch=3, headroom=0)
    plain = set_batch(with_operator(name), 3).to_bytes()
    x = np.random.default_rng(2).integers(-120, 128, (3, 8)).astype(np.int8)
    for kind in ("litert", "tflm") if name != "ELU" else ("tflm",):
        require(kind)
        runtime = load(zo, kind)
        runtime.set_inputs(x)
        runtime.set_labels(np.array([0, 1, 3]))
        runtime.invoke(runtime.command())
        np.testing.assert_array_equal(runtime.outputs()[0], run_plain(plain, kind, [x])[0])
        assert (runtime.losses() > 0).all()


@pytest.mark.parametrize(("table", "numbers", "axis", "fits"), [("x", [3, 1], 1, True), ("x", [0], 0, False)])
def test_gathering_keeps_samples_apart(table: str, numbers: list[int], axis: int, fits: bool) -> None:
    g = GraphBuilder()
    x = g.input(table, [1, 8])
    at = g.int32("at", numbers)
    y = g.value("y", [1, 2] if axis else [1, 8], x.scale, x.zero_point, 1.0)
    g.operator("GATHER", [x.index, at], [y.index], "Gather", axis=axis)
    model = g.build([g.softmax(g.dense(y, "fc", 4), "softmax")])
    if not fits:
        with pytest.raises(ConversionError, match="GATHER `y`: it gathers along the batch axis"):
            inject_all(model, batch=2)
        return
    runtime = load(inject_all(model, batch=2, headroom=0), "litert")
    values = np.random.default_rng(0).integers(-128, 128, (2, 8)).astype(np.int8)
    runtime.set_inputs(values)
    runtime.invoke()
    for row, sample in zip(runtime.outputs()[0], values, strict=True):
        np.testing.assert_array_equal(row, run_plain(model, "litert", [sample[None]])[0][0])


def test_sums_are_right() -> None:
    """LiteRT's reference kernel of SUM has 82 where TFLM has 2."""
    require("tflm")
    g = GraphBuilder()
    x = g.input("x", [1, 4, 2])
    y = g.value("y", [1, 2], 1 / 4, 0, 1.0)
    g.operator("SUM", [x.index, g.int32("axes", [1])], [y.index], "Reducer")
    zo = inject_all(g.build([g.softmax(g.dense(y, "fc", 4), "softmax")]))
    found = []
    for name in ("litert", "tflm"):
        runtime = load(zo, name)
        runtime.set_inputs(np.array([[[100, -7], [90, 3], [-128, 127], [5, 5]]], np.int8))
        runtime.invoke()
        found.append(runtime.outputs()[0])
    np.testing.assert_array_equal(*found)


def with_other_scales() -> Model:
    g = GraphBuilder()
    x = g.input("x", [1, 8], 1 / 16, -128)
    y = g.value("y", [1, 8], 1 / 32, -128, 1.0)
    g.operator("RELU6", [x.index], [y.index])
    return load_model(g.build([g.softmax(g.dense(y, "fc", 4), "softmax")]))


@pytest.mark.parametrize(
    ("made", "reason"),
    [
        (lambda: with_operator("ELU"), "ELU `y`: LiteRT has no reference kernel of it; use tflm"),
        (with_other_scales, "RELU6 `y`: LiteRT scales its output and TFLM does not; use tflm"),
    ],
)
def test_what_litert_computes_differently_is_refused(made: Callable[[], Model], reason: str) -> None:
    zo = inject_all(made())
    with pytest.raises(ModelError, match=reason):
        load(zo, "litert")


def test_batch_size_of_a_model_is_said_once() -> None:
    g = GraphBuilder()
    model = g.build([g.softmax(g.dense(g.input("x", [3, 8]), "fc", 4), "softmax")])
    with pytest.raises(ConversionError, match="its batch size must be 1$"):
        inject_all(model)


def test_generated_resolvers_call_them_as_tflm_does() -> None:
    """Spells them as micro_mutable_op_resolver.h does, also if the rule has exceptions."""
    for name, adder in (
        ("PADV2", "AddPadV2"),
        ("CUMSUM", "AddCumSum"),
        ("BATCH_MATMUL", "AddBatchMatMul"),
        ("DEPTHWISE_CONV_2D", "AddDepthwiseConv2D"),
        ("L2_NORMALIZATION", "AddL2Normalization"),
        ("SELECT_V2", "AddSelectV2"),
    ):
        assert _adder(name) == adder
