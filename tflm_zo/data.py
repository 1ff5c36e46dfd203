# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""Data sets: files with samples ``x`` and labels ``y``, and how samples become what a model reads.

data = load_data("digits.npz", inputs=runtime.metadata.original.inputs)
shape, dtype, scale, zero_point = runtime.input_details()
x = quantize(check_samples(data.x, shape), scale, zero_point, dtype)  # pixels, levels, or real values
y = check_labels(data.y, runtime.metadata.loss)
"""

from __future__ import annotations

import lzma
import os
import tokenize
import warnings
import zipfile
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from .converters import ZoLoss
from .converters.errors import one_line

__all__ = [
    "Data",
    "DataError",
    "DataWarning",
    "check_labels",
    "check_samples",
    "load_data",
    "quantize",
    "real_samples",
    "to_levels",
    "to_real",
]

#: What NumPy and the archives raise on files that are damaged, or no arrays: the header of an array is parsed
#: as Python.
UNREADABLE = (
    *(ValueError, EOFError, KeyError, NotImplementedError, zipfile.BadZipFile, zlib.error, lzma.LZMAError),
    *(SyntaxError, tokenize.TokenError, RecursionError),
)

_KINDS = "floating point, uint8 (pixels) or int8 (quantized already)"
# What pixels of 0..255 may stand for: the factor, and the largest value that it makes of them.
_PIXEL_UNITS = ((1 / 255, 1.0), (1.0, 255.0))


class DataError(ValueError):
    """The data cannot be used; the message is one line that says why."""

    def __init__(self, message: str) -> None:
        super().__init__(one_line(message))


class DataWarning(UserWarning):
    """The data can be used, but are probably not what the model was trained on."""


@dataclass(frozen=True)
class Data:
    """Samples and labels.

    Attributes:
        inputs: in the order of the model's inputs, [samples, ...] each, floating point, uint8 or int8.
        y: [samples, ...], or None where the file has none.
    """

    inputs: tuple[NDArray[Any], ...]
    y: NDArray[Any] | None

    @property
    def x(self) -> NDArray[Any]:
        """Of the first input."""
        return self.inputs[0]

    def __len__(self) -> int:
        return len(self.x)


def load_data(path: str | os.PathLike[str], *, labels: bool = True, inputs: Sequence[str] = ("x",)) -> Data:
    """Reads samples and labels.

    Args:
        path: an ``.npz`` file with the samples and ``y``, or an ``.npy`` file with the samples alone. The
            samples of a model with one input are ``x`` or called as the input; those of a model with several
            inputs are called as the inputs, or ``x0``, ``x1``, … in their order.
        labels: whether there must be labels; False: they may be missing.
        inputs: names of the model's inputs.

    Raises:
        DataError: the file cannot be read, or what is in it cannot be used.
    """
    path = Path(path)
    arrays = _read(path, inputs)
    names = _names(path, arrays, inputs)
    if labels and "y" not in arrays:
        raise DataError(f"{path}: no labels (array «y»); there are: {', '.join(arrays)}")
    first, y = arrays[names[0]], arrays.get("y")
    for name in names:
        x = arrays[name]
        _check_values(f"{path}: {name}", x)
        if x.dtype.kind != "f" and x.dtype not in (np.uint8, np.int8):
            raise DataError(f"{path}: {name} is {x.dtype}; expected {_KINDS}")
        if len(x) != len(first):
            raise DataError(f"{path}: {names[0]} has {len(first)} samples, {name} has {len(x)}")
    if y is not None:
        if y.shape[:1] != first.shape[:1]:
            raise DataError(
                f"{path}: {names[0]} has {len(first)} samples, y has {len(y) if y.ndim else 1} labels"
            )
        _check_values(f"{path}: y", y)
    return Data(tuple(arrays[name] for name in names), y)


def _names(path: Path, arrays: dict[str, NDArray[Any]], inputs: Sequence[str]) -> list[str]:
    """Names of the inputs' arrays in the file."""
    numbered = [f"x{i}" for i in range(len(inputs))]
    choices = [["x"], list(inputs)] if len(inputs) == 1 else [list(inputs), numbered]
    for names in choices:
        if all(name in arrays for name in names):
            return names
    there = f"there are: {', '.join(arrays) or 'none'}"
    if len(inputs) == 1:
        raise DataError(f"{path}: no array «x»; {there}")
    raise DataError(
        f"{path}: the model has {len(inputs)} inputs; expected arrays {', '.join(inputs)} "
        f"(or {', '.join(numbered)}); {there}"
    )


