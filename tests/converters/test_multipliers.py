"""Multipliers: real steps of equal size, and steps in proportion to the norm of a layer's weights."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tflm_zo
from helpers.injection import inject_all
from helpers.models import MODELS, small_cnn
from tflm_zo.converters import (
    ConversionError,
    load_model,
    read_metadata,
)
from tflm_zo.converters.multipliers import NEUTRAL, quantization_aware_multipliers

SCALES = st.lists(st.floats(2.0**-17, 1.0, width=32), min_size=1, max_size=6)


def multipliers_and_scales(model):
    """Returns factors and the scales of the channels by filter, from the file."""
    tensors = {t.name: t for g in load_model(model.to_bytes()).subgraphs for t in g.all_tensors()}
    for t in read_metadata(model).trainable:
        yield tensors[f"{t.name}/zo_multiplier"].numpy(), tensors[t.name].quantization.scales


@given(st.lists(SCALES, min_size=1, max_size=4))
def test_real_steps_are_equal(layers):
    """Compares m s^2, the real step for a unit gradient, with that of the finest channel."""
    filters = [(np.array(s, np.float32), np.ones((len(s), 3), np.int8)) for s in layers]
    finest = min(float(np.float32(s)) for layer in layers for s in layer)
    for (scales, _), factors in zip(filters, quantization_aware_multipliers(filters), strict=True):
        assert factors.dtype == np.int32
        steps = factors / 2.0**31 * scales.astype(np.float64) ** 2
        rounding = scales.astype(np.float64) ** 2 * 1.001 * 2.0**-31
        assert (np.abs(steps - finest**2) <= rounding).all()


def test_channels_of_zeros_do_not_count():
    weights = np.ones((3, 4), np.int8)
    weights[0] = 0
    (factors,) = quantization_aware_multipliers([(np.array([1e-6, 0.01, 0.02], np.float32), weights)])
    assert list(factors) == [NEUTRAL, NEUTRAL, 2**29]


@pytest.mark.parametrize("name", ["small_cnn", "lenet5", "depthwise_separable"])
def test_factors_in_a_model(name):
    model = inject_all(MODELS[name](), multipliers="quantization-aware")
    found = list(multipliers_and_scales(model))
    finest = min(scales.min() for _, scales in found)
    assert any(len(set(scales.tolist())) > 1 for _, scales in found)
    for factors, scales in found:
        wanted = (finest / np.broadcast_to(scales, factors.shape).astype(float)) ** 2
        np.testing.assert_allclose(factors / 2**31, wanted, rtol=1e-6)


def test_an_update_moves_real_weights_equally():
    model = inject_all(small_cnn(), multipliers="quantization-aware", update_bits=16)
    runtime = tflm_zo.runtime.load(model, "litert")
    runtime.invoke(runtime.command(loss=False))
    before = runtime.read_weights(), runtime.read_fractions()
    z = tflm_zo.Rademacher(1)
    runtime.invoke(runtime.command(loss=False).update([(7, 2**20)], z))
    after = runtime.read_weights(), runtime.read_fractions()
    scales = [s for _, s in multipliers_and_scales(model)]
    finest = min(s.min() for s in scales)
    for t, s in zip(read_metadata(model).trainable, scales, strict=True):
        whole, part = (a[t.name].astype(np.int64) - b[t.name] for a, b in zip(after, before, strict=True))
        moved = (whole + part / 256).reshape(-1, t.inner).T  # LSB; channels of a filter in a row
        expected = 16.0 * (finest / np.resize(s.astype(float), moved.shape[1])) ** 2
        limit = 127 - 2
        free = np.abs(after[0][t.name].reshape(-1, t.inner).T) < limit
        assert free.any()
        wrong = np.abs(np.abs(moved) - expected) > 1 / 256
        assert not (wrong & free).any()


def test_unknown_kind():
    with pytest.raises(ConversionError, match="be 'quantization-aware', or factors"):
        inject_all(small_cnn(), multipliers="kernel-norm")
