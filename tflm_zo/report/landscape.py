# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""The loss around the weights that a run has kept, along two directions of random signs.

Stepping Forward on the Last Mile (QZO-FF, arXiv:2411.04036) shows such pictures of forward gradients. There
the directions are real; here they are the signs that weight perturbation draws, so that every point of the
picture is a state of int8 weights that the model can have, and the same everywhere.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import numpy as np
from numpy.typing import NDArray

from ..core import Rademacher, replay
from ..data import Data, labelled
from ..logs.replay import Arrays
from ..runtime import Runtime
from ..training.evaluation import evaluate
from .curve import rounded
from .document import Landscape
from .layers import ways_of
from .recorded_run import RecordedRun

__all__ = ["landscape_of", "offsets"]

SEEDS: Final = (1, 2)

_LARGEST: Final = 24  # LSB; a network forgets half of what it knows within 4 to 60
_SPACING: Final = 4
_MOST_SAMPLES: Final = 256


def offsets() -> list[int]:
    """Returns the distances along a direction, LSB."""
    return list(range(-_LARGEST, _LARGEST + 1, _SPACING))


def landscape_of(run: RecordedRun, runtime: Runtime, data: Data, watch: Iterable[int]) -> Landscape:
    """Returns the mean losses of the first 256 labelled samples at each point.

    Args:
        run: the run.
        runtime: the run's model, loaded; afterwards it has the weights of the run.
        data: samples and labels.
        watch: the distances of `offsets` along the second direction, e.g. with a progress bar.
    """
    loss = run.metadata.loss
    assert loss is not None  # data.prepare has refused such a model
    some = data.take(np.flatnonzero(labelled(data.labels, loss.kind))[:_MOST_SAMPLES])
    along, across = (_direction(run, seed) for seed in SEEDS)
    rows = []
    for y in watch:
        row = []
        for x in offsets():
            runtime.write_weights(_moved(run, along, x, across, y), run.fractions)
            row.append(evaluate(runtime, some).loss)
        rows.append(rounded(row))
    runtime.write_weights(run.weights, run.fractions)
    return Landscape(SEEDS, tuple(offsets()), tuple(rows), len(some))


def _direction(run: RecordedRun, seed: int) -> dict[str, NDArray[np.int8]]:
    """Returns a sign for each weight that the run trained; biases stay, whose LSB mean something else."""
    signs = {}
    for t, way in zip(run.metadata.trainable, ways_of(run), strict=True):
        if way and not t.bias:
            signs[t.name] = np.zeros(t.shape, np.int8)
            # A step whose coefficient is 1 moves each weight by its sign.
            replay(
                signs[t.name],
                None,
                None,
                t.channels,
                t.inner,
                t.stream,
                127,
                Rademacher(1),
                [[(seed, 1 << 16)]],
            )
    return signs


def _moved(
    run: RecordedRun, along: dict[str, NDArray[np.int8]], x: int, across: dict[str, NDArray[np.int8]], y: int
) -> Arrays:
    bound = 127 - run.metadata.headroom
    moved = dict(run.weights)
    for name, sign in along.items():
        wanted = (
            run.weights[name].astype(np.int16) + x * sign.astype(np.int16) + y * across[name].astype(np.int16)
        )
        moved[name] = np.clip(wanted, -bound, bound).astype(np.int8)
    return moved
