# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""What people pass as samples and labels, as a runtime takes them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..data import to_real
from ..runtime import Runtime

__all__ = ["Samples", "prepare_labels", "prepare_samples"]

Samples = NDArray[Any] | Sequence[NDArray[Any]] | Mapping[str, NDArray[Any]]
"""Samples of a data set: an array [samples, ...] for a model with one input; else a list or tuple of such
arrays in the order of the model's inputs, or a dictionary by their names."""


def prepare_samples(runtime: Runtime, x: Samples) -> list[NDArray[Any]]:
    """The samples of every input, [samples, ...] each, as the runtime takes them.

    Args:
        runtime: a loaded model.
        x: see `Samples`; int8 as the input or floating point in its units.

    Raises:
        ValueError: wrong number or names of arrays, wrong shape or dtype, NaN, infinity, or no samples.
    """
    names = runtime.metadata.original.inputs
    arrays = _in_order(x, names)
    called = ["x"] if len(arrays) == 1 else [f"x[{name!r}]" for name in names]
    prepared = [runtime.prepare_input(array, i, called[i]) for i, array in enumerate(arrays)]
    for array, name in zip(prepared, called, strict=True):
        if len(array) != len(prepared[0]):
            raise ValueError(
                f"{name}: expected {len(prepared[0])} samples like {called[0]}, got {len(array)}"
            )
    return prepared


def _in_order(x: Samples, names: tuple[str, ...]) -> list[Any]:
    if isinstance(x, Mapping):
        if set(x) != set(names):
            raise ValueError(
                f"x: expected the model's inputs {', '.join(names)}; got {', '.join(x) or 'none'}"
            )
        return [x[name] for name in names]
    arrays = list(x) if isinstance(x, list | tuple) else [x]
    if len(arrays) != len(names):
        raise ValueError(
            f"x: the model has {len(names)} input(s) ({', '.join(names)}), got {len(arrays)} array(s); "
            "give one array [samples, …] for each"
        )
    return arrays


def prepare_labels(runtime: Runtime, x: Samples, y: NDArray[Any] | None, samples: int) -> NDArray[Any]:
    """Labels or targets of so many samples, as the runtime takes them.

    Args:
        runtime: a loaded model.
        x: the samples as they were given.
        y: labels; None only where the loss is the mean squared error: an autoencoder's target is x.
        samples: number of them.

    Raises:
        ValueError: no labels, wrong number, shape, dtype or range.
    """
    loss = runtime.metadata.loss
    if y is None and loss is not None:
        if loss.kind != "mse":
            raise ValueError(f"y: no labels, but the model's loss ({loss.kind}) needs them")
        y = _reconstruction(runtime, x)
    # A runtime without a loss says so itself.
    labels = runtime.prepare_labels(np.asarray(y), name="y")
    if len(labels) != samples:
        raise ValueError(f"y: expected {samples} labels like samples, got {len(labels)}")
    return labels


def _reconstruction(runtime: Runtime, x: Samples) -> NDArray[Any]:
    """The samples in real values, shaped like the targets."""
    shape = runtime.label_details()[0][1:]
    (first, *more) = _in_order(x, runtime.metadata.original.inputs)
    array = np.asarray(first)
    if more or array.size != len(array) * int(np.prod(shape)):
        raise ValueError(
            f"y: no targets, and x of shape {list(array.shape)} cannot be the target: "
            f"expected [samples, {', '.join(map(str, shape))}]"
        )
    _, _, scale, zero_point = runtime.input_details()
    return to_real(array, scale, zero_point).reshape(len(array), *shape)
