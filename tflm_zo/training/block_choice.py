"""The choice of the block of layers to train (Poor Man's Training, sec. 3.3).

The C core decides (``ops/core/run/zo_block_choice.h``), on the desktop as on a device. This module runs the probes in
a runtime.
"""

from __future__ import annotations

import dataclasses
import os
import warnings
from collections.abc import Callable

import numpy as np

from ..converters import Model, ZoMetadata, initial_weights
from ..core import BlockControl
from ..data import DataWarning, Labels, Samples, prepare
from ..logs import IncompleteHeaderError, Log, LogError
from .callbacks import Callback
from .checks import SettingsError, check_integer, check_number
from .costs import run_costs
from .evaluation import evaluate
from .length import planned_steps
from .plan import trained_tensors
from .progress import RunProgress
from .rate import with_measured_rate
from .run_data import held_out_samples, hold_out, warn_of_missing_classes
from .settings import Settings
from .trainer import Trainer

ProbeProgress = Callable[[int, int, int], None]
"""Function called after each step of a probe: its block, the steps done in all probes, and their total."""


@dataclasses.dataclass(frozen=True)
class BlockSearch:
    """A search for the best block, see `choose_block`; raises SettingsError for a value out of range."""

    blocks: int = 4  # number of blocks, 1 to the number of layers that are trained
    held_out: float = 0.2  # share of the labelled samples that score the probes, 0..1
    epochs: int = 1  # epochs of each probe, >= 1

    def __post_init__(self) -> None:
        check_integer("blocks", self.blocks, 1, 2**31)
        check_integer("epochs", self.epochs, 1, 2**31)
        check_number("held_out", self.held_out, 0.0, 1.0)

    def split(self, settings: Settings, metadata: ZoMetadata) -> tuple[tuple[str, ...], ...]:
        """Returns the layer names of each block: consecutive layers in groups of nearly equal size, larger groups
        first.

        Raises:
            SettingsError: the settings are of weight perturbation, or there are more blocks than layers.
        """
        if not settings.is_layerwise:
            raise SettingsError(
                "blocks", "be left out in runs of weight perturbation alone", fix="Choose a layer-wise algorithm"
            )
        tensors = trained_tensors(settings, metadata)
        names = list(dict.fromkeys(metadata.trainable[i].layer for i in tensors))
        if self.blocks > len(names):
            raise SettingsError(
                "blocks", f"be in 1..{len(names)}, the number of trained layers ({', '.join(names)})", self.blocks
            )
        parts = np.array_split(np.arange(len(names)), self.blocks)
        return tuple(tuple(names[i] for i in part) for part in parts)


@dataclasses.dataclass(frozen=True)
class BlockChoice:
    """The result of the probes."""

    best: int  #: number of the best block, the first one of equals.
    blocks: tuple[tuple[str, ...], ...]  #: names of the layers of each block, in execution order.
    #: score of each block: the number of correct held-out samples for classifiers, else minus the sum of their losses
    #: in units of `unit` / 2^16; empty if a log told the block.
    scores: tuple[int, ...]
    before: int  #: score of the model before the probes.
    held_out: int  #: number of held-out samples.
    of_classes: bool  #: True if scores count correct samples.
    #: cost in forward equivalents: training of the probes, the measurement of their learning rate, and the evaluations
    #: of the held-out samples.
    equivalents: float
    unit: float = 1.0  #: real value of a loss of 1, see `ZoLoss`.

    @property
    def layers(self) -> tuple[str, ...]:
        """Names of the layers of the best block, as `Settings.layers` takes them."""
        return self.blocks[self.best]

    def value(self, score: int) -> float:
        """Converts a score to the accuracy, 0..1, or the mean loss."""
        return score / self.held_out if self.of_classes else -score / 65536 / self.held_out * self.unit


@dataclasses.dataclass
class _Steps(Callback):
    """Counts the steps of all probes for a progress bar."""

    tell: ProbeProgress
    block: int
    before: int  # steps of earlier probes
    total: int

    def on_step_end(self, progress: RunProgress, logs: dict[str, float]) -> None:
        """Reports the step."""
        self.tell(self.block, self.before + progress.step, self.total)


