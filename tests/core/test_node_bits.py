# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""Gradients rounded to a few bits by their own low bits, in every case and at the ends."""

from __future__ import annotations

import numpy as np
import pytest

from helpers.nodes import NodeRule, dense
from helpers.oracle.node_rules import pseudo_stochastic


def rounded_by_the_core(width, bits):
    """Updates of `bits` bits of the gradients 0..2^width - 1: two samples give its low and its high byte."""
    values = np.arange(2**width)
    inputs = np.stack([values % 256 - 128, values // 256 - 128])
    weights = np.ones((1, values.size), np.int8)  # from 1, no update of -128 to 128 leaves the limit
    assert dense(inputs, np.array([[1], [256]]), weights, NodeRule.BITS, zero_point=-128, bits=bits) == 0
    return values, 1 - weights[0].astype(int)


@pytest.mark.parametrize("width", [2, 5, 8, 9, 16])
@pytest.mark.parametrize("bits", [1, 4, 7])
def test_every_rounding(width, bits):
    values, rounded = rounded_by_the_core(width, bits)
    shift = max(0, width - bits)
    assert rounded.tolist() == [pseudo_stochastic(int(v), shift) for v in values]
    assert np.abs(rounded - values / 2**shift).max() < 1


@pytest.mark.parametrize("shift", range(1, 16))
def test_bias_of_the_rounding(shift):
    """What the header says of the mean over all low bits, by exact counting."""
    values, rounded = rounded_by_the_core(shift + 1, 1)
    doubled = rounded * 2**shift - values
    if shift % 2 == 1:
        expected = 1 / 2 ** (shift + 1)
    else:
        expected = -(2 ** (shift // 2) - 1) / 2 ** (shift + 1)
    assert doubled.mean() / 2**shift == expected
    assert -1 / 8 <= expected <= 1 / 4
    assert shift < 5 or abs(expected) < 1 / 16


def test_rounding_is_odd_and_saturates():
    """-G gives the negative update; the largest gradient may round up to 2^bits, which leaves the limit."""
    inputs = np.array([[-128, -100, 127, 3]])
    up, down = np.zeros((1, 4), np.int8), np.zeros((1, 4), np.int8)
    for weights, error in ((up, 1), (down, -1)):
        assert dense(inputs, np.array([[error]]), weights, NodeRule.BITS, zero_point=1, bits=7) == 0
    assert np.array_equal(up, -down)
    assert up.tolist() == [[65, 51, -63, -1]]  # gradients -129, -101, 126 and 2, a shift of 1
    edge = np.array([[-120, 120]], np.int8)
    assert dense(np.array([[127, 100]]), np.array([[1]]), edge, NodeRule.BITS, zero_point=-128, bits=7) == 1
    assert edge.tolist() == [[-127, 6]]  # gradients 255 and 228: updates 128 and 114


def test_few_bits_of_a_small_gradient():
    """A gradient that has no more bits than the update is the update."""
    weights = np.zeros((1, 3), np.int8)
    dense(np.array([[5, -7, 0]]), np.array([[-1]]), weights, NodeRule.BITS, bits=3)
    assert weights.tolist() == [[5, -7, 0]]
    dense(np.array([[0, 0, 0]]), np.array([[-1]]), weights, NodeRule.BITS, bits=3)
    assert weights.tolist() == [[5, -7, 0]]
