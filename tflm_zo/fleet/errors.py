# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""Errors of fleets."""

from __future__ import annotations

__all__ = ["FleetError"]


class FleetError(ValueError):
    """What came is of another model, run, version or step, or damaged; nothing has changed."""
