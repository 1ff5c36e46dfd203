"""The words of zo_command: encoding, checking, executing, and garbage."""

import ctypes

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers import core
from helpers.oracle import command as oracle
from helpers.oracle import weights
from helpers.oracle.command import PERTURB, REPLAY, RESTORE, UPDATE
from helpers.oracle.draws import distributions, native, perturbations, seeds
from helpers.oracle.stream import Dist
from tflm_zo.core import Command, NativeError, Rademacher, Status, command_check, library, make_tensor

LIMITS = {"headroom": 5, "max_queries": 4, "blocks": 3}
blocks = st.one_of(st.none(), st.integers(0, 2))
coefficients = st.integers(-100_000, 100_000)
small_distributions = st.one_of(
    st.builds(Dist, st.just(0), st.integers(1, 5)),
    st.builds(Dist, st.just(1), st.integers(1, 5), st.integers(0, 255)),
    st.builds(Dist, st.just(2), st.integers(1, 200)),
)


@st.composite
def instructions(draw, distribution=small_distributions):
    """Draws instructions in order, as calls: (opcode, arguments)."""
    result = []
    for opcode in sorted(draw(st.lists(st.integers(1, 4), max_size=5))):
        dist, block = draw(distribution), draw(blocks)
        pairs = st.lists(st.tuples(seeds, coefficients), min_size=1, max_size=4)
        if opcode == RESTORE:
            result.append((opcode, (block,)))
        elif opcode == REPLAY:
            queries = draw(st.integers(1, 4))
            step = st.lists(st.tuples(seeds, coefficients), min_size=queries, max_size=queries)
            result.append((opcode, (draw(st.lists(step, min_size=1, max_size=4)), dist, block)))
        elif opcode == UPDATE:
            result.append((opcode, (draw(pairs), dist, draw(perturbations(least=0)), block)))
        else:
            result.append((opcode, (draw(perturbations()), dist, block)))
    return result


ENCODE = {RESTORE: oracle.restore, REPLAY: oracle.replay, UPDATE: oracle.update, PERTURB: oracle.perturb}


def encoded(calls, **flags):
    return oracle.command([ENCODE[opcode](*arguments) for opcode, arguments in calls], **flags)


def written(calls, capacity, **flags):
    command = Command(capacity, **flags)
    for opcode, arguments in calls:
        arguments = tuple(native(a) if isinstance(a, Dist) else a for a in arguments)
        assert append(command, opcode, arguments) is command
    return command


def append(command, opcode, arguments):
    if opcode == UPDATE:
        queries, dist, restore, block = arguments
        return command.update(queries, dist, block=block, restore=restore)
    if opcode == PERTURB:
        terms, dist, block = arguments
        return command.perturb(terms, dist, block)
    name = {RESTORE: "restore", REPLAY: "replay"}[opcode]
    return getattr(command, name)(*arguments)


def check(words, **limits):
    """Returns the status of zo_command_check. The words lie at the very end of their memory."""
    try:
        command_check(np.array(words, np.int32), **{**LIMITS, **limits})
    except NativeError as error:
        return error.status
    return Status.OK


# --- encoding ---------------------------------------------------------------------------------------------


@given(instructions(distributions), st.booleans(), st.booleans(), st.integers(0, 20))
def test_encoding_is_the_oracles(calls, loss, checksum, spare):
    expected = encoded(calls, loss=loss, checksum=checksum)
    command = written(calls, len(expected) + spare, loss=loss, checksum=checksum)
    assert command.words.tolist() == expected + [0] * spare
    assert command.words.dtype == np.int32
    assert command.length == len(expected)


def test_written_out():
    dist = Rademacher(2)
    command = Command(18, checksum=True).update([(0xFFFFFFFF, -3)], dist, restore_k=1, block=0)
    command.perturb([(7, -2)], dist)
    assert command.words.tolist() == [
        *(0x5A4F0003, 14),
        *(3 << 24 | 1, 1, 2, 1, -1, -3, -1, 1),
        *(4 << 24, 1, 2, 0, 7, -2),
        *(0, 0),
    ]


@given(instructions())
def test_what_does_not_fit_leaves_the_command_as_it_was(calls):
    expected = encoded(calls)
    if not calls:
        return
    opcode, arguments = calls[-1]
    last = len(ENCODE[opcode](*arguments))
    for missing in (1, last):
        with pytest.raises(NativeError) as error:
            written(calls, len(expected) - missing)
        assert error.value.status is Status.CAPACITY
        command = written(calls[:-1], len(expected) - missing)
        before = command.words.copy()
        with pytest.raises(NativeError):
            written_more = tuple(native(a) if isinstance(a, Dist) else a for a in arguments)
            append(command, opcode, written_more)
        assert np.array_equal(command.words, before)
        assert command.length == len(expected) - last


@pytest.mark.parametrize("capacity", [0, 1])
def test_no_room_for_a_command(capacity):
    with pytest.raises(NativeError) as error:
        Command(capacity)
    assert error.value.status is Status.CAPACITY


