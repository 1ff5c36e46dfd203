# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""How many examples tests of properties try: all where ``CI`` is set, a quarter on somebody's own machine."""

from __future__ import annotations

import os


def examples(count: int) -> int:
    """`count`, or a quarter of it."""
    return count if os.environ.get("CI") else max(count // 4, 10)
