"""Integer backpropagation through a dense layer, against its specification and against float64."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers.nodes import fc_backprop
from tflm_zo.core import Status, library

CLAMPED = 255


def expected(weights, scales, errors, routes):
    """Computes in integers of any size, one sample at a time."""
    outputs, spare = len(weights), 0
    while outputs > 512 * 2**spare:
        spare += 1
    rows = []
    for b in range(len(errors)):
        f: Any = [int(e) for e in errors[b]]
        if scales is not None:
            f = [(e * int(s) + 2**14) // 2**15 for e, s in zip(f, scales, strict=True)]
        f = np.array([e // 2**spare for e in f], dtype=object)
        sums = (f[:, None] * weights.astype(object)).sum(0) * 2**spare
        row = [max(-32767, min(32767, (int(s) + 2**7) // 2**8)) for s in sums]
        if routes is not None:
            row = [0 if r == CLAMPED else e for e, r in zip(row, routes[b], strict=True)]
        rows.append(row)
    return np.array(rows)


@given(
    st.integers(0, 2**32 - 1),
    st.integers(1, 4),
    st.integers(1, 70),
    st.sampled_from([1, 2, 10, 84, 512, 513, 1100]),
    st.booleans(),
    st.booleans(),
    st.integers(0, 15),
)
def test_is_its_specification(seed, samples, inputs, outputs, with_scales, with_routes, bits):
    rng = np.random.default_rng(seed)
    weights = rng.integers(-127, 128, (outputs, inputs)).astype(np.int8)
    scales = rng.integers(0, 32768, outputs).astype(np.int16) if with_scales else None
    errors = rng.integers(-(2**bits), 2**bits, (samples, outputs)).astype(np.int16)
    routes = rng.choice([0, CLAMPED, 3], (samples, inputs)).astype(np.uint8) if with_routes else None
    found = fc_backprop(weights, scales, errors, routes)
    np.testing.assert_array_equal(found, expected(weights, scales, errors, routes))


def test_is_the_transposed_layer():
    """Compares errors of the inputs with W^T e in float64, for filter scales of any spread."""
    rng = np.random.default_rng(1)
    weights = rng.integers(-127, 128, (10, 84)).astype(np.int8)
    real = rng.uniform(0.001, 0.01, 10)
    scales = np.minimum(np.rint(real / real.max() * 2**15), 32767).astype(np.int16)
    errors = rng.integers(-30000, 30001, (50, 10)).astype(np.int16)
    found = fc_backprop(weights, scales, errors, None)
    exact = errors @ (weights * real[:, None]) / real.max() / 2**8
    inside = np.abs(exact) < 32000
    assert 0.5 < inside.mean() < 1
    # Ten roundings of f, each within 0.51, times at most 127 / 256, and one of the sum.
    assert np.abs(found - exact)[inside].max() < 10 * 0.26 + 1
    assert (np.abs(found)[~inside] > 31900).all()  # saturated


def test_extremes():
    """Makes the largest sums of 512 outputs."""
    weights = np.full((512, 3), -127, np.int8)
    errors = np.full((1, 512), -32768, np.int16)
    assert (fc_backprop(weights, None, errors, None) == 32767).all()


@pytest.mark.parametrize("change", ["weights", "errors", "input_errors", "scratch", "samples", "inputs", "outputs"])
def test_bad_arguments(change):
    buffer = np.zeros(64, np.int32)
    at = {name: buffer.ctypes.data for name in ("weights", "errors", "input_errors", "scratch")}
    sizes = {"samples": 2, "inputs": 3, "outputs": 4}
    (at if change in at else sizes)[change] = None if change in at else 0
    status = library().zo_fc_backprop_s8(
        sizes["samples"],
        sizes["inputs"],
        sizes["outputs"],
        at["weights"],
        None,
        at["errors"],
        None,
        at["input_errors"],
        at["scratch"],
    )
    assert status == Status.ARGUMENT
    assert not buffer.any()
