# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""Nanoseconds a weight of the C core's operations on weights, and of copying."""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable

import numpy as np

from tflm_zo.core import Distribution, Gaussian, Rademacher, SparseUniform, make_tensor
from tflm_zo.core.arguments import pairs
from tflm_zo.core.command import make_terms
from tflm_zo.core.loader import call

__all__ = ["WEIGHTS", "nanoseconds_a_weight"]

#: Of the tensor: enough for the call from Python not to count, few enough for a second-level cache.
WEIGHTS = 1 << 18
#: Of a replay.
STEPS = 64


def _fastest(run: Callable[[], object], rounds: int) -> float:
    """Measures nanoseconds of the fastest of many calls. Other load on the machine never slows down all of
    them.
    """
    best = float("inf")
    for _ in range(rounds):
        begin = time.perf_counter_ns()
        run()
        best = min(best, time.perf_counter_ns() - begin)
    return best


def nanoseconds_a_weight(rounds: int) -> dict[str, float]:
    """Measures a perturbation, an update with one query, and a step of a replay; `copy` is memmove's."""
    rng = np.random.default_rng(0)
    weights = rng.integers(-100, 101, WEIGHTS, np.int8)
    fraction, copied = rng.integers(-128, 128, WEIGHTS, np.int8), np.empty_like(weights)
    tensors = {bits: make_tensor(weights, f, None, 1, 1, 0, 125) for bits, f in ((8, None), (16, fraction))}
    queries = pairs("queries", [(seed, (-1) ** seed * 3000) for seed in range(STEPS)], "coefficient")
    tables = [pairs("terms", [(1, k)], "k") for k in (1, -1)]
    ways = [make_terms(table) for table in tables]

    def perturb(z: Distribution) -> None:  # there and back
        for way in ways:
            call("zo_perturb_s8", tensors[8], z.struct, way)

    def update(bits: int, z: Distribution) -> None:
        call("zo_update_s8", tensors[bits], z.struct, None, queries.ctypes.data, 1, None)

    def replay(bits: int) -> None:
        call("zo_replay_s8", tensors[bits], Rademacher(1).struct, queries.ctypes.data, 1, STEPS, None)

    runs: dict[str, tuple[Callable[[], object], int]] = {
        "copy": (lambda: ctypes.memmove(copied.ctypes.data, weights.ctypes.data, WEIGHTS), 1),
        "perturb": (lambda: perturb(Rademacher(1)), 2),
        "perturb_gaussian": (lambda: perturb(Gaussian(1.0)), 2),
        "perturb_sparse": (lambda: perturb(SparseUniform(2, 0.5)), 2),
        "update_8": (lambda: update(8, Rademacher(1)), 1),
        "update_16": (lambda: update(16, Rademacher(1)), 1),
        "update_8_gaussian": (lambda: update(8, Gaussian(1.0)), 1),
        "update_16_gaussian": (lambda: update(16, Gaussian(1.0)), 1),
        "update_8_sparse": (lambda: update(8, SparseUniform(2, 0.5)), 1),
        "replay_8": (lambda: replay(8), STEPS),
        "replay_16": (lambda: replay(16), STEPS),
    }
    return {name: _fastest(run, rounds) / (WEIGHTS * times) for name, (run, times) in runs.items()}
