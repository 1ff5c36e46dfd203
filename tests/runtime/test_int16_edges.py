"""Operators of int16 at the edges of int8 models: LiteRT's reference kernels give TFLM's bits, and the models train."""

import numpy as np
import pytest
from ai_edge_litert import schema_py_generated as schema
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers.examples import examples
from helpers.injection import inject_all
from helpers.interpreters import require, run_plain
from helpers.models import GraphBuilder
from tflm_zo.converters import ConversionError
from tflm_zo.runtime import load

T = schema.TensorType
SCALES = st.floats(-16, 3).map(lambda e: float(np.float32(2**e)))


def network(output: int, scale: float = 1 / 65536, zero_point: int = -32768) -> bytes:
    """Builds QUANTIZE from int16, a layer, and SOFTMAX to int16, with a QUANTIZE behind it to another type."""
    g = GraphBuilder(1)
    x = g.tensor("x", [1, 8], T.INT16, scales=[0.001], zero_points=[0])
    g.inputs.append(x)
    levels, shares = g.value("levels", [1, 8], 1 / 16, 3, 1.0), [scale]
    g.operator("QUANTIZE", [x], [levels.index], "Quantize")
    y = g.tensor("y", [1, 4], T.INT16, scales=shares, zero_points=[zero_point])
    g.operator("SOFTMAX", [g.dense(levels, "fc", 4).index], [y], "Softmax", beta=1.0)
    if output == T.INT16:
        return g.build([y])
    z = g.tensor("z", [1, 4], output, scales=shares, zero_points=[0])
    g.operator("QUANTIZE", [y], [z], "Quantize")
    return g.build([z])


@pytest.mark.parametrize("output", [T.INT16, T.INT32])
def test_models_train_with_the_same_bits(output: int) -> None:
    zo = inject_all(network(output), batch=2, headroom=0)
    found = []
    for name in ("litert", "tflm"):
        require(name)
        runtime = load(zo, name)
        runtime.set_inputs(np.random.default_rng(0).integers(-9000, 9000, (2, 8)).astype(np.int16))
        runtime.set_labels(np.array([0, 1]))
        runtime.invoke(runtime.command())
        found.append((runtime.outputs()[0].tolist(), runtime.losses().tolist()))
    assert found[0] == found[1]
    assert min(found[0][1]) > 0
    assert len({tuple(row) for row in found[0][0]}) == 2


def test_another_scale_is_refused() -> None:
    with pytest.raises(ConversionError, match="SOFTMAX `y`: .*TFLM's kernel always gives 1/65536 and -32768"):
        inject_all(network(T.INT16, 1 / 32768, 0))


@settings(max_examples=examples(100), deadline=None)
@given(SCALES, SCALES, st.sampled_from([-300, 0, 5]), st.sampled_from([0, 7]), st.sampled_from([T.INT8, T.INT32]))
def test_quantize(scale: float, other: float, zero_point: int, made: int, output: int) -> None:
    require("tflm")
    g = GraphBuilder(1)
    x = g.tensor("x", [1, 500], T.INT16, scales=[scale], zero_points=[zero_point])
    g.inputs.append(x)
    y = g.tensor("y", [1, 500], output, scales=[other], zero_points=[made])
    g.operator("QUANTIZE", [x], [y], "Quantize")
    model, values = g.build([y]), np.random.default_rng(0).integers(-32768, 32768, (1, 500)).astype(np.int16)
    values[0, :250] //= 256
    found, expected = (run_plain(model, name, [values])[0] for name in ("litert", "tflm"))
    np.testing.assert_array_equal(found, expected)


@settings(max_examples=examples(100), deadline=None)
@given(SCALES, st.sampled_from([1.0, 0.5, 3.25]), st.integers(1, 511), st.integers(-128, 127))
def test_softmax(scale: float, beta: float, depth: int, zero_point: int) -> None:
    require("tflm")
    g = GraphBuilder(1)
    x = g.input("x", [8, depth], scale, zero_point)
    y = g.tensor("y", [8, depth], T.INT16, scales=[1 / 65536], zero_points=[-32768])
    g.operator("SOFTMAX", [x.index], [y], "Softmax", beta=beta)
    model, rng = g.build([y]), np.random.default_rng(depth)
    spread = rng.choice([1, 5, 40, 128], (8, 1))
    values = rng.integers(-spread, spread, (8, depth)).astype(np.int8)
    found, expected = (run_plain(model, name, [values])[0] for name in ("litert", "tflm"))
    np.testing.assert_array_equal(found, expected)
    real = values.astype(np.float64) * scale * beta
    shares = np.exp(real - real.max(1, keepdims=True))
    shares /= shares.sum(1, keepdims=True)
    np.testing.assert_allclose(found, np.minimum(65536 * shares - 32768, 32767), rtol=0, atol=4)
