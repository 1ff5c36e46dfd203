# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""The control unit against its oracle: commands, coefficients, schedules, samples, settling, going on."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers import core
from helpers.oracle import chain as several_seeds
from helpers.oracle import control as oracle
from helpers.oracle.control import COSINE, LINEAR, NORMALIZED, ONE, Settings
from helpers.oracle.draws import distributions, native, seeds
from helpers.oracle.stream import Dist, direction, perturbation
from tflm_zo.core import Control, CSettings, NativeError, Status, command_check, command_words, library


def integers(s: Settings) -> CSettings:
    return CSettings(
        *(s.run_seed, s.steps, s.samples, s.batch, s.parts, s.queries, int(s.one_sided), s.rule),
        *(native(s.dist).struct, s.rate, s.final_rate, s.schedule, s.warmup_steps, s.decay, s.decay_steps),
        *(s.clip, s.gradient_norm, len(s.segments)),
        chain=s.chain if s.memory else 0,
        momentum=s.memory,
        sharpness=s.sharpness,
    )


def needed(s: Settings) -> int:
    return command_words(integers(s))


def make(s: Settings, spare: int = 0) -> Control:
    return Control(integers(s), needed(s) + spare, list(s.segments))


def state(control: Control) -> bytes:
    return bytes(control._control)


rates = st.one_of(st.integers(1, 2**31 - 1), st.integers(1, 100 * ONE), st.integers(1, 100))


