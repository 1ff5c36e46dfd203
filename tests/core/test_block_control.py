# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""The state machine that chooses a block of layers by the scores of its probes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tflm_zo.core import NativeError, Status
from tflm_zo.core.block_control import BlockControl


@given(st.lists(st.integers(-(2**63), 2**63 - 1) | st.integers(0, 2), min_size=1, max_size=20))
def test_the_best_score_counts(scores: list[int]) -> None:
    control, asked = BlockControl(len(scores)), []
    while (block := control.next()) is not None:
        asked.append(block)
        control.report(scores[block])
    assert asked == list(range(len(scores)))
    assert control.best == scores.index(max(scores))
    with pytest.raises(NativeError) as error:
        control.report(0)
    assert error.value.status == Status.ORDER


def test_there_is_a_block() -> None:
    with pytest.raises(NativeError):
        BlockControl(0)
