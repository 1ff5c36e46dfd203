# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""Keeps the run as it was after some epochs: the seed log up to there, from which its weights are rebuilt."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ..seedlog import LogError
from .callbacks import Callback

if TYPE_CHECKING:
    from .trainer import Trainer

__all__ = ["Checkpoint"]

_MONITORS: Final = ("val_accuracy", "val_loss")


class Checkpoint(Callback):
    """Copies the seed log, a few bytes per step, whole or not at all.

    The copy is a seed log like any other: `replay_log` or ``tflm-zo replay`` rebuild the weights, and a run
    can be resumed from it.

    A resumed run finds its checkpoint again: the best value so far is that of the checkpoint's weights, and
    the file ends up as it would have without the interruption.

    Args:
        path: of the copy; replaced after each better epoch. At the beginning of a run there must be none,
            unless the run is resumed (or `replace`).
        every: so many epochs, >= 1.
        best: "val_accuracy" or "val_loss": only where it is better than in the epochs before; None: always.
        replace: the run may begin although there is such a file.

    Raises:
        ValueError: at construction: a value out of range; as the run begins: it has no log, or no validation
            data that the value could be measured on.
        FileExistsError: as the run begins: there is a file.
        LogError: as a resumed run begins: the file is no checkpoint of this run.
        OSError: it cannot be written.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        every: int = 1,
        best: str | None = None,
        replace: bool = False,
    ) -> None:
        if every < 1:
            raise ValueError(f"every: expected at least 1, got {every}")
        if best is not None and best not in _MONITORS:
            raise ValueError(f"best: no {best!r}; there are {', '.join(_MONITORS)}")
        self._path, self._every, self._monitor, self._replace = Path(path), every, best, replace
        self._score = float("-inf")

    def on_train_begin(self, trainer: Trainer, steps: int) -> None:
        """Looks for what a resumed run has kept."""
        self._score = float("-inf")
        if trainer.log is None:
            raise ValueError("a checkpoint is a part of the seed log: give fit a log")
        there = self._path.exists()
        if there and not trainer.step and not self._replace:
            raise FileExistsError(f"{self._path} exists; choose another name or ask to replace it")
        if self._monitor is not None and self._monitor not in (possible := trainer.validate()):
            raise ValueError(f"best: no {self._monitor!r}; there are {', '.join(possible)}")
        kept = 0
        if there and trainer.step:
            try:
                kept, values = trainer.validate_at(self._path)
            except LogError as error:
                raise LogError(f"{self._path} is no checkpoint of this run; choose another name") from error
            if self._monitor is not None:
                self._score = self._sign(values[self._monitor])
        # The run may have been killed after an epoch's last step and before its checkpoint.
        epochs, within = divmod(trainer.step, trainer.steps_per_epoch)
        if trainer.step > kept and not within and not epochs % self._every:
            self._consider(trainer, trainer.validate() if self._monitor is not None else {})

    def on_epoch_end(self, trainer: Trainer, epoch: int, logs: dict[str, float]) -> None:
        """Copies the log."""
        if (epoch + 1) % self._every == 0:
            self._consider(trainer, logs)

    def _consider(self, trainer: Trainer, logs: dict[str, float]) -> None:
        if self._monitor is not None:
            score = self._sign(logs[self._monitor])
            if score <= self._score:
                return
            self._score = score
        trainer.save_log(self._path)

    def _sign(self, value: float) -> float:
        return value if self._monitor == "val_accuracy" else -value
