"""Real values and levels: quantization, pixels and implausible ranges, against NumPy in float64."""

from typing import Any

import numpy as np
import pytest

from tflm_zo.data import DataError, DataWarning, to_levels, to_real
from tflm_zo.data.levels import quantize, real_samples, warn_implausible

_PIXELS = (1 / 255, -128)


def test_levels_do_not_depend_on_the_width_of_the_samples() -> None:
    """float32 samples are divided in float64, in portions: in float32 some fall on the other side."""
    scale, rng = 0.0392, np.random.default_rng(0)
    ties = rng.integers(-64, 64, (1100, 1000)) + 0.5 + rng.uniform(-1e-6, 1e-6, (1100, 1000))
    x = np.float32(ties * scale)
    expected = np.clip(np.rint(x.astype(np.float64) / scale) - 5, -128, 127)
    assert (np.rint(x / np.float32(scale)) - 5 != expected).any()
    np.testing.assert_array_equal(to_levels(x, scale, -5), expected)
    np.testing.assert_array_equal(to_levels(x.astype(np.float64), scale, -5), expected)


def test_real_values() -> None:
    levels = np.arange(-128, 128).astype(np.int8)
    np.testing.assert_array_equal(to_levels(to_real(levels, 0.3, 7), 0.3, 7), levels)
    levels = np.arange(256).astype(np.uint8)
    np.testing.assert_array_equal(to_levels(to_real(levels, 0.3, 7), 0.3, 7, np.uint8), levels)
    np.testing.assert_array_equal(to_levels(np.array([-9.0, 9e9]), 0.3, 7, np.uint8), [0, 255])
    floats = np.array([0.5, -3.0], np.float32)
    assert to_real(floats, 9.0, 9) is floats


@pytest.mark.filterwarnings("error")
def test_quantize() -> None:
    pixels, levels = np.arange(256, dtype=np.uint8), np.arange(-128, 128).astype(np.int8)
    for x in (pixels, pixels / 255, levels):
        np.testing.assert_array_equal(quantize(x, *_PIXELS), levels)
        warn_implausible(x, *_PIXELS)
    assert quantize(levels, *_PIXELS) is levels
    assert quantize(levels, 0.0, 0) is levels
    np.testing.assert_array_equal(quantize(pixels, *_PIXELS, np.float32), np.float32(pixels / 255))
    np.testing.assert_array_equal(quantize(np.array([0.5, 1.5, -30.0, 30.0]), 1.0, 0), [0, 2, -30, 30])
    tokens = np.arange(9, dtype=np.int32)
    assert quantize(tokens, 0.0, 0, np.int32) is tokens
    warn_implausible(tokens, 0.0, 0, np.int32)


@pytest.mark.parametrize(
    ("x", "scale", "zero_point", "said"),
    [
        (np.array([0.0, 255.0]), *_PIXELS, "are clipped"),
        (np.linspace(-1, 1, 100), *_PIXELS, "are clipped"),
        (np.array([0.0, 1.0]), 1.0, -128, "less than 1/16"),
        (np.array([1, 5], np.int8), *_PIXELS, "less than 1/16"),
    ],
)
def test_implausible_ranges(x: Any, scale: float, zero_point: int, said: str) -> None:
    with pytest.warns(DataWarning, match=said):
        warn_implausible(x, scale, zero_point)
    assert quantize(x, scale, zero_point).dtype == np.int8


@pytest.mark.parametrize(
    ("x", "dtype", "said"),
    [
        (np.zeros(3, np.int8), np.float32, "x is int8, but the model reads floating point"),
        (np.zeros(3), np.int32, "x is float64, and the model reads int32 with scale 1: give int32"),
        (np.full(3, 1e300), np.float32, "x contains values that float32 does not hold"),
    ],
)
def test_quantize_refuses(x: Any, dtype: Any, said: str) -> None:
    with pytest.raises(DataError, match=said):
        quantize(x, 1.0, 0, dtype)


@pytest.mark.parametrize("dtype", [np.int8, np.float32])
def test_the_range_of_the_input_tells_what_pixels_stand_for(dtype: Any) -> None:
    """Divided by 255 they fed a model of 0..255 with less than two of its levels."""
    pixels = np.arange(256, dtype=np.uint8)
    for top, scale in ((1, 1 / 255), (1, 0.0045), (255, 1.0), (255, 0.8), (255, 1.2)):
        real = pixels * (top / 255)
        expected = real.astype(dtype) if dtype == np.float32 else to_levels(real, scale, -128)
        np.testing.assert_array_equal(quantize(pixels, scale, -128, dtype), expected)
        np.testing.assert_allclose(real_samples(pixels, scale, -128, dtype), real)


@pytest.mark.parametrize(
    ("scale", "zero_point", "dtype", "covers"),
    [
        (1 / 127.5, 0, np.int8, "covers -1..0.996, which is neither"),
        (1 / 64, 3, np.int8, "covers -2.05..1.94"),
        (1 / 127.5, 0, np.float32, "covers -1..0.996"),
        (0.0, 0, np.float32, "does not say what it covers"),
    ],
)
def test_pixels_that_may_be_read_in_two_ways_are_refused(
    scale: float, zero_point: int, dtype: Any, covers: str
) -> None:
    pixels = np.arange(256, dtype=np.uint8)
    with pytest.raises(DataError, match="0..255 or, divided by 255, of 0..1") as error:
        quantize(pixels, scale, zero_point, dtype)
    assert covers in str(error.value)
    assert "x.astype('float32') for 0..255, x / 255 for 0..1" in str(error.value)


def test_pixels_are_the_levels_of_a_uint8_input() -> None:
    """Converts pixels at every scale, as for Coral's models and TensorFlow's tutorial."""
    pixels = np.arange(256, dtype=np.uint8)
    for scale, zero_point in ((1 / 255, 0), (1 / 127.5, 127), (1.0, 0)):
        assert quantize(pixels, scale, zero_point, np.uint8) is pixels
    np.testing.assert_array_equal(quantize(np.linspace(-0.99, 1, 9), 1 / 127.5, 127, np.uint8)[[0, -1]], [1, 255])
    np.testing.assert_allclose(real_samples(pixels, 1 / 127.5, 127, np.uint8)[:2], [-127 / 127.5, -126 / 127.5])
