# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""The ways in which a part of a layer-wise run estimates its gradient."""

from __future__ import annotations

from enum import Enum

__all__ = ["TaskKind"]


class TaskKind(Enum):
    """How a task's gradient is estimated."""

    NODES = "nodes"
    EXACT = "exact"
    WEIGHTS = "weights"
