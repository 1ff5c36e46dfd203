# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""Pre-training with backpropagation, in Keras."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray


def pretrain(
    model: Any, x: NDArray[np.floating[Any]], y: NDArray[np.integer[Any]], epochs: int = 20, seed: int = 0
) -> None:
    """Trains a classifier that ends in softmax with Adam, in place; the same result on the same machine.

    Args:
        model: a compiled or uncompiled Keras model; its initial weights are the caller's
            (``keras.utils.set_random_seed`` before it is built makes them repeatable).
        x: inputs of the model, [samples, ...].
        y: class numbers, integers [samples].
        epochs: passes over the data.
        seed: seed of the order of the samples.
    """
    import keras

    keras.utils.set_random_seed(seed)
    model.compile(optimizer=keras.optimizers.Adam(2e-3), loss="sparse_categorical_crossentropy")
    model.fit(x, y, batch_size=32, epochs=epochs, verbose=0)