def _read(path: Path, inputs: Sequence[str]) -> dict[str, NDArray[Any]]:
    used = {"x", "y", *inputs, *(f"x{i}" for i in range(len(inputs)))}
    try:
        content = np.load(path, allow_pickle=False)
        if isinstance(content, np.ndarray):
            return {"x": content}
        with content:
            # Another array may be anything; its name is all that is of interest.
            arrays = {name: content[name] if name in used else np.empty(0) for name in content.files}
    except OSError as e:
        raise DataError(f"{path}: cannot be read: {e.strerror or e}") from e
    except MemoryError as e:
        raise DataError(f"{path}: does not fit into memory") from e
    except UNREADABLE as e:
        raise DataError(f"{path}: no .npz or .npy file of numbers, or damaged") from e
    for name, array in arrays.items():
        if not isinstance(array, np.ndarray):  # NumPy gives the bytes of a member that is no array
            raise DataError(f"{path}: {name} is no array")
    return arrays


def _check_values(what: str, array: NDArray[Any]) -> None:
    if array.dtype.kind not in "fiub":
        raise DataError(f"{what} is {array.dtype}, not numbers")
    if array.ndim == 0:
        raise DataError(f"{what} is a single number, not an array of samples")
    if array.size == 0:
        raise DataError(f"{what} is empty (shape {list(array.shape)})")
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        raise DataError(f"{what} contains NaN or infinity")


def check_samples(x: NDArray[Any], shape: tuple[int, ...], name: str = "x") -> NDArray[Any]:
    """Samples in the shape of a model's input.

    Args:
        x: [samples, ...].
        shape: shape of the input, [batch, ...].
        name: what messages call it.

    Returns:
        ``x`` shaped [samples, *shape[1:]]; only dimensions of size 1 may be missing or too many.

    Raises:
        DataError: the shapes differ.
    """
    wanted = tuple(shape[1:])
    if [n for n in x.shape[1:] if n != 1] != [n for n in wanted if n != 1]:
        raise DataError(f"{name}: expected samples of shape {list(wanted)}, got {list(x.shape[1:])}")
    return x.reshape(len(x), *wanted)


def check_labels(y: NDArray[Any] | None, loss: ZoLoss | None) -> NDArray[Any]:
    """Labels that a model's loss takes.

    Args:
        y: labels as they were loaded.
        loss: the model's loss.

    Returns:
        Cross-entropy: int32 [samples]. Binary cross-entropy: int32 [samples, outputs]. Mean squared error:
        ``y`` itself.

    Raises:
        DataError: the model has no loss; no labels; wrong shape, type or range.
    """
    if loss is None:
        raise DataError("the model has no loss, so labels are of no use to it")
    if y is None:
        raise DataError("no labels (array «y»)")
    if loss.kind == "mse":
        if y.size != len(y) * loss.elements:
            raise DataError(f"y: expected {loss.elements} values per sample, got shape {list(y.shape)}")
        if y.dtype.kind != "f" and y.dtype != np.int8:
            raise DataError(f"y is {y.dtype}; targets are floating point or int8")
        return y
    if y.dtype.kind not in "iub":
        raise DataError(f"y is {y.dtype}; labels are integers")
    binary = loss.kind == "binary_cross_entropy"
    classes, values = (2, loss.elements) if binary else (loss.elements, 1)
    if y.size != len(y) * values:
        hint = "; one-hot labels: y.argmax(1)" if not binary and y.size == len(y) * classes else ""
        raise DataError(f"y: expected {values} label(s) per sample, got shape {list(y.shape)}{hint}")
    # Compared in their own type: the largest uint64 is no -1.
    wrong = y[(y < -1) | (y >= classes)]
    if wrong.size:
        raise DataError(
            f"y: label {wrong.flat[0]} is out of range: expected 0..{classes - 1} (-1: unlabelled)"
        )
    return y.astype(np.int32).reshape((len(y), values) if binary else (len(y),))