def test_block_number_that_cannot_be_encoded():
    with pytest.raises(NativeError) as error:
        Command(20).restore(block=2**24 - 1)
    assert error.value.status is Status.BLOCK


# --- checking ---------------------------------------------------------------------------------------------


@given(instructions())
def test_good_commands(calls):
    words = encoded(calls)
    assert oracle.acceptable(words, **LIMITS)
    assert check(words) is Status.OK
    assert check([*words, 123, -456]) is Status.OK  # the rest of the tensor is ignored
    steps = sum(len(a[0]) if opcode == REPLAY else opcode == UPDATE for opcode, a in calls)
    assert core.command_steps(np.array(words, np.int32)) == steps


def test_no_command():
    assert check([0, 0]) is Status.OK
    assert check([0, 99, 5, 5]) is Status.OK
    assert core.command_steps(np.array([0, 99, 5, 5], np.int32)) == 0


DIST = Dist(0, 2)
BAD_COMMANDS = {
    "no magic": ([1, 0], Status.COMMAND),
    "other magic": ([0x5A4E0001, 0], Status.COMMAND),
    "unknown flag": ([0x5A4F0008, 0], Status.COMMAND),
    "longer than the tensor": ([0x5A4F0001, 1], Status.COMMAND),
    "negative length": ([0x5A4F0001, -1], Status.COMMAND),
    "huge length": ([0x5A4F0001, 2**31 - 1], Status.COMMAND),
    "half an instruction": ([0x5A4F0001, 3, 1 << 24, 0, 0], Status.COMMAND),
    "opcode 0": (oracle.command([[0, 0, 0, 0]]), Status.OPCODE),
    "opcode 5": (oracle.command([[5 << 24, 0, 0, 0]]), Status.OPCODE),
    "order": (oracle.command([oracle.perturb([(1, 1)], DIST), oracle.update([(1, 1)], DIST)]), Status.ORDER),
    "order of restore": (oracle.command([oracle.update([(1, 1)], DIST), oracle.restore()]), Status.ORDER),
    "block": (oracle.command([oracle.restore(3)]), Status.BLOCK),
    "distribution": (oracle.command([oracle.perturb([(1, 1)], Dist(4, 1))]), Status.DISTRIBUTION),
    "mu 0": (oracle.command([oracle.update([(1, 1)], Dist(0, 0))]), Status.DISTRIBUTION),
    "mu 128": (oracle.command([oracle.replay([[(1, 1)]], Dist(1, 128))]), Status.DISTRIBUTION),
    "p_zero": (oracle.command([oracle.update([(1, 1)], Dist(0, 1, 9))]), Status.DISTRIBUTION),
    "headroom": (oracle.command([oracle.perturb([(1, 1)], Dist(0, 6))]), Status.HEADROOM),
    "headroom of restore_k": (oracle.command([oracle.update([(1, 1)], Dist(0, 6), 1)]), Status.HEADROOM),
    "queries of update": (oracle.command([oracle.update([(1, 1)] * 5, DIST)]), Status.QUERIES),
    "no queries": (oracle.command([oracle.update([], DIST)]), Status.QUERIES),
    "terms": (oracle.command([oracle.perturb([(1, 1)] * 33, DIST)]), Status.QUERIES),
    "no terms": (oracle.command([oracle.perturb([], DIST)]), Status.QUERIES),
    "terms of update": (oracle.command([oracle.update([(1, 1)], DIST, [(1, 1)] * 33)]), Status.QUERIES),
    "terms missing": (oracle.command([oracle.update([(1, 1)], DIST, [(1, 1)])[:-2]]), Status.COMMAND),
    "-1 terms": (oracle.command([[3 << 24, 1, 2, -1, 1, 1]]), Status.COMMAND),
    "queries of replay": (oracle.command([oracle.replay([[(1, 1)] * 5], DIST)]), Status.QUERIES),
    "replay without queries": (oracle.command([[2 << 24, 3, 2, 0]]), Status.QUERIES),
    "replay, negative queries": (oracle.command([[2 << 24, 3, 2, -1]]), Status.QUERIES),
    "replay of too many words": (oracle.command([[2 << 24, 2**31 - 1, 2, 4, 0, 0]]), Status.COMMAND),
    "replay of -1 steps": (oracle.command([[2 << 24, -1, 2, 4, 0, 0]]), Status.COMMAND),
    "no steps": (oracle.command([[2 << 24, 0, 2, 1]]), Status.COMMAND),
    "restore of items": (oracle.command([[1 << 24, 1, 0, 0, 5, 5]]), Status.COMMAND),
    "items missing": (oracle.command([oracle.update([(1, 1)], DIST)[:-1]]), Status.COMMAND),
    "coefficients": (oracle.command([oracle.update([(1, 2**30), (2, 1)], DIST)]), Status.COEFFICIENT),
    "coefficient -2^31": (oracle.command([oracle.update([(1, -(2**31))], DIST)]), Status.COEFFICIENT),
    "coefficients of a late step": (
        oracle.command([oracle.replay([[(1, 1)], [(1, 1)], [(1, 2**30 + 1)]], DIST)]),
        Status.COEFFICIENT,
    ),
    "factor 2": (oracle.command([oracle.perturb([(1, 2)], DIST)]), Status.FACTOR),
    "factor 0": (oracle.command([oracle.perturb([(1, 1), (1, 0)], DIST)]), Status.FACTOR),
    "restore_k 2": (oracle.command([oracle.update([(1, 1)], DIST, 2)]), Status.FACTOR),
    "momentum of an earlier version": (oracle.command([[4 << 24, 1, 2, 9 << 16, 1, 1]]), Status.COMMAND),
    "restored factor": (oracle.command([oracle.update([(1, 1)], DIST, [(1, 1), (2, 0)])]), Status.FACTOR),
}


