# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""Calls of a device's trainer in any order, while anything fails, see `device.walk`.

TFLM_ZO_CALLS says how many calls there are for each run: 70000 make a million.
"""

from __future__ import annotations

import os
from collections import Counter

import pytest

from device.emulation import OK, ORDER, RUNTIME_FAILED, SAMPLE, STORE, needs_compiler
from device.runs import RUNS
from device.walk import Walk

pytestmark = needs_compiler

CALLS = int(os.environ.get("TFLM_ZO_CALLS", "3000"))


def walk(name: str, seed: int, calls: int) -> Counter[tuple[str, int]]:
    made = Walk(name, seed)
    made.go(calls)
    print(f"{name}: {sum(made.calls.values())} calls")
    return made.calls


@pytest.mark.parametrize("name", ["weight", "exact head"])
def test_some_calls_in_any_order(name: str) -> None:
    found = walk(name, 1, 400)
    assert found["step", OK] and found["step", ORDER] and found["import_log", OK]


@pytest.mark.slow
@pytest.mark.parametrize("name", RUNS)
def test_calls_in_any_order(name: str) -> None:
    found = walk(name, 2, CALLS)
    # It goes everywhere: each call succeeds now and then, and meets what fails.
    if CALLS >= 3000:
        for call in {call for call, _ in found if not call.startswith("init ")}:
            assert found[call, OK], call
        for status in (ORDER, STORE, SAMPLE, RUNTIME_FAILED):
            assert any(found[call, status] for call in ("step", "slice")), status
