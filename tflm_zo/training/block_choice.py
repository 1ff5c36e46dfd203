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
from ..data import Data, DataWarning, Labels, Samples, prepare
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

__all__ = ["BlockChoice", "BlockProbes", "BlockSearch", "check_layerwise", "choose_block"]

ProbeProgress = Callable[[int, int, int], None]
"""Function called after each step of a probe: its block, the steps done in all probes, and their total."""


@dataclasses.dataclass(frozen=True)
class BlockSearch:
    """A search for the best block; see `choose_block`.

    Raises:
        SettingsError: a value is out of range.
    """

    blocks: int = 4  # number of blocks, 1 to the number of layers that are trained
    held_out: float = 0.2  # share of the labelled samples that score the probes, 0..1
    epochs: int = 1  # epochs of each probe, >= 1

    def __post_init__(self) -> None:
        """Checks every range."""
        check_integer("blocks", self.blocks, 1, 2**31)
        check_integer("epochs", self.epochs, 1, 2**31)
        check_number("held_out", self.held_out, 0.0, 1.0)

    def split(self, settings: Settings, metadata: ZoMetadata) -> tuple[tuple[str, ...], ...]:
        """Returns the layer names of each block: consecutive layers in groups of nearly equal size, larger groups
        first.

        Raises:
            SettingsError: the settings are of weight perturbation, or there are more blocks than layers.
        """
        check_layerwise(settings)
        tensors = trained_tensors(settings, metadata)
        names = list(dict.fromkeys(metadata.trainable[i].layer for i in tensors))
        if self.blocks > len(names):
            raise SettingsError(
                "blocks", f"be in 1..{len(names)}, the number of trained layers ({', '.join(names)})", self.blocks
            )
        parts = np.array_split(np.arange(len(names)), self.blocks)
        return tuple(tuple(names[i] for i in part) for part in parts)


def check_layerwise(settings: Settings) -> None:
    """Raises SettingsError if the settings are of weight perturbation."""
    if not settings.is_layerwise:
        raise SettingsError(
            "blocks", "be left out in runs of weight perturbation alone", fix="Choose a layer-wise algorithm"
        )


@dataclasses.dataclass(frozen=True)
class BlockChoice:
    """The result of the probes.

    Attributes:
        best: number of the best block, the first one of equals.
        blocks: names of the layers of each block, in execution order.
        scores: score of each block: the number of correct held-out samples for classifiers, else minus the sum of
            their losses in units of `unit` / 2^16; empty if a log told the block.
        before: score of the model before the probes.
        held_out: number of held-out samples.
        of_classes: True if scores count correct samples.
        equivalents: cost in forward equivalents: training of the probes, the measurement of their learning rate, and
            the evaluations of the held-out samples.
        unit: real value of a loss of 1, see `ZoLoss`.
    """

    best: int
    blocks: tuple[tuple[str, ...], ...]
    scores: tuple[int, ...]
    before: int
    held_out: int
    of_classes: bool
    equivalents: float
    unit: float = 1.0

    @property
    def layers(self) -> tuple[str, ...]:
        """Names of the layers of the best block, as `Settings.layers` takes them."""
        return self.blocks[self.best]

    def value(self, score: int) -> float:
        """Converts a score to the accuracy, 0..1, or the mean loss."""
        return score / self.held_out if self.of_classes else -score / 65536 / self.held_out * self.unit


class _Steps(Callback):
    """Counts the steps of all probes for a progress bar."""

    def __init__(self, tell: ProbeProgress | None, total: int) -> None:
        self._tell, self._total, self._done, self.block = tell, total, 0, 0

    def on_step_end(self, progress: RunProgress, logs: dict[str, float]) -> None:
        """Counts the step and reports it."""
        self._done += 1
        if self._tell is not None:
            self._tell(self.block, self._done, self._total)


@dataclasses.dataclass(frozen=True)
class _Probe:
    """Trains single blocks and scores them."""

    settings: Settings  # settings of the run
    blocks: tuple[tuple[str, ...], ...]  # names of the layers of each block
    train: Data  # samples that are trained on
    judge: Data  # samples that score a block
    steps: int  # steps of a probe
    of_classes: bool  # True if scores count correct samples

    def run(self, trainer: Trainer, block: int, *callbacks: Callback) -> int:
        """Trains a block from the model's initial weights, and returns its score."""
        trainer.settings = dataclasses.replace(self.settings, layers=self.blocks[block])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DataWarning)  # the search has warned of the data
            trainer.fit(
                self.train,
                steps=self.steps,
                callbacks=callbacks,
                keep="last",
                initial_weights=initial_weights(trainer.model),
            )
        if trainer.interrupted:
            raise KeyboardInterrupt
        return self.score(trainer)

    def score(self, trainer: Trainer) -> int:
        """Returns the score of the present weights."""
        found = evaluate(trainer.runtime, self.judge)
        if self.of_classes:
            assert found.accuracy is not None
            return round(found.accuracy * found.labelled)
        return -found.loss_sum


