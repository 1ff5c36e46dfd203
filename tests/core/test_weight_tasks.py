# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""Weights that are perturbed beside nodes: where queries put them, and what a step makes of losses."""

from __future__ import annotations

import math
import zlib
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers.oracle import weights as oracle
from helpers.oracle.draws import distribution_of
from helpers.oracle.scalar import query_seed
from tflm_zo import core
from tflm_zo.core import (
    CSettings,
    Distribution,
    Gaussian,
    NativeError,
    NodeAction,
    NodeControl,
    NodeRules,
    NodeTask,
    Rademacher,
    SparseUniform,
    Status,
    make_tensor,
    weight_tensors,
)

LIMIT = 110
ONE = 65536
GRADIENT, NORMALIZED, SIGN = 0, 1, 2


@dataclass(frozen=True)
class Case:
    """Settings of a run with one task of weights, or two."""

    distribution: Distribution
    one_sided: bool
    rule: int
    queries: tuple[int, ...]
    batch: int
    parts: int
    steps: int
    rate: int
    clip: int
    boundary: int
    sixteen: bool
    seed: int

    def integers(self) -> CSettings:
        return CSettings(
            run_seed=self.seed,
            steps=self.steps,
            samples=50,
            batch=self.batch,
            parts=self.parts,
            queries=1,
            estimator=int(self.one_sided),
            rule=self.rule,
            distribution=self.distribution.struct,
            rate=self.rate,
            final_rate=self.rate,
            decay_steps=1,
            clip=ONE,
        )


