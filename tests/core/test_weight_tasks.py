"""Weights that are perturbed beside nodes: their places in queries, and their steps."""

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
        draw(st.sampled_from([Rademacher(1), Rademacher(7), SparseUniform(5, 0.4), Gaussian(2.0)])),
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
    """Divides, half away from zero."""
    return (abs(a) + b // 2) // b * (1 if a >= 0 else -1)


def coefficients(case: Case, sums: list[int], mean_square: int) -> tuple[list[int], int]:
    """Computes zo_step_size.h in Python's integers."""
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
    """The tensors of a task, and as the oracle has them after the last complete step."""

    def __init__(self, case: Case, task: int) -> None:
        rng = np.random.default_rng([case.seed, task])
        self.streams = [3 + 2 * task, 4 + 2 * task]
        self.weights = [rng.integers(-LIMIT, LIMIT + 1, n).astype(np.int8) for n in (1500, 37)]
        self.fractions = [np.zeros(w.size, np.int8) if case.sixteen else None for w in self.weights]
        self.distribution = distribution_of(case.distribution)
        self.whole = [w.copy() for w in self.weights]

    def native(self) -> Any:
        return weight_tensors(
            [
                make_tensor(w, f, None, 1, w.size, stream, LIMIT)
                for w, f, stream in zip(self.weights, self.fractions, self.streams, strict=True)
            ]
        )

    def moved(self, seed: int, k: int) -> list[Any]:
        """Computes the weights after a perturbation."""
        found = []
        for w, stream in zip(self.whole, self.streams, strict=True):
            found.append(oracle.perturb(w, [(seed, k)], self.distribution, stream))
        return found

    def updated(self, steps: list[tuple[int, int]]) -> list[Any]:
        """Computes the result of steps along directions of these seeds, weights and then fractions."""
        moved = [
            oracle.update(w, f, None, 1, w.size, stream, LIMIT, self.distribution, steps)
            for w, f, stream in zip(self.whole, self.fractions, self.streams, strict=True)
        ]
        self.whole = [w for w, _, _ in moved]
        return [*self.whole, *(f for _, f, _ in moved)]


def assert_same(found: list[Any], wanted: list[Any]) -> None:
    for a, b in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(a, b)


def begin(case: Case) -> tuple[NodeControl, list[Tensors]]:
    tasks = [NodeTask(None, 2, q, 0, boundary_bytes=case.boundary) for q in case.queries]
    control = NodeControl(case.integers(), 0, tasks, NodeRules(weight_clip=case.clip))
    return control, [Tensors(case, t) for t in range(len(tasks))]


class CheckedRun:
    """A run with random losses. Every action's request and effect is checked."""

    def __init__(self, case: Case) -> None:
        self.case, self.rng = case, np.random.default_rng(case.seed)
        self.control, self.tensors = begin(case)
        self.squares = [0] * len(self.tensors)
        self.boundary = np.zeros((case.batch, case.boundary), np.int8)

    def expect(self, action: NodeAction, task: int) -> Any:
        request = self.control.next()
        assert (request.action, request.task) == (action, task)
        return request

    def report(self) -> int:
        """Returns the sum of the losses."""
        losses = self.rng.integers(0, 5 * ONE, self.case.batch).astype(np.int32)
        self.control.report(losses)
        return int(losses.sum())

    def forward(self, first_sample: int) -> int:
        """Returns the sum of the losses."""
        request = self.control.next()
        assert (request.action, request.start_segment) == (NodeAction.FORWARD, 0)
        assert request.first_sample == first_sample
        self.boundary = self.rng.integers(-128, 128, self.boundary.shape).astype(np.int8)
        for t in range(len(self.tensors)):
            if self.case.boundary:
                self.control.capture_boundary(t, self.boundary)
        return self.report()

    def query(self, task: int, seed: int, k: int) -> int:
        """Returns the sum of the losses."""
        assert self.expect(NodeAction.QUERY, task).start_segment == 2
        if self.case.boundary:
            entering = np.empty_like(self.boundary)
            self.control.perturb(entering)
            np.testing.assert_array_equal(entering, self.boundary)
        with pytest.raises(NativeError) as error:
            self.control.report(np.zeros(self.case.batch, np.int32))  # the weights have not moved yet
        assert error.value.status == Status.ORDER
        own = self.tensors[task]
        self.control.perturb_weights(own.native())
        self.control.perturb_weights(own.native())  # does nothing more
        assert_same(own.weights, own.moved(seed, k))
        return self.report()

    def restore(self, task: int) -> None:
        self.expect(NodeAction.RESTORE, task)
        self.control.perturb_weights(self.tensors[task].native())
        assert_same(self.tensors[task].weights, self.tensors[task].whole)

    def update(self, task: int, seeds: list[int], sums: list[int]) -> Any:
        """Returns the control unit's report of the step, if this was its last task."""
        self.expect(NodeAction.UPDATE, task)
        found, self.squares[task] = coefficients(self.case, sums, self.squares[task])
        own = self.tensors[task]
        wanted = own.updated(list(zip(seeds, found, strict=True)))
        report = self.control.update(own.native())
        assert_same([*own.weights, *own.fractions], wanted)
        state = self.control.states[task]
        assert state.mantissa | state.exponent << 32 == self.squares[task]
        return report


@settings(max_examples=60, deadline=None)
@given(cases())
def test_a_run(case: Case) -> None:
    run = CheckedRun(case)
    for step in range(case.steps):
        seeds = [[query_seed(case.seed, step, 32 * t + q) for q in range(n)] for t, n in enumerate(case.queries)]
        sums = [[0] * q for q in case.queries]
        total = 0
        for part in range(case.parts):
            base = run.forward((step * case.parts + part) * case.batch)
            total += base
            for t, of_task in enumerate(seeds):
                for q, seed in enumerate(of_task):
                    sums[t][q] += run.query(t, seed, 1)
                    sums[t][q] -= base if case.one_sided else run.query(t, seed, -1)
                run.restore(t)
        reports = [run.update(t, seeds[t], sums[t]) for t in reversed(range(len(seeds)))]
        assert [r is None for r in reports] == [True] * (len(seeds) - 1) + [False]
        assert reports[-1].step == step
        count = case.batch * case.parts
        assert round(reports[-1].loss * ONE) == (total + count // 2) // count
    assert run.control.next().action == NodeAction.DONE


@settings(max_examples=60, deadline=None)
@given(cases(), st.integers(1, 6), st.floats(0.01, 0.5))
def test_a_step_that_is_given_up_begins_anew(case: Case, times: int, share: float) -> None:
    """Aborts steps anywhere: weights are those of the last complete step, and the run goes on to the same end."""

    def train(times: int) -> Any:
        control, tensors = begin(case)
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
                for t in range(len(tensors)):
                    control.capture_boundary(t, np.zeros((case.batch, case.boundary), np.int8))
            if request.action != NodeAction.RESTORE:
                key = [request.first_sample, request.task, *map(zlib.crc32, copies())]
                losses = np.random.default_rng(key).integers(0, 5 * ONE, case.batch)
                control.report(losses.astype(np.int32))
        return reports, copies(), control.states

    assert train(times) == train(0)
