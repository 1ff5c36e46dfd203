# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""A segment of a model that a runtime has loaded."""

from __future__ import annotations

from dataclasses import dataclass

from ..core import Directory
from .engine import Engine

__all__ = ["Segment"]


@dataclass(frozen=True)
class Segment:
    """One segment in its interpreter; numbers index its inputs and outputs, None where it has none."""

    engine: Engine
    directory: Directory
    inputs: dict[int, int]  # original input -> input of the segment
    outputs: dict[int, int]  # original output -> output of the segment
    boundary_input: int | None
    skips: dict[int, int]  # segment that a boundary entered -> input of this segment
    boundary_output: int | None
    label: int | None
    command: int | None
    loss: int | None
    status: int | None
