"""Conversion between real values and the levels of a model's inputs, targets and outputs."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from ..io.errors import DataError

_Array = NDArray[Any]

# Units that pixels of 0..255 may have: the factor, and the largest value that it makes of them.
_PIXEL_UNITS = ((1 / 255, 1.0), (1.0, 255.0))


class DataWarning(UserWarning):
    """The data can be used, but probably differ from the model's training data."""


def quantize(x: _Array, scale: float, zero_point: int, dtype: DTypeLike = np.int8, name: str = "x") -> _Array:
    """Quantizes samples for a model's input, real value = scale * (level - zero_point).

    Args:
        x: samples: levels of the input's own type, which are returned unchanged; floating point in the units
            of the training data; or uint8 pixels, see `real_samples`.
        scale: scale; of a floating-point input that of the model's own quantization, 0 if that is not known.
        zero_point: zero point, likewise.
        dtype: type of the model's input: int8, uint8, int16, or floating point if the model quantizes it.
        name: name of the samples in messages.

    Raises:
        DataError: samples of this type cannot be used, or the unit of pixels is not known.
    """
    dtype = np.dtype(dtype)
    if x.dtype == dtype:
        return x
    quantized = dtype in (np.int8, np.uint8, np.int16)
    if dtype.kind != "f" and not (quantized and scale > 0):
        raise DataError(
            f"{name} is {x.dtype}, and the model reads {dtype} with scale {scale:g}: give {dtype}; other "
            "types are converted where it reads floating point, or quantized int8, uint8 or int16"
        )
    if x.dtype == np.uint8 and quantized:
        # 256 possible values: quantized once each.
        pixels = real_samples(np.arange(256, dtype=np.uint8), scale, zero_point, dtype, name)
        return np.asarray(to_levels(pixels, scale, zero_point, dtype)[x])
    real = real_samples(x, scale, zero_point, dtype, name)
    if quantized:
        return to_levels(real, scale, zero_point, dtype)
    with np.errstate(over="ignore"):
        fed = real.astype(dtype)
    if not np.isfinite(fed).all():
        raise DataError(f"{name} contains values that {dtype} does not hold")
    return fed


def real_samples(x: _Array, scale: float, zero_point: int, dtype: DTypeLike = np.int8, name: str = "x") -> _Array:
    """Returns the real values of samples. For arguments and errors see `quantize`.

    Pixels (uint8) keep their values 0..255 if the input covers that range, and are divided by 255 if it covers 0..1.
    """
    dtype = np.dtype(dtype)
    if x.dtype.kind == "f":
        return x
    if x.dtype == dtype:
        return to_real(x, scale, zero_point)
    if x.dtype == np.int8:
        raise DataError(f"{name} is int8, but the model reads {'floating point' if dtype.kind == 'f' else dtype} there")
    if x.dtype != np.uint8:
        unit = f", or {name} / 32768 for sound in -1..1" if x.dtype == np.int16 else ""
        raise DataError(
            f"{name} is {x.dtype}; expected floating point, uint8 (pixels) or int8 (quantized already): give "
            f"{name}.astype('float32'), in the unit that the model was trained on{unit}"
        )
    covered = "does not say what it covers"
    if scale > 0:
        low, high = _bounds(scale, zero_point, dtype)
        for factor, top in _PIXEL_UNITS:
            if abs(low) <= top / 4 and abs(high - top) <= top / 4:
                return x * factor
        covered = f"covers {low:.3g}..{high:.3g}, which is neither"
    raise DataError(
        f"{name}: uint8 samples may be values of 0..255 or, divided by 255, of 0..1, and the model "
        f"{covered}; give floating point in the units that it was trained on: {name}.astype('float32') for "
        f"0..255, {name} / 255 for 0..1"
    )


def _bounds(scale: float, zero_point: int, dtype: np.dtype[Any]) -> tuple[float, float]:
    """Returns the smallest and largest real value of an input; of int8 for a floating-point input."""
    levels = np.iinfo(np.int8 if dtype.kind == "f" else dtype)
    return (levels.min - zero_point) * scale, (levels.max - zero_point) * scale


def to_levels(x: _Array, scale: float, zero_point: int, dtype: DTypeLike = np.int8) -> _Array:
    """Returns round(x / scale) + zero point, half to even, clipped to the type's range, from float64.

    Args:
        x: real values, floating point, without NaN.
        scale: real value of one level, > 0.
        zero_point: level of the real value 0, within the type's range.
        dtype: type of the levels, int8, uint8 or int16.
    """
    levels, bounds = np.empty(x.shape, dtype), np.iinfo(np.dtype(dtype))
    # A large data set in float64 at once would not fit; parts that fit a cache take half the time.
    rows = max(1, 2**16 // max(1, x[:1].size))
    for at in range(0, len(x), rows):
        part = x[at : at + rows].astype(np.float64)
        part /= scale
        np.rint(part, out=part)
        part += zero_point
        levels[at : at + rows] = np.clip(part, bounds.min, bounds.max, out=part)
    return levels


def to_real(x: _Array, scale: float, zero_point: int) -> _Array:
    """Returns real values: scale * (level - zero point) for levels, floating point as it is."""
    return x if x.dtype.kind == "f" else (x.astype(np.float64) - zero_point) * scale


def warn_implausible(x: _Array, scale: float, zero_point: int, dtype: DTypeLike = np.int8, name: str = "x") -> None:
    """Warns (`DataWarning`) if the range of samples does not fit the input. For arguments see `quantize`."""
    dtype = np.dtype(dtype)
    smallest, largest = float(x.min()), float(x.max())
    if x.dtype == dtype and dtype.kind in "iu":
        if dtype.itemsize == 1 and largest - smallest < 16:
            _warn(f"{name} ({dtype}) uses less than 1/16 of the input's range")
        return
    if x.dtype.kind != "f" or not scale > 0:
        return
    low, high = _bounds(scale, zero_point, dtype)
    covers = f"{name} goes from {smallest:.3g} to {largest:.3g}, but the model's input covers {low:.3g}..{high:.3g}"
    outside, span = float(np.mean((x < low) | (x > high))), high - low
    if smallest < low - span or largest > high + span or outside > 0.1:
        _warn(f"{covers}: {outside:.0%} of the values are clipped")
    elif largest - smallest < span / 16:
        _warn(f"{covers}: less than 1/16 of it is used")


def _warn(message: str) -> None:
    warnings.warn(message, DataWarning, stacklevel=2)