@st.composite
def cases(draw: st.DrawFn) -> Case:
    return Case(
        draw(
            st.sampled_from(
                [
                    Rademacher(1),
                    Rademacher(7),
                    SparseUniform(5, 0.4),
                    Gaussian(2.0),
                ]
            )
        ),
        draw(st.booleans()),
        draw(st.sampled_from([GRADIENT, NORMALIZED, SIGN])),
        tuple(draw(st.lists(st.integers(1, 4), min_size=1, max_size=2))),
        draw(st.integers(1, 3)),
        draw(st.integers(1, 3)),
        draw(st.integers(1, 3)),
        draw(st.sampled_from([1, ONE // 5, ONE, 40 * ONE])),
        draw(st.sampled_from([0, ONE // 2, 3 * ONE])),
        draw(st.sampled_from([0, 6])),
        draw(st.booleans()),
        draw(st.integers(0, 2**32 - 1)),
    )


def divide(a: int, b: int) -> int:
    """Half away from zero."""
    return (abs(a) + b // 2) // b * (1 if a >= 0 else -1)


def coefficients(case: Case, sums: list[int], mean_square: int) -> tuple[list[int], int]:
    """zo_step_size.h, in Python's integers."""
    z, count = case.distribution, len(sums)
    ds = [max(-(2**30), min(2**30, divide(d, case.batch * case.parts))) for d in sums]
    for d in ds:
        mean_square = d * d if mean_square == 0 else mean_square + (d * d - mean_square) // 32
    sides = 1 if case.one_sided else 2
    gaussian = isinstance(z, core.Gaussian)
    found = []
    for d in ds:
        if case.rule == GRADIENT:
            clipped = max(-case.clip, min(case.clip, d)) if case.clip else d
            product = divide(-clipped * case.rate, ONE)
            if gaussian:
                c = divide(product * 4096 * 49, sides * z.mu * count * 254 * 254)
            elif isinstance(z, core.Rademacher):
                c = divide(product, sides * z.mu * count)
            else:
                c = divide(product, sides * count)
        else:
            if case.rule == NORMALIZED:
                rms = math.isqrt(mean_square)
                ratio = divide(d * ONE, rms) if rms else 0
                ratio = max(-case.clip, min(case.clip, ratio)) if case.clip else ratio
                size = divide(-ratio * case.rate, ONE)
                negative = False
            else:
                size, negative = case.rate, d > 0
            c = divide(size * 7, count * 254) if gaussian else divide(size, count)
            c = -c if negative else c
            if case.rule == SIGN and d == 0:
                c = 0
        z_max = {0: 1, 1: z.mu, 2: 105}[z.kind]
        limit = 2**30 // (count * z_max)
        found.append(max(-limit, min(limit, c)))
    return found, mean_square


class Tensors:
    """The tensors of a task."""

    def __init__(self, case: Case, task: int) -> None:
        rng = np.random.default_rng([case.seed, task])
        self.streams = [3 + 2 * task, 4 + 2 * task]
        self.weights = [rng.integers(-LIMIT, LIMIT + 1, n).astype(np.int8) for n in (1500, 37)]
        self.fractions = [np.zeros(w.size, np.int8) if case.sixteen else None for w in self.weights]

    def native(self) -> Any:
        return weight_tensors(
            [
                make_tensor(w, f, None, 1, w.size, stream, LIMIT)
                for w, f, stream in zip(self.weights, self.fractions, self.streams, strict=True)
            ]
        )

    def moved(self, case: Case, before: list[Any], seed: int, k: int) -> list[Any]:
        """Where a perturbation puts them."""
        found = []
        for w, stream in zip(before, self.streams, strict=True):
            found.append(oracle.perturb(w, [(seed, k)], distribution_of(case.distribution), stream))
        return found


@settings(max_examples=60, deadline=None)
@given(cases())
def test_a_run(case: Case) -> None:
    tasks = [NodeTask(None, 2, q, 0, boundary_bytes=case.boundary) for q in case.queries]
    control = NodeControl(case.integers(), 0, tasks, NodeRules(weight_clip=case.clip))
    tensors = [Tensors(case, t) for t in range(len(tasks))]
    squares, rng = [0] * len(tasks), np.random.default_rng(case.seed)
    for step in range(case.steps):
        before = [[w.copy() for w in t.weights] for t in tensors]
        sums = [[0] * q for q in case.queries]
        total = 0
        for part in range(case.parts):
            request = control.next()
            assert (request.action, request.start_segment) == (NodeAction.FORWARD, 0)
            assert request.first_sample == (step * case.parts + part) * case.batch
            boundary = rng.integers(-128, 128, (case.batch, case.boundary)).astype(np.int8)
            for t in range(len(tasks)):
                if case.boundary:
                    control.capture_boundary(t, boundary)
            losses = rng.integers(0, 5 * ONE, case.batch).astype(np.int32)
            base = int(losses.sum())
            total += base
            control.report(losses)
            for t, queries in enumerate(case.queries):
                for q in range(queries):
                    seed = query_seed(case.seed, step, 32 * t + q)
                    for k in (1,) if case.one_sided else (1, -1):
                        request = control.next()
                        assert (request.action, request.task, request.start_segment) == (
                            NodeAction.QUERY,
                            t,
                            2,
                        )
                        if case.boundary:
                            entering = np.empty_like(boundary)
                            control.perturb(entering)
                            np.testing.assert_array_equal(entering, boundary)
                        with pytest.raises(NativeError) as error:
                            control.report(losses)  # the weights have not moved yet
                        assert error.value.status == Status.ORDER
                        control.perturb_weights(tensors[t].native())
                        control.perturb_weights(tensors[t].native())  # does nothing more
                        for own, wanted in zip(
                            tensors[t].weights, tensors[t].moved(case, before[t], seed, k), strict=True
                        ):
                            np.testing.assert_array_equal(own, wanted)
                        losses = rng.integers(0, 5 * ONE, case.batch).astype(np.int32)
                        sums[t][q] += k * int(losses.sum())
                        control.report(losses)
                    if case.one_sided:
                        sums[t][q] -= base
                assert (request := control.next()).action == NodeAction.RESTORE and request.task == t
                control.perturb_weights(tensors[t].native())
                for own, wanted in zip(tensors[t].weights, before[t], strict=True):
                    np.testing.assert_array_equal(own, wanted)
        for t, queries in enumerate(case.queries):
            request = control.next()
            assert (request.action, request.task) == (NodeAction.UPDATE, t)
            found, squares[t] = coefficients(case, sums[t], squares[t])
            steps = [
                (query_seed(case.seed, step, 32 * t + q), c)
                for q, c in zip(range(queries), found, strict=True)
            ]
            dist = distribution_of(case.distribution)
            moved = [
                oracle.update(w, f, None, 1, w.size, stream, LIMIT, dist, steps)
                for w, f, stream in zip(before[t], tensors[t].fractions, tensors[t].streams, strict=True)
            ]
            wanted_w, wanted_f = [w for w, _, _ in moved], [f for _, f, _ in moved]
            report = control.update(tensors[t].native())
            for own, wanted in zip(
                [*tensors[t].weights, *tensors[t].fractions], [*wanted_w, *wanted_f], strict=True
            ):
                np.testing.assert_array_equal(own, wanted)
            state = control.states[t]
            assert state.mantissa | state.exponent << 32 == squares[t]
            assert (report is not None) == (t == len(tasks) - 1)
        assert report is not None and report.step == step
        count = case.batch * case.parts
        assert round(report.loss * ONE) == (total + count // 2) // count
    assert control.next().action == NodeAction.DONE


@settings(max_examples=60, deadline=None)
@given(cases(), st.integers(1, 6), st.floats(0.01, 0.5))
def test_a_step_that_is_given_up_begins_anew(case: Case, times: int, share: float) -> None:
    """Given up anywhere, weights are those of the last whole step, and the run goes on to the same end."""

    def train(times: int) -> Any:
        tasks = [NodeTask(None, 2, q, 0, boundary_bytes=case.boundary) for q in case.queries]
        control = NodeControl(case.integers(), 0, tasks, NodeRules(weight_clip=case.clip))
        tensors = [Tensors(case, t) for t in range(len(tasks))]
        rng, reports = np.random.default_rng(case.seed), []

        def copies() -> list[bytes]:
            return [w.tobytes() for t in tensors for w in t.weights]

        whole = copies()
        while (request := control.next()).action != NodeAction.DONE:
            own = tensors[request.task].native()
            giving_up = bool(times) and rng.random() < share
            moves = request.action in (NodeAction.QUERY, NodeAction.RESTORE)
            if request.action == NodeAction.UPDATE:
                if giving_up:
                    with pytest.raises(NativeError) as error:
                        control.abandon(own)
                    assert error.value.status == Status.ORDER
                if (report := control.update(own)) is not None:
                    reports.append(report)
                    whole = copies()
                continue
            if giving_up:
                if request.action == NodeAction.QUERY and rng.random() < 0.5:
                    control.perturb_weights(own)
                times -= 1
                control.abandon(own if moves else None)
                assert copies() == whole
                continue
            if moves:
                control.perturb_weights(own)
            if request.action == NodeAction.FORWARD and case.boundary:
                for t in range(len(tasks)):
                    control.capture_boundary(t, np.zeros((case.batch, case.boundary), np.int8))
            if request.action != NodeAction.RESTORE:
                key = [request.first_sample, request.task, *map(zlib.crc32, copies())]
                losses = np.random.default_rng(key).integers(0, 5 * ONE, case.batch)
                control.report(losses.astype(np.int32))
        return reports, copies(), control.states

    assert train(times) == train(0)
