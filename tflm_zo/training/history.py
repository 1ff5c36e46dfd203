# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""What a run recorded."""

from __future__ import annotations

from dataclasses import dataclass, field

__all__ = ["History"]


@dataclass
class History:
    """Like Keras' History: `history` maps a name to its values.

    Attributes:
        history: per epoch: "loss" (mean training loss, nats), "rate", "equivalents" (forward equivalents of
            the run until then) and, with validation data, "val_loss" and "val_accuracy" (not for the mean
            squared error).
        steps: per step: mean loss, nats.
        forwards: samples passed through the network by training, whole or from some layer on; validation not
            included.
        equivalents: the same in forward equivalents, see `Trainer`.
        seconds: of the run, validation and callbacks included.
    """

    history: dict[str, list[float]] = field(default_factory=dict)
    steps: list[float] = field(default_factory=list)
    forwards: int = 0
    equivalents: float = 0.0
    seconds: float = 0.0

    def append(self, **values: float) -> None:
        """Adds one epoch's values."""
        for name, value in values.items():
            self.history.setdefault(name, []).append(value)
