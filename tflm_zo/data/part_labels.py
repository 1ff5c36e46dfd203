"""Labels of a loss of several parts: one row of integers a sample."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..converters.metadata import ZoLoss, ZoLossPart
from ..io.arrays import as_array, class_labels, integer_labels, unmasked
from ..io.errors import DataError
from .levels import to_levels, to_real


def part_labels(y: Any, loss: ZoLoss) -> NDArray[np.int32]:
    """Returns the labels of a sum, int32 [samples, labels], the parts one after the other.

    Args:
        y: an array for each part by its key: classes, or 0 and 1, as for that loss alone, or targets in real values.
            -1, of targets NaN, stands for no label. Or an integer array that an earlier call has returned.
        loss: a loss of kind "sum".

    Raises:
        DataError: a part has no array, or an array does not fit its part.
    """
    keys = ", ".join(f"`{part.key}`" for part in loss.parts)
    if not isinstance(y, Mapping):
        given = np.asarray(y)
        if given.dtype.kind not in "iu" or given.shape[1:] != (loss.labels,) or given.min() < -1 or given.max() > 255:
            raise DataError(f"`y` must be a dictionary of labels for {keys}. Received: an array {list(given.shape)}.")
        return np.ascontiguousarray(given, np.int32)
    if set(y) != {part.key for part in loss.parts}:
        raise DataError(f"`y` must have labels for {keys}. Received: {', '.join(f'`{key}`' for key in y) or 'none'}.")
    columns = [_labels(y[part.key], part) for part in loss.parts]
    counts = {len(column) for column in columns}
    if len(counts) > 1:
        raise DataError(f"`y` must have as many samples in each part. Received: {', '.join(map(str, counts))}.")
    return np.concatenate(columns, 1)


def _labels(given: Any, part: ZoLossPart) -> NDArray[np.int32]:
    name = f"y.{part.key}"
    if part.kind == "cross_entropy":
        labels = class_labels(as_array(given, name), part.channels, part.places)
    elif part.kind == "binary_cross_entropy":
        labels = integer_labels(as_array(given, name), (part.places * part.channels,), 2)
    else:
        labels = _targets(unmasked(given, name), part, name)
    return labels.reshape(len(labels), part.places * part.labels)


def _targets(values: NDArray[Any], part: ZoLossPart, name: str) -> NDArray[np.int32]:
    """Returns targets as levels + 128, and -1 for NaN."""
    wanted = part.places * part.channels
    if values.ndim == 0 or values.dtype.kind not in "fiub" or values.size != len(values) * wanted:
        raise DataError(f"`{name}` must have {wanted} numbers per sample. Received: {list(values.shape)}.")
    real = values.astype(np.float64)
    if np.isinf(real).any():
        raise DataError(f"`{name}` must be finite, or NaN for no target. Received: infinity.")
    levels = to_levels(np.nan_to_num(real), part.scale, part.zero_point, np.dtype(np.int8)).astype(np.int32) + 128
    return np.where(np.isnan(real), np.int32(-1), levels)


def part_scores(
    outputs: list[NDArray[Any]], details: list[tuple[float, int]], labels: NDArray[np.int32], loss: ZoLoss
) -> NDArray[np.float64]:
    """Returns for each part the sum and the number of its scores, [parts, 2]: a score is 1 or 0 for a class or an
    answer that is right or wrong, or the absolute error of a target.

    Args:
        outputs: the model's outputs, [samples, ...] each.
        details: scale and zero point of each output.
        labels: int32 [samples, labels], see `part_labels`.
        loss: a loss of kind "sum".
    """
    found, at = [], 0
    for part in loss.parts:
        count = part.places * part.labels
        own = labels[:, at : at + count].reshape(len(labels), part.places, part.labels)
        at += count
        output = to_real(outputs[part.output], *details[part.output]).reshape(len(labels), part.places, -1)
        values = output[..., part.begin : part.begin + part.channels]
        if part.kind == "cross_entropy":
            scores = np.asarray(values.argmax(-1) == own[..., 0], np.float64)[..., None]
        elif part.kind == "binary_cross_entropy":
            scores = np.asarray((values > (0.5 if part.squashed else 0.0)) == own, np.float64)
        else:
            scores = np.abs(values - part.scale * (own - 128.0 - part.zero_point))
        found.append((scores[own >= 0].sum(), (own >= 0).sum()))
    return np.array(found, np.float64)