@pytest.mark.parametrize("name", BAD_COMMANDS)
def test_bad_commands(name):
    words, status = BAD_COMMANDS[name]
    assert not oracle.acceptable(words, **LIMITS)
    assert check(words) is status


def test_tensor_without_a_header():
    assert check([0x5A4F0001]) is Status.ARGUMENT
    assert library().zo_command_check(None, 10, None) == Status.ARGUMENT


def test_terms_are_not_queries():
    """A model for one query may be perturbed by several terms: they need no memory."""
    terms = [(seed, 1) for seed in range(32)]
    for instruction in (oracle.perturb(terms, DIST), oracle.update([(1, 1)], DIST, terms)):
        assert check(oracle.command([instruction]), max_queries=1) is Status.OK


def test_headroom_does_not_bound_updates():
    """A larger distribution may be updated with; it only may not be perturbed with."""
    assert check(oracle.command([oracle.update([(1, 1)], Dist(0, 100))])) is Status.OK
    assert check(oracle.command([oracle.replay([[(1, 1)]], Dist(0, 100))])) is Status.OK


@given(instructions())
def test_truncated_commands(calls):
    """Checks every prefix, in a tensor that ends with the prefix."""
    words = encoded(calls)
    for length in range(2, len(words)):
        assert check(words[:length]) is Status.COMMAND


interesting = st.one_of(
    st.sampled_from([0, 1, -1, 2, 4, 5, 2**31 - 1, -(2**31), 2**24, 2**30, 1 << 24, 2 << 24, 3 << 24, 4 << 24]),
    st.integers(-(2**31), 2**31 - 1),
)


@given(instructions(), st.data())
def test_damaged_commands(calls, data):
    """Replaces one to three words: accepted exactly if the specification accepts them."""
    words = encoded(calls)
    for _ in range(data.draw(st.integers(1, 3))):
        words[data.draw(st.integers(1, len(words) - 1))] = data.draw(interesting)
    assert (check(words) is Status.OK) == oracle.acceptable(words, **LIMITS)


# --- executing ----------------------------------------------------------------------------------------------


@given(instructions(), st.integers(1, 1100), st.integers(0, 2), st.booleans())
def test_execution(calls, size, block, has_fraction):
    """Executes opcode by opcode, as the graph does, and compares with the oracle's functions one after the other."""
    rng = np.random.default_rng(size)
    limit, stream = 122, 9
    w = rng.integers(-limit + 1, limit, size).astype(np.int8)
    f = rng.integers(-128, 128, size).astype(np.int8) if has_fraction else None
    initial = rng.integers(-limit, limit + 1, size).astype(np.int8)
    words = np.array(encoded(calls), np.int32)

    tensor = make_tensor(w, f, None, 1, 1, stream, limit)
    expected, expected_f, expected_saturated = w.copy(), f, 0
    for opcode, arguments in calls:
        selected = arguments[{RESTORE: 0, REPLAY: 2, UPDATE: 3, PERTURB: 2}[opcode]]
        if selected not in (None, block):
            continue
        if opcode == RESTORE:
            expected, expected_f = initial, np.zeros(size, np.int8) if has_fraction else None
        elif opcode == PERTURB:
            terms, dist, _ = arguments
            expected = weights.perturb(expected, terms, dist, stream)
        else:
            dist = arguments[1]
            steps = arguments[0] if opcode == REPLAY else [arguments[0]]
            restore = [] if opcode == REPLAY else arguments[2]
            for queries in steps:
                expected, expected_f, clipped = weights.update(
                    expected, expected_f, None, 1, 1, stream, limit, dist, queries, restore
                )
                expected_saturated += clipped

    saturated = ctypes.c_uint32(0)
    for opcode in (RESTORE, REPLAY, UPDATE, PERTURB):
        status = library().zo_command_execute(
            words.ctypes.data, opcode, tensor, block, initial.ctypes.data, ctypes.byref(saturated)
        )
        assert status == Status.OK
    assert np.array_equal(w, expected)
    assert f is None or np.array_equal(f, expected_f)
    assert saturated.value == expected_saturated


def test_status_texts():
    text = library().zo_status_text
    texts = [text(status).decode() for status in Status]
    assert all(texts)
    assert len(set(texts)) == len(texts)
    assert all("\n" not in text for text in texts)
    assert text(99)
    assert text(-1)
