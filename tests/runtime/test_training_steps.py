"""Training steps: the same losses and weights in every exact runtime, and as the equations say."""

from typing import Any

import numpy as np
import pytest

from helpers.injection import inject_all
from helpers.interpreters import RUNTIMES, require
from helpers.models import MODELS
from helpers.oracle import weights as oracle_weights
from helpers.oracle.stream import Dist
from helpers.spsa import spsa_commands
from tflm_zo import Distribution, Gaussian, Rademacher, SparseUniform
from tflm_zo.runtime import Runtime, load

STEPS, QUERIES, BATCH, HEADROOM = 200, 4, 4, 2


def _runtime(name: str, update_bits: int, model: str = "small_cnn", **settings: Any) -> Runtime:
    runtime = load(
        inject_all(
            MODELS[model](), headroom=HEADROOM, batch=BATCH, update_bits=update_bits, max_queries=QUERIES, **settings
        ),
        name,
    )
    rng = np.random.default_rng(11)
    shape, dtype, _, _ = runtime.input_details()
    runtime.set_inputs(rng.integers(-128, 128, shape).astype(dtype))
    runtime.set_labels(rng.integers(0, runtime.metadata.loss.elements, BATCH))
    return runtime


def _train(runtime: Runtime, steps: int = STEPS, **settings: Any) -> tuple[list[Any], Any, list[Any]]:
    """Returns every loss and status of a run, the final weights and fractions, and the recorded steps."""
    record: list[list[tuple[int, int]]] = []
    trace = [
        (runtime.losses().tolist(), runtime.status())
        for _ in spsa_commands(
            runtime, steps=steps, queries=QUERIES, learning_rate=100.0, seed=5, record=record, **settings
        )
    ]
    return trace, (runtime.read_weights(), runtime.read_fractions()), record


@pytest.mark.parametrize("update_bits", [8, 16])
@pytest.mark.parametrize("name", RUNTIMES)
def test_200_steps_are_the_same_in_litert(name: str, update_bits: int) -> None:
    require(name)
    expected, (weights, fractions), _ = _train(_runtime("litert", update_bits))
    if name != "litert":
        actual, state, _ = _train(_runtime(name, update_bits))
        assert actual == expected
        for a, e in zip(state, (weights, fractions), strict=True):
            assert a.keys() == e.keys()
            for tensor in a:
                np.testing.assert_array_equal(a[tensor], e[tensor])
    assert len(expected) == 2 * STEPS * QUERIES + 1
    assert expected[-1][1].steps == STEPS
    # The run has done something: the loss fell, and weights moved.
    assert sum(expected[-1][0]) < 0.2 * sum(expected[0][0])


@pytest.mark.parametrize("update_bits", [8, 16])
@pytest.mark.parametrize(
    "distribution", [Rademacher(2), SparseUniform(2, 0.33), Gaussian(0.6)], ids=lambda d: type(d).__name__.lower()
)
def test_weights_are_what_the_equations_say(distribution: Distribution, update_bits: int) -> None:
    runtime = _runtime("litert", update_bits)
    initial = runtime.read_weights()
    _, (weights, fractions), record = _train(runtime, distribution=distribution)

    dist = Dist(distribution.kind, distribution.mu, distribution.p_zero)
    total = 0
    for tensor in runtime.metadata.trainable:
        w = initial[tensor.name].reshape(-1).copy()
        f = np.zeros_like(w) if update_bits == 16 else None
        for queries in record:
            w, f, _ = oracle_weights.update(
                w, f, None, tensor.channels, tensor.inner, tensor.stream, 127 - HEADROOM, dist, queries
            )
        np.testing.assert_array_equal(weights[tensor.name].reshape(-1), w)
        if f is not None:
            np.testing.assert_array_equal(fractions[tensor.name].reshape(-1), f)
        total += oracle_weights.checksum(w, f, tensor.stream)
    assert runtime.status().checksum == total % 2**32
    assert any((weights[name] != initial[name]).any() for name in weights)


@pytest.mark.parametrize("update_bits", [8, 16])
@pytest.mark.parametrize("name", RUNTIMES)
def test_1000_steps_replayed_in_one_invoke(name: str, update_bits: int) -> None:
    require(name)
    steps = 1000
    settings = {"command_words": 2 + 4 + 2 * QUERIES * steps}
    runtime = _runtime(name, update_bits, **settings)
    trace, (weights, fractions), record = _train(runtime, steps=steps)

    fresh = _runtime(name, update_bits, **settings)
    fresh.invoke(fresh.command(checksum=True).replay(record, Rademacher(HEADROOM)))
    assert fresh.status().checksum == trace[-1][1].checksum
    assert fresh.status().steps == steps
    np.testing.assert_array_equal(fresh.losses(), trace[-1][0])
    for tensor, value in fresh.read_weights().items():
        np.testing.assert_array_equal(value, weights[tensor])
    for tensor, value in fresh.read_fractions().items():
        np.testing.assert_array_equal(value, fractions[tensor])


@pytest.mark.parametrize("name", RUNTIMES)
@pytest.mark.parametrize("model", ["depthwise_separable", "residual", "autoencoder", "logistic_head", "two_inputs"])
def test_other_architectures_and_losses(name: str, model: str) -> None:
    """Compares one step on each kind of layer and loss: every runtime with LiteRT."""
    require(name)
    traces = []
    for runtime_name in ("litert", name):
        runtime = load(inject_all(MODELS[model](), batch=2, max_queries=QUERIES), runtime_name)
        rng = np.random.default_rng(3)
        details = [runtime.input_details(i) for i in range(len(runtime.inputs))]
        runtime.set_inputs(*(rng.integers(-128, 128, shape).astype(dtype) for shape, dtype, *_ in details))
        loss = runtime.metadata.loss
        if loss.kind == "mse":
            labels = rng.integers(-128, 128, runtime.output_details()[0]).astype(np.int8)
        elif loss.kind == "binary_cross_entropy":
            labels = rng.integers(0, 2, (2, loss.elements))
        else:
            labels = rng.integers(0, loss.elements, 2)
        runtime.set_labels(labels)
        traces.append(_train(runtime, steps=5)[0])
    assert traces[0] == traces[1]
    assert len({tuple(losses) for losses, _ in traces[0]}) > 5, "the losses hardly change"
