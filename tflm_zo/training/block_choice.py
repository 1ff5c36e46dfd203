# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""Which block of layers a task is best trained in (Poor Man's Training, sec. 3.3).

The decision is made by the C core's state machine (``ops/core/run/zo_block_choice.h``), the one that firmware
runs; here its probes are done in a runtime.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable

from ..converters import Model, initial_weights
from ..core import BlockControl
from ..data import Labels, Samples, prepare
from ..logs import LogError, SnapshotLog
from .block_search import BlockSearch, check_layerwise
from .callbacks import Callback
from .costs import Costs, NodeCosts
from .evaluation import evaluate
from .held_out import hold_out
from .length import planned_steps
from .settings import Settings
from .trainer import Trainer

__all__ = ["BlockChoice", "BlockProbes", "choose_block"]

ProbeProgress = Callable[[int, int, int], None]
"""Told after each step of a probe: its block, steps done in all probes, how many there are."""


@dataclasses.dataclass(frozen=True)
class BlockChoice:
    """The result of the probes.

    Attributes:
        best: number of the best block; of equal ones the first.
        blocks: names of the layers of each block, in execution order.
        scores: of each block: held-out samples that are right (a loss of classes), else minus the sum of
            their losses, unit 2^-16.
        before: the same of the model as it was.
        held_out: number of held-out samples.
        of_classes: whether scores are numbers of right samples.
        equivalents: what it cost in forward equivalents: training of the probes, and a forward pass of every
            held-out sample after each and before them all.
    """

    best: int
    blocks: tuple[tuple[str, ...], ...]
    scores: tuple[int, ...]
    before: int
    held_out: int
    of_classes: bool
    equivalents: float

    @property
    def layers(self) -> tuple[str, ...]:
        """Names of the layers of the best block, as `Settings.layers` takes them."""
        return self.blocks[self.best]

    def value(self, score: int) -> float:
        """A score as people read it: accuracy, 0..1, or mean loss."""
        return score / self.held_out if self.of_classes else -score / 65536 / self.held_out


class _Steps(Callback):
    """Counts the steps of all probes."""

    def __init__(self, tell: ProbeProgress | None, total: int) -> None:
        self._tell, self._total, self._done, self.block = tell, total, 0, 0

    def on_step_end(self, trainer: Trainer, step: int, logs: dict[str, float]) -> None:
        """Passes it on."""
        self._done += 1
        if self._tell is not None:
            self._tell(self.block, self._done, self._total)


