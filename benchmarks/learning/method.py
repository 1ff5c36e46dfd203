# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""A way to adapt a task's model."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Method:
    """One way.

    Attributes:
        summary: one line.
        algorithm: name of an algorithm of `tflm_zo.training.algorithms`; "" for backpropagation in Keras.
        injection: what differs from the algorithm's own injection.
        settings: what differs from the algorithm's own defaults.
        last_layer: whether the last layer alone is trained.
        rehearsal: whether samples of the old domain are mixed in, as many as the task has.
        steps: as many as were published, whatever the budget; None: what the budget is good for.
        integer: full backpropagation in int8 instead, with that rule.
    """

    summary: str
    algorithm: str
    injection: dict[str, Any] = field(default_factory=dict)
    settings: dict[str, Any] = field(default_factory=dict)
    last_layer: bool = False
    rehearsal: bool = False
    steps: int | None = None
    integer: str = ""
