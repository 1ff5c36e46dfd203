# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""Data files as the trainer takes them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from ..converters import Model
from ..data import DataError, check_labels, check_samples, load_data, quantize
from ..runtime import Runtime, load

__all__ = ["load_training_data", "samples_and_labels"]


def samples_and_labels(runtime: Runtime, path: Path) -> tuple[NDArray[Any], NDArray[Any]]:
    """Samples and labels of a data file, quantized and checked for the model.

    Raises:
        DataError: they do not fit; the message says what was expected.
    """
    names = runtime.metadata.original.inputs
    if len(names) != 1:
        raise DataError(f"the model has {len(names)} inputs ({', '.join(names)}); a data file feeds one")
    shape, dtype, scale, zero_point = runtime.input_details()
    data = load_data(path)
    x = quantize(check_samples(data.x, shape), scale, zero_point, dtype)
    return x, check_labels(data.y, runtime.metadata.loss)


def load_training_data(model: Model, path: Path) -> tuple[NDArray[Any], NDArray[Any]]:
    """The same where no runtime is loaded yet."""
    return samples_and_labels(load(model, "litert"), path)