class BlockProbes:
    """Probes of all blocks of layers. The constructor checks them and computes their cost; `run` runs them.

    Args:
        trainer_or_model: the ZO model, or a trainer of it, whose runtime and weights stay as they are.
        settings: settings, as `choose_block` takes them.
        x: samples, as `choose_block` takes them.
        y: labels, as `choose_block` takes them.
        search: number of blocks, epochs of each probe, and share of the samples that judge it.
        runtime: name of the runtime, as `choose_block` takes it.

    Attributes:
        blocks: names of the layers of each block, in execution order.
        equivalents: cost of the probes in forward equivalents.

    Raises:
        SettingsError: the settings or the search do not fit the model, as for `choose_block`.
        DataError: the data do not fit the model.
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
        self.blocks = search.split(settings, metadata)
        data = prepare(trainer.runtime, x, y)
        train, judge = hold_out(data, held_out_samples(data.labels, loss, search.held_out, settings.seed))
        samples = len(train)
        self._steps = planned_steps(settings, samples, search.epochs, None)
        self._costs = [run_costs(self.settings_of(b), trainer.model, metadata) for b in range(search.blocks)]
        training = sum(c.until(self._steps, samples) for c in self._costs)
        # One rate for all probes, which differ in their blocks alone.
        probed, _, measuring = with_measured_rate(trainer.runtime, trainer.model, settings, train, self._steps)
        self._probe = _Probe(probed, self.blocks, train, judge, self._steps, loss.of_classes)
        self.equivalents = measuring + training + len(judge) * (search.blocks + 1)

    def settings_of(self, block: int) -> Settings:
        """Returns the settings of a run that trains one block alone."""
        return dataclasses.replace(self._settings, layers=self.blocks[block])

    def rest_of(self, budget: float, samples: int) -> float:
        """Returns the budget that is left after the probes.

        Args:
            budget: forward equivalents, > 0.
            samples: number of samples of the training set.

        Raises:
            ValueError: the budget is out of range, or too small for the probes and one step; the message names their
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
            OSError: the log cannot be read.
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
        """Returns the choice of a run that is resumed, read from its log if that is there, else `run`'s.

        Args:
            log: path of the log of the run that is resumed, or None.
            progress: function that `run` calls.

        Raises:
            LogError: the log is of another model, or of layers that make none of the blocks.
            KeyboardInterrupt: Ctrl-C ended a probe.
        """
        try:
            best = None if log is None else self.block_of(log)
        except (FileNotFoundError, IncompleteHeaderError):
            best = None  # the run begins anew, and the trainer says so
        return self.run(progress) if best is None else self._choice(best, (), 0)

    def run(self, progress: ProbeProgress | None = None) -> BlockChoice:
        """Trains and judges each block, and returns the choice.

        Args:
            progress: function called after each step with its block, the steps done in all probes, and their
                total.

        Raises:
            KeyboardInterrupt: Ctrl-C ended a probe.
        """
        control, total = BlockControl(len(self.blocks)), self._steps * len(self.blocks)
        runtime = self._trainer.runtime
        loss = runtime.metadata.loss
        assert loss is not None  # the trainer has refused such a model
        warn_of_missing_classes(self._probe.train, self._probe.judge, loss)
        runtime.invoke(runtime.command(loss=False).restore())
        before = self._probe.score(self._trainer)
        scores: list[int] = []
        steps = _Steps(progress, total)
        while (block := control.next()) is not None:
            steps.block = block
            scores.append(self._probe.run(self._trainer, block, steps))
            control.report(scores[block])
        return self._choice(control.best, tuple(scores), before)

    def _choice(self, best: int, scores: tuple[int, ...], before: int) -> BlockChoice:
        loss = self._trainer.runtime.metadata.loss
        assert loss is not None  # the trainer has refused such a model
        return BlockChoice(
            best=best,
            blocks=self.blocks,
            scores=scores,
            before=before,
            held_out=len(self._probe.judge),
            of_classes=self._probe.of_classes,
            equivalents=self.equivalents,
            unit=loss.unit,
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

    It splits the layers that the settings train into consecutive blocks of nearly equal size. It trains each block
    from the model's initial weights and scores it on held-out samples. The choice is deterministic. A run then trains
    the chosen block::

        choice = choose_block(model, settings, x, y)
        trainer = Trainer(model, dataclasses.replace(settings, layers=choice.layers))
        trainer.fit(x, y, epochs=20)

    Args:
        trainer_or_model: the ZO model, or a trainer of it, whose runtime and weights stay as they are.
        settings: settings of the run, whose seed also chooses the held-out samples; None: the trainer's, or
            the defaults.
        x: samples, as `Trainer.fit` takes them.
        y: labels, as `Trainer.fit` takes them.
        blocks: number of blocks, 1 to the number of layers that are trained.
        held_out: share of the labelled samples that is held out, 0..1, in every class alike.
        epochs: epochs of each probe, >= 1.
        runtime: name of the runtime; None: the trainer's, or "litert".
        progress: function called after each step with its block, the steps done in all probes, and their
            total.

    Raises:
        SettingsError: the settings do not fit the model or are those of weight perturbation, there are more
            blocks than layers, or one side of the split has no sample. Nothing has been trained.
        DataError: the data do not fit the model.
        KeyboardInterrupt: Ctrl-C ended a probe.
    """
    search = BlockSearch(blocks, held_out, epochs)
    return BlockProbes(trainer_or_model, settings, x, y, search, runtime=runtime).run(progress)