class BlockProbes:
    """Probes of all blocks of layers. The constructor checks them and computes their cost; `run` runs them.

    Arguments and errors are those of `choose_block`.

    Attributes:
        blocks: names of the layers of each block, in execution order.
        equivalents: cost of the probes in forward equivalents.
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
        model = trainer_or_model
        if isinstance(model, Trainer):
            runtime, settings, model = runtime or model.runtime.name, settings or model.settings, model.model
        self._trainer = trainer = Trainer(model, settings, runtime=runtime or "litert")
        self._settings = settings = trainer.settings
        metadata = trainer.runtime.metadata
        self._loss, self.blocks = metadata.known_loss, search.split(settings, metadata)
        data = prepare(trainer.runtime, x, y)
        held_out = held_out_samples(data.labels, self._loss, search.held_out, settings.seed)
        self._train, self._judge = hold_out(data, held_out)
        samples = len(self._train)
        self._steps = planned_steps(settings, samples, search.epochs, None)
        self._costs = [run_costs(self.settings_of(b), trainer.model, metadata) for b in range(search.blocks)]
        training = sum(c.until(self._steps, samples) for c in self._costs)
        # One rate for all probes, which differ in their blocks alone.
        self._probed, _, measuring = with_measured_rate(
            trainer.runtime, trainer.model, settings, self._train, self._steps
        )
        self.equivalents = measuring + training + len(self._judge) * (search.blocks + 1)

    def settings_of(self, block: int) -> Settings:
        """Returns the settings of a run that trains one block alone."""
        return dataclasses.replace(self._settings, layers=self.blocks[block])

    def rest_of(self, budget: float, samples: int) -> float:
        """Returns the forward equivalents of a budget that are left after the probes.

        Raises:
            SettingsError: the budget is out of range, or too small for the probes and one step; the message names their
                cost.
        """
        if not 0 < budget < 2**63:
            raise SettingsError("budget", "be forward equivalents above 0 and below 2^63", budget)
        step = max(c.until(1, samples) for c in self._costs)
        if not budget >= self.equivalents + step:
            raise SettingsError(
                "budget",
                f"be at least {self.equivalents + step:.0f} forward equivalents: {self.equivalents:.0f} for "
                f"probes of {len(self.blocks)} blocks, and {step:.0f} for a step",
                budget,
            )
        return budget - self.equivalents

    def block_of(self, log: str | os.PathLike[str]) -> int:
        """Reads from a log which block its run trains, and returns the number of the block.

        Raises:
            IncompleteHeaderError: the log ends before its first record.
            LogError: the file is no snapshot log, it belongs to another model, or its run trains none of the blocks.
        """
        found = Log.read(log, layerwise=True)
        found.check_model(self._trainer.model)
        trainable = self._trainer.runtime.metadata.trainable
        tensors = sorted(i for task in found.tasks for i in task.tensors)
        layers = tuple(dict.fromkeys(trainable[i].layer for i in tensors))
        if layers not in self.blocks:
            raise LogError(
                f"{os.fspath(log)} is of a run that trains {', '.join(layers)}, which is none of the blocks: "
                + "; ".join(", ".join(block) for block in self.blocks)
            )
        return self.blocks.index(layers)

    def choose(self, log: str | os.PathLike[str] | None = None, progress: ProbeProgress | None = None) -> BlockChoice:
        """Returns the choice of a run that is resumed, read from its log if that is there, else that of `run`.

        Raises:
            LogError: the log is of another model, or of layers that make none of the blocks.
        """
        try:
            best = None if log is None else self.block_of(log)
        except (FileNotFoundError, IncompleteHeaderError):
            best = None  # the run begins anew, and the trainer says so
        return self.run(progress) if best is None else self._choice(best, (), 0)

    def run(self, progress: ProbeProgress | None = None) -> BlockChoice:
        """Trains and scores each block, and returns the choice.

        `progress` is called after each step with its block, the steps done in all probes, and their total. Ctrl-C
        raises KeyboardInterrupt.
        """
        control, runtime = BlockControl(len(self.blocks)), self._trainer.runtime
        warn_of_missing_classes(self._train, self._judge, self._loss)
        runtime.invoke(runtime.command(loss=False).restore())
        before, scores = self._score(), list[int]()
        while (block := control.next()) is not None:
            counts = block * self._steps, len(self.blocks) * self._steps
            own = _Steps(progress, block, *counts) if progress else Callback()
            scores.append(self._trained(block, own))
            control.report(scores[block])
        return self._choice(control.best, tuple(scores), before)

    def _trained(self, block: int, callback: Callback) -> int:
        """Trains a block from the model's initial weights, and returns its score."""
        trainer = self._trainer
        trainer.settings = dataclasses.replace(self._probed, layers=self.blocks[block])
        begin = initial_weights(trainer.model)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DataWarning)  # the search has warned of the data
            trainer.fit(self._train, steps=self._steps, callbacks=[callback], keep="last", initial_weights=begin)
        if trainer.interrupted:
            raise KeyboardInterrupt
        return self._score()

    def _score(self) -> int:
        """Returns the score of the present weights."""
        found = evaluate(self._trainer.runtime, self._judge)
        return found.correct if self._loss.of_classes else -found.loss_sum

    def _choice(self, best: int, scores: tuple[int, ...], before: int) -> BlockChoice:
        return BlockChoice(
            best=best,
            blocks=self.blocks,
            scores=scores,
            before=before,
            held_out=len(self._judge),
            of_classes=self._loss.of_classes,
            equivalents=self.equivalents,
            unit=self._loss.unit,
        )


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
    """Chooses the block of layers that learns best when it is trained alone (Poor Man's Training, sec. 3.3).

    It splits the layers that the settings train into consecutive blocks of nearly equal size. It trains each block from
    the model's initial weights and scores it on held-out samples. The choice is deterministic. A run then trains the
    chosen block::

        choice = choose_block(model, settings, x, y)
        trainer = Trainer(model, dataclasses.replace(settings, layers=choice.layers))
        trainer.fit(x, y, epochs=20)

    Args:
        trainer_or_model: the ZO model, or a trainer of it, whose runtime and weights stay as they are.
        settings: settings of the run, whose seed also chooses the held-out samples; None: the trainer's, or the
            defaults.
        x: samples, as `Trainer.fit` takes them.
        y: labels, as `Trainer.fit` takes them.
        blocks: number of blocks, 1 to the number of layers that are trained.
        held_out: share of the labelled samples that is held out, 0..1, in every class alike.
        epochs: epochs of each probe, >= 1.
        runtime: name of the runtime; None: the trainer's, or "litert".
        progress: function called after each step with its block, the steps done in all probes, and their total.

    Raises:
        SettingsError: the settings do not fit the model or are those of weight perturbation, there are more blocks than
            layers, or one side of the split has no sample. Nothing has been trained.
        DataError: the data do not fit the model.
        KeyboardInterrupt: Ctrl-C ended a probe.
    """
    search = BlockSearch(blocks, held_out, epochs)
    return BlockProbes(trainer_or_model, settings, x, y, search, runtime=runtime).run(progress)
