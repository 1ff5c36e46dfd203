# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""Weights that are perturbed beside nodes: where queries put them, what a step makes of losses, and runs."""

from __future__ import annotations

import math
import zlib
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers.injection import inject_all
from helpers.models import lenet5
from helpers.oracle import weights as oracle
from helpers.oracle.control import sample_at
from helpers.oracle.draws import distribution_of
from helpers.oracle.scalar import query_seed
from helpers.settings import layerwise_settings
from tflm_zo import core, inject
from tflm_zo.converters import read_metadata
from tflm_zo.core import (
    Coordinate,
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
from tflm_zo.training import Nodes, Settings, Trainer
from tflm_zo.training.settings import SettingsError

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
            report = control.update_weights(tensors[t].native())
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
                if (report := control.update_weights(own)) is not None:
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


# --- through the trainer ------------------------------------------------------------------------------------

RNG = np.random.default_rng(7)
X = RNG.integers(-128, 128, (24, 28, 28, 1)).astype(np.int8)
Y = RNG.integers(0, 10, 24).astype(np.int32)

TAIL = {"trainable": "all", "nodes": ("fc2", "fc3"), "headroom": 7}
HYBRIDS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "together and an exact tail": (
        TAIL,
        {"weights.scope": "model", "exact.last": 2, "weights.learning_rate": 0.5},
    ),
    "each layer, nodes and weights": (
        {"trainable": "all", "nodes": "auto"},
        {
            "weights.scope": "layers",
            "estimator": "one-sided",
            "nodes.queries": 3,
            "weights.queries": 3,
            "nodes.perturbation": 1,
        },
    ),
    "gradients of both": (
        {"trainable": "all", "nodes": "auto", "update_bits": 8},
        {
            "weights.scope": "layers",
            "estimator": "one-sided",
            "nodes.rule": "gradient",
            "nodes.gradient_norm": True,
            "nodes.quantization_aware": True,
            "weights.rule": "gradient",
            "weights.gradient_norm": True,
            "weights.quantization_aware": True,
            "learning_rate": 0.05,
            "weights.perturbation": Rademacher(1),
            "nodes.perturbation": 1,
        },
    ),
    "sparser from stage to stage": (
        TAIL,
        {
            "weights.scope": "model",
            "weights.rule": "sign",
            "weights.perturbation": SparseUniform(7, 0.33),
            "stages": (0.3, 0.6),
            "weights.stage_p_zero": (0.5, 0.9),
        },
    ),
    "ElasticZO-INT8": (
        {**TAIL, "update_bits": 8, "headroom": 15},
        {
            "weights.scope": "model",
            "exact.last": 2,
            "exact.rule": "bits",
            "weights.rule": "bits",
            "weights.perturbation": SparseUniform(15, 0.33),
            "stages": (0.3, 0.6),
            "weights.stage_p_zero": (0.5, 0.9),
        },
    ),
    "standardized, of few rows": (
        {"nodes": ("fc2", "fc3"), "trainable": "nodes"},
        {"exact.last": 2, "exact.rule": "standardized", "exact.rows": (0.1, 0.5)},
    ),
    "clamped nodes, too": (
        {"nodes": "auto", "trainable": "nodes"},
        {"nodes.masked": False},
    ),
    "no nodes": (
        {"trainable": "all"},
        {"weights.scope": "model", "weights.rule": "sign", "weights.queries": 2},
    ),
}


def run(name: str, runtime: str, log: Any = None, **fit: Any) -> tuple[Trainer, bytes]:
    injection, chosen = HYBRIDS[name]
    model = inject_all(lenet5(), batch=4, **injection)
    trainer = Trainer(
        model,
        layerwise_settings(**{"batch_size": 8, "snapshot_every": 2, "seed": 5, **chosen}),
        runtime=runtime,
    )
    trainer.fit(X, Y, steps=6, log=log, **fit, keep="last")
    weights = trainer.runtime.read_weights()
    return trainer, b"".join(weights[t.name].tobytes() for t in trainer.runtime.metadata.trainable)


