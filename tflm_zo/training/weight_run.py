# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""A run of weight perturbation: what the control unit asks for, done in a runtime."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import native
from ..control import Control, StepReport
from ..converters import Model, ZoMetadata, initial_weights, read_metadata, step_multipliers, update_masks
from ..native import Distribution, DistributionKind
from ..runtime import Runtime
from ..seedlog import LogError, LogWriter, SeedLog, fingerprint
from .costs import Costs, WeightCosts, block_segments
from .run import Run
from .settings import SettingsError, TrainSettings

__all__ = ["WeightRun", "replay_log"]

Weights = dict[str, NDArray[np.int8]]


def replay_log(model: Model, log: SeedLog) -> tuple[Weights, Weights]:
    """The weights that a run has led to, from the base model and its log alone, without a forward pass.

    Args:
        model: the ZO model that the log was recorded on.
        log: what `SeedLog.read` returned.

    Returns:
        Weights and (16-bit update) fractions by tensor name, int8 in the tensors' shapes.

    Raises:
        LogError: the log is of another model.
    """
    log.check_model(model)
    metadata = read_metadata(model)
    weights = initial_weights(model)
    fractions: Weights = {}
    multipliers, masks = step_multipliers(model), update_masks(model)
    for t in metadata.trainable:
        values = weights[t.name]
        fraction = np.zeros(t.shape, np.int8) if metadata.update_bits == 16 else None
        for distribution, steps in log.steps_of_block(t.block):
            native.replay(
                values,
                fraction,
                multipliers.get(t.name),
                t.channels,
                t.inner,
                t.stream,
                127 - metadata.head_room,
                distribution,
                steps,
                masks.get(t.name),
            )
        if fraction is not None:
            fractions[t.name] = fraction
    return weights, fractions