def quantize(
    x: NDArray[Any], scale: float, zero_point: int, dtype: DTypeLike = np.int8, name: str = "x"
) -> NDArray[Any]:
    """Samples as a model's input reads them.

    Args:
        x: floating point in the units that the model was trained on; int8 or uint8 as the input: quantized
            already, taken as it is; uint8 for another input: pixels, which `real_samples` reads.
        scale: of the model's input: real value = scale * (level - zero_point); of a floating-point input that
            of what the model quantizes it to, 0 where it is not known.
        zero_point: likewise.
        dtype: of the model's input: int8, uint8, or floating point for a model that quantizes by itself.
        name: what messages call it.

    Raises:
        DataError: values of a type that cannot be fed, or pixels whose unit the input does not tell.

    Warns:
        DataWarning: the range of ``x`` does not fit the input's.
    """
    dtype = np.dtype(dtype)
    quantized = dtype in (np.int8, np.uint8)
    if dtype.kind != "f" and not (quantized and scale > 0):
        raise DataError(
            f"the model's input is {dtype} with scale {scale:g}; only floating point and quantized int8 or "
            "uint8 can be fed"
        )
    if x.dtype == dtype and quantized:
        if x.size and int(x.max()) - int(x.min()) < 16:
            _warn(f"{name} ({dtype}) uses less than 1/16 of the input's range")
        return x
    if x.dtype == np.uint8 and quantized:
        # 256 possible values: quantized once each.
        pixels = real_samples(np.arange(256, dtype=np.uint8), scale, zero_point, dtype, name)
        return np.asarray(to_levels(pixels, scale, zero_point, dtype)[x])
    real = real_samples(x, scale, zero_point, dtype, name)
    if x.dtype.kind == "f" and x.size and scale > 0:
        _warn_implausible(x, *_bounds(scale, zero_point, dtype), name)
    return to_levels(real, scale, zero_point, dtype) if quantized else real.astype(dtype)


def real_samples(
    x: NDArray[Any], scale: float, zero_point: int, dtype: DTypeLike = np.int8, name: str = "x"
) -> NDArray[Any]:
    """The real values that samples stand for; arguments and errors as of `quantize`.

    Pixels (uint8) are values of 0..255 where that is what the model's input covers, and divided by 255 where
    it covers 0..1.
    """
    dtype = np.dtype(dtype)
    if x.dtype.kind == "f":
        return x
    if x.dtype == dtype:
        return to_real(x, scale, zero_point)
    if x.dtype == np.int8:
        raise DataError(f"{name} is int8, but the model's input is {_called(dtype)}")
    if x.dtype != np.uint8:
        raise DataError(f"{name} is {x.dtype}; expected {_KINDS}")
    covered = "does not say what it covers"
    if scale > 0:
        low, high = _bounds(scale, zero_point, dtype)
        for factor, top in _PIXEL_UNITS:
            if abs(low) <= top / 4 and abs(high - top) <= top / 4:
                return x * factor
        covered = f"covers {low:.3g}..{high:.3g}, which is neither"
    raise DataError(
        f"{name}: uint8 samples may be values of 0..255 or, divided by 255, of 0..1, and the model's input "
        f"{covered}; give floating point in the units that it was trained on: {name}.astype('float32') for "
        f"0..255, {name} / 255 for 0..1"
    )


def _called(dtype: np.dtype[Any]) -> str:
    return "floating point" if dtype.kind == "f" else str(dtype)


def _bounds(scale: float, zero_point: int, dtype: np.dtype[Any]) -> tuple[float, float]:
    """Least and largest real value of an input; one of floating point is quantized to int8."""
    levels = np.iinfo(np.uint8 if dtype == np.uint8 else np.int8)
    return (levels.min - zero_point) * scale, (levels.max - zero_point) * scale


def to_levels(x: NDArray[Any], scale: float, zero_point: int, dtype: DTypeLike = np.int8) -> NDArray[Any]:
    """round(x / scale) + zero point, half to even, clipped to the type's range; computed in float64.

    Args:
        x: floating point, without NaN.
        scale: > 0.
        zero_point: within the type's range.
        dtype: int8 or uint8.
    """
    levels, bounds = np.empty(x.shape, dtype), np.iinfo(np.dtype(dtype))
    # A large data set in float64 at once would not fit; what fits a cache takes half the time.
    rows = max(1, 2**16 // max(1, x[:1].size))
    for at in range(0, len(x), rows):
        part = x[at : at + rows].astype(np.float64)
        part /= scale
        np.rint(part, out=part)
        part += zero_point
        levels[at : at + rows] = np.clip(part, bounds.min, bounds.max, out=part)
    return levels


def to_real(x: NDArray[Any], scale: float, zero_point: int) -> NDArray[Any]:
    """Real values: of int8 or uint8 levels scale * (level - zero point), of floating point itself."""
    return x if x.dtype.kind == "f" else (x.astype(np.float64) - zero_point) * scale


def _warn_implausible(x: NDArray[Any], low: float, high: float, name: str) -> None:
    smallest, largest, span = float(x.min()), float(x.max()), high - low
    covers = (
        f"{name} goes from {smallest:.3g} to {largest:.3g}, "
        f"but the model's input covers {low:.3g}..{high:.3g}"
    )
    outside = float(np.mean((x < low) | (x > high)))
    if smallest < low - span or largest > high + span or outside > 0.1:
        _warn(f"{covers}: {outside:.0%} of the values are clipped")
    elif largest - smallest < span / 16:
        _warn(f"{covers}: less than 1/16 of it is used")


def _warn(message: str) -> None:
    warnings.warn(message, DataWarning, stacklevel=3)
