"""Random models, random settings: injected models survive the file, and all invariants hold."""

from typing import Any

import numpy as np
from ai_edge_litert import schema_py_generated as schema
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers.examples import examples
from helpers.injection import inject_all
from helpers.models import MODELS
from tflm_zo.converters import Last, Model, initial_weights, load_model, possible_cuts, read_metadata
from tflm_zo.converters.model import Tensor


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
    """Describes the parts of a tensor that a file keeps."""
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

    # The weights: within the headroom, of the original's values to half a step, nothing stored twice.
    starts = initial_weights(loaded)
    limit = 127 - metadata.headroom
    for t in metadata.trainable:
        (before,) = (x for x in original.subgraphs[0].tensors if x.name == t.name)
        (after,) = (x for g in loaded.subgraphs for x in g.tensors if x.name == t.name)
        assert after.is_variable and not after.buffer.data
        assert np.abs(starts[t.name].astype(int)).max() <= limit
        assert before.quantization is not None and after.quantization is not None
        axis = before.quantization.axis
        shape = [1] * len(t.shape)
        if len(before.quantization.scales) > 1:
            shape[axis] = -1
        old = before.numpy() * before.quantization.scales.astype(np.float64).reshape(shape)
        new = starts[t.name] * after.quantization.scales.astype(np.float64).reshape(shape)
        step = np.broadcast_to(after.quantization.scales.astype(np.float64).reshape(shape), t.shape)
        assert (np.abs(old - new) <= 0.5001 * step).all()
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
