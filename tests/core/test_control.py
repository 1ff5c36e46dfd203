"""The control unit against its oracle: commands, coefficients, settling, going on, errors."""

import ctypes
import math
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers import core
from helpers.oracle import control as oracle
from helpers.oracle.control import NORMALIZED, ONE, Settings
from helpers.oracle.draws import any_settings, integers, make, native, needed
from helpers.oracle.stream import Dist, direction, perturbation
from tflm_zo.core import Control, NativeError, Status, command_check, library
from tflm_zo.core.loader import structs


def random_losses(rng: np.random.Generator, count: int, kind: int) -> np.ndarray:
    if kind == 0:
        return rng.integers(2 * ONE, 3 * ONE, count).astype(np.int32)
    if kind == 1:
        return rng.integers(-(2**31), 2**31, count).astype(np.int32)
    return rng.choice([-(2**31), -1, 0, 1, 2**31 - 1], count).astype(np.int32)


def drive(s: Settings, control: Control, losses_of, *, settle=frozenset(), model=None, each=None):
    """Runs the core beside the oracle; returns (coefficients, mean square) of every step."""
    model = model or oracle.Control(s)
    limits = {"headroom": s.dist.reach, "max_queries": s.queries, "blocks": max(1, len(s.segments))}
    record = []
    while model.step < s.steps:
        before = control.struct.mean_square
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
                each(expected, request.words)
            model.losses.append(losses_of(expected).tolist())
            report = control.report(np.array(model.losses[-1], np.int32))
        assert report is not None and report.step == step
        total = sum(map(sum, model.losses)) / (s.evaluations * s.minibatch)
        assert abs(control.mean_loss - total) <= 0.5
        assert report.loss * ONE == control.mean_loss
        check_coefficients(s, model.differences(), control, report, before)
        model.finish(control.coefficients)
        record.append((control.coefficients, control.struct.mean_square))
        if model.step in settle:
            words = control.settle()
            expected_words = model.settle()
            assert words[: len(expected_words)].tolist() == expected_words
            assert not words[len(expected_words) :].any()
            command_check(words, **limits)
            if each is not None:
                each(None, words)
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
    after = control.struct.mean_square
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


@given(any_settings(), st.integers(0, 2**32), st.integers(0, 2), st.sets(st.integers(1, 5)), st.integers(0, 9))
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
        carried = [number for seed, k in invoke.carried for number in (*seed, k + 1)]
        rng = np.random.default_rng([seed, invoke.first_sample, *carried])
        return random_losses(rng, s.batch, kind)

    plain = drive(s, make(s), losses)
    assert drive(s, make(s), losses, settle=settle) == plain
    at = data.draw(st.integers(0, s.steps))
    resumed = make(s)
    resumed.resume(at, plain[at - 1][1] if at else 0)
    assert drive(s, resumed, losses, model=oracle.Control(s, at)) == plain[at:]


def instructions(words):
    """Yields block, queries of an update, and terms of a perturbation or restoration."""
    at, end = 2, 2 + words[1]
    while at < end:
        head, count, _, argument = (int(w) for w in words[at : at + 4])
        is_update = head >> 24 == 3
        items = count if is_update else 0
        terms = argument if is_update else count
        numbers = words[at + 4 : at + 4 + 2 * (items + terms)].reshape(-1, 2)
        pairs = [(int(a) % 2**32, int(b)) for a, b in numbers]
        yield head & 0xFFFFFF, pairs[:items], pairs[items:]
        at += 4 + 2 * (items + terms)


small = st.one_of(
    st.builds(Dist, st.just(0), st.integers(1, 6)),
    st.builds(Dist, st.just(1), st.integers(1, 6), st.integers(0, 255)),
    st.builds(Dist, st.just(2), st.integers(1, 200)),
)


