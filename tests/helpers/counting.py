# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""Work that is counted, which is the same on every machine, and not timed."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any


def calls_of(do: Callable[[], Any]) -> int:
    """Calls of functions, Python's and C's, that `do` makes in this thread."""
    calls = 0

    def count(frame: Any, event: str, argument: Any) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        do()
    finally:
        sys.setprofile(before)
    return calls
