# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""The logits' scale in fixed point, against exact fractions."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tflm_zo.core import LogitScale

# log2(e) to 50 digits, from its series in exact fractions: e = sum 1 / k!, ln 2 = sum 1 / (k 2^k).
LN_2 = sum(Fraction(1, k * 2**k) for k in range(1, 180))


@given(st.floats(2.0**-20, 64.0))
def test_both_numbers_are_the_nearest(scale: float) -> None:
    found = LogitScale.of(scale)
    exact = Fraction(scale) * 2**24
    assert abs(found.scale - exact) <= Fraction(1, 2)
    # Computed in float64: of 28 bits none but a tie can differ.
    assert abs(found.scale_log2e - exact / LN_2) <= Fraction(1, 2) + Fraction(1, 2**20)
    assert (found.struct.scale_log2e, found.struct.scale) == (found.scale_log2e, found.scale)


@pytest.mark.parametrize("scale", [0.0, -1.0, 2.0**-21, 64.001, math.inf, math.nan])
def test_out_of_range(scale: float) -> None:
    with pytest.raises(ValueError, match="scale: expected 2\\^-20 to 64"):
        LogitScale.of(scale)