@settings(max_examples=40)
@given(any_settings(small), st.integers(0, 2**32), st.sets(st.integers(1, 5)), st.booleans())
def test_weights_are_restored_and_never_wrap(s, seed, settle, has_fraction):
    """Compares after every command with initial weights + updates + the one perturbation in force, within -127..127."""
    rng, size = np.random.default_rng(seed), 70
    limit = 127 - s.dist.reach
    tensors = max(1, len(s.segments))
    real = [rng.integers(-limit, limit + 1, size).astype(np.int8) for _ in range(tensors)]
    clean = [w.copy() for w in real]
    fractions = [np.zeros(size, np.int8) if has_fraction else None for _ in real]
    clean_fractions = [None if f is None else f.copy() for f in fractions]
    control = make(s)
    z = native(s.dist)

    def execute(words):
        for block, step, terms in instructions(words):
            for t in range(tensors):
                if block not in (0, t + 1):
                    continue
                if step:
                    at_t = (None, 1, 1, t, limit, z, step)
                    core.update(real[t], fractions[t], *at_t, restore=terms)
                    core.update(clean[t], clean_fractions[t], *at_t)
                else:
                    core.perturb(real[t], terms, z, t)

    def each(invoke, words):
        execute(words)
        for t in range(tensors):
            wanted = clean[t].astype(np.int64)
            if invoke is not None and invoke.block in (None, t):
                for (number,), k in invoke.carried:
                    wanted += k * perturbation(s.dist, direction(s.dist, number, t, size))
            assert np.abs(wanted).max() <= 127
            assert np.array_equal(real[t], wanted)

    losses = lambda _: random_losses(rng, s.batch, 0)  # noqa: E731
    drive(s, control, losses, settle={*settle, s.steps}, each=each)
    for t in range(tensors):
        assert np.array_equal(real[t], clean[t])
        assert np.abs(real[t].astype(int)).max() <= limit
        assert fractions[t] is None or np.array_equal(fractions[t], clean_fractions[t])


# --- errors -----------------------------------------------------------------------------------------------

BAD = [
    *(({name: 0}, Status.ARGUMENT) for name in ("steps", "samples", "batch", "parts", "rate")),
    *(({"queries": count}, Status.QUERIES) for count in (0, 33)),
    *(({name: value}, Status.ARGUMENT) for name, value in (("estimator", 2), ("rule", 3))),
    ({"schedule": oracle.STEP + 1}, Status.ARGUMENT),
    ({"final_rate": ONE + 1}, Status.ARGUMENT),
    ({"rate": 2**31}, Status.ARGUMENT),
    ({"schedule": oracle.STEP, "decay_steps": 0}, Status.ARGUMENT),
    ({"schedule": oracle.STEP, "decay": ONE + 1}, Status.ARGUMENT),
    ({"steps": 2**16, "batch": 2**16}, Status.ARGUMENT),  # positions no longer fit
]


@pytest.mark.parametrize(("change", "status"), BAD, ids=str)
def test_bad_settings(change, status):
    s = integers(Settings())
    for name, value in change.items():
        setattr(s, name, value)
    with pytest.raises(NativeError) as error:
        Control(s, 100, [])
    assert error.value.status is status


def test_bad_directions():
    s = integers(Settings())
    s.distribution.mu = 0
    with pytest.raises(NativeError) as error:
        Control(s, 100, [])
    assert error.value.status is Status.DISTRIBUTION
    with pytest.raises(ValueError, match=r"must hold 16 words for this run. Received: 11"):
        Control(integers(Settings()), 11, [])


@given(any_settings(), st.data())
@settings(max_examples=50)
def test_errors_leave_the_state(s, data):
    control = make(s)
    for _ in range(data.draw(st.integers(0, 12))):
        if control.next() is None:
            break
        control.report(np.full(s.batch, 5, np.int32))
    before = bytes(control.struct)
    too_many = (s.parts + 1) * s.batch
    for wrong in (s.batch - 1, s.batch + 1 if s.batch > 1 else too_many, too_many, 0):
        with pytest.raises(NativeError) as error:
            control.report(np.zeros(wrong, np.int32))
        assert error.value.status is Status.ARGUMENT
    for step, mean_square in ((s.steps + 1, 0), (0, -1)):
        with pytest.raises(NativeError):
            control.resume(step, mean_square)
    words, request = np.zeros(1, np.int32), structs.zo_request()
    if control.step < s.steps:
        status = library().zo_control_next(control.struct, words.ctypes.data, 1, request)
        assert status == Status.CAPACITY
    pending = ctypes.c_uint32()
    assert library().zo_control_settle(control.struct, words.ctypes.data, 1, ctypes.byref(pending))
    assert bytes(control.struct) == before
    if control.step < s.steps:
        control.next()
        if control.report(np.zeros(s.batch, np.int32)) is None:  # within a step
            before = bytes(control.struct)
            with pytest.raises(NativeError) as error:
                control.settle()
            assert error.value.status is Status.ORDER
            assert bytes(control.struct) == before


