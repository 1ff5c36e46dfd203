# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""Which output channels an update moves, and which of them share a gradient."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from helpers.nodes import ONE, NodeRule, dense, update_from_nodes
from tflm_zo.core import NodeForm, NodeLayer, NodeState


@pytest.mark.parametrize("rule", list(NodeRule))
@pytest.mark.parametrize(
    ("errors", "rows", "expected"),
    [
        ([[3, -9, 1, 9, 2]], 1, {1}),
        ([[3, -9, 1, 9, 2]], 2, {1, 3}),
        ([[3, -9, 1, 9, 2]], 3, {0, 1, 3}),
        ([[5, 5, 5, 5, 5]], 3, {0, 1, 2}),
        ([[1, 5, 5, 5, 9]], 3, {1, 2, 4}),
        ([[7, 4, 0, 0, 0], [-7, 4, 3, 0, 9]], 2, {0, 4}),  # 14, 8, 3, 0, 9: the signs do not cancel
        ([[1, 2, 3, 4, 5]], 5, {0, 1, 2, 3, 4}),
        ([[1, 2, 3, 4, 5]], 0, {0, 1, 2, 3, 4}),
    ],
)
def test_channels_of_the_largest_errors(rule, errors, rows, expected):
    errors = np.array(errors)
    inputs = np.array([[100, 0, -100, 50], [-90, 100, 30, 1]])[: len(errors)]
    weights = np.zeros((5, 4), np.int8)
    dense(inputs, errors, weights, rule, rate=20 * ONE, rows=rows, bits=7, gain=float(ONE))
    assert {int(c) for c in np.flatnonzero(weights.any(1))} == expected


def moved_by_bits(layer: NodeLayer, inputs: Any, routes: Any, errors: Any) -> Any:
    """Two channels of one weight each after a step of 7 bits of the one with the larger error."""
    weights = np.zeros((2, 1), np.int8)
    update_from_nodes(
        layer,
        NodeState(),
        weights,
        None,
        None,
        0,
        127,
        inputs,
        np.array([routes], np.uint8),
        rate=0,
        clip=1,
        seed=0,
        errors=np.array([errors], np.int16),
        rule=NodeRule.BITS,
        bits=7,
        rows=1,
    )
    return weights.tolist()


def test_clamped_nodes_count_for_no_channel():
    layer = NodeLayer(in_c=1, out_c=2)
    assert moved_by_bits(layer, np.ones((1, 1), np.int8), [255, 0], [100, 1]) == [[0], [-1]]


def test_a_mean_counts_every_output_that_it_credits():
    """Equal errors, and 2 and 3 outputs of 9 that are not clamped."""
    layer = NodeLayer(in_c=1, out_c=2, form=NodeForm.MEAN, in_h=3, in_w=3, out_h=3, out_w=3)
    assert moved_by_bits(layer, np.ones((1, 9), np.int8), [0b10, 0b1, 0b111, 0], [5, 5]) == [[0], [-15]]


def test_scratch_memory():
    """One filter channel, and a value for each channel."""
    assert NodeLayer(in_c=5, out_c=7, k_h=3, k_w=2, in_h=3, in_w=2).scratch_values == 3 * 2 * 5 + 7


def test_channels_of_equal_errors_that_read_different_inputs():
    """Of a dense layer they share their gradient, of a depthwise one they do not."""
    layer = NodeLayer(in_c=3, out_c=3, depthwise=True)
    weights = np.zeros(3, np.int8)
    given = {"errors": np.full((1, 3), 1024, np.int16), "rule": NodeRule.FIXED, "gain": 64.0}
    inputs = np.array([[10, -20, 30]], np.int8)
    update_from_nodes(
        layer, NodeState(), weights, None, None, 0, 127, inputs, None, rate=ONE, clip=2**24, seed=0, **given
    )
    assert weights.tolist() == [-10, 20, -30]