def _two_fine_reaches(distribution: Distribution) -> int:
    """LSB, rounded up, by which two Gaussian perturbations in force move a weight of 16 bits, which does not
    round each to whole LSB.
    """
    if distribution.kind is not DistributionKind.GAUSSIAN:
        return 2 * distribution.reach
    return -(-2 * distribution.z_max * distribution.mu // 4096)


class WeightRun(Run):
    """See `Run`.

    Args:
        runtime: the loaded model.
        model: the same model.
        settings: how to train.
        total: steps.
        inputs: all training samples, one array per input.
        labels: of all.
    """

    def __init__(
        self,
        runtime: Runtime,
        model: Model,
        settings: TrainSettings,
        total: int,
        inputs: list[NDArray[Any]],
        labels: NDArray[Any],
    ) -> None:
        metadata = runtime.metadata
        self._runtime, self._model, self._mark = runtime, model, fingerprint(model)
        self._inputs, self._labels = inputs, labels
        self._control = Control(
            settings.as_integers(
                steps=total,
                samples=len(labels),
                batch=metadata.batch,
                weights=sum(t.trained for t in metadata.trainable),
                blocks=len(metadata.blocks),
            ),
            metadata.command_words,
            block_segments(metadata),
        )
        self._costs = WeightCosts(Costs(model, metadata), settings, metadata)
        self._done: list[list[int]] = []  # coefficients of the whole steps
        self._fed = -1
        self._writer: LogWriter | None = None
        self.total, self.forwards, self.losses = total, 0, []

    @staticmethod
    def check(settings: TrainSettings, metadata: ZoMetadata) -> None:
        """Raises SettingsError where a model does not fit the settings."""
        reach = settings.head_room
        if settings.sharpness and any(t.wide for t in metadata.trainable):
            reach = max(reach, _two_fine_reaches(settings.distribution))
        if reach > metadata.head_room:
            twice = " (sharpness: twice)" if settings.sharpness else ""
            raise SettingsError(
                f"distribution: moves a weight by up to {reach} LSB{twice}, the model's head-room is "
                f"{metadata.head_room}; inject with head_room={reach}"
            )
        if settings.items > metadata.max_queries:
            terms = f", times momentum_terms={settings.momentum_terms}" if settings.momentum > 0 else ""
            raise SettingsError(
                f"queries: the model was injected with max_queries={metadata.max_queries}, "
                f"got {settings.queries}{terms}; inject with max_queries={settings.items}"
            )
        words = settings.command_words
        if words > metadata.command_words:
            raise SettingsError(
                f"this run needs commands of {words} words, the model was injected with command_words="
                f"{metadata.command_words}; inject with command_words={words}"
            )

    @property
    def step(self) -> int:
        """Whole steps done."""
        return len(self._done)  # the control unit may be ahead: an interruption before the record counts

    @property
    def equivalents(self) -> float:
        """Forward equivalents of the whole steps done."""
        return self._costs.until(self.step)

    def begin(self) -> None:
        """Sets the weights that the model starts with."""
        self._done, self.losses = [], []
        self._runtime.invoke(self._runtime.command(loss=False).restore())

    def resume(self, log: Path) -> int | None:
        """Sets weights and state to what a log leads to."""
        old = SeedLog.read(log)
        old.check_model(self._model)
        if old.settings.as_bytes() != self._control.settings.as_bytes():
            raise LogError("the log is of a run with other settings, data or number of steps")
        self.begin()
        self._runtime.write_weights(*replay_log(self._model, old))
        self._done, self.losses = old.steps["coefficient"].tolist(), old.losses.tolist()
        if len(old.steps):
            self._control.resume(len(old.steps), int(old.mean_squares[-1]))
        return old.whole_bytes

    def open_log(self, log: Path, kept: int | None, *, replace: bool, sync_every: float | None) -> None:
        """Opens the log for the steps to come."""
        self._writer = LogWriter(
            log, self._control, self._mark, resume=kept, replace=replace, sync_every=sync_every
        )

    @property
    def has_log(self) -> bool:
        """Whether a log is open."""
        return self._writer is not None

    def advance(self) -> StepReport:
        """Does one step and writes it to the log."""
        runtime, control = self._runtime, self._control
        while (request := control.next()) is not None:
            if request.first_sample != self._fed:
                chosen = control.samples(request.first_sample)
                runtime.feed([values[chosen] for values in self._inputs], self._labels[chosen])
                self._fed = request.first_sample
            runtime.invoke(request.words, start=request.start_segment, checked=True)
            self.forwards += runtime.batch
            report = control.report(runtime.losses())
            if report is not None:
                if self._writer is not None:
                    self._writer.append()
                self._done.append(control.coefficients)
                self.losses.append(report.loss)
                return report
        raise ValueError("the run is over")

    def settle(self) -> None:
        """Makes the runtime's weights those after the last whole step."""
        words = self._control.settle()
        if words is not None:
            self._runtime.invoke(words)
        self._fed = -1  # whoever uses the model in between feeds it something else

    def roll_back(self) -> None:
        """After an interruption anywhere: weights and log of the last whole step."""
        if self._writer is not None:  # the interruption may have come between the log's record and ours
            self._writer.keep(len(self._done))
        self.losses = self.losses[: len(self._done)]
        self._runtime.write_weights(*replay_log(self._model, self._log()))

    def close_log(self) -> None:
        """Brings the log to the disk and closes it."""
        writer, self._writer = self._writer, None
        if writer is not None:
            writer.close()

    def _log(self) -> SeedLog:
        """The run so far."""
        return SeedLog.from_steps(self._control.settings, self._mark, self._done)

    def log_bytes(self) -> bytes:
        """The log up to the last whole step."""
        if self._writer is None:
            raise ValueError("there is no log to copy: give fit a log")
        return self._writer.whole(len(self._done))

    def at_checkpoint(
        self, log: Path, measure: Callable[[], dict[str, float]]
    ) -> tuple[int, dict[str, float]]:
        """What `measure` gives with the weights of an earlier state of this run."""
        old, own = SeedLog.read(log), self._log()
        if (
            old.fingerprint != own.fingerprint
            or old.settings.as_bytes() != own.settings.as_bytes()
            or len(old.steps) > len(own.steps)
            or not bool((old.steps == own.steps[: len(old.steps)]).all())
        ):
            raise LogError("the log is not of this run")
        runtime = self._runtime
        weights, fractions = runtime.read_weights(), runtime.read_fractions()
        runtime.write_weights(*replay_log(self._model, old))
        try:
            return len(old.steps), measure()
        finally:
            runtime.write_weights(weights, fractions)
