# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""The logits' scale as the class losses take it."""

from __future__ import annotations

import math
from dataclasses import dataclass

from .declarations import Struct
from .loader import structs

__all__ = ["LogitScale"]


@dataclass(frozen=True)
class LogitScale:
    """Scale of the logits in the fixed point of the cross-entropies.

    Attributes:
        scale_log2e: round(s * log2(e) * 2^24).
        scale: scale s of the logits in fixed point, round(s * 2^24).
    """

    scale_log2e: int
    scale: int

    @classmethod
    def of(cls, scale: float) -> LogitScale:
        """Prepares a logit scale s, 2^-20 to 64."""
        if not 2.0**-20 <= scale <= 64.0:
            raise ValueError(f"scale: expected 2^-20 to 64, got {scale}")
        return cls(round(scale * math.log2(math.e) * 2**24), round(scale * 2**24))

    @property
    def struct(self) -> Struct:
        """``zo_logit_scale``."""
        struct: Struct = structs.zo_logit_scale(self.scale_log2e, self.scale)
        return struct
