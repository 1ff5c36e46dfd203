"""Biases as trainable tensors: where they lie, which layers have none to train, and how they are exported."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers.injection import inject_all
from helpers.models import MODELS, GraphBuilder, lenet5, residual
from helpers.models.graph_builder import Activation
from helpers.models.networks import shared_filters
from tflm_zo.converters import (
    ConversionError,
    Model,
    export_model,
    initial_weights,
    load_model,
    read_metadata,
    with_initial_weights,
)

NAMES = ("small_cnn", "lenet5", "autoencoder", "logistic_head", "two_outputs")
NETWORKS = {name: MODELS[name] for name in NAMES}
NETWORKS["residual"] = residual


def biases_of(model: Model) -> dict[str, np.ndarray[Any, Any]]:
    """Returns constant biases of a plain model, by name."""
    operators = [op for graph in model.subgraphs for op in graph.operators]
    found = [op.input(2) for op in operators if op.input(2) is not None]
    return {t.name: t.numpy() for t in found if t is not None and t.type_name == "INT32"}


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(
    name=st.sampled_from(sorted(NETWORKS)),
    parameters=st.sampled_from(["biases", "all"]),
    seed=st.integers(0, 2**31),
    update_bits=st.sampled_from([8, 16]),
    headroom=st.integers(0, 30),
    multipliers=st.sampled_from([None, "quantization-aware"]),
    trainable=st.sampled_from(["nodes", "all"]),
)
def test_inject_and_export(
    name: str, parameters: str, seed: int, update_bits: int, headroom: int, multipliers: str | None, trainable: str
) -> None:
    data = NETWORKS[name](seed=seed)  # type: ignore[call-arg]
    given: dict[str, Any] = {"nodes": "*", "update_bits": update_bits, "headroom": headroom}
    given |= {"multipliers": multipliers, "trainable": trainable}
    zo = load_model(inject_all(data, **given, parameters=parameters).to_bytes())
    metadata, usual = read_metadata(zo), read_metadata(inject_all(data, **given))
    assert metadata.parameters == parameters

    # A bias stands behind its filter, or in its place.
    layers = [t.layer for t in usual.trainable]
    kinds = [False, True] if parameters == "all" else [True]
    expected = [(layer, bias) for layer in layers for bias in kinds]
    assert [(t.layer, t.bias) for t in metadata.trainable] == expected
    assert [n.geometry for n in metadata.nodes] == [n.geometry for n in usual.nodes]
    assert [metadata.trainable[n.trainable].layer for n in metadata.nodes] == layers

    start, plain = initial_weights(zo), export_model(zo)
    known = biases_of(plain)
    for t in metadata.trainable:
        if t.bias:
            assert start[t.name].dtype == np.int32 and np.array_equal(start[t.name], known[t.name])
            (variable,) = (x for g in zo.subgraphs for x in g.tensors if x.name == t.name)
            assert variable.is_variable and not variable.buffer.data
        else:
            assert start[t.name].dtype == np.int8
    for graph in zo.subgraphs:
        sizes = {x.name: x.size for x in graph.tensors if x.name in ("zo_initial", "zo_fraction")}
        own = [t for t in metadata.trainable if graph is zo.subgraphs[t.segment]]
        weights = sum(t.size for t in own if not t.bias)
        assert sizes.get("zo_initial", 0) == weights + 4 * sum(t.size for t in own if t.bias)
        assert sizes.get("zo_fraction", 0) == (weights if update_bits == 16 else 0)

    # An untouched export equals that of a model without trainable biases, whose constant filters need no headroom.
    if parameters == "biases":
        given["headroom"] = 0
    assert plain.to_bytes() == export_model(inject_all(data, **given)).to_bytes()

    rng = np.random.default_rng(seed)
    moved = {
        t.name: rng.integers(-(2**31), 2**31, t.size).astype(np.int32)
        for t in metadata.trainable
        if t.bias and rng.random() < 0.7
    }
    exported = biases_of(export_model(zo, moved))
    again = initial_weights(load_model(with_initial_weights(zo, moved).to_bytes()))
    for bias in known:
        wanted = moved.get(bias, known[bias])
        assert np.array_equal(exported[bias], wanted) and np.array_equal(again.get(bias, wanted), wanted)


def test_new_scales_of_a_filter_take_the_trained_bias_with_them() -> None:
    zo = inject_all(lenet5(), nodes="*", trainable="nodes", parameters="all", headroom=0)
    weights = initial_weights(zo)
    weights["fc1/filter"] //= 2
    weights["fc1/bias"] += 1000
    same, other = export_model(zo, weights), export_model(zo, weights, re_range=True)

    def real(model: Model) -> np.ndarray[Any, Any]:
        (bias,) = (t for t in model.subgraphs[0].tensors if t.name == "fc1/bias")
        assert bias.quantization is not None
        return bias.numpy() * bias.quantization.scales.astype(np.float64)

    changed = biases_of(other)["fc1/bias"] != biases_of(same)["fc1/bias"]
    assert changed.any()
    np.testing.assert_allclose(real(other), real(same), rtol=0, atol=2e-4)


def without_a_bias() -> bytes:
    g = GraphBuilder(2)
    x = g.dense(g.input("features", [1, 20]), "fc1", 8, bias=False)
    return g.build([g.dense(x, "fc2", 5, Activation.NONE)])


def test_layers_without_a_bias_of_their_own_keep_what_they_have() -> None:
    model = inject_all(without_a_bias(), nodes="*", trainable="nodes", parameters="all")
    found = [(t.layer, t.bias) for t in read_metadata(model).trainable]
    assert found == [("fc1", False), ("fc2", False), ("fc2", True)]
    alone = read_metadata(inject_all(without_a_bias(), nodes="*", trainable="nodes", parameters="biases"))
    assert [(t.layer, t.bias) for t in alone.trainable] == [("fc2", True)]
    assert [alone.trainable[n.trainable].layer for n in alone.nodes] == ["fc2"]
    with pytest.raises(ConversionError, match="no layer has a bias.*`fc1` has none"):
        inject_all(without_a_bias(), nodes="fc1", trainable="nodes", parameters="all")
    with pytest.raises(ConversionError, match="has one that others read, too"):
        inject_all(shared_filters(share_tensor=True), nodes="*", parameters="all", headroom=0)


def test_layers_without_nodes_have_trainable_biases_too() -> None:
    for parameters, kinds in (("all", [False, True]), ("biases", [True])):
        metadata = read_metadata(inject_all(lenet5(), parameters=parameters, multipliers="quantization-aware"))
        layers = list(dict.fromkeys(t.layer for t in metadata.trainable))
        assert [(t.layer, t.bias) for t in metadata.trainable] == [(n, k) for n in layers for k in kinds]
        assert metadata.parameters == parameters


def test_refusals() -> None:
    with pytest.raises(ConversionError, match="`parameters` must be one of weights, biases, all"):
        inject_all(lenet5(), nodes="*", parameters="both")
