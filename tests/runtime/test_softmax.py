"""SOFTMAX of any scale, beta and number of classes: TFLM's bits, and the shares that it stands for."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers.interpreters import require, run_plain
from helpers.models import GraphBuilder


def _logits(rows: int, depth: int, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    spread = rng.choice([1, 5, 40, 128], (rows, 1))
    x = rng.integers(-spread, spread, (rows, depth))
    x[0] = 0  # all alike
    x[1] = rng.choice([-128, 127], depth)
    return x.astype(np.int8)


@settings(max_examples=60, deadline=None)
@given(
    st.floats(-20, 4).map(lambda e: float(np.float32(2**e))),
    st.sampled_from([1.0, 0.5, 3.25]),
    st.one_of(st.integers(1, 12), st.integers(1, 511)),
    st.integers(-128, 127),
    st.integers(0, 2**32 - 1),
)
def test_bits_are_tflms(scale: float, beta: float, depth: int, zero_point: int, seed: int) -> None:
    require("tflm")
    g = GraphBuilder(1)
    model = g.build([g.softmax(g.input("logits", [16, depth], scale, zero_point), "softmax", beta)])
    x = _logits(16, depth, seed)
    (found,) = run_plain(model, "litert", [x])
    np.testing.assert_array_equal(found, run_plain(model, "tflm", [x])[0])
    real = x.astype(np.float64) * scale * beta
    shares = np.exp(real - real.max(1, keepdims=True))
    shares /= shares.sum(1, keepdims=True)
    np.testing.assert_allclose(found, np.minimum(256 * shares - 128, 127), rtol=0, atol=0.51)


@pytest.mark.parametrize("depth", [511, 512, 4096, 5000])
def test_many_classes(depth: int) -> None:
    """At so many equal logits the reference kernels end the process."""
    g = GraphBuilder(1)
    model = g.build([g.softmax(g.input("logits", [16, depth], 0.25, 0), "softmax")])
    x = _logits(16, depth, 0)
    (found,) = run_plain(model, "litert", [x])
    shares = np.exp((x.astype(np.float64) - x.max(1, keepdims=True)) / 4)
    shares /= shares.sum(1, keepdims=True)
    np.testing.assert_allclose(found, np.minimum(256 * shares - 128, 127), rtol=0, atol=0.51)
    spread = np.random.default_rng(0).integers(-128, 128, (16, depth)).astype(np.int8)
    found, expected = (run_plain(model, name, [spread])[0] for name in ("litert", "litert-builtin-ref"))
    np.testing.assert_array_equal(found, expected)
