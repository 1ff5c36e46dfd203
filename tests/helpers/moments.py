# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""What may happen in the middle of a run."""

from __future__ import annotations

from typing import Any

from tflm_zo.training import Callback, Trainer


class At(Callback):
    """Does something after a step."""

    def __init__(self, step: int, action: Any) -> None:
        self.step, self.action = step, action

    def on_step_end(self, trainer: Trainer, step: int, logs: dict[str, float]) -> None:
        if step == self.step:
            self.action(trainer)


def stop(trainer: Trainer) -> None:
    trainer.stop_training = True


def interrupt(*_: Any) -> None:
    raise KeyboardInterrupt
