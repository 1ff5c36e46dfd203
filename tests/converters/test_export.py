"""An exported model is a plain one with the outputs of the ZO model."""

import itertools
from typing import Any

import numpy as np
import pytest

from helpers.injection import inject_all
from helpers.interpreters import random_inputs, run, run_plain
from helpers.models import MODELS, depthwise_separable, lenet5, small_cnn
from tflm_zo.converters import (
    ConversionError,
    Model,
    export_model,
    grow_classes,
    initial_weights,
    load_model,
    possible_cuts,
    set_batch,
)
from tflm_zo.converters.model.schema import DTYPES
from tflm_zo.runtime import Runtime, load


def random_weights(zo: Model, seed: int, limit: int = 125) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    return {name: rng.integers(-limit, limit + 1, w.shape).astype(np.int8) for name, w in initial_weights(zo).items()}


def inputs_of(runtime: Runtime, seed: int) -> list[Any]:
    count = len(runtime.metadata.original.inputs)
    return random_inputs([runtime.input_details(i) for i in range(count)], seed)


def check(zo: Model, weights: dict[str, np.ndarray] | None, seeds: int = 2) -> Model:
    data = export_model(zo, weights).to_bytes()
    exported = load_model(data)
    assert_plain(exported)
    runtime = load(zo, "litert")
    if weights is not None:
        runtime.write_weights(weights)
    for seed in range(seeds):
        inputs = inputs_of(runtime, seed)
        runtime.set_inputs(*inputs)
        runtime.invoke()
        for a, b in zip(runtime.outputs(), run_plain(data, "litert", inputs), strict=True):
            np.testing.assert_array_equal(a, b)
    return exported


def assert_plain(model: Model) -> None:
    assert len(model.subgraphs) == 1
    graph = model.subgraphs[0]
    assert model.find_metadata("tflm_zo") is None
    assert all(op.code.custom is None for op in graph.operators)
    assert all(code.custom is None for code in model.operator_codes)
    assert not [t.name for t in graph.all_tensors() if t.name.split("/")[-1].startswith("zo_")]
    assert not [t.name for t in graph.all_tensors() if t.is_variable]
    for signature in model.signatures or ():
        assert not signature.key.startswith("segment_")
        assert all(t in graph.inputs for _, t in signature.inputs)
        assert all(t in graph.outputs for _, t in signature.outputs)


def test_initial_weights(built: bytes) -> None:
    original = load_model(built)
    for batch, headroom in ((1, 2), (3, 0)):
        zo = load_model(inject_all(built, batch=batch, headroom=headroom).to_bytes())
        exported = check(zo, None)
        same_interface(exported, original)
        if headroom == 0:
            # Nothing but the batch size differs from the original.
            expected = {
                t.name: t.buffer.data for t in set_batch(original, batch).subgraphs[0].all_tensors() if t.is_constant
            }
            assert expected == {t.name: t.buffer.data for t in exported.subgraphs[0].all_tensors() if t.is_constant}


def same_interface(exported: Model, original: Model, signatures: bool = True) -> None:
    a, b = exported.subgraphs[0], original.subgraphs[0]
    assert [t.name for t in a.inputs] == [t.name for t in b.inputs]
    assert [t.name for t in a.outputs] == [t.name for t in b.outputs]
    # Operators of independent branches may have changed places where the model was cut.
    assert sorted(op.outputs[0].name for op in a.operators) == sorted(op.outputs[0].name for op in b.operators)
    if signatures:
        assert [
            (s.key, [(n, t.name) for n, t in s.inputs], [(n, t.name) for n, t in s.outputs])
            for s in exported.signatures or ()
        ] == [
            (s.key, [(n, t.name) for n, t in s.inputs], [(n, t.name) for n, t in s.outputs])
            for s in original.signatures or ()
        ]


def test_cut_models(built: bytes) -> None:
    original = load_model(built)
    names = possible_cuts(original)
    whole = export_model(inject_all(built, batch=2))
    for cuts in [names, *([name] for name in names[::2]), *itertools.combinations(names[:3], 2)]:
        zo = load_model(inject_all(built, cuts=cuts, batch=2).to_bytes())
        exported = check(zo, random_weights(zo, 1), seeds=1)
        same_interface(exported, original, signatures=False)
        (signature,) = exported.signatures or ()
        assert signature.key == "serving_default"
        graph = exported.subgraphs[0]
        assert signature.inputs == [(t.name, t) for t in graph.inputs]
        assert signature.outputs == [(t.name, t) for t in graph.outputs]
        # No tensor is there twice.
        assert sorted(t.name for t in graph.all_tensors()) == sorted(t.name for t in whole.subgraphs[0].all_tensors())


