# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""What a run has changed in each layer: its weights before the first step and those that it handed over."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from ..converters import ZoTrainable
from ..training.recorded_costs import task_of
from ..training.tasks import Exact, Nodes, Weights
from .document import Histogram, LayerChange
from .recorded_run import RecordedRun

__all__ = ["layer_changes", "ways_of"]

_BINS: Final = 41

# What people call the tasks.
_WAYS: Final = {Nodes: "node perturbation", Exact: "exact gradient", Weights: "weight perturbation"}


def layer_changes(run: RecordedRun) -> tuple[LayerChange, ...]:
    """Returns what changed in each trainable tensor, in execution order."""
    before, bound = run.initial, 127 - run.metadata.headroom
    return tuple(
        _change(t, before[t.name], run.weights[t.name], way, bound)
        for t, way in zip(run.metadata.trainable, ways_of(run), strict=True)
    )


def ways_of(run: RecordedRun) -> list[str]:
    """Returns how the run trained each trainable tensor of the model; "" where it left it as it was."""
    if not run.log.is_layerwise:
        return [_WAYS[Weights]] * len(run.metadata.trainable)
    of = {i: _WAYS[task_of(entry)] for entry in run.log.tasks for i in entry.tensors}
    return [of.get(i, "") for i in range(len(run.metadata.trainable))]


def _change(
    t: ZoTrainable, before: NDArray[np.generic], after: NDArray[np.generic], way: str, bound: int
) -> LayerChange:
    old, new = before.astype(np.int64).ravel(), after.astype(np.int64).ravel()
    moves = new - old
    sizes = np.abs(moves)
    return LayerChange(
        layer=t.layer,
        tensor="biases" if t.bias else "weights",
        trained_by=way,
        size=int(moves.size),
        moved=int(np.count_nonzero(moves)),
        mean_move=float(f"{sizes.mean():.6g}"),
        largest_move=int(sizes.max()),
        bound=None if t.bias else bound,
        at_bound_before=0 if t.bias else int(np.count_nonzero(np.abs(old) >= bound)),
        at_bound=0 if t.bias else int(np.count_nonzero(np.abs(new) >= bound)),
        histogram=_histogram(moves) if moves.any() else None,
    )


def _histogram(moves: NDArray[np.int64]) -> Histogram:
    """The bins lie symmetrically around the one of no move: a drift is seen as one."""
    reach = int(np.abs(moves).max())
    # The least odd width with which the bins, an odd number, cover -reach .. reach.
    width = max(1, -(-(2 * reach + 1) // _BINS)) | 1
    half = max(1, -(-(reach - width // 2) // width))
    first = -half * width - width // 2
    counts = np.bincount((moves - first) // width, minlength=2 * half + 1)
    return Histogram(first, width, tuple(counts.tolist()))
