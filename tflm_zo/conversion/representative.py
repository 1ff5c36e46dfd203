# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""Representative data: what calibrates the ranges of activations, and labels to measure accuracies by."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from ..io.arrays import (
    Array,
    as_array,
    check_count,
    class_labels,
    gather,
    in_shape,
    keys_of,
    naming,
    sizes,
    unmasked,
)
from ..io.errors import DataError

__all__ = ["representative_labels", "representative_samples"]


def representative_samples(source: Any, inputs: list[Any]) -> tuple[list[Array], Array | None]:
    """One float32 array [samples, ...] per input, checked; and labels where a file or dictionary has some."""
    shapes = {t.name: tuple(t.shape[1:]) for t in inputs}
    whole = isinstance(source, str | os.PathLike | Mapping | np.ndarray) or (
        isinstance(source, list | tuple)
        and 1 < len(source) == len(inputs)
        and all(isinstance(a, np.ndarray) for a in source)
    )
    with naming(source if isinstance(source, str | os.PathLike) else "representative data"):
        if not whole and not isinstance(source, Iterable):
            raise DataError(f"cannot use {type(source).__name__}")
        found = gather(source if whole else _collect(source, shapes), shapes)
        with np.errstate(over="ignore"):
            floats = [array.astype(np.float32) for array in found.inputs]
        for name, array in zip(found.names, floats, strict=True):
            as_array(array, name)  # a large float64 is infinity now
    return floats, found.y


def _collect(source: Iterable[Any], shapes: Mapping[str, tuple[int, ...]]) -> list[Array]:
    """Samples and batches one behind the other, for each input."""
    columns: list[list[Array]] = [[] for _ in shapes]
    for item in source:
        if isinstance(item, Mapping):
            item = [item[key] for key in keys_of(item, list(shapes))]
        elif len(shapes) == 1 and not (isinstance(item, list | tuple) and len(item) == 1):
            # (input, label), as data sets have it.
            item = [item[0]] if isinstance(item, tuple) and len(item) == 2 else [item]
        if len(item) != len(shapes):
            raise DataError(f"the model has {len(shapes)} inputs, a sample {len(item)}")
        for column, value, (name, shape) in zip(columns, item, shapes.items(), strict=True):
            array = unmasked(value, name)
            # A sample without its batch axis.
            alone = sizes(array.shape) == sizes(shape)
            column.append(array.reshape(1, *shape) if alone else in_shape(array, shape, name))
    if not columns[0]:
        raise DataError("there are no samples")
    return [np.concatenate(column) for column in columns]


def representative_labels(given: Any, data: list[Array], shape: Sequence[int | None]) -> Array:
    """Labels for an output of this shape, which tells two classes where it is one number."""
    y = as_array(given, "y")
    check_count(y, len(data[0]), "x")
    found = class_labels(y, max(2, int(np.prod([n for n in shape[1:] if n is not None]))))
    if (found < 0).all():
        raise DataError("y: no sample has a label (all are -1)")
    return found
