# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""The history of a run: its values by step and epoch."""

from __future__ import annotations

import array
from dataclasses import dataclass, field

__all__ = ["History"]


@dataclass(repr=False)
class History:
    """History of a run, like Keras' History: `history` maps a name to its values.

    Attributes:
        history: values of each epoch: "loss" (mean training loss, nats or the output's unit squared), "rate"
            (the last step's learning rate), "equivalents" (forward equivalents of the run until then)
            and, with validation data, "val_loss" and "val_accuracy" (not for the mean squared error, nor for
            samples of one class alone, for which one constant answer is right).
        measurements: measurements of the run's weights, in order, those before it was resumed included:
            "step", "loss" and, where "val_accuracy" would be given, "accuracy", on the validation data or,
            without them, on the training data; empty with keep="last".
        kept_step: number of whole steps after which the kept weights were reached; 0: the initial weights.
            They are the best measured: those with the smallest loss of all that are right as often as those.
        forwards: samples passed through the network by training, whole or from some layer on; validation not
            included.
        equivalents: cost of the run in forward equivalents, see `Trainer`.
        seconds: duration of the run, validation and callbacks included.
    """

    history: dict[str, list[float]] = field(default_factory=dict)
    measurements: list[dict[str, float]] = field(default_factory=list)
    kept_step: int = 0
    forwards: int = 0
    equivalents: float = 0.0
    seconds: float = 0.0
    # 8 bytes a step: a run may have millions.
    _losses: array.array[float] = field(default_factory=lambda: array.array("d"), compare=False)

    def __repr__(self) -> str:
        losses = self.history.get("loss", [])
        change = f", loss {losses[0]:.4g} -> {losses[-1]:.4g}" if losses else ""
        return f"<History: {len(losses)} epochs{change}, weights of step {self.kept_step} kept>"

    @property
    def steps(self) -> list[float]:
        """Mean loss of each step of this call of `fit`, in nats or the output's unit squared."""
        return self._losses.tolist()

    def append_step(self, loss: float) -> None:
        """Adds one step's mean loss."""
        self._losses.append(loss)

    def append(self, **values: float) -> None:
        """Adds one epoch's values."""
        for name, value in values.items():
            self.history.setdefault(name, []).append(value)
