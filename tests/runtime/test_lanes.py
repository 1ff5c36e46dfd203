"""Any number of samples and of threads: a sample's result does not depend on those beside it."""

from typing import Any

import numpy as np
import pytest

from helpers.examples import REAL_MODELS
from helpers.injection import inject_all
from helpers.interpreters import random_inputs, require
from helpers.models import MODELS
from tflm_zo import Rademacher
from tflm_zo.converters import Model, extract_segment, load_model, read_metadata
from tflm_zo.runtime import InvokeError, Runtime, load

BATCH = 5
ALL_MODELS = [pytest.param(make, id=name) for name, make in MODELS.items()] + REAL_MODELS


def _fed(model: Model, seed: int, threads: int = 1, runtime: str = "litert") -> Runtime:
    made = load(model, runtime, threads=threads)
    inputs = random_inputs([made.input_details(i) for i in range(len(made.inputs))], seed)
    made.set_inputs(*inputs)
    if (loss := made.metadata.loss) is not None:
        shape, dtype, _, _ = made.label_details()
        most = 2 if len(shape) > 1 else loss.elements
        rng = np.random.default_rng(seed)
        labels = rng.integers(-128, 128, shape) if dtype == np.int8 else rng.integers(0, most, shape)
        made.set_labels(labels.astype(dtype))
    return made


def _check_same(one: Runtime, other: Runtime) -> None:
    for a, b in zip(one.outputs(), other.outputs(), strict=True):
        np.testing.assert_array_equal(a, b)
    np.testing.assert_array_equal(one.losses(), other.losses())
    for k in range(1, one.segment_count):
        np.testing.assert_array_equal(one.boundary(k), other.boundary(k))
    assert one.status() == other.status()
    for name, weights in one.read_weights().items():
        np.testing.assert_array_equal(weights, other.read_weights()[name])
    for name, fraction in one.read_fractions().items():
        np.testing.assert_array_equal(fraction, other.read_fractions()[name])


@pytest.mark.parametrize("update_bits", [8, 16])
@pytest.mark.parametrize("make", ALL_MODELS)
def test_threads_share_weights(make: Any, update_bits: int) -> None:
    """Compares commands, their status, activations and losses, also with more threads than samples."""
    model = inject_all(make(), batch=BATCH, update_bits=update_bits)
    for threads in (2, 3, 7):
        one, other = _fed(model, 1), _fed(model, 1, threads)
        for runtime in (one, other):
            runtime.invoke(runtime.command(checksum=True).perturb([(7, 1)], Rademacher()))
            runtime.invoke(
                runtime.command(checksum=True)
                .update([(7, 9000)], Rademacher(), restore_k=-1)
                .perturb([(8, 1)], Rademacher())
            )
        assert one.status().checksum
        _check_same(one, other)
        for runtime in (one, other):
            runtime.invoke(runtime.command())  # nothing for the weight operators to do
        _check_same(one, other)
        weights = {name: np.clip(-values, -125, 125) for name, values in one.read_weights().items()}
        for runtime in (one, other):
            runtime.write_weights(weights)
            runtime.invoke(runtime.command())
        _check_same(one, other)


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("nodes", ["auto", ()])
@pytest.mark.parametrize("name", ["small_cnn", "residual", "depthwise_separable", "autoencoder"])
def test_more_samples_than_a_batch(name: str, nodes: Any, threads: int) -> None:
    """Runs from every segment on: three times a batch, the last one changed, as queries are run."""
    model = inject_all(MODELS[name](), nodes=nodes, batch=BATCH)
    whole, runtime = _fed(model, 2), _fed(model, 2, threads)
    whole.invoke()
    runtime.invoke()
    kept = {k: whole.boundary(k).copy() for k in range(1, whole.segment_count)}
    for k in range(1, whole.segment_count):
        entering = {j: kept[j] for j in whole.metadata.entering(k)}
        moved = {**entering, k: np.roll(entering[k], 1, axis=0)}
        expected = []
        for part in (entering, entering, moved):
            whole.invoke(whole.command(), start=k, boundary=part, keep=False)
            expected.append((whole.losses(), whole.outputs()[-1]))
        # Inputs that cross the boundary are given once, as a run keeps them.
        stack = np.concatenate([entering[k], entering[k], moved[k]])
        runtime.invoke(runtime.command(), start=k, boundary=stack, keep=False)
        np.testing.assert_array_equal(runtime.losses(), np.concatenate([losses for losses, _ in expected]))
        if any(s.outputs for s in whole.segments[k:]):
            np.testing.assert_array_equal(runtime.outputs()[-1], np.concatenate([y for _, y in expected]))
        np.testing.assert_array_equal(runtime.boundary(k), kept[k])


def test_tflm_takes_whole_batches_one_after_the_other() -> None:
    require("tflm")
    model = inject_all(MODELS["small_cnn"](), nodes="auto", batch=BATCH)
    one, other = _fed(model, 3), _fed(model, 3, runtime="tflm")
    for runtime in (one, other):
        runtime.invoke()
        stack = np.concatenate([runtime.boundary(1), runtime.boundary(1)[::-1]])
        runtime.invoke(runtime.command(), start=1, boundary=stack)
    _check_same(one, other)
    with pytest.raises(ValueError, match="a multiple of 5, the batch. Received: 6"):
        other.invoke(start=1, boundary=other.boundary(1)[:6])
    with pytest.raises(ValueError, match="tflm has one thread"):
        load(model, "tflm", threads=2)
    with pytest.raises(ValueError, match=r"`threads` must be in 1\.\.256\. Received: 0"):
        load(model, "litert", threads=0)


