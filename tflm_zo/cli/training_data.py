# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""Data files as the trainer takes them: for every command that reads one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from ..data import DataError, check_labels, check_samples, load_data, quantize, real_samples
from ..runtime import Inputs

__all__ = ["load_samples"]


def load_samples(model: Inputs, path: Path) -> tuple[list[NDArray[Any]], NDArray[Any]]:
    """Samples of every input and labels of a data file, quantized and checked for the model or runtime.

    A model with one input, a mean squared error and data without y is taken for an autoencoder: its target
    is x.

    Returns:
        x and y as the runtime takes them, which is also what `Trainer.fit` and `compare_runtimes` take.

    Raises:
        DataError: they do not fit; the message says what was expected.
    """
    loss, names = model.metadata.loss, model.metadata.original.inputs
    if loss is None:
        raise DataError("the model has no loss, so there is nothing to measure; inject it with one")
    data = load_data(path, labels=loss.kind != "mse" or len(names) > 1, inputs=names)
    inputs, targets = [], data.y
    for i, (name, x) in enumerate(zip(names, data.inputs, strict=True)):
        shape, dtype, scale, zero_point = model.input_details(i)
        called = "x" if len(names) == 1 else name
        shaped = check_samples(x, shape, called)
        inputs.append(model.prepare_input(quantize(shaped, scale, zero_point, dtype, called), i, called))
        if targets is None:
            targets = real_samples(shaped, scale, zero_point, dtype, called)
    y = check_labels(targets, loss)
    if loss.kind == "mse":
        y = y.reshape(len(y), *model.label_details()[0][1:])
    elif not (y >= 0).any():
        raise DataError(f"{path}: y: no sample has a label (all are -1)")
    return inputs, model.prepare_labels(y, "y")
