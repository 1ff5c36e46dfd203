# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""A run as TensorBoard shows it."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from .callbacks import Callback

if TYPE_CHECKING:
    from .trainer import Trainer

__all__ = ["TensorBoard"]


class TensorBoard(Callback):
    """Writes event files for TensorBoard: `loss`, `rate` and `equivalents` (forward equivalents of the run
    until then) of steps, and the history's values of epochs as `epoch/…`, `epoch/val_accuracy` among them.

    It needs the package tensorboardX, of the extra ``tflm_zo[tensorboard]``, and no TensorFlow.

    Args:
        folder: folder of the event files; runs in folders side by side are laid over each other. A resumed
            run takes the place of what a run before has written of its steps.
        every: steps between two entries, >= 1.

    Raises:
        ImportError: tensorboardX is not installed.
        ValueError: `every` is out of range.
    """

    def __init__(self, folder: str | os.PathLike[str], *, every: int = 1) -> None:
        if every < 1:
            raise ValueError(f"every: expected at least 1, got {every}")
        try:
            from tensorboardX import SummaryWriter
        except ImportError as error:
            raise ImportError(
                f"TensorBoard needs tensorboardX, which does not import ({error}); install it with: "
                "pip install 'tflm_zo[tensorboard]'"
            ) from error
        self._make, self._folder, self._every = SummaryWriter, os.fspath(folder), every
        self._writer: Any = None

    def on_train_begin(self, trainer: Trainer, steps: int) -> None:
        """Opens an event file."""
        # Files are named by the second: a run that is resumed at once is to have one of its own.
        suffix = f".{trainer.step}"
        self._writer = self._make(self._folder, purge_step=trainer.step or None, filename_suffix=suffix)

    def on_step_end(self, trainer: Trainer, step: int, logs: dict[str, float]) -> None:
        """Writes the values of the step, if it is one of `every`."""
        done = step + 1
        if done % self._every == 0:
            self._write("", {**logs, "equivalents": trainer.equivalents}, done)

    def on_epoch_end(self, trainer: Trainer, epoch: int, logs: dict[str, float]) -> None:
        """Writes the values of the epoch."""
        self._write("epoch/", logs, trainer.step)
        self._writer.flush()

    def on_train_end(self, trainer: Trainer) -> None:
        """Closes the file."""
        self._writer.close()

    def _write(self, prefix: str, values: dict[str, float], step: int) -> None:
        for name, value in values.items():
            self._writer.add_scalar(prefix + name, value, step)
