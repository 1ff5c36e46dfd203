# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""The weights of a snapshot log."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ..converters import Model, ZoTrainable, initial_weights, read_metadata
from ..logs import LogError, SnapshotLog

__all__ = ["snapshot_weights"]

Weights = dict[str, NDArray[np.int8]]


def snapshot_weights(model: Model, log: SnapshotLog, step: int | None = None) -> tuple[Weights, Weights]:
    """Returns the weights of a layer-wise run that its log has, without data or forward passes.

    Args:
        model: the ZO model that the log was recorded on.
        log: the log; without a snapshot, its weights are the initial ones.
        step: step of the snapshot; None: the step of the best measurement, or of the last snapshot if the run
            did not measure.

    Returns:
        Weights and (16-bit update) fractions by tensor name, int8 in the tensors' shapes, of all trainable
        tensors.

    Raises:
        LogError: the log is of another model, or has no snapshot after that step.
    """
    log.check_model(model)
    metadata = read_metadata(model)
    weights, fractions = initial_weights(model), {}
    if metadata.update_bits == 16:
        fractions = {t.name: np.zeros(t.shape, np.int8) for t in metadata.trainable}
    if step is None:
        step = log.best.step if log.best else log.snapshot.step if log.snapshot else 0
    snapshot = log.after(step)
    if snapshot is None and step:
        raise LogError(f"the log has no snapshot after {step} steps")
    if snapshot is not None:
        trained = [metadata.trainable[i] for task in log.tasks for i in task.tensors]
        size = sum(t.size for t in trained)
        weights |= _split(snapshot.weights[:size], trained)
        if metadata.update_bits == 16:
            fractions |= _split(snapshot.weights[size:], trained)
    return weights, fractions


def _split(values: NDArray[np.int8], tensors: Sequence[ZoTrainable]) -> Weights:
    parts = np.split(values, np.cumsum([t.size for t in tensors])[:-1])
    return {t.name: part.reshape(t.shape).copy() for t, part in zip(tensors, parts, strict=True)}
