# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""A model's loss, and its logits' scale, as the core takes them."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from .declarations import Struct
from .loader import structs

__all__ = ["LogitScale", "ModelLoss"]


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


@dataclass(frozen=True)
class ModelLoss:
    """``zo_model_loss``.

    Attributes:
        kind: "cross_entropy", "binary_cross_entropy", "mse" or "floor_log2".
        scale: of what the loss reads; of logits 2^-20 to 64.
        zero_point: of what the loss reads, -128 to 127.
    """

    kind: str
    scale: float
    zero_point: int

    @property
    def number(self) -> int:
        """``zo_loss_kind``."""
        return ("cross_entropy", "binary_cross_entropy", "mse", "floor_log2").index(self.kind)

    def labels(self, outputs: int) -> tuple[int, type[np.generic]]:
        """Returns how many labels a sample has whose loss reads a number of outputs, and their type."""
        one = self.kind not in ("binary_cross_entropy", "mse")
        return 1 if one else outputs, np.int8 if self.kind == "mse" else np.int32

    @property
    def struct(self) -> Struct:
        """``zo_model_loss``; a mean squared error has no scale there."""
        scale = LogitScale(0, 0) if self.kind == "mse" else LogitScale.of(self.scale)
        zero_point = self.zero_point if self.kind == "binary_cross_entropy" else 0
        struct: Struct = structs.zo_model_loss(self.number, zero_point, scale.struct)
        return struct