def test_real_models(real_model: bytes) -> None:
    names = possible_cuts(load_model(real_model))
    for cuts in ((), names[len(names) // 2 :][:1], names[::4]):
        zo = load_model(inject_all(real_model, cuts=cuts, update_bits=8).to_bytes())
        same_interface(check(zo, None, seeds=1), load_model(real_model), signatures=not cuts)
        check(zo, random_weights(zo, 2), seeds=1)


@pytest.mark.parametrize("make", [lenet5, depthwise_separable])
def test_trained_weights_on_a_thousand_inputs(make: Any) -> None:
    zo = inject_all(make(), batch=250, multipliers={})
    check(zo, random_weights(zo, 3), seeds=4)


def test_weights_after_training() -> None:
    import tflm_zo

    zo = inject_all(small_cnn(), batch=4)
    runtime = load(zo, "litert")
    command = runtime.command(loss=False)
    runtime.invoke(command.update([(7, 3 << 16)], tflm_zo.Rademacher(2), restore_k=0))
    weights = runtime.read_weights()
    assert any((weights[n] != w).any() for n, w in initial_weights(zo).items())
    exported = export_model(zo, weights)
    inputs = inputs_of(runtime, 5)
    runtime.set_inputs(*inputs)
    runtime.invoke()
    np.testing.assert_array_equal(runtime.outputs()[0], run_plain(exported.to_bytes(), "litert", inputs)[0])
    # A trained model can be trained on.
    again = initial_weights(inject_all(exported, batch=4))
    for name, w in weights.items():
        np.testing.assert_array_equal(again[name], w)


@pytest.mark.parametrize("name", sorted(set(MODELS) - {"lenet5"}))
def test_other_batch_size(name: str) -> None:
    data = MODELS[name]()
    zo = inject_all(data, batch=4, cuts=possible_cuts(load_model(data))[:1])
    weights = random_weights(zo, 6)
    four = export_model(zo, weights).to_bytes()
    inputs = random_inputs(
        [(t.shape, DTYPES[t.type]) for t in load_model(four).subgraphs[0].inputs], 1
    )  # fmt: skip
    together = run(four, inputs)
    for batch in (1, 2):
        other = export_model(zo, weights, batch=batch).to_bytes()
        for i in range(0, 4, batch):
            alone = run(other, [x[i : i + batch] for x in inputs])
            for a, b in zip(together, alone, strict=True):
                np.testing.assert_array_equal(a[i : i + batch], b)


def test_batch_size_of_a_model_without_inputs() -> None:
    model = load_model(small_cnn())
    model.subgraphs[0].inputs = []
    with pytest.raises(ConversionError, match="no inputs"):
        set_batch(model, 2)


def test_arguments_are_not_changed_and_some_weights_may_be_missing() -> None:
    zo = inject_all(lenet5())
    before = zo.to_bytes()
    weights = random_weights(zo, 4)
    (name, values), *_ = weights.items()
    exported = export_model(before, {name: values})
    assert zo.to_bytes() == before
    expected = initial_weights(zo) | {name: values}
    constants = {t.name: t for t in exported.subgraphs[0].tensors if t.is_constant}
    for n, w in expected.items():
        np.testing.assert_array_equal(constants[n].numpy(), w)


def test_what_is_refused() -> None:
    zo = inject_all(small_cnn())
    weights = initial_weights(zo)
    name = next(iter(weights))
    with pytest.raises(ConversionError, match="no ZO model"):
        export_model(small_cnn())
    with pytest.raises(ConversionError, match=r"`weights` must name trainable filter tensors \(conv/.*"):
        export_model(zo, {"nope": weights[name]})
    with pytest.raises(ConversionError, match=r"needs int8 \[4, 3, 3, 1\], not int8 \[36\]"):
        export_model(zo, {name: weights[name].reshape(-1)})
    with pytest.raises(ConversionError, match=r"needs int8 .*, not float64"):
        export_model(zo, {name: weights[name].astype(float)})  # type: ignore[dict-item]
    with pytest.raises(ConversionError, match=r"`batch` must be an integer in 1\.\.1048576\. Received: 0"):
        export_model(zo, batch=0)


@pytest.mark.parametrize("settings", [{}, {"batch": 4, "update_bits": 8}])
def test_the_same_file_from_memory_and_from_a_file(built: bytes, settings: dict[str, Any]) -> None:
    zo = inject_all(built, **settings)
    assert export_model(zo).to_bytes() == export_model(zo.to_bytes()).to_bytes()


def test_a_signature_that_names_the_machinery_is_dropped() -> None:
    zo = inject_all(small_cnn())
    (segment,) = (s for s in zo.signatures or () if s.key == "segment_0")
    segment.key = "other"
    exported = export_model(load_model(zo.to_bytes()))
    assert [s.key for s in load_model(exported.to_bytes()).signatures or ()] == [
        s.key for s in load_model(small_cnn()).signatures or ()
    ]


def test_integers_of_numpy() -> None:
    plain, zo = MODELS["small_cnn"](), {}
    for kind in (int, np.int64, np.uint8):
        settings = {"batch": kind(4), "headroom": kind(2), "update_bits": kind(16), "max_queries": kind(4)}
        zo[kind] = inject_all(plain, loss_output=kind(0), command_words=kind(40), **settings).to_bytes()
        assert zo[kind] == zo[int]
        assert export_model(zo[kind], batch=kind(2)).to_bytes() == export_model(zo[int], batch=2).to_bytes()
        assert set_batch(load_model(plain), kind(3)).to_bytes() == set_batch(load_model(plain), 3).to_bytes()
        grown = grow_classes(load_model(plain), kind(6)).to_bytes()
        assert grown == grow_classes(load_model(plain), 6).to_bytes()
