"""Errors that are written over those that they are made of, at the smallest distance, have the same bits."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers import backward
from helpers.backward import Pool
from helpers.examples import examples
from helpers.oracle.in_place import least_lead
from helpers.oracle.node_draws import layers, native, stored
from helpers.oracle.nodes import PLAIN, Layer
from tflm_zo.core.backward import BackwardStep

seeds = st.integers(0, 2**32 - 1)


def overlapping(values, count, lead):
    """Returns flat errors, and where `count` others begin `lead` values before them, in the same memory."""
    memory = np.full(max(lead, 0) + max(values.size, count) + max(-lead, 0), 77, np.int16)
    source = memory[max(lead, 0) :][: values.size]
    source[:] = values.ravel()
    return source, memory[max(-lead, 0) :][:count]


def step_of(layer: Layer) -> BackwardStep:
    return BackwardStep("layer", 0, 1, layer=native(layer))


def pass_back(layer: Layer, rng, lead=None):
    """Returns errors of a layer's inputs, written apart and `lead` values before those of the outputs."""
    weights = rng.integers(-127, 128, (layer.outputs[2], *layer.kernel, layer.depth)).astype(np.int8)
    scales = rng.integers(1, 32768, layer.outputs[2]).astype(np.int16)
    values = rng.integers(-32767, 32768, layer.outputs).astype(np.int16)
    apart = backward.conv(native(layer), stored(layer, weights), scales, (values, 3))
    source, target = overlapping(values, apart[0].size, step_of(layer).lead if lead is None else lead)
    found = backward.conv(native(layer), stored(layer, weights), scales, (source, 3), target.reshape(apart[0].shape))
    assert found[1] == apart[1]
    return apart[0], found[0]


@settings(max_examples=examples(300))
@given(layers(), seeds)
def test_a_layer_at_the_smallest_distance(layer, seed):
    outputs = layer.outputs[0] * layer.outputs[1] * layer.outputs[2]
    expected = least_lead(native(layer).struct.numbers(), layer.inputs[2], layer.outputs[2])
    # Errors that begin behind all others share no memory with them.
    assert step_of(layer).lead == (-outputs if expected is None else max(expected, -outputs))
    np.testing.assert_array_equal(*pass_back(layer, np.random.default_rng(seed)))


CLOSE = [
    Layer(PLAIN, (6, 6, 2), (3, 3), (1, 1), (1, 1), (1, 1), (6, 6, 2), (6, 6)),
    Layer(PLAIN, (8, 8, 2), (3, 3), (2, 2), (1, 1), (0, 0), (4, 4, 4), (4, 4)),
    Layer(PLAIN, (6, 6, 4), (1, 1), (1, 1), (1, 1), (0, 0), (6, 6, 3), (6, 6)),
    Layer(PLAIN, (6, 6, 3), (3, 3), (1, 1), (2, 2), (2, 2), (6, 6, 6), (6, 6), depthwise=True),
]


@pytest.mark.parametrize("layer", CLOSE)
def test_a_position_less_is_wrong(layer):
    lead = step_of(layer).lead
    np.testing.assert_array_equal(*pass_back(layer, np.random.default_rng(1), lead))
    apart, found = pass_back(layer, np.random.default_rng(1), lead - 1)
    assert not np.array_equal(apart, found)


def test_distances_by_hand():
    """A row above and a position of a window of 3 by 3; a window of 1 by 1 that widens 3 channels to 4."""
    assert [step_of(layer).lead for layer in CLOSE[::2]] == [(6 + 1) * 2, 35 * (4 - 3)]


@st.composite
def pools(draw):
    window = draw(st.tuples(st.integers(1, 4), st.integers(1, 4)))
    stride = draw(st.tuples(st.integers(1, 4), st.integers(1, 4)))
    pad = tuple(draw(st.integers(0, k - 1)) for k in window)
    inputs = draw(st.tuples(st.integers(1, 6), st.integers(1, 6), st.integers(1, 3)))
    outputs = tuple(draw(st.integers(1, (n + p - 1) // s + 1)) for n, p, s in zip(inputs, pad, stride, strict=False))
    return Pool(inputs, outputs, window, stride, pad)


@given(pools(), seeds)
def test_an_average_pool(pool, seed):
    numbers, channels = pool.struct.numbers(), pool.inputs[2]
    lead = BackwardStep("average_pool", 0, 1, numbers).lead
    expected = least_lead(numbers, channels, channels)
    count = pool.outputs[0] * pool.outputs[1] * channels
    assert lead == (-count if expected is None else max(expected, -count))
    values = np.random.default_rng(seed).integers(-32767, 32768, (*pool.outputs, channels)).astype(np.int16)
    apart = backward.average_pool(pool, (values, 3))
    source, target = overlapping(values, apart[0].size, lead)
    found = backward.average_pool(pool, (source, 3), target.reshape(pool.inputs))
    assert found[1] == apart[1]
    np.testing.assert_array_equal(found[0], apart[0])


@given(st.integers(1, 24), seeds)
def test_value_by_value(count, seed):
    """Factors, levels and slices may begin where the errors do that they read."""
    rng = np.random.default_rng(seed)
    values, mantissas = rng.integers(-32767, 32768, count).astype(np.int16), rng.integers(-9, 9, 256).astype(np.int16)
    activations = rng.integers(-128, 128, count).astype(np.int8)
    assert [BackwardStep(kind, 0, 1).lead for kind in ("factors", "levels", "slice")] == [0, 0, 0]
    for does in (
        lambda *errors: backward.scale(mantissas[:1], 0, (errors[0], 0), *errors[1:])[0],
        lambda *errors: backward.levels(mantissas, 0, activations, (errors[0], 0), *errors[1:])[0],
        lambda *errors: backward.slice_blocks(errors[0], 1, count, count // 3, count - count // 3, *errors[1:]),
    ):
        apart = does(values)
        np.testing.assert_array_equal(does(*overlapping(values, apart.size, 0)).ravel(), apart.ravel())


def test_other_steps_take_memory_of_their_own():
    kinds = ("mask", "add", "place", "product", "sum")
    assert [BackwardStep(kind, 0, 1).lead for kind in kinds] == [None] * 5
    pool = Pool((2, 2, 1), (1, 1), (2, 2), (2, 2), (0, 0)).struct.numbers()
    assert BackwardStep("max_pool", 0, 1, pool).lead is None