class Ledger:
    """The effect of commands on weights: directions in force, and updates."""

    def __init__(self) -> None:
        self.in_force: Counter[int] = Counter()
        self.updates: list[tuple[int, ...]] = []

    def execute(self, words: np.ndarray) -> None:
        for block, step, terms in instructions(words):
            for seed, k in terms:
                self.in_force[seed] += k
            if step:  # its restoration comes first
                assert not any(self.in_force.values())
                self.updates.append((block, *(n for pair in step for n in pair)))


@pytest.mark.slow
@settings(max_examples=40)
@given(any_settings(), st.integers(0, 2**32), st.integers(0, 8), st.floats(0.01, 0.6))
def test_a_step_that_is_given_up_begins_anew(s, seed, times, share):
    """Aborts steps anywhere: weights are those of the last complete step, and the run goes on to the same end."""

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
            force = [n for seed_of, k in sorted(ledger.in_force.items()) if k for n in (seed_of, k + 9)]
            key = [seed, request.first_sample, len(ledger.updates), *force]
            report = control.report(random_losses(np.random.default_rng(key), s.batch, 0))
            if report is not None:
                whole.append((report, control.coefficients, control.struct.mean_square))
        if (words := control.settle()) is not None:
            ledger.execute(words)
        assert not any(ledger.in_force.values())
        return whole, ledger.updates

    assert train(times) == train(0)


# --- differences that several runs have measured ----------------------------------------------------------


def finish(control: Control, losses: list[np.ndarray]) -> None:
    """Does one step with the losses of its invokes."""
    for own in losses:
        control.next()
        report = control.report(own)
    assert report is not None


@given(any_settings(), st.integers(0, 2**32), st.integers(1, 5))
def test_the_mean_of_several_runs_is_one_run_on_all_their_samples(s, seed, clients):
    s = replace(s, gradient_norm=0)  # it depends on the minibatch
    rng = np.random.default_rng(seed)
    others, deciding = [make(s) for _ in range(clients)], make(s)
    pooled = make(replace(s, parts=clients * s.parts))
    for step in range(s.steps):
        # Of each evaluation, client, part and sample.
        losses = rng.integers(0, 2**20, (s.evaluations, clients, s.parts, s.batch)).astype(np.int32)
        before = deciding.struct.mean_square
        for client, control in enumerate(others):
            control.resume(step, before)
            finish(control, list(losses[:, client].reshape(-1, s.batch)))
            control.withdraw(before)
            assert control.step == step
        n = clients * s.minibatch
        sums = np.sum([control.differences for control in others], axis=0).tolist()
        d = np.array([(2 * abs(v) + n) // (2 * n) * (1 if v > 0 else -1) for v in sums], np.int64)
        report = deciding.decide(d, 7)
        assert (report.step, report.loss, deciding.mean_loss) == (step, 7 / 65536, 7)
        finish(pooled, list(losses.reshape(-1, s.batch)))
        assert pooled.coefficients == deciding.coefficients
        assert pooled.struct.mean_square == deciding.struct.mean_square
    with pytest.raises(NativeError):
        deciding.decide(d, 0)


@pytest.mark.parametrize("value", [2**30 + 1, -(2**30) - 1, 2**62])
def test_what_is_out_of_range_changes_nothing(value):
    control = make(Settings(steps=2))
    before = bytes(control.struct)
    with pytest.raises(NativeError):
        control.decide(np.full(control.settings.queries, value, np.int64), 0)
    assert bytes(control.struct) == before
