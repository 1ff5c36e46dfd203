# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""What the weight operators say of an invoke."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["Status"]


@dataclass(frozen=True)
class Status:
    """Diagnostics of the last invoke (``zo_status``).

    Attributes:
        steps: steps applied since the weights were initialized or all restored, replayed ones included.
        saturated: number of weights that the last invoke clipped to the headroom.
        checksum: checksum of all trainable weights and fractions after the last invoke's weight ops, where
            the command asked for it, else 0; it does not depend on the model's cuts.
    """

    steps: int
    saturated: int
    checksum: int

    @classmethod
    def of(cls, words: NDArray[np.int64]) -> Status:
        """Sums the ``zo_status`` of segments up, [segments, 4]."""
        steps = int(words[:, 1].max(initial=0))
        return cls(steps, int(words[:, 2].sum()), int(words[:, 3].sum()) & 0xFFFFFFFF)
