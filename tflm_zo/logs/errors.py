# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""Errors and warnings about logs."""

from __future__ import annotations

__all__ = ["IncompleteHeaderError", "LogError", "LogWarning"]


class LogError(ValueError):
    """The log is damaged, or of another model or run."""


class IncompleteHeaderError(LogError):
    """The log ends within its header: the run was killed before its first step, and nothing is lost."""


class LogWarning(UserWarning):
    """A run goes on from less than was asked for."""