def test_commands_for_another_number_of_samples() -> None:
    """Runs the weight operators once, for any number of samples."""
    model = inject_all(MODELS["small_cnn"](), nodes="auto", batch=BATCH)
    for threads in (1, 2):
        one, other = _fed(model, 4), _fed(model, 4, threads)
        one.invoke(one.command().perturb([(3, 1)], Rademacher()))
        x = other.inputs[0]
        other.feed([np.concatenate([x, x])], other.labels)
        other.invoke(other.command().perturb([(3, 1)], Rademacher()))
        np.testing.assert_array_equal(other.losses(), np.tile(one.losses(), 2))
        assert other.status() == one.status()


@pytest.mark.parametrize("nodes", ["auto", ()])
def test_a_command_without_results(nodes: Any) -> None:
    """Weights move as in an invoke, and everything else is that of the invoke before."""
    model = inject_all(MODELS["small_cnn"](), nodes=nodes, batch=BATCH)
    one, other = _fed(model, 4), _fed(model, 4)
    for runtime in (one, other):
        runtime.invoke(runtime.command().perturb([(3, 1)], Rademacher()))
    before = [other.losses(), *other.outputs(), *(other.boundary(k) for k in range(1, other.segment_count))]
    one.invoke(one.command(loss=False, checksum=True).update([(3, 9000)], Rademacher(), restore_k=-1))
    other.execute(other.command(loss=False, checksum=True).update([(3, 9000)], Rademacher(), restore_k=-1))
    after = [other.losses(), *other.outputs(), *(other.boundary(k) for k in range(1, other.segment_count))]
    for a, b in zip(before, after, strict=True):
        np.testing.assert_array_equal(a, b)
    assert one.status() == other.status() and one.status().steps == 1
    for runtime in (one, other):
        runtime.invoke(runtime.command())
    _check_same(one, other)


@pytest.mark.parametrize("make", ALL_MODELS)
def test_inputs_survive_an_invoke(make: Any) -> None:
    """Keeps inputs, which lanes rely on if they feed nothing anew: with any number of samples and of threads."""
    model = inject_all(make(), nodes="auto", batch=2)
    for threads, samples in ((1, 2), (2, 6)):
        runtime = _fed(model, 5, threads)
        inputs = [np.concatenate([x] * (samples // 2)) for x in runtime.inputs.values()]
        labels = runtime.labels
        runtime.feed(inputs, None if labels is None else np.concatenate([labels] * (samples // 2)))
        runtime.invoke(runtime.command(loss=labels is not None))
        for k, segment in enumerate(runtime.lanes.of(samples).segments(0, runtime.segment_count)):
            engine: Any = segment.engine
            assert engine.keeps_inputs
            held = {index: runtime.inputs[i] for i, index in segment.inputs.items()}
            if segment.label is not None and runtime.labels is not None:
                held[segment.label] = runtime.labels
            if segment.boundary_input is not None:
                held[segment.boundary_input] = runtime.boundary(k)
            for index, values in held.items():
                found = engine.interpreter.get_tensor(engine.interpreter.get_input_details()[index]["index"])
                np.testing.assert_array_equal(found, values)


def test_what_is_fed_again_is_read_again() -> None:
    """Reads the arrays again, even if the same arrays have other content."""
    model = inject_all(MODELS["small_cnn"](), nodes="auto", batch=BATCH)
    one, other = _fed(model, 6), _fed(model, 7)
    x, labels = other.inputs[0].copy(), np.array(other.labels)
    other.feed([x], labels)
    other.invoke(other.command())
    x[:], labels[:] = one.inputs[0], one.labels
    other.feed([x], labels)
    for runtime in (one, other):
        runtime.invoke(runtime.command())
    _check_same(one, other)


@pytest.mark.parametrize("name", ["small_cnn", "residual", "autoencoder"])
def test_a_segment_for_another_batch_size(name: str) -> None:
    """Shapes of samples, labels and losses change; commands, states and weights do not."""
    model = inject_all(MODELS[name](), nodes="auto", batch=2)
    for k, segment in enumerate(read_metadata(model).segments):
        before, after = extract_segment(model, k).subgraphs[0], extract_segment(model, k, 9).subgraphs[0]
        ports = [*segment.inputs, *segment.outputs]
        tensors = zip([*before.inputs, *before.outputs], [*after.inputs, *after.outputs], strict=True)
        for port, (old, new) in zip(ports, tensors, strict=True):
            samples = port.role not in ("command", "status")
            assert new.shape == ((9, *old.shape[1:]) if samples else old.shape)


def test_weights_of_another_model_are_refused() -> None:
    """A lane that finds no weights of its own shape says so, and touches nothing."""
    runtime = load(inject_all(MODELS["small_cnn"](), batch=2), "litert")
    stranger = inject_all(MODELS["autoencoder"](), batch=2)
    before = runtime.read_weights()
    segment = extract_segment(load_model(stranger.to_bytes()), 0).to_bytes()
    engine = runtime._open(segment, runtime.segments[0].directory, borrows=True)
    with pytest.raises(InvokeError, match="TFLM_ZO_"):
        engine.invoke()
    for name, weights in before.items():
        np.testing.assert_array_equal(weights, runtime.read_weights()[name])
