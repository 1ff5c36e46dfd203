"""The control unit of node perturbation against its oracle: order, seeds, differences, updates, going on."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers.oracle import node_run as oracle
from helpers.oracle import nodes as node_oracle
from helpers.oracle.fixed_losses import cross_entropy_error
from helpers.oracle.node_draws import native
from helpers.oracle.node_run import CONSTANT, FORWARD, LINEAR, ONE, QUERY, STEP, UPDATE, Settings, Task
from tflm_zo.core import (
    CSettings,
    ModelLoss,
    NativeError,
    NodeAction,
    NodeControl,
    NodeRules,
    NodeState,
    NodeTask,
    Rademacher,
    make_tensor,
    weight_tensors,
)

LIMIT = 120
LOSS = ModelLoss("cross_entropy", 0.1, 0)


def of_layer(weights: Any, fraction: Any = None, stream: int = 0, limit: int = LIMIT) -> Any:
    """Returns the filter of a layer in the control unit's form."""
    return weight_tensors([make_tensor(weights, fraction, None, 1, 1, stream, limit)])


# The same geometry for the core and for the oracle.
ORACLE_LAYERS = [
    node_oracle.Layer(node_oracle.PLAIN, (1, 1, 7), (1, 1), (1, 1), (1, 1), (0, 0), (1, 1, 5), (1, 1)),
    node_oracle.Layer(
        node_oracle.MAX_POOL,
        (6, 5, 2),
        (3, 2),
        (1, 1),
        (1, 1),
        (1, 0),
        (6, 4, 3),
        (3, 2),
        (2, 2),
        (2, 2),
        zero_point=-9,
        low=-20,
    ),
    node_oracle.Layer(node_oracle.MEAN, (4, 4, 2), (2, 2), (1, 1), (1, 1), (0, 0), (3, 3, 4), (1, 1), low=-30, high=90),
    node_oracle.Layer(node_oracle.PLAIN, (5, 5, 1), (3, 3), (2, 2), (1, 1), (1, 1), (3, 3, 2), (3, 3), low=-10),
    node_oracle.Layer(
        node_oracle.PLAIN, (1, 1, 6), (1, 1), (1, 1), (1, 1), (0, 0), (1, 1, 9), (1, 1), low=-50, high=70
    ),
]


LAYERS = [native(o) for o in ORACLE_LAYERS]


def integers(s: Settings) -> CSettings:
    return CSettings(
        run_seed=s.run_seed,
        steps=s.steps,
        samples=s.samples,
        batch=s.batch,
        parts=s.parts,
        queries=1,
        distribution=Rademacher(2).struct,
        rate=s.rate,
        final_rate=s.final_rate,
        schedule=s.schedule,
        warmup_steps=s.warmup_steps,
        decay=s.decay,
        decay_steps=s.decay_steps,
        clip=s.clip,
    )


def layer_of(s: Settings, task: int) -> int:
    """Returns the number of a task's layer: a dense one for exact heads, without and with a clamp; else any."""
    return 4 * (task % 2) if s.tasks[task].queries == 0 else task % len(LAYERS)


def exact_rule(s: Settings) -> int:
    """Returns the rule of exact tasks: half of the runs have RMS of errors as they are, the others of errors of 1."""
    return 4 * (s.run_seed % 2)


def make(s: Settings) -> NodeControl:
    tasks = [
        NodeTask(LAYERS[layer_of(s, t)], task.start_segment, task.queries, task.mu, task.rate)
        for t, task in enumerate(s.tasks)
    ]
    return NodeControl(integers(s), s.first_segment, tasks, rules=NodeRules(exact_rule=exact_rule(s)))


