# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""Copies a run's log after some epochs: a state of the run, from which its weights are rebuilt."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from ..logs import LogError
from .callbacks import Callback

if TYPE_CHECKING:
    from .trainer import Trainer

__all__ = ["Checkpoint"]


class Checkpoint(Callback):
    """Copies the run's log, whole or not at all.

    The copy is a log like any other: ``tflm-zo replay`` makes a model of it, and a run can be resumed from
    it. The `keep` of `Trainer.fit`, and not the checkpoint, decides on the state that a run hands over. A
    run that was interrupted and resumed ends with the same copy as one that was not.

    Args:
        path: path of the copy, which each later copy replaces. The file must not exist as a run begins,
            unless the run is resumed or `replace` is set.
        every: number of epochs between two copies, >= 1.
        replace: True if the run may begin although the file exists.

    Raises:
        ValueError: `every` is out of range, or the run that begins has no log.
        FileExistsError: the file exists as the run begins.
        LogError: the file is no checkpoint of the run that is resumed.
        OSError: the copy cannot be written.
    """

    def __init__(self, path: str | os.PathLike[str], *, every: int = 1, replace: bool = False) -> None:
        if every < 1:
            raise ValueError(f"every: expected at least 1, got {every}")
        self._path, self._every, self._replace = Path(path), every, replace

    def on_train_begin(self, trainer: Trainer, steps: int) -> None:
        """Reads the checkpoint of a resumed run."""
        if trainer.log is None:
            raise ValueError("a checkpoint is a copy of the log: give fit a log")
        there = self._path.exists()
        if there and not trainer.step and not self._replace:
            raise FileExistsError(f"{self._path} exists; choose another name or ask to replace it")
        kept = 0
        if there and trainer.step:
            try:
                kept = trainer.steps_of_copy(self._path)
            except LogError as error:
                raise LogError(f"{self._path} is no checkpoint of this run; choose another name") from error
        # The run may have been killed after an epoch's last step and before its checkpoint.
        epochs, within = divmod(trainer.step, trainer.steps_per_epoch)
        if trainer.step > kept and not within and not epochs % self._every:
            trainer.save_log(self._path)

    def on_epoch_end(self, trainer: Trainer, epoch: int, logs: dict[str, float]) -> None:
        """Copies the log."""
        if (epoch + 1) % self._every == 0:
            trainer.save_log(self._path)
