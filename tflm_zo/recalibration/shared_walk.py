# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""Samples of a recalibration that workers share."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..converters import Model, load_model
from ..training.workers import Workers
from .sample_walk import Call, JointWalk, PartOfWalk, SampleWalk, Walk

__all__ = ["walk_of"]


def walk_of(
    model: Model, inputs: list[NDArray[Any]], runtime: str, threads: int, workers: Workers | None
) -> Walk:
    """Returns the walk of samples through a model, in this process or at workers.

    Args:
        model: see `SampleWalk`, like the arguments that are not described here.
        inputs: see `SampleWalk`.
        runtime: see `SampleWalk`.
        threads: number of threads of this process, where there are no workers.
        workers: workers, which are started; or None.
    """
    if workers is None:
        return SampleWalk(model, inputs, runtime, threads)
    workers.start(_make_part, model.to_bytes(), inputs, runtime)
    samples = len(inputs[0])
    parts = [rows for rows in np.array_split(np.arange(samples), workers.count) if len(rows)]

    def ask(calls: list[Call]) -> list[Any]:
        given = [(rows, calls) for rows in parts]
        return workers.call("go", given, given.__getitem__)

    return JointWalk(model, samples, ask)


class _Part:
    """A worker of a walk, which is told with each call which samples are its own."""

    def __init__(self, model: Model, inputs: list[NDArray[Any]], runtime: str) -> None:
        self._model, self._inputs, self._runtime = model, inputs, runtime
        self._walk: PartOfWalk | None = None

    def go(self, rows: NDArray[np.int_], calls: list[Call]) -> Any:
        if self._walk is None:
            self._walk = PartOfWalk(self._model, [x[rows] for x in self._inputs], self._runtime)
        return self._walk.go(calls)


def _make_part(model: bytes, inputs: list[NDArray[Any]], runtime: str) -> _Part:
    return _Part(load_model(model), inputs, runtime)