class BlockProbes:
    """Probes of each block of layers; `choose_block` in two parts, the first of which trains nothing.

    Args:
        trainer_or_model: the ZO model, or a trainer of it, whose runtime and weights stay as they are.
        settings: as for `choose_block`.
        x: as for `choose_block`.
        y: as for `choose_block`.
        search: how many blocks there are, how long each is trained, and what judges it.
        runtime: as for `choose_block`.

    Attributes:
        blocks: names of the layers of each block.
        equivalents: what the probes cost, in forward equivalents.

    Raises:
        SettingsError: at construction, as `choose_block`.
        DataError: wrong data.
    """

    def __init__(
        self,
        trainer_or_model: Trainer | Model | bytes | str | os.PathLike[str],
        settings: Settings | None,
        x: Samples,
        y: Labels | None,
        search: BlockSearch,
        *,
        runtime: str | None = None,
    ) -> None:
        model: Model | bytes | str | os.PathLike[str]
        if isinstance(trainer_or_model, Trainer):
            model, own = trainer_or_model.model, trainer_or_model
            runtime = runtime or own.runtime.name
            settings = settings or own.settings
        else:
            model = trainer_or_model
        if settings is not None:
            check_layerwise(settings)
        self._trainer = trainer = Trainer(model, settings, runtime=runtime or "litert")
        self._settings = settings = trainer.settings
        metadata = trainer.runtime.metadata
        loss = metadata.loss
        assert loss is not None  # the trainer has refused such a model
        self._of_classes = loss.of_classes
        self._initial = initial_weights(trainer.model)
        self.blocks = search.split(settings, metadata)
        data = prepare(trainer.runtime, x, y)
        self._train, self._judge = hold_out(data, loss, search.held_out, settings.seed)
        samples = len(self._train)
        self._steps = planned_steps(settings, samples, search.epochs, None)
        costs = Costs(trainer.model, metadata)
        self._costs = [NodeCosts(costs, self.settings_of(b), metadata) for b in range(search.blocks)]
        training = sum(c.until(self._steps, samples) for c in self._costs)
        self.equivalents = training + len(self._judge) * (search.blocks + 1)

    def settings_of(self, block: int) -> Settings:
        """Settings of a run that trains one block alone."""
        return dataclasses.replace(self._settings, layers=self.blocks[block])

    def rest_of(self, budget: float, samples: int) -> float:
        """Returns the part of a budget that the probes leave.

        Args:
            budget: forward equivalents.
            samples: of the training set.

        Raises:
            ValueError: no budget, or not enough for a step of every block; the message says what it takes.
        """
        if not 0 < budget < 2**63:
            raise ValueError(f"budget: expected forward equivalents above 0, got {budget:g}")
        step = max(c.until(1, samples) for c in self._costs)
        if not budget >= self.equivalents + step:
            raise ValueError(
                f"budget: the probes of {len(self.blocks)} blocks take {self.equivalents:.0f} forward "
                f"equivalents, and a step up to {step:.0f} more, got {budget:g}"
            )
        return budget - self.equivalents

    def block_of(self, log: str | os.PathLike[str]) -> int:
        """The block that a run trains, from its log.

        Raises:
            IncompleteHeaderError: the log ends before its first record.
            LogError: it is of another model, of layers that are not one of the blocks, or no such log.
            OSError: it cannot be read.
        """
        found = SnapshotLog.read(log)
        found.check_model(self._trainer.model)
        trainable = self._trainer.runtime.metadata.trainable
        layers = tuple(trainable[i].layer for i in sorted(i for task in found.tasks for i in task.tensors))
        if layers not in self.blocks:
            raise LogError(
                f"{os.fspath(log)} is of a run that trains {', '.join(layers)}, which is none of the blocks: "
                + "; ".join(", ".join(block) for block in self.blocks)
            )
        return self.blocks.index(layers)

    def run(self, progress: ProbeProgress | None = None) -> BlockChoice:
        """Does the probes.

        Raises:
            KeyboardInterrupt: Ctrl-C.
        """
        control, steps = BlockControl(len(self.blocks)), _Steps(progress, self._steps * len(self.blocks))
        trainer, scores = self._trainer, []
        trainer.runtime.invoke(trainer.runtime.command(loss=False).restore())
        before = self._score()
        while (block := control.next()) is not None:
            # Every run begins with the weights that the model starts with.
            trainer.settings, steps.block = self.settings_of(block), block
            trainer.fit(
                self._train,
                steps=self._steps,
                callbacks=[steps],
                keep="last",
                initial_weights=self._initial,
            )
            if trainer.interrupted:
                raise KeyboardInterrupt
            scores.append(self._score())
            control.report(scores[-1])
        return BlockChoice(
            best=control.best,
            blocks=self.blocks,
            scores=tuple(scores),
            before=before,
            held_out=len(self._judge),
            of_classes=self._of_classes,
            equivalents=self.equivalents,
        )

    def _score(self) -> int:
        found = evaluate(self._trainer.runtime, self._judge)
        if self._of_classes:
            assert found.accuracy is not None
            return round(found.accuracy * found.labelled)
        return -round(found.loss * found.labelled * 65536)


def choose_block(
    trainer_or_model: Trainer | Model | bytes | str | os.PathLike[str],
    settings: Settings | None,
    x: Samples,
    y: Labels | None = None,
    *,
    blocks: int = BlockSearch.blocks,
    held_out: float = BlockSearch.held_out,
    epochs: int = BlockSearch.epochs,
    runtime: str | None = None,
    progress: ProbeProgress | None = None,
) -> BlockChoice:
    """Finds the block of layers that is best trained alone (Poor Man's Training, sec. 3.3).

    The layers that the settings train, in execution order, are split into consecutive blocks of nearly equal
    number. Each is trained by itself, from the weights that the model starts with, on samples some of which
    are held out; the held-out ones tell which block is best. The same model, settings and data give the same
    choice; so do runtimes with the same bits. Then::

        choice = choose_block(model, settings, x, y)
        trainer = Trainer(model, dataclasses.replace(settings, layers=choice.layers))
        trainer.fit(x, y, epochs=20)

    Args:
        trainer_or_model: the ZO model, or a trainer of it, whose runtime and weights stay as they are.
        settings: of the run; None: the trainer's, or the defaults. The seed also chooses what is held out.
        x: samples, as for `Trainer.fit`.
        y: labels, likewise.
        blocks: 1 to the number of layers that are trained.
        held_out: share of the labelled samples, 0..1, in classes of the same shares as all.
        epochs: of each probe, >= 1.
        runtime: name; None: the trainer's, or "litert".
        progress: told after each step: the block, steps done in all probes, how many there are.

    Raises:
        SettingsError: settings that the model does not fit, weight perturbation, more blocks than layers, or
            no sample on one side of the split. Nothing has been trained.
        DataError: wrong data.
        KeyboardInterrupt: Ctrl-C.
    """
    search = BlockSearch(blocks, held_out, epochs)
    return BlockProbes(trainer_or_model, settings, x, y, search, runtime=runtime).run(progress)