@pytest.mark.parametrize("name", HYBRIDS)
def test_same_bits_in_tflm_and_after_an_interruption(name: str, tmp_path: Any) -> None:
    whole, weights = run(name, "litert-ref", tmp_path / "a.zolog")
    _, again = run(name, "tflm", tmp_path / "b.zolog")
    assert again == weights
    logs = [(tmp_path / f"{x}.zolog").read_bytes() for x in "ab"]
    assert logs[0] == logs[1]
    initial = Trainer(inject_all(lenet5(), batch=4, **HYBRIDS[name][0])).runtime.read_weights()
    changed = [not np.array_equal(initial[n], w) for n, w in whole.runtime.read_weights().items()]
    assert all(changed)

    class StoppedError(Exception):
        pass

    from tflm_zo.training import Callback

    class Interrupt(Callback):
        def on_step_end(self, trainer: Trainer, step: int, logs: dict[str, float]) -> None:
            if step == 2:
                raise StoppedError

    with pytest.raises(StoppedError):
        run(name, "litert-ref", tmp_path / "c.zolog", callbacks=[Interrupt()])
    _, resumed = run(name, "litert-ref", tmp_path / "c.zolog", resume=True)
    assert resumed == weights
    assert (tmp_path / "c.zolog").read_bytes() == logs[0]


def test_costs() -> None:
    """By counting forwards: each pass through a segment has the share that Costs says."""
    trainer, _ = run("each layer, nodes and weights", "litert-ref")
    metadata = read_metadata(inject_all(lenet5(), batch=4, **HYBRIDS["each layer, nodes and weights"][0]))
    # conv1 alone carries no nodes: its queries run the whole network, those of nodes the suffix.
    conv1, conv2, fc1, fc2, fc3 = 117600, 240000, 48000, 10080, 840
    whole = conv1 + conv2 + fc1 + fc2 + fc3
    assert [t.layer for t in metadata.trainable if t.stream == 0] == ["conv1"]
    suffixes = (fc1 + fc2 + fc3) + (fc2 + fc3) + fc3 + 0
    updates = conv2 / 4 + fc1 + fc2 + fc3
    a_sample = whole + 3 * (suffixes + whole) + updates
    assert trainer.equivalents == pytest.approx(6 * 8 * a_sample / whole)