@st.composite
def any_settings(draw, distribution=distributions, most_steps=5):
    rate, one_sided = draw(rates), draw(st.booleans())
    dist, queries = draw(distribution), draw(st.one_of(st.integers(1, 4), st.just(32)))
    chain, memory = 1, 0
    if dist.kind == 2 and queries <= 16 and draw(st.booleans()):
        chain, memory = draw(st.integers(2, min(8, 32 // queries))), draw(st.integers(1, 65535))
    return Settings(
        run_seed=draw(seeds),
        steps=draw(st.integers(1, most_steps)),
        samples=draw(st.integers(1, 50)),
        batch=draw(st.integers(1, 4)),
        parts=draw(st.integers(1, 3)),
        queries=queries,
        one_sided=one_sided,
        rule=draw(st.integers(0, 2)),
        dist=dist,
        rate=rate,
        final_rate=draw(st.integers(0, rate)),
        schedule=draw(st.integers(0, 3)),
        warmup_steps=draw(st.integers(0, 4)),
        decay=draw(st.integers(0, ONE)),
        decay_steps=draw(st.integers(1, 3)),
        clip=draw(st.one_of(st.just(0), st.integers(1, 10 * ONE))),
        gradient_norm=draw(st.one_of(st.just(0), st.integers(1, 10**6))),
        segments=tuple(draw(st.lists(st.integers(0, 3), max_size=3))),
        sharpness=draw(st.booleans()) and not one_sided,
        chain=chain,
        memory=memory,
    )


def random_losses(rng: np.random.Generator, count: int, kind: int) -> np.ndarray:
    if kind == 0:
        return rng.integers(2 * ONE, 3 * ONE, count).astype(np.int32)
    if kind == 1:
        return rng.integers(-(2**31), 2**31, count).astype(np.int32)
    return rng.choice([-(2**31), -1, 0, 1, 2**31 - 1], count).astype(np.int32)


def drive(s: Settings, control: Control, losses_of, *, settle=frozenset(), model=None, each=None):
    """Runs the core beside the oracle; returns (coefficients, mean square) of every step."""
    model = model or oracle.Control(s)
    limits = {
        "headroom": s.dist.reach,
        "max_queries": s.queries * s.chain,
        "blocks": max(1, len(s.segments)),
    }
    record = []
    while model.step < s.steps:
        before = control._control.mean_square
        step, report = model.step, None
        for expected in model.invokes():
            assert report is None
            request = control.next()
            used = len(expected.words)
            assert request.words[:used].tolist() == expected.words
            assert not request.words[used:].any()
            assert used <= needed(s)
            command_check(request.words, **limits)
            assert request.step == expected.step == control.step
            assert request.first_sample == expected.first_sample
            assert request.start_segment == expected.start_segment
            if each is not None:
                each(expected)
            model.losses.append(losses_of(expected).tolist())
            report = control.report(np.array(model.losses[-1], np.int32))
        assert report is not None and report.step == step
        total = sum(map(sum, model.losses)) / (s.evaluations * s.minibatch)
        assert abs(control.mean_loss - total) <= 0.5
        assert report.loss * ONE == control.mean_loss
        check_coefficients(s, model.differences(), control, report, before)
        model.finish(control.coefficients)
        record.append((control.coefficients, control._control.mean_square))
        if model.step in settle:
            words = control.settle()
            expected_words = model.settle()
            assert words[: len(expected_words)].tolist() == expected_words
            assert not words[len(expected_words) :].any()
            command_check(words, **limits)
            if each is not None:
                each(None)
            assert control.settle() is None
    assert control.next() is None
    with pytest.raises(NativeError):
        control.report(np.zeros(s.batch, np.int32))
    return record


def check_coefficients(s, differences, control, report, before):
    mean_square = before
    signs = [(d > 0) - (d < 0) for d in differences]
    sizes = [(2 * abs(d) + s.minibatch) // (2 * s.minibatch) for d in differences]
    means = [sign * min(size, 2**30) for sign, size in zip(signs, sizes, strict=True)]
    for d in means:  # rounded down at each query, so that zero is reached
        mean_square = d * d if mean_square == 0 else mean_square + (d * d - mean_square) // 32
    after = control._control.mean_square
    assert after == mean_square
    rms = math.sqrt(after)
    step_rate = report.rate * ONE
    for d, c in zip(means, control.coefficients, strict=True):
        if s.rule == NORMALIZED and rms < 1:
            assert c == 0
            continue
        ideal, slack = oracle.coefficient(s, d, step_rate, rms)
        assert abs(c - ideal) <= slack, (d, c, ideal, slack)
        assert c * d <= 0


@given(
    any_settings(), st.integers(0, 2**32), st.integers(0, 2), st.sets(st.integers(1, 5)), st.integers(0, 9)
)
def test_commands_and_coefficients(s, seed, kind, settle, spare):
    rng = np.random.default_rng(seed)
    control = make(s, spare)
    drive(s, control, lambda _: random_losses(rng, s.batch, kind), settle=settle)
    for step in (0, s.steps - 1):
        assert control.rate(step) * ONE <= s.rate


@settings(max_examples=40)
@given(any_settings(), st.integers(0, 2**32), st.integers(0, 2), st.sets(st.integers(1, 5)), st.data())
def test_settling_and_going_on_change_nothing(s, seed, kind, settle, data):
    def losses(invoke):
        carried = [number for chain, k in invoke.carried for number in (*chain, k + 1)]
        rng = np.random.default_rng([seed, invoke.first_sample, *carried])
        return random_losses(rng, s.batch, kind)

    plain = drive(s, make(s), losses)
    assert drive(s, make(s), losses, settle=settle) == plain
    at = data.draw(st.integers(0, s.steps))
    resumed = make(s)
    resumed.resume(at, plain[at - 1][1] if at else 0)
    assert drive(s, resumed, losses, model=oracle.Control(s, at)) == plain[at:]


small = st.one_of(
    st.builds(Dist, st.just(0), st.integers(1, 6)),
    st.builds(Dist, st.just(1), st.integers(1, 6), st.integers(0, 255)),
    st.builds(Dist, st.just(2), st.integers(1, 200)),
)


@settings(max_examples=40)
@given(any_settings(small), st.integers(0, 2**32), st.sets(st.integers(1, 5)), st.booleans())
def test_weights_are_restored_and_never_wrap(s, seed, settle, has_fraction):
    """After every command: initial weights + updates + the one perturbation in force, within -127..127."""
    rng, size = np.random.default_rng(seed), 70
    limit = 127 - s.dist.reach * (2 if s.sharpness else 1)
    tensors = max(1, len(s.segments))
    real = [rng.integers(-limit, limit + 1, size).astype(np.int8) for _ in range(tensors)]
    clean = [w.copy() for w in real]
    fractions = [np.zeros(size, np.int8) if has_fraction else None for _ in real]
    clean_fractions = [None if f is None else f.copy() for f in fractions]
    control = make(s)
    z = native(s.dist)

    def execute(words):
        at, end = 2, 2 + words[1]
        while at < end:
            opcode, block, n = words[at] >> 24, words[at] & 0xFFFFFF, int(words[at + 1])
            items = n + (int(words[at + 3]) & 0xFFFF if opcode == 3 else 0)
            rho = int(words[at + 3]) >> 16 & 0xFFFF
            pairs = [(int(a) % 2**32, int(b)) for a, b in words[at + 4 : at + 4 + 2 * items].reshape(-1, 2)]
            for t in range(tensors):
                if block in (0, t + 1):
                    if opcode == 3:
                        step, undo = pairs[:n], pairs[n:]
                        at_t = (None, 1, 1, t, limit, z, step)
                        core.update(real[t], fractions[t], *at_t, restore=undo, momentum=rho)
                        core.update(clean[t], clean_fractions[t], *at_t)
                    else:
                        core.perturb(real[t], pairs, z, t, momentum=rho)
            at += 4 + 2 * items

    def each(invoke):
        execute(control._words)
        for t in range(tensors):
            wanted = clean[t].astype(np.int64)
            if invoke is not None and invoke.block in (None, t):
                for chain, k in invoke.carried:
                    if len(chain) > 1:
                        wanted += k * several_seeds.perturbation(s.dist, chain, s.memory, t, size)
                    else:
                        wanted += k * perturbation(s.dist, direction(s.dist, chain[0], t, size))
            assert np.abs(wanted).max() <= 127
            assert np.array_equal(real[t], wanted)

    losses = lambda _: random_losses(rng, s.batch, 0)  # noqa: E731
    drive(s, control, losses, settle={*settle, s.steps}, each=each)
    for t in range(tensors):
        assert np.array_equal(real[t], clean[t])
        assert np.abs(real[t].astype(int)).max() <= limit
        assert fractions[t] is None or np.array_equal(fractions[t], clean_fractions[t])


# --- schedules --------------------------------------------------------------------------------------------


def rate_of(s: Settings, step: int) -> int:
    return int(library().zo_control_rate(integers(s), step))


@given(any_settings(most_steps=10**6), st.data())
def test_rates(s, data):
    s = replace(s, warmup_steps=data.draw(st.integers(0, 2 * s.steps)), batch=1, parts=1)
    s = replace(s, decay_steps=data.draw(st.integers(1, s.steps)))
    step = data.draw(st.integers(0, s.steps - 1))
    expected, actual = oracle.rate(s, step), rate_of(s, step)
    # Each of up to three truncations takes less than one; the step schedule truncates at every decay.
    slack = 3.0 + 1e-9 * expected
    if s.schedule == COSINE:
        slack += 1e-3 * (s.rate - s.final_rate)
    if s.schedule == oracle.STEP:
        slack += min(step // s.decay_steps, 2.0 / (1.0 - min(s.decay, ONE - 1) / ONE))
    assert abs(actual - expected) <= slack


@pytest.mark.parametrize("steps", [2, 3, 10, 1000])
def test_linear_exactly(steps):
    s = Settings(steps=steps, rate=7 * (steps - 1) + 3, final_rate=3, schedule=LINEAR)
    assert [rate_of(s, t) for t in range(steps)] == [7 * (steps - 1 - t) + 3 for t in range(steps)]


def test_cosine_from_end_to_end():
    s = Settings(steps=1001, rate=2**30, final_rate=2**20, schedule=COSINE)
    values = np.array([rate_of(s, t) for t in range(1001)], float)
    exact = 2**20 + (2**30 - 2**20) * (1 + np.cos(np.pi * np.arange(1001) / 1000)) / 2
    assert np.abs(values - exact).max() < 1e-3 * 2**30
    assert values[0] == 2**30 and values[-1] == 2**20 and (np.diff(values) <= 0).all()


def test_warm_up_and_steps():
    s = Settings(steps=20, rate=1000, warmup_steps=4)
    assert [rate_of(s, t) for t in range(6)] == [250, 500, 750, 1000, 1000, 1000]
    s = Settings(steps=20, rate=1024, final_rate=100, schedule=oracle.STEP, decay_steps=2)
    assert [rate_of(s, t) for t in range(10)] == [1024, 1024, 512, 512, 256, 256, 128, 128, 100, 100]
    s = Settings(steps=2**31, batch=1, rate=99, schedule=oracle.STEP, decay=ONE)
    assert rate_of(s, 2**31 - 1) == 99  # at once


def test_gradient_norm():
    s = Settings(batch=4, parts=2, queries=3, rate=10**6, gradient_norm=1001)
    assert rate_of(s, 0) == 10**6 * 24 // (24 + 1000)


# --- samples ------------------------------------------------------------------------------------------------


@given(st.integers(1, 700), seeds)
def test_every_epoch_is_a_permutation(samples, seed):
    control = make(Settings(samples=samples, run_seed=seed, batch=samples, steps=4))
    epochs = [control.samples(e * samples).tolist() for e in range(4)]
    for order in epochs:
        assert sorted(order) == list(range(samples))
    if samples >= 20:
        assert len(set(map(tuple, epochs))) == 4


@given(st.one_of(st.integers(1, 100), st.integers(1, 2**32 - 1)), seeds, st.integers(0, 2**32 - 9))
def test_order_is_its_specification(samples, seed, first):
    control = make(Settings(samples=samples, run_seed=seed, batch=8))
    assert control.samples(first).tolist() == [oracle.sample_at(seed, samples, first + i) for i in range(8)]


@pytest.mark.parametrize(
    ("seed", "samples", "first", "expected"),
    [
        (1, 10, 0, [5, 1, 7, 9, 6, 4, 0, 8]),
        (1, 10, 10, [1, 4, 5, 6, 7, 2, 3, 8]),
        (0xDEADBEEF, 1000, 5000, [830, 453, 588, 695, 527, 414, 27, 937]),
        (
            5,
            2**31,
            7,
            [1585716672, 1942586238, 190131179, 12793769, 329494200, 2029778857, 456259858, 1554741222],
        ),
    ],
)
def test_order_never_changes(seed, samples, first, expected):
    """A resumed run, and a device's, meet the samples in the order of the run that wrote the log."""
    assert make(Settings(samples=samples, run_seed=seed, batch=8)).samples(first).tolist() == expected


def test_one_sample_by_one_is_the_same():
    control = make(Settings(samples=37, batch=5, steps=100))
    one = library().zo_sample_at
    whole = make(Settings(samples=37, batch=500, steps=1)).samples(0)
    assert [one(control.settings, p) for p in range(500)] == whole.tolist()


@pytest.mark.parametrize("samples", [8, 10, 64, 100])
def test_order_is_roughly_uniform(samples):
    epochs = 4000
    positions = make(Settings(samples=samples, batch=samples * epochs, steps=1)).samples(0)
    table = positions.astype(int).reshape(epochs, samples)
    for place in (0, samples // 2, samples - 1):
        counts = np.bincount(table[:, place], minlength=samples)
        expected = epochs / samples
        chi2 = ((counts - expected) ** 2 / expected).sum()
        assert chi2 < samples - 1 + 6 * math.sqrt(2 * samples)
    # Neighbours are independent of each other.
    pairs = Counter(((table[:, 1:] - table[:, :-1]) % samples).reshape(-1).tolist())
    assert all(0.7 * epochs < pairs[k] < 1.3 * epochs for k in range(1, samples))


def test_runs_differ_in_order():
    orders = {tuple(make(Settings(samples=50, batch=50, run_seed=r)).samples(0)) for r in range(50)}
    assert len(orders) == 50


# --- errors -----------------------------------------------------------------------------------------------

BAD = {
    "steps": 0,
    "samples": 0,
    "batch": 0,
    "parts": 0,
    "queries": 0,
    "estimator": 2,
    "rule": 3,
    "schedule": 4,
    "rate": 0,
    "final_rate": ONE + 1,
}


@pytest.mark.parametrize("field", BAD)
def test_bad_settings(field):
    s = integers(Settings())
    setattr(s, field, BAD[field])
    with pytest.raises(NativeError) as error:
        Control(s, 100, [])
    assert error.value.status is (Status.QUERIES if field == "queries" else Status.ARGUMENT)


def test_more_bad_settings():
    for change, status in (
        ({"queries": 33}, Status.QUERIES),
        ({"rate": 2**31}, Status.ARGUMENT),
        ({"schedule": oracle.STEP, "decay_steps": 0}, Status.ARGUMENT),
        ({"schedule": oracle.STEP, "decay": ONE + 1}, Status.ARGUMENT),
        ({"steps": 2**16, "batch": 2**16}, Status.ARGUMENT),  # positions no longer fit
    ):
        s = integers(Settings())
        for name, value in change.items():
            setattr(s, name, value)
        with pytest.raises(NativeError) as error:
            Control(s, 100, [])
        assert error.value.status is status
    gaussian = Settings(dist=Dist(2, 300), queries=5, chain=6, memory=30000)
    for change in (
        {"dist": Dist(0, 2)},
        {"queries": 6},
        {"chain": 9, "queries": 1},
        {"chain": 1, "queries": 1},
        {"chain": 0, "queries": 1},
        {"memory": 65536},  # one more seed
    ):
        make(gaussian)
        with pytest.raises(NativeError) as error:
            Control(integers(replace(gaussian, **change)), 1000, [])
        assert error.value.status is Status.ARGUMENT
    s = integers(Settings())
    s.distribution.mu = 0
    with pytest.raises(NativeError) as error:
        Control(s, 100, [])
    assert error.value.status is Status.DISTRIBUTION
    with pytest.raises(ValueError, match=r"holds 11 words and this run needs"):
        Control(integers(Settings()), 11, [])


@given(any_settings(), st.data())
@settings(max_examples=50)
def test_errors_leave_the_state(s, data):
    control = make(s)
    for _ in range(data.draw(st.integers(0, 12))):
        if control.next() is None:
            break
        control.report(np.full(s.batch, 5, np.int32))
    before = state(control)
    for wrong in (s.batch - 1, s.batch + 1, 0):
        with pytest.raises(NativeError) as error:
            control.report(np.zeros(wrong, np.int32))
        assert error.value.status is Status.ARGUMENT
    for step, mean_square in ((s.steps + 1, 0), (0, -1)):
        with pytest.raises(NativeError):
            control.resume(step, mean_square)
    words = control._words
    control._words = np.zeros(1, np.int32)
    if control.step < s.steps:
        with pytest.raises(NativeError) as error:
            control.next()
        assert error.value.status is Status.CAPACITY
    with pytest.raises(NativeError):
        control.settle()
    control._words = words
    assert state(control) == before
    if control.step < s.steps:
        control.next()
        if control.report(np.zeros(s.batch, np.int32)) is None:  # within a step
            before = state(control)
            with pytest.raises(NativeError) as error:
                control.settle()
            assert error.value.status is Status.ORDER
            assert state(control) == before


class Ledger:
    """What commands have done to weights: directions in force, and updates."""

    def __init__(self) -> None:
        self.in_force: Counter[tuple[int, ...]] = Counter()
        self.updates: list[tuple[int, ...]] = []

    def execute(self, words: np.ndarray) -> None:
        body = [int(w) & 0xFFFFFFFF for w in words[2 : 2 + int(words[1])]]
        while body:
            head, count, _, argument = body[:4]
            is_update = head >> 24 == 3
            items = count if is_update else 0
            terms = argument & 0xFFFF if is_update else count
            pairs = [(body[4 + 2 * i], body[5 + 2 * i]) for i in range(items + terms)]
            chains: list[tuple[list[int], int]] = []
            for word, k in pairs[items:]:
                if k == 0:
                    chains[-1][0].append(word)
                else:
                    chains.append(([word], k - 2**32 if k >= 2**31 else k))
            for chain, k in chains:
                self.in_force[tuple(chain)] += k
            if is_update:  # what it restores comes first
                assert not any(self.in_force.values())
                self.updates.append((head & 0xFFFFFF, *(n for pair in pairs[:items] for n in pair)))
            body = body[4 + 2 * len(pairs) :]


@settings(max_examples=40)
@given(any_settings(), st.integers(0, 2**32), st.integers(0, 8), st.floats(0.01, 0.6))
def test_a_step_that_is_given_up_begins_anew(s, seed, times, share):
    """Given up anywhere, weights are those of the last whole step, and the run goes on to the same end."""

    def train(times):
        rng, control, ledger, whole = np.random.default_rng(seed), make(s), Ledger(), []
        while (request := control.next()) is not None:
            if times and rng.random() < share:
                times, executed = times - 1, rng.random() < 0.5
                if executed:
                    ledger.execute(request.words)
                ledger.execute(control.abandon(executed=executed))
                assert not any(ledger.in_force.values())
                assert len(ledger.updates) == control.step
                continue
            ledger.execute(request.words)
            force = [n for chain, k in sorted(ledger.in_force.items()) if k for n in (*chain, k + 9)]
            key = [seed, request.first_sample, len(ledger.updates), *force]
            report = control.report(random_losses(np.random.default_rng(key), s.batch, 0))
            if report is not None:
                whole.append((report, control.coefficients, control._control.mean_square))
        if (words := control.settle()) is not None:
            ledger.execute(words)
        assert not any(ledger.in_force.values())
        return whole, ledger.updates

    assert train(times) == train(0)
