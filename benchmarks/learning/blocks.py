# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""The choice of the block of layers that is trained alone (Poor Man's Training, sec. 3.3)."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from tflm_zo.converters import Model, read_metadata
from tflm_zo.training import Settings, Trainer, trained_layers
from tflm_zo.training.run_data import held_out_samples

_HELD_OUT = 0.2  # share of the samples that judge the blocks


def best_block(
    model: Model, settings: Settings, x: Any, y: Any, *, blocks: int, epochs: int, runtime: str = "litert"
) -> tuple[tuple[str, ...], float]:
    """Trains each block of layers alone, from the model's initial weights, and measures it on held-out samples.

    Args:
        model: the ZO model of a classifier.
        settings: settings of the run, whose layers are split into consecutive blocks of nearly equal size.
        x: samples.
        y: labels.
        blocks: number of blocks.
        epochs: epochs of each trial.
        runtime: name of the runtime.

    Returns:
        Layers of the block with the most right answers, the first one of equals, and the forward equivalents of the
        choice.
    """
    held = held_out_samples(np.asarray(y), read_metadata(model).known_loss, _HELD_OUT, settings.seed)
    rest = np.setdiff1d(np.arange(len(y)), held)
    parts = [tuple(map(str, part)) for part in np.array_split(trained_layers(model, settings).layers, blocks)]
    # The results in docs/results.md also count a measurement of the initial weights.
    scores, equivalents = list[float](), float(len(held))
    for layers in parts:
        trainer = Trainer(model, dataclasses.replace(settings, layers=layers), runtime=runtime)
        trainer.fit(x[rest], y[rest], epochs=epochs, keep="last")
        scores.append(trainer.evaluate(x[held], y[held])["accuracy"])
        equivalents += trainer.equivalents + len(held)
    return parts[int(np.argmax(scores))], equivalents
