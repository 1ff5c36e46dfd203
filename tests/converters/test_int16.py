"""Layers that the rewriter gives weights of 16 bits in the forward pass."""

from typing import Any

import numpy as np
import pytest

from helpers.injection import inject_all
from helpers.interpreters import run_plain
from helpers.models import MODELS
from helpers.models.graph_builder import Activation, GraphBuilder
from tflm_zo.converters import ConversionError, InjectSettings, Last, export_model, load_model, read_metadata
from tflm_zo.converters.kernels import filter_of, macs
from tflm_zo.converters.passes.int16_layers import quantize_multiplier

INT16 = "TFLM_ZO_FULLY_CONNECTED_16"


def int16_operators(model: Any) -> list[Any]:
    return [op for graph in model.subgraphs for op in graph.operators if op.code.name == INT16]


def test_last() -> None:
    model = inject_all(MODELS["lenet5"](), int16=Last(1))
    assert [t.layer for t in read_metadata(model).trainable if t.int16] == ["fc3"]
    assert [t.operator for t in read_metadata(model).trainable if t.int16] == ["FULLY_CONNECTED"]
    (op,) = int16_operators(model)
    data, weights, bias, fraction = op.inputs
    assert (data.shape, weights.shape, bias.shape) == ((1, 84), (10, 84), (10,))
    assert fraction.name == "zo_fraction" and weights.is_variable
    # where the layer's fractions begin
    assert int.from_bytes(op.custom_options[8:12], "little") == 61_470 - 840
    assert len(op.custom_options) == 16 + 5 * 10


def test_nothing_changes_without() -> None:
    assert '"int16"' not in read_metadata(inject_all(MODELS["lenet5"]())).to_json()
    assert not int16_operators(inject_all(MODELS["lenet5"]()))


@pytest.mark.parametrize("int16", ["fc?", ["fc1", "fc2", "fc3"], ["fc1/filter", "fc[23]"]])
def test_names_and_patterns_in_segments(int16: Any) -> None:
    model = inject_all(MODELS["lenet5"](), int16=int16, cuts=["fc1"])
    assert [t.int16 for t in read_metadata(model).trainable] == [False, False, True, True, True]
    firsts = [int.from_bytes(op.custom_options[8:12], "little") for op in int16_operators(model)]
    assert firsts == [150 + 2400, 0, 120 * 84]
    assert read_metadata(load_model(model.to_bytes())) == read_metadata(model)


def test_shared_filter() -> None:
    g = GraphBuilder()
    x = g.input("x", [1, 6], 1 / 64, 0)
    y = g.dense(x, "a", 6)
    z = g.dense(y, "b", 6, Activation.NONE)
    g.operators[1].inputs = np.array([y.index, g.operators[0].inputs[1], -1], np.int32)
    original = g.build([z])
    zo = inject_all(original, loss="mse", int16=Last(1), headroom=0)
    first, second = int16_operators(zo)
    assert first.inputs[1] is second.inputs[1] and first.inputs[3] is second.inputs[3]
    assert first.custom_options[8:12] == second.custom_options[8:12]
    assert first.custom_options[16:] != second.custom_options[16:]
    assert export_model(zo).to_bytes() == load_model(original).to_bytes()


@pytest.mark.parametrize("model", ["lenet5", "dense_per_tensor", "autoencoder", "dense_after_4d", "float_edges"])
def test_export_is_the_original_again(model: str) -> None:
    original = load_model(MODELS[model]())
    zo = inject_all(original, int16="fc*" if model != "autoencoder" else "*", headroom=0, batch=4)
    assert int16_operators(zo)
    assert export_model(load_model(zo.to_bytes()), batch=1).to_bytes() == original.to_bytes()


def test_export_with_new_ranges_keeps_fractions() -> None:
    """Exports weights on a grid of their own: closer to the 16 bits than the nearest whole LSB."""
    zo = inject_all(MODELS["small_cnn"](), int16=Last(1), trainable=Last(1))
    (name,) = (t.name for t in read_metadata(zo).trainable)
    rng = np.random.default_rng(1)
    weights = {name: rng.integers(-20, 21, (4, 64)).astype(np.int8)}
    fractions = {name: rng.integers(-128, 128, (4, 64)).astype(np.int8)}
    (scales,) = (t.quantization.scales for t in zo.subgraphs[0].tensors if t.name == name)
    wanted = scales[:, None] * (weights[name] + fractions[name] / 256)

    def error(model: Any) -> float:
        (tensor,) = (t for t in model.subgraphs[0].tensors if t.name == name)
        return float(np.abs(tensor.quantization.scales[:, None] * tensor.numpy() - wanted).max())

    plain = export_model(zo, weights)
    assert error(export_model(zo, weights, fractions=fractions, re_range=True)) < error(plain) / 3
    run_plain(plain.to_bytes(), "litert", [np.zeros((1, 8, 8, 1), np.int8)])


def test_costs_are_those_of_the_plain_layer() -> None:
    plain, int16 = inject_all(MODELS["lenet5"]()), inject_all(MODELS["lenet5"](), int16="fc*")
    for a, b in zip(plain.subgraphs[0].operators, int16.subgraphs[0].operators, strict=True):
        assert macs(a) == macs(b)
        assert (filter_of(a) is None) == (filter_of(b) is None)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"int16": "conv1"}, "must not include layer `conv1`, which is a CONV_2D; only FULLY_CONNECTED takes weights"),
        ({"int16": Last(1), "trainable": ["conv2"]}, "must not include layer `conv2`, which is a CONV_2D; only FULLY"),
        ({"int16": "fc9"}, "`int16` must fit a trainable layer: conv1, conv2, fc1, fc2, fc3"),
        ({"int16": "fc1", "trainable": Last(1)}, "`int16` must fit a trainable layer: fc3"),
        ({"int16": Last(1), "trainable": "none"}, "`int16` must be left out in a model without trainable filters"),
        ({"int16": Last(1), "nodes": "fc3"}, "must not include layer `fc3`, which carries nodes, which are perturbed"),
    ],
)
def test_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ConversionError, match=message.replace("*", r"\*")):
        inject_all(MODELS["lenet5"](), **changes)


def test_too_many_inputs() -> None:
    g = GraphBuilder()
    x = g.input("x", [1, 65537])
    original = g.build([g.dense(x, "fc", 1, Activation.NONE)])
    said = "`int16` must not include layer `fc`, which has 65537 inputs, 65536 at most can have weights"
    with pytest.raises(ConversionError, match=said):
        inject_all(original, int16=Last(1), loss="mse")


def test_settings() -> None:
    with pytest.raises(ConversionError, match=r"`update_bits` must be 16 where layers read weights of 16 bits\. Rec"):
        InjectSettings(int16=Last(1), update_bits=8)
    with pytest.raises(ConversionError, match="`int16` must be names"):
        InjectSettings(int16=["fc1", ""])
    assert InjectSettings(int16="fc1").int16 == ("fc1",)


@pytest.mark.parametrize(
    ("real", "expected"),
    [(1.0, (2**30, 1)), (0.5, (2**30, 0)), (0.75 / 256, (3 * 2**29, -8)), (0.0, (0, 0)), (2.0**-40, (0, 0))],
)
def test_quantize_multiplier(real: float, expected: tuple[int, int]) -> None:
    assert quantize_multiplier(real) == expected
    value, shift = quantize_multiplier(np.nextafter(1.0, 0.0))
    assert (value, shift) == (2**30, 1)  # rounds up to the next power
