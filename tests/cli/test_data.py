# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""Data files and quantization (refusals are tested through ``evaluate``)."""

from __future__ import annotations

import warnings
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tflm_zo.converters import ZoLoss

from tflm_zo.data import (
    DataError,
    DataWarning,
    check_labels,
    check_samples,
    load_data,
    quantize,
    real_samples,
    to_levels,
    to_real,
)

_PIXELS = (1 / 255, -128)


def test_load(tmp_path: Path) -> None:
    x, y = np.ones((3, 2), np.float32), np.arange(3)
    np.savez(tmp_path / "a.npz", x=x, y=y, other=np.array([None]))
    data = load_data(tmp_path / "a.npz")
    np.testing.assert_array_equal(data.x, x)
    np.testing.assert_array_equal(data.y, y)
    assert len(data) == 3
    np.save(tmp_path / "x.npy", x)
    assert load_data(tmp_path / "x.npy", labels=False).y is None
    with pytest.raises(DataError, match="no labels"):
        load_data(tmp_path / "x.npy")


def test_shapes_may_differ_in_ones() -> None:
    assert check_samples(np.zeros((5, 4, 3)), (2, 4, 3, 1)).shape == (5, 4, 3, 1)
    with pytest.raises(DataError, match="expected samples of shape \\[3, 4\\], got \\[4, 3\\]"):
        check_samples(np.zeros((5, 4, 3)), (2, 3, 4))


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


def test_quantize_without_warning() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        pixels = np.arange(256, dtype=np.uint8)
        np.testing.assert_array_equal(quantize(pixels, *_PIXELS), np.arange(-128, 128))
        np.testing.assert_array_equal(quantize(pixels / 255, *_PIXELS), np.arange(-128, 128))
        levels = np.arange(-128, 128).astype(np.int8)
        assert quantize(levels, *_PIXELS) is levels
        np.testing.assert_array_equal(quantize(pixels, *_PIXELS, np.float32), np.float32(pixels / 255))
        np.testing.assert_array_equal(quantize(np.array([0.5, 1.5, -30.0, 30.0]), 1.0, 0), [0, 2, -30, 30])


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
        assert quantize(x, scale, zero_point).dtype == np.int8


@pytest.mark.parametrize(
    ("x", "dtype", "said"),
    [
        (np.zeros(3, np.int16), np.int8, "x is int16"),
        (np.zeros(3, np.int8), np.float32, "x is int8, but the model's input is floating point"),
        (np.zeros(3, np.int8), np.uint8, "x is int8, but the model's input is uint8"),
        (np.zeros(3), np.int16, "int16 .*only floating point and quantized int8 or uint8"),
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
    """Whatever its scale: what Coral's models and TensorFlow's tutorial take."""
    pixels = np.arange(256, dtype=np.uint8)
    for scale, zero_point in ((1 / 255, 0), (1 / 127.5, 127), (1.0, 0)):
        assert quantize(pixels, scale, zero_point, np.uint8) is pixels
    np.testing.assert_array_equal(
        quantize(np.linspace(-0.99, 1, 9), 1 / 127.5, 127, np.uint8)[[0, -1]], [1, 255]
    )
    np.testing.assert_allclose(
        real_samples(pixels, 1 / 127.5, 127, np.uint8)[:2], [-127 / 127.5, -126 / 127.5]
    )


def test_labels() -> None:
    classes = ZoLoss("cross_entropy", 3, 1.0, 0)
    assert check_labels(np.array([[0], [2], [-1]], np.int64), classes).tolist() == [0, 2, -1]
    binary = ZoLoss("binary_cross_entropy", 2, 1.0, 0)
    assert check_labels(np.array([[True, False]]), binary).tolist() == [[1, 0]]
    for y, loss, said in [
        (np.array([3]), classes, "0..2"),
        (np.array([2**40]), classes, "0..2"),
        (np.array([2**64 - 1], np.uint64), classes, "label 18446744073709551615 is out of range"),
        (np.array([[2, 0]]), binary, "0..1"),
        (None, classes, "no labels"),
        (np.array([0]), None, "no loss"),
        (np.zeros((2, 3)), ZoLoss("mse", 4, 1.0, 0), "4 values"),
        (np.zeros((2, 4), int), ZoLoss("mse", 4, 1.0, 0), "int64"),
    ]:
        with pytest.raises(DataError, match=said):
            check_labels(y, loss)


@pytest.mark.parametrize("header", [b"{'descr': '<f4', 'shape': (1", b"{'descr': [[[[", b"((((", b"9"])
def test_array_headers_that_are_no_python(tmp_path: Path, header: bytes) -> None:
    """NumPy's reader parses them as Python, whose tokenizer and parser have errors of their own."""
    path = tmp_path / "data.npz"
    with zipfile.ZipFile(path, "w") as archive:
        text = header.ljust(117) + b"\n"
        archive.writestr("x.npy", b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text)
    with pytest.raises(DataError, match="no .npz or .npy file of numbers, or damaged"):
        load_data(path)


@pytest.mark.parametrize("name", ["x", "y"])
def test_members_that_are_no_arrays(tmp_path: Path, name: str) -> None:
    path = tmp_path / "data.npz"
    np.savez(path, **{"xy".replace(name, ""): np.zeros(3, np.float32)})
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr(f"{name}.npy", b"text")
    with pytest.raises(DataError, match=f"{name} is no array"):
        load_data(path)
