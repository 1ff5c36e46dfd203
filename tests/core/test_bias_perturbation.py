"""Biases in weight perturbation: perturbed, updated and replayed as 32 times a weight."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers import core
from helpers.oracle import biases as oracle
from helpers.oracle.draws import EXAMPLES, distributions, native, perturbations, seeds, sizes, steps, streams
from helpers.oracle.stream import Dist
from tflm_zo.core import NativeError, Rademacher, Status, make_tensor, replay
from tflm_zo.core.arguments import pairs
from tflm_zo.core.loader import call

COORDINATE = 3


def some_biases(size: int, seed: int) -> np.ndarray:
    """Returns biases of every size: usual ones, and some at and beyond the range of steps."""
    rng = np.random.default_rng(seed)
    found = rng.integers(-5000, 5000, size).astype(np.int32)
    ends = [2**30, -(2**30), 2**30 - 3, 2**31 - 1, -(2**31), -(2**30) - 5]
    at = rng.random(size) < 0.2
    found[at] = rng.choice(np.array(ends, np.int64), int(at.sum())).astype(np.int32)
    return found


@st.composite
def cases(draw: st.DrawFn) -> tuple[Dist, list[tuple[int, int]], int]:
    dist = draw(distributions)
    return dist, draw(perturbations()), draw(sizes)


@given(cases(), streams)
def test_a_perturbation_is_the_oracles_and_can_be_undone(
    case: tuple[Dist, list[tuple[int, int]], int], stream: int
) -> None:
    dist, terms, size = case
    biases = some_biases(size, size)
    before, expected = biases.copy(), oracle.perturb(biases, terms, dist, stream)
    core.perturb(biases, terms, native(dist), stream)
    assert np.array_equal(biases, expected)
    again = before.copy()
    for k in (1, -2, 1):
        core.perturb(again, [(seed, k) for seed, _ in terms], native(dist), stream)
    assert np.array_equal(again, before)


@given(steps(), st.booleans())
def test_an_update_is_the_oracles(step, scaled: bool) -> None:
    size = step.channels if step.multiplier is not None and scaled else min(step.size, 1500)
    multiplier = step.multiplier if size == step.channels else None
    biases = some_biases(size, step.limit)
    expected, clipped = oracle.update(biases, multiplier, step.stream, step.dist, step.queries, step.restore)
    own = (multiplier, size, 1, step.stream, step.limit, native(step.dist), step.queries)
    found = core.update(biases, None, *own, restore=step.restore)
    assert np.array_equal(biases, expected)
    assert found == clipped


@given(steps(restore=False, max_queries=3), st.integers(2, 5))
def test_a_replay_is_one_update_after_the_other(step, count: int) -> None:
    size = min(step.size, 1500)
    biases = some_biases(size, step.limit)
    one_by_one, clipped = biases.copy(), 0
    recorded = [[(seed + t & 0xFFFFFFFF, c) for seed, c in step.queries] for t in range(count)]
    for queries in recorded:
        one_by_one, saturated = oracle.update(one_by_one, None, step.stream, step.dist, queries)
        clipped += saturated
    found = replay(biases, None, None, size, 1, step.stream, step.limit, native(step.dist), recorded)
    assert np.array_equal(biases, one_by_one)
    assert found == clipped


@given(
    distributions.filter(lambda dist: dist.kind != COORDINATE),
    seeds,
    streams,
    sizes,
    st.sampled_from([-1, 0, 1]),
    st.integers(1, 7),
)
def test_steps_of_a_few_bits_are_the_oracles(
    dist: Dist, seed: int, stream: int, size: int, sign: int, bits: int
) -> None:
    biases = some_biases(size, size)
    expected, clipped = oracle.update_bits(biases, dist, seed, stream, sign, bits)
    if sign == 0:
        expected, clipped = biases.copy(), 0
    assert core.update_bits(biases, stream, 127, native(dist), seed, sign, bits) == clipped
    assert np.array_equal(biases, expected)


@pytest.mark.parametrize("dist", EXAMPLES[:3])
def test_a_bias_moves_by_32_times_what_a_weight_moves(dist: Dist) -> None:
    """Compares means over rounding: whole LSB of a bias are 1/32 LSB of a weight."""
    queries = [(seed, 3_000_000 // dist.z_max) for seed in range(20)]
    moved = np.zeros(64)
    for query in queries:
        biases, weights = np.zeros(64, np.int32), np.zeros(64, np.int8)
        fraction = np.zeros(64, np.int8)
        for values, fractions in ((biases, None), (weights, fraction)):
            core.update(values, fractions, None, 1, 1, 7, 127, native(dist), [query])
        exact = weights + fraction / 256
        assert np.abs(biases / 32 - exact).max() <= 1 / 32 + 1 / 256
        moved += biases
    assert moved.any()


@pytest.mark.parametrize("wrong", ["fraction", "size", "type"])
def test_what_is_no_bias_is_refused(wrong: str) -> None:
    biases, own = np.zeros(8, np.int32), np.zeros(32, np.int8)
    tensor = make_tensor(biases, None, None, 8, 1, 0, 127)
    setattr(tensor, wrong, {"size": 31, "type": 3}.get(wrong, own.ctypes.data))
    table = pairs("queries", [(1, 5)], "coefficient")
    for name, arguments in (
        ("zo_perturb_s8", (core.make_terms(pairs("terms", [(1, 1)], "k")),)),
        ("zo_update_s8", (None, table.ctypes.data, 1, None)),
        ("zo_replay_s8", (table.ctypes.data, 1, 1, None)),
    ):
        with pytest.raises(NativeError) as error:
            call(name, tensor, Rademacher(1).struct, *arguments)
        assert error.value.status == Status.ARGUMENT
    assert not biases.any()