def test_gradients_are_those_of_the_paper() -> None:
    """Rule "gradient": a step of one dense layer against equation 11 in float64."""
    model = inject(lenet5(), batch=4, nodes=("fc3",), trainable=("fc3",), headroom=2, replay=False)
    settings_ = Settings(
        tasks=(
            Nodes(
                rule="gradient",
                perturbation=2,
                queries=4,
                gradient_norm=True,
                quantization_aware=True,
            ),
        ),
        batch_size=8,
        learning_rate=0.02,
        schedule="constant",
        seed=3,
        step_clip=200.0,
    )
    trainer = Trainer(model, settings_, runtime="litert-ref")
    runtime = trainer.runtime
    name = runtime.metadata.trainable[0].name
    initial = {n: w.astype(float) for n, w in runtime.read_weights().items()}
    trainer.fit(X, Y, steps=1, keep="last")
    moved = runtime.read_weights()[name] + runtime.read_fractions()[name] / 256 - initial[name]

    from tflm_zo.training.costs import Costs, NodeCosts

    metadata = runtime.metadata
    (task,) = NodeCosts(Costs(model, metadata), settings_, metadata).tasks
    graph = model.subgraphs[metadata.trainable[0].segment]
    dense = next(op for op in graph.operators if op.inputs[1:2] and op.inputs[1].name == name)
    s_a, s_w, s_y = (
        np.asarray(t.quantization.scales, float) for t in (dense.inputs[0], dense.inputs[1], dense.outputs[0])
    )
    zero = int(dense.inputs[0].quantization.zero_points[0])
    # The same data and the same directions, at the initial weights.
    fresh = Trainer(model, settings_, runtime="litert-ref").runtime
    fresh.invoke(fresh.command(loss=False).restore())
    g = np.zeros((10, 84))
    seeds = [query_seed(3, 0, q) for q in range(4)]
    from helpers.nodes import perturb_nodes
    from tflm_zo.core import NodeLayer

    layer = NodeLayer.of(task.nodes)
    words = fresh.command().words
    order = [sample_at(3, 24, position) for position in range(8)]
    for part in range(2):
        chosen = order[4 * part : 4 * part + 4]
        fresh.feed([X[chosen]], Y[chosen])
        fresh.invoke(words, checked=True)
        a = fresh.boundary(task.nodes.input_segment).astype(float).reshape(4, -1) - zero
        y = fresh.boundary(task.nodes.node_segment).copy()
        for seed in seeds:
            losses = []
            for k in (2, -2):
                at = perturb_nodes(layer, y, seed, k, first_sample=4 * part)
                fresh.invoke(words, start=task.nodes.node_segment, boundary=at, checked=True)
                losses.append(fresh.losses().astype(float) / 65536)
            d = losses[0] - losses[1]
            up = perturb_nodes(layer, np.zeros_like(y), seed, 1, first_sample=4 * part)
            z = up.astype(float).reshape(4, -1)
            g += np.einsum("b,bi,bj->ij", d / 4, z, a) / (8 * 4)
    d_w = g * s_w.reshape(-1, 1) * s_a / s_y  # dL/dw per LSB
    factor = 32 / (32 + 10 - 1)
    wanted = -0.02 * factor * d_w / s_w.reshape(-1, 1) ** 2
    assert np.abs(wanted).max() > 1
    kept = np.clip(initial[name] + wanted, -125, 125) - initial[name]  # headroom
    np.testing.assert_allclose(moved, kept, atol=2 / 256, rtol=2e-3)


@pytest.mark.parametrize(
    ("injection", "chosen", "message"),
    [
        ({}, {}, "carries no nodes"),
        (
            {"nodes": ("fc3",)},
            {"weights.scope": "model", "weights.perturbation": Rademacher(5)},
            "headroom=5",
        ),
        ({"nodes": ("fc3",)}, {"weights.scope": "model", "weights.rule": "bits"}, "update_bits=8"),
        (
            {"nodes": ("fc3",)},
            {"weights.scope": "layers", "weights.queries": {"nix": 2}},
            "there are conv1, conv2",
        ),
        ({"nodes": ("fc2", "fc3")}, {"exact.last": 3}, "expected at most 2"),
    ],
)
def test_bad_settings(injection: dict[str, Any], chosen: dict[str, Any], message: str) -> None:
    model = inject_all(lenet5(), **injection)
    with pytest.raises(SettingsError, match=message):
        Trainer(model, layerwise_settings(**chosen))


@pytest.mark.parametrize(
    ("chosen", "message"),
    [
        ({"stages": (0.5, 0.2)}, "rising"),
        (
            {
                "stages": (0.5,),
                "weights.stage_p_zero": (0.5, 0.9),
                "weights.perturbation": SparseUniform(3),
            },
            "one share of zeros",
        ),
        ({"stages": (0.5,), "weights.stage_p_zero": (0.5,)}, "sparse uniform"),
        ({"exact.rows": (0.5, 0.1)}, "least share"),
        ({"exact.bits": (5, 4)}, "three numbers|three stages"),
        (
            {"weights.rule": "bits", "weights.perturbation": Coordinate(2)},
            "not single coordinates",
        ),
        ({"weights.bits": 8}, "weights.bits: expected an integer in 1..7"),
        ({"weights.scope": "some"}, "no 'some'; there are model, blocks, layers"),
        ({"nodes.rule": "sign"}, "no 'sign'; there are rms, gradient"),
    ],
)
def test_bad_values(chosen: dict[str, Any], message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        layerwise_settings(**chosen)
