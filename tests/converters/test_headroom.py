"""Requantization against float64; random models with random settings survive the file with all invariants."""

from typing import Any

import numpy as np
import pytest
from ai_edge_litert import schema_py_generated as schema
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers.examples import examples
from helpers.injection import inject_all
from helpers.models import MODELS, GraphBuilder, shared_filters
from helpers.models.graph_builder import Activation
from tflm_zo.converters import Last, Model, initial_weights, load_model, possible_cuts, read_metadata
from tflm_zo.converters.model import Operator, Tensor


def channel_scales(tensor: Tensor, axis: int) -> np.ndarray:
    assert tensor.quantization is not None
    shape = [1] * len(tensor.shape)
    shape[axis] = -1
    scales = tensor.quantization.scales.astype(np.float64)
    return np.broadcast_to(scales, tensor.shape[axis]).reshape(shape)


def filters(model: Model) -> list[Operator]:
    kinds = ("CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED")
    return [op for op in model.subgraphs[0].operators if op.code.name in kinds]


@settings(max_examples=30, deadline=None)
@given(name=st.sampled_from(sorted(set(MODELS) - {"lenet5"})), seed=st.integers(0, 2**31), headroom=st.integers(1, 112))
def test_weights_and_biases_against_float64(name: str, seed: int, headroom: int) -> None:
    data = MODELS[name](seed=seed)  # type: ignore[call-arg]
    old_model, new_model = load_model(data), load_model(inject_all(data, headroom=headroom).to_bytes())
    initial = initial_weights(new_model)
    limit = 127 - headroom
    # Filters that do not feed the loss are not trainable.
    trainable = {info.name: info for info in read_metadata(new_model).trainable}
    pairs = [
        (old, new, trainable.pop(name))
        for old, new in zip(filters(old_model), filters(new_model), strict=True)
        if (name := old.inputs[1].name) in trainable
    ]
    assert pairs and not trainable
    for old, new, info in pairs:
        x, w, b = old.input(0), old.input(1), old.input(2)
        v, c = new.input(1), new.input(2)
        assert x is not None and w is not None and x.quantization is not None
        axis = 3 if old.code.name == "DEPTHWISE_CONV_2D" else 0
        s_old, s_new = channel_scales(w, axis), channel_scales(v, axis)
        q_old, q_new = w.numpy().astype(np.float64), initial[info.name].astype(np.float64)
        assert np.abs(q_new).max() <= limit
        # Every weight is the nearest to its real value on the new grid.
        assert np.abs(q_new * s_new - q_old * s_old).max() <= (s_new * 0.5000001).max()
        assert np.abs(q_new - q_old * s_old / s_new).max() <= 0.500001

        per_channel = np.moveaxis(np.abs(q_old), axis, 0).reshape(info.channels, -1).max(axis=1)
        largest = per_channel if len(w.quantization.scales) > 1 else per_channel.max(keepdims=True)  # type: ignore[union-attr]
        changed = largest > limit
        assert info.requantized_channels == changed.sum()
        expected = np.where(changed, s_old.ravel()[: len(changed)] * largest / limit, s_old.ravel()[: len(changed)])
        np.testing.assert_array_equal(
            v.quantization.scales,  # type: ignore[union-attr]
            expected.astype(np.float32),
        )
        untouched = ~np.broadcast_to(changed, info.channels)
        np.testing.assert_array_equal(np.moveaxis(q_new, axis, 0)[untouched], np.moveaxis(q_old, axis, 0)[untouched])
        if b is None:
            assert c is None
            continue
        assert c is not None and b.quantization is not None and c.quantization is not None
        real_old = b.numpy() * (x.quantization.scale * s_old.ravel())
        unit = x.quantization.scale * s_new.ravel()
        assert np.abs(c.numpy() * unit - real_old).max() <= (0.5001 * unit).max()
        np.testing.assert_array_equal(c.numpy()[untouched], b.numpy()[untouched])
        np.testing.assert_allclose(np.broadcast_to(c.quantization.scales, info.channels), unit, rtol=1e-6)


@pytest.mark.parametrize("share_tensor", [False, True])
def test_shared_buffers_and_biases(share_tensor: bool) -> None:
    data = shared_filters(share_tensor)
    old = load_model(data)
    # Only the first layer is trainable: the other one keeps filter, bias and their scales.
    new = load_model(inject_all(data, trainable="a", headroom=40, loss="mse").to_bytes())
    before, after = filters(old)[1], filters(new)[1]
    for i in (1, 2):
        a, b = before.inputs[i], after.inputs[i]
        assert a is not None and b is not None and a.quantization is not None and b.quantization is not None
        assert a.buffer.data == b.buffer.data
        np.testing.assert_array_equal(a.quantization.scales, b.quantization.scales)
    bias, kept = filters(new)[0].inputs[2], after.inputs[2]
    assert bias is not None and kept is not None
    assert bias.buffer.data != kept.buffer.data


