# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""A training run on random data, for measurements of speed alone."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tflm_zo import inject
from tflm_zo.converters import Model
from tflm_zo.runtime import Runtime

__all__ = ["HEADROOM", "random_data", "trainable_model"]

HEADROOM = 2


def trainable_model(model: Model, batch: int) -> Model:
    """Makes the ZO model with all weights trainable and a 16-bit update.

    Args:
        model: a plain int8 model.
        batch: samples per invoke.
    """
    return inject(model, trainable="all", nodes=(), headroom=HEADROOM, batch=batch, replay=True)


def random_data(runtime: Runtime, samples: int) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """Samples [samples, ...] over the input's whole range and labels [samples], the same in every run.

    Raises:
        SystemExit: the model is no classifier.
    """
    shape, dtype, _, _ = runtime.input_details()
    rng = np.random.default_rng(0)
    x = rng.integers(-128, 128, (samples, *shape[1:])).astype(dtype)
    loss = runtime.metadata.loss
    if loss is None or not loss.of_classes:
        raise SystemExit(f"expected a classifier, got a model with loss {loss.kind if loss else None}")
    return x, rng.integers(0, loss.elements, samples)
