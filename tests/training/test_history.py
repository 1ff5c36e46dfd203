# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""The history of a run fits on a line, for notebooks show what `fit` returns."""

from __future__ import annotations

from tflm_zo.training import History


def test_repr() -> None:
    history = History(kept_step=6)
    assert repr(history) == "<History: 0 epochs, weights of step 6 kept>"
    for loss in (2.5, 1.25, 0.62501):
        history.append(loss=loss, rate=1.0)
    assert repr(history) == "<History: 3 epochs, loss 2.5 -> 0.625, weights of step 6 kept>"