@st.composite
def any_settings(draw: st.DrawFn) -> Settings:
    tasks = [
        Task(
            start_segment=draw(st.integers(0, 9)),
            queries=draw(st.sampled_from([0, 1, 2, 3, 32])),
            mu=draw(st.sampled_from([1, 2, 127])),
            rate=draw(st.sampled_from([0, 1000, ONE, 2**24 - 1])),
        )
        for _ in range(draw(st.integers(1, 4)))
    ]
    rate = draw(st.sampled_from([1, ONE // 3, ONE, 50 * ONE, 2**31 - 1]))
    return Settings(
        tuple(tasks),
        run_seed=draw(st.integers(0, 2**32 - 1)),
        steps=draw(st.integers(1, 4)),
        samples=draw(st.integers(1, 20)),
        batch=draw(st.integers(1, 3)),
        parts=draw(st.integers(1, 3)),
        rate=rate,
        final_rate=draw(st.integers(0, rate)),
        schedule=draw(st.sampled_from([CONSTANT, LINEAR, STEP])),
        warmup_steps=draw(st.integers(0, 3)),
        decay=draw(st.integers(0, ONE)),
        decay_steps=draw(st.integers(1, 2)),
        clip=draw(st.sampled_from([1, 4 * ONE, 2**24])),
        first_segment=draw(st.integers(0, 3)),
    )


class World:
    """An interpreter's results, random but always the same for the same request, and weights."""

    def __init__(self, s: Settings) -> None:
        self.s = s
        rng = np.random.default_rng(s.run_seed)
        sizes = [LAYERS[layer_of(s, t)].weights for t in range(len(s.tasks))]
        self.weights = [rng.integers(-LIMIT, LIMIT + 1, n).astype(np.int8) for n in sizes]
        # Every other task has the 8-bit update.
        self.fractions = [None if t % 2 else np.zeros(n, np.int8) for t, n in enumerate(sizes)]

    def rng(self, *key: int) -> np.random.Generator:
        return np.random.default_rng([self.s.run_seed, *key])

    def activations(self, step: int, part: int, task: int) -> tuple[Any, Any, Any, Any]:
        """Returns inputs, outputs, nodes and labels."""
        layer, batch, rng = LAYERS[layer_of(self.s, task)], self.s.batch, self.rng(1, step, part, task)
        shapes = [
            (batch, layer.input_bytes),
            (batch, layer.out_h, layer.out_w, layer.out_c),
            (batch, layer.node_h, layer.node_w, layer.out_c),
        ]
        inputs, outputs, nodes = (rng.integers(-128, 128, shape).astype(np.int8) for shape in shapes)
        return inputs, outputs, nodes, rng.integers(-1, layer.out_c, batch).astype(np.int32)

    def losses(self, r: oracle.Request) -> Any:
        rng = self.rng(2, r.step, r.part, r.task, r.query, r.side + 1, r.action)
        return rng.integers(0, rng.choice([3, 4 * ONE, 2**31 - 1]), self.s.batch).astype(np.int32)

    def state(self) -> list[bytes]:
        return [w.tobytes() for w in [*self.weights, *(f for f in self.fractions if f is not None)]]

    def copy(self) -> World:
        other = World(self.s)
        other.weights = [w.copy() for w in self.weights]
        other.fractions = [None if f is None else f.copy() for f in self.fractions]
        return other


def expected_update(world: World, step: int, task: int, state: NodeState) -> NodeState:
    """Computes the update of one task from newly collected arguments, and the new running mean."""
    s, layer = world.s, ORACLE_LAYERS[layer_of(world.s, task)]
    t = s.tasks[task]
    parts = [world.activations(step, part, task) for part in range(s.parts)]
    # A head's outputs are its logits.
    inputs, outputs = (np.concatenate([p[i] for p in parts]) for i in (0, 1 if t.queries else 2))
    differences, errors, per_error = None, None, None
    if t.queries:

        def losses(query: int, side: int) -> Any:
            asked = [oracle.Request(QUERY, step, part, task, t.start_segment, query, side) for part in range(s.parts)]
            return np.concatenate([world.losses(r) for r in asked]).astype(np.int64)

        differences = np.array([losses(q, 1) - losses(q, -1) for q in range(t.queries)])
    else:
        errors = np.concatenate([cross_entropy_error(p[2].reshape(s.batch, -1), p[3], 0.1) for p in parts])
        if not exact_rule(s):
            squares = max(1, sum(int(v) ** 2 for v in errors.ravel()))
            per_error = oracle.Scale.of(s.minibatch, 30).over(oracle.Scale.of(squares))
    seeds = [s.seed(step, task, q) for q in range(t.queries)]
    e, shift = node_oracle.errors(layer, differences, seeds, errors, s.minibatch)
    g = node_oracle.gradient(
        layer,
        e,
        inputs.reshape(-1, *layer.inputs).astype(np.int64),
        outputs.reshape(-1, *layer.outputs).astype(np.int64),
    )
    mean = oracle.Scale(state.mantissa, state.exponent)
    steps, mean = oracle.steps(g, shift, mean, s.task_rate(step, task), s.clip, per_error)
    if steps is not None:
        own = world.weights[task], world.fractions[task], steps, LIMIT
        oracle.move(*own, s.rounding_seed(step, task), task, layer.outputs[2])
    return NodeState(mean.mantissa, mean.exponent)


def check_perturbed(world: World, r: oracle.Request, captured: Any, moved: Any) -> None:
    s, layer = world.s, ORACLE_LAYERS[layer_of(world.s, r.task)]
    for b in range(s.batch):
        flat = captured[b].reshape(layer.positions, -1).astype(np.int64)
        seed, k = s.seed(r.step, r.task, r.query), r.side * s.tasks[r.task].mu
        wanted = node_oracle.perturb(layer, flat, seed, r.part * s.batch + b, k)
        np.testing.assert_array_equal(moved[b].reshape(flat.shape), wanted)


def drive(world: World, control: NodeControl, first_step: int = 0, together: int = 1) -> list[tuple[Any, Any, Any]]:
    """Runs the core beside the oracle, evaluations `together`; returns (weights, states, World) after every step."""
    s = world.s
    mine, states = world.copy(), control.states
    results, total = [], 0
    captured: dict[int, Any] = {}
    moved: list[Any] = []  # perturbed nodes of evaluations that were asked for already
    seen: list[Any] = []  # losses that are reported together
    for expected in oracle.requests(s, first_step):
        if moved:
            check_perturbed(world, expected, captured[expected.task], moved.pop(0))
            seen.append(world.losses(expected))
            if not moved:
                control.report(np.concatenate(seen))
                seen.clear()
            continue
        request = control.next()
        assert control.next() == request
        assert (int(request.action), request.step) == (expected.action, expected.step)
        if expected.action != UPDATE:
            assert request.start_segment == expected.start_segment
            assert request.first_sample == (expected.step * s.parts + expected.part) * s.batch
        if expected.action == FORWARD:
            for t in range(len(s.tasks)):
                inputs, outputs, nodes, labels = world.activations(expected.step, expected.part, t)
                if s.tasks[t].queries:
                    control.capture(t, inputs, outputs, nodes)
                else:
                    control.capture_head(t, inputs, nodes, LOSS, labels)
                captured[t] = nodes
            losses = world.losses(expected)
            total += int(losses.astype(np.int64).sum())
            control.report(losses)
        elif expected.action == QUERY:
            t = expected.task
            assert request.task == t
            left = (s.tasks[t].queries - expected.query) * 2 - (expected.side < 0)
            assert control.evaluations == left
            count = min(left, together)
            nodes = np.empty((count, *captured[t].shape), np.int8)
            control.perturb(nodes)
            check_perturbed(world, expected, captured[t], nodes[0])
            moved, seen = list(nodes[1:]), [world.losses(expected)]
            if count == 1:
                control.report(seen.pop())
        else:
            t = expected.task
            assert request.task == t
            report = control.update(of_layer(world.weights[t], world.fractions[t], t))
            states[t] = expected_update(mine, expected.step, t, states[t])
            assert control.states[t] == states[t]
            assert world.state() == mine.state()
            assert (report is not None) == (t == 0)
            if report is not None:
                assert (report.step, control.step) == (expected.step, expected.step + 1)
                assert round(report.rate * ONE) == s.rate_at(expected.step)
                assert round(report.loss * ONE) == (total + s.minibatch // 2) // s.minibatch
                total = 0
                results.append((world.state(), control.states, world.copy()))
    assert control.next().action == NodeAction.DONE
    assert control.step == s.steps
    return results


@settings(max_examples=30)
@given(any_settings(), st.sampled_from([1, 1, 2, 3, 64]))
def test_a_run(s: Settings, together: int) -> None:
    """Order, seeds, perturbed nodes; and updates that know the right differences, routes and inputs."""
    drive(World(s), make(s), together=together)


def test_no_more_evaluations_than_are_left() -> None:
    control = make(Settings((Task(1, 3),), batch=2))
    assert control.evaluations == 0  # a forward pass is asked for
    control.capture(0, *(np.zeros((2, n), np.int8) for n in (LAYERS[0].input_bytes, 5, 5)))
    control.report(np.ones(2, np.int32))
    assert control.evaluations == 6
    with pytest.raises(NativeError):
        control.perturb(np.zeros((7 * 2, 5), np.int8))
    with pytest.raises(NativeError):
        control.report(np.ones(7 * 2, np.int32))
    with pytest.raises(ValueError, match="2 x 5 values for each evaluation"):
        control.perturb(np.zeros((3, 5), np.int8))
    with pytest.raises(ValueError, match="must have 2 values for each evaluation. Received: 3"):
        control.report(np.ones(3, np.int32))
    assert control.evaluations == 6


@pytest.mark.slow
@settings(max_examples=10)
@given(any_settings(), st.integers(0, 3))
def test_going_on_after_any_step(s: Settings, at: int) -> None:
    whole = drive(World(s), make(s))
    at = min(at, s.steps - 1)
    _, states, world = whole[at]
    control = make(s)
    # A step that was in progress before is forgotten.
    if control.next().action == NodeAction.FORWARD:
        control.report(np.ones(s.batch, np.int32))
    control.resume(at + 1, states, 0)
    rest = drive(world, control, at + 1)
    assert [(r[0], r[1]) for r in rest] == [(w[0], w[1]) for w in whole[at + 1 :]]


def test_seeds_differ() -> None:
    """Compares all seeds: no two directions of a run have the same, nor the rounding of an update."""
    s = Settings((Task(1, 31), Task(2, 31), Task(3, 31)), steps=50)
    seeds = [s.seed(step, t, q) for step in range(50) for t in range(3) for q in range(32)]
    assert len(set(seeds)) == len(seeds)


def test_the_loss_of_a_step_is_the_unperturbed_one() -> None:
    s = Settings((Task(1, 3),), steps=1, batch=2, parts=2)
    control = make(s)
    while (request := control.next()).action != NodeAction.UPDATE:
        if request.action == NodeAction.FORWARD:
            layer = LAYERS[0]
            control.capture(0, *(np.zeros((2, n), np.int8) for n in (layer.input_bytes, 5, 5)))
            control.report(np.array([1, 2], np.int32) * ONE)
        else:
            control.report(np.array([7, 9], np.int32) * ONE)
    report = control.update(of_layer(np.zeros(35, np.int8)))
    assert report is not None and report.loss == 1.5
