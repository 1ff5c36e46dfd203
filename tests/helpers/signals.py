# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""Signals of processes that tests start."""

from __future__ import annotations

import signal


def not_ignored() -> None:
    """For ``preexec_fn``: shells have what they start in the background ignore SIGINT, and nohup SIGHUP."""
    for ending in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(ending, signal.SIG_DFL)
