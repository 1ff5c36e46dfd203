# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""Errors of the runtimes."""

from __future__ import annotations

__all__ = ["RuntimeUnavailableError", "InvokeError"]


class RuntimeUnavailableError(ImportError):
    """The runtime asked for is not installed; the message says what installs it."""


class InvokeError(RuntimeError):
    """The interpreter stopped with an error; the message carries its own words."""
