# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""A task: an int8 model as it was made, and the data that it meets afterwards."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

Labelled = tuple[NDArray[Any], NDArray[Any]]


@dataclass(frozen=True)
class Task:
    """One task, with one pre-training or one set of samples to adapt on.

    Attributes:
        model: path of the plain int8 model.
        adapt: (x, y) of the new domain, for training.
        validation: (x, y) of the new domain, for choosing settings.
        test: (x, y) of the new domain.
        old: (x, y) of the old domain, test; None if there is no old domain.
        rehearsal: (x, y) of the old domain that training may mix in.
        keras: path of the Keras model, for backpropagation in floating point; None if only the int8 model
            was published.
        calibration: x of the old domain, for converting the Keras model and as the statistics to restore.
    """

    model: Path
    adapt: Labelled
    validation: Labelled
    test: Labelled
    old: Labelled | None
    rehearsal: Labelled | None
    keras: Path | None
    calibration: NDArray[Any]


def converted(keras_model: Any, path: Path, calibration: NDArray[Any], **options: Any) -> None:
    """Writes the Keras model beside `path`, and its int8 model to `path`."""
    from tflm_zo.conversion.keras import convert

    keras_model.save(path.with_suffix(".keras"))
    convert(keras_model, calibration, **options).save(path, force=True)
