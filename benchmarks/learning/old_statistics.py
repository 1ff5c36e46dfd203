# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""Statistics of the data that a model was made for, as `convert` keeps them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tflm_zo.conversion.int8 import representative_samples
from tflm_zo.conversion.keras_source import load_keras, quiet, tensorflow_and_keras, with_fixed_batch
from tflm_zo.conversion.training_statistics import training_statistics
from tflm_zo.converters import Model
from tflm_zo.converters.channel_statistics import with_statistics
from tflm_zo.recalibration import channel_statistics_of

__all__ = ["with_old_statistics"]


def with_old_statistics(model: Model, keras_path: Path | None, x: NDArray[Any]) -> Model:
    """Returns a copy of a model that keeps statistics as `convert` writes them, wherever it was converted.

    Args:
        model: a plain int8 model.
        keras_path: the Keras model that it was made of, None if that was not published.
        x: samples of the old domain, in the units of the Keras model.
    """
    found = None
    if keras_path is not None:
        with quiet():
            tf, keras = tensorflow_and_keras()
            fixed = with_fixed_batch(keras, load_keras(keras, keras_path))
        data, _ = representative_samples(x.astype(np.float32), {t.name: tuple(t.shape) for t in fixed.inputs})
        found = training_statistics(tf, keras, fixed, model, data)
    return with_statistics(model, found or channel_statistics_of(model, x))