def test_bias_with_one_scale_for_per_channel_filter() -> None:
    g = GraphBuilder(5)
    y = g.dense(g.input("x", [1, 8]), "a", 6, Activation.NONE)
    bias = g.tensors[g.operators[0].inputs[2]]
    bias.quantization.scale = bias.quantization.scale[:1]
    bias.quantization.zeroPoint = bias.quantization.zeroPoint[:1]
    new = filters(inject_all(g.build([y]), headroom=60))[0].inputs[2]
    assert new is not None and new.quantization is not None
    assert len(new.quantization.scales) == 6


@st.composite
def cases(draw: Any) -> tuple[str, int, dict[str, Any]]:
    name, seed = draw(st.sampled_from(sorted(MODELS))), draw(st.integers(0, 2**31))
    data = MODELS[name](seed=seed)  # type: ignore[call-arg]
    cuts = possible_cuts(load_model(data))
    chosen = draw(st.sets(st.sampled_from(cuts), max_size=3)) if cuts else set()
    trainable = draw(st.sampled_from(["all", Last(1), Last(2), "none"]))
    settings: dict[str, Any] = {
        "trainable": trainable,
        "max_queries": draw(st.integers(1, 32)),
        "batch": draw(st.integers(1, 5)),
        "cuts": tuple(sorted(chosen, key=cuts.index)),
    }
    if trainable != "none":
        settings["headroom"] = draw(st.integers(0, 112))
        settings["update_bits"] = draw(st.sampled_from([8, 16]))
        settings["replay"] = draw(st.booleans())
    return name, seed, settings


def described(tensor: Tensor | None) -> Any:
    if tensor is None:
        return None
    q = tensor.quantization
    scales = None if q is None else (q.scales.tolist(), q.zero_points.tolist(), q.axis)
    return (
        tensor.name,
        tensor.shape,
        tensor.type,
        tensor.is_variable,
        tensor.shape_signature,
        tensor.buffer.data,
        scales,
    )


def assert_same_graphs(a: Model, b: Model) -> None:
    assert len(a.subgraphs) == len(b.subgraphs)
    for g, h in zip(a.subgraphs, b.subgraphs, strict=True):
        assert g.name == h.name
        assert list(map(described, g.tensors)) == list(map(described, h.tensors))
        assert list(map(described, g.inputs)) == list(map(described, h.inputs))
        assert list(map(described, g.outputs)) == list(map(described, h.outputs))
        for op, other in zip(g.operators, h.operators, strict=True):
            assert op.code.name == other.code.name
            assert op.custom_options == other.custom_options
            assert list(map(described, op.inputs)) == list(map(described, other.inputs))
            assert list(map(described, op.outputs)) == list(map(described, other.outputs))


@settings(max_examples=examples(150), deadline=None)
@given(case=cases())
def test_inject_write_load(case: tuple[str, int, dict[str, Any]]) -> None:
    name, seed, overrides = case
    data = MODELS[name](seed=seed)  # type: ignore[call-arg]
    original = load_model(data)
    model = inject_all(data, **overrides)
    written = model.to_bytes()
    loaded = load_model(written)

    assert_same_graphs(model, loaded)
    assert loaded.to_bytes() == written
    assert read_metadata(loaded) == read_metadata(model)
    metadata = read_metadata(loaded)
    # Tensors that cross a cut become boundaries, too.
    assert len(loaded.subgraphs) == len(metadata.segments) >= len(overrides["cuts"]) + 1

    # Every original operator is there (a cut may change the order of branches), and only ours came in.
    def kinds(m: Model) -> list[str]:
        return [op.code.name for g in m.subgraphs for op in g.operators]

    kept = [k for k in kinds(loaded) if not k.startswith("TFLM_ZO_")]
    assert sorted(kept) == sorted(kinds(original))
    assert overrides["cuts"] or kept == kinds(original)

    # The weights: within the headroom, nothing stored twice.
    starts = initial_weights(loaded)
    limit = 127 - metadata.headroom
    for t in metadata.trainable:
        (after,) = (x for g in loaded.subgraphs for x in g.tensors if x.name == t.name)
        assert after.is_variable and not after.buffer.data
        assert np.abs(starts[t.name].astype(int)).max() <= limit
    trained = sum(t.size for t in metadata.trainable)
    assert sum(x.size for g in loaded.subgraphs for x in g.tensors if x.name == "zo_initial") == trained
    assert len(written) < len(data) + 6000 + 400 * len(kinds(loaded))

    # In the file, every buffer with data starts at a multiple of 16, and variables have none.
    raw = schema.Model.GetRootAsModel(written, 0)
    for i in range(raw.BuffersLength()):
        buffer = raw.Buffers(i)
        if buffer.DataLength():
            assert buffer._tab.Vector(buffer._tab.Offset(4)) % 16 == 0
    for k in range(raw.SubgraphsLength()):
        graph = raw.Subgraphs(k)
        for i in range(graph.TensorsLength()):
            if graph.Tensors(i).IsVariable():
                assert raw.Buffers(graph.Tensors(i).Buffer()).DataLength() == 0
