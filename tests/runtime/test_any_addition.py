"""ADD of any shape and scales: TFLM's bits, with each kernel set."""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from helpers.examples import examples
from helpers.interpreters import KERNELS, require, run_plain
from helpers.models import GraphBuilder
from helpers.models.graph_builder import Activation

# Of the two inputs the one with the larger scale has a factor of exactly a half; with equal scales both have.
SCALES = st.one_of(st.just(0.05), st.floats(2**-12, 1))
ZERO_POINTS = st.sampled_from([-128, 127, 0, 3])


@pytest.mark.parametrize("kernels", KERNELS)
@settings(max_examples=examples(150), deadline=None, suppress_health_check=[HealthCheck.differing_executors])
@given(
    shape=st.tuples(st.integers(1, 3), st.integers(1, 9), st.integers(1, 9), st.integers(1, 20)),
    scales=st.tuples(SCALES, SCALES, st.floats(0.25, 4)),
    zero_points=st.tuples(ZERO_POINTS, ZERO_POINTS, ZERO_POINTS),
    activation=st.sampled_from([Activation.NONE, Activation.RELU, Activation.RELU6]),
    seed=st.integers(0, 2**32 - 1),
)
def test_bits_are_tflms(
    kernels: str,
    shape: tuple[int, ...],
    scales: tuple[float, float, float],
    zero_points: tuple[int, int, int],
    activation: int,
    seed: int,
) -> None:
    require("tflm")
    g, rng = GraphBuilder(seed), np.random.default_rng(seed)
    a, b = (g.input(name, shape, scales[i], zero_points[i]) for i, name in enumerate("ab"))
    y = g.value("y", shape, scales[2] * max(scales[:2]), zero_points[2], 1.0)
    g.operator("ADD", [a.index, b.index], [y.index], "Add", fusedActivationFunction=activation)
    model = g.build([y])
    inputs = [rng.integers(-128, 128, shape).astype(np.int8) for _ in range(2)]
    if seed % 4 == 0:
        inputs = [rng.choice([-128, 127], shape).astype(np.int8) for _ in range(2)]
    (found,) = run_plain(model, "litert", inputs, kernels)
    np.testing.assert_array_equal(found, run_plain(model, "tflm", inputs)[0])
