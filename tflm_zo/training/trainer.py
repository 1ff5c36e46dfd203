# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""Keras-like training of a ZO model."""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import native
from ..control import Control
from ..converters import Model, export_model, initial_weights, load_model, read_metadata
from ..converters.model.writer import save_bytes
from ..runtime import load
from ..seedlog import IncompleteHeaderError, LogError, LogWarning, LogWriter, SeedLog, fingerprint
from .callbacks import Callback
from .evaluation import check_labelled, evaluate, predict
from .history import History
from .samples import Samples, prepare_labels, prepare_samples
from .settings import SettingsError, TrainSettings

__all__ = ["Trainer", "replay_log"]

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
    factors = {t.name: t for g in model.subgraphs for t in g.tensors if t.name.endswith("/zo_multiplier")}
    for t in metadata.trainable:
        values = weights[t.name]
        fraction = np.zeros(t.shape, np.int8) if metadata.update_bits == 16 else None
        factor = factors.get(f"{t.name}/zo_multiplier")
        steps = log.steps_of_block(t.block)
        if len(steps):
            native.replay(
                values,
                fraction,
                None if factor is None else factor.numpy().copy(),
                t.channels,
                t.inner,
                t.stream,
                127 - metadata.head_room,
                log.distribution,
                steps,
            )
        if fraction is not None:
            fractions[t.name] = fraction
    return weights, fractions


class Trainer:
    """Trains a ZO model by weight perturbation in a runtime.

    Args:
        model: a ZO model with a loss, its bytes or path.
        settings: how; default `TrainSettings()`.
        runtime: name of the runtime.

    Attributes:
        settings: of the runs.
        runtime: the loaded model.
        stop_training: set by callbacks to end a run after the step.
        forwards: samples passed through the network by training.
        step: whole steps of the run, those before it was resumed included.
        steps_per_epoch: of the run.
        log: path of the run's seed log, if it has one.
        interrupted: whether Ctrl-C ended the run.

    Raises:
        SettingsError: settings that the model does not fit.
    """

    def __init__(
        self,
        model: Model | bytes | str | os.PathLike[str],
        settings: TrainSettings | None = None,
        runtime: str = "litert",
    ) -> None:
        self.settings = settings or TrainSettings()
        self.runtime = load(model, runtime)
        self._model = model if isinstance(model, Model) else load_model(model)
        self._mark = fingerprint(self._model)
        metadata = self.runtime.metadata
        if not metadata.trainable or metadata.loss is None:
            raise SettingsError("the model has no trainable tensors or no loss: inject it again")
        reach = self.settings.distribution.reach
        if reach > metadata.head_room:
            raise SettingsError(
                f"distribution: moves a weight by up to {reach} LSB, the model's head-room is "
                f"{metadata.head_room}; inject with head_room={reach}"
            )
        if self.settings.batch_size % metadata.batch:
            raise SettingsError(
                f"batch_size: expected a multiple of the model's batch {metadata.batch}, "
                f"got {self.settings.batch_size}"
            )
        if self.settings.queries > metadata.max_queries:
            raise SettingsError(
                f"queries: the model was injected with max_queries={metadata.max_queries}, "
                f"got {self.settings.queries}"
            )
        self.stop_training = False
        self.forwards = 0
        self.step = 0
        self.steps_per_epoch = 0
        self.log: Path | None = None
        self.interrupted = False
        # Of the run in progress.
        self._control: Control | None = None
        self._writer: LogWriter | None = None
        self._validation: tuple[list[NDArray[Any]], NDArray[Any]] | None = None
        self._done: list[list[int]] = []  # coefficients of the whole steps
        self._epoch_losses: list[float] = []

    # --- data -----------------------------------------------------------------------------------------------

    def _prepare(self, x: Samples, y: NDArray[Any] | None) -> tuple[list[NDArray[Any]], NDArray[Any]]:
        """The data as the model takes it; everything wrong is said before the first step."""
        inputs = prepare_samples(self.runtime, x)
        labels = prepare_labels(self.runtime, x, y, len(inputs[0]))
        loss = self.runtime.metadata.loss
        assert loss is not None
        check_labelled(labels, loss.kind)
        return inputs, labels

    # --- training -------------------------------------------------------------------------------------------

    def fit(
        self,
        x: Samples,
        y: NDArray[Any] | None = None,
        *,
        epochs: int = 1,
        steps: int | None = None,
        validation_data: tuple[Samples, NDArray[Any] | None] | None = None,
        callbacks: Sequence[Callback] = (),
        log: str | os.PathLike[str] | None = None,
        resume: bool = False,
        replace: bool = False,
        sync_every: float | None = 1.0,
    ) -> History:
        """Trains, from the weights that the model starts with.

        Args:
            x: samples, [samples, ...], int8 as the model's input or floating point in its units; for several
                inputs a list of such arrays, or a dictionary by input name.
            y: cross-entropy: integers [samples], classes; binary cross-entropy: 0 and 1 [samples, outputs];
                -1: unlabelled. Mean squared error: targets shaped like the output, int8 as it or floating
                point in its units; None: x (an autoencoder).
            epochs: passes over the samples.
            steps: number of steps instead.
            validation_data: (x, y), evaluated after each epoch.
            callbacks: told of every step and epoch.
            log: seed log to write; must not exist unless `resume` or `replace`.
            resume: go on from the log, which must be of the same model and settings; the run ends with the
                same weights as one that was never interrupted. Without a log, or where the run was killed
                before the log's header was whole, it starts from the beginning, with a LogWarning.
            replace: start anew although the log exists; it stays until everything else has been checked.
            sync_every: seconds after which the log is brought to the disk: what a power failure can cost. 0:
                after each step; None: only at the end. A killed program loses no whole step in any case.

        Returns:
            The history, also of a run that Ctrl-C or a callback ended: the weights are then those of the last
            whole step.

        Raises:
            ValueError: wrong data; nothing has been trained.
            LogError: the log is of another model or run, or it is none.
            FileExistsError: the log exists.
            OSError: the log cannot be written, e.g. the disk is full. Log and weights are then those of the
                last whole step, and the run can be resumed.
        """
        begin = time.perf_counter()
        inputs, labels = self._prepare(x, y)
        validation = None if validation_data is None else self._prepare(*validation_data)
        metadata = self.runtime.metadata
        per_epoch = -(-len(labels) // self.settings.batch_size)
        total = steps if steps is not None else epochs * per_epoch
        if total < 1:
            raise ValueError(f"steps: expected at least 1, got {total}")
        longest = (2**32 - 1) // self.settings.batch_size  # positions in the order of samples are 32 bits
        if total > longest:
            raise ValueError(f"steps: expected {longest} at most, got {total}")
        if sync_every is not None and not sync_every >= 0:
            raise ValueError(f"sync_every: expected seconds from 0 on, got {sync_every}")
        segments = [0] * len(metadata.blocks)
        for t in reversed(metadata.trainable):
            segments[t.block] = t.segment
        control = Control(
            self.settings.as_integers(
                steps=total,
                samples=len(labels),
                batch=metadata.batch,
                weights=sum(t.size for t in metadata.trainable),
                blocks=len(metadata.blocks),
            ),
            metadata.command_words,
            segments,
        )
        self.steps_per_epoch = per_epoch
        open_log = self._start(control, log, resume, replace, sync_every)
        self.log = None if log is None else Path(log)
        self.stop_training = self.interrupted = False
        self.step = control.step
        self._control, self._validation = control, validation
        history, forwards = History(), self.forwards
        begun: list[Callback] = []
        try:
            # A new log is made, and an old one replaced, when the callbacks have nothing against it.
            if control.step:
                self._writer = open_log()
            for callback in callbacks:
                begun.append(callback)
                callback.on_train_begin(self, total)
            self._writer = self._writer or open_log()
            self._run(control, inputs, labels, callbacks, history)
        except BaseException as error:
            self._return_to_last_step()
            if not isinstance(error, KeyboardInterrupt):
                raise
            self.interrupted = True
        finally:
            writer, self._control, self._writer, self._validation = self._writer, None, None, None
            try:
                if writer is not None:
                    writer.close()
            finally:
                for callback in begun:
                    callback.on_train_end(self)
        history.forwards = self.forwards - forwards
        history.seconds = time.perf_counter() - begin
        return history

    def _start(
        self,
        control: Control,
        log: str | os.PathLike[str] | None,
        resume: bool,
        replace: bool,
        sync_every: float | None,
    ) -> Callable[[], LogWriter | None]:
        """Sets weights and control unit to where the run begins; returns what opens its log."""
        if log is None:
            if resume:
                raise ValueError("resume: needs a log to go on from")
            self._reset()
            return lambda: None

        def opened(at: int | None) -> Callable[[], LogWriter | None]:
            return lambda: LogWriter(
                log, control, self._mark, resume=at, replace=replace, sync_every=sync_every
            )

        if not resume:
            if os.path.exists(log) and not replace:
                raise FileExistsError(f"{log} exists; choose another name, or resume from it or replace it")
            self._reset()
            return opened(None)
        try:
            old = SeedLog.read(log)
        except FileNotFoundError:
            warnings.warn(f"{log}: no such log; training from the beginning", LogWarning, stacklevel=3)
            self._reset()
            return opened(None)
        except IncompleteHeaderError as error:
            warnings.warn(f"{error}; training from the beginning", LogWarning, stacklevel=3)
            self._reset()
            return opened(0)
        old.check_model(self._model)
        if old.settings.as_bytes() != control.settings.as_bytes():
            raise LogError("the log is of a run with other settings, data or number of steps")
        weights, fractions = replay_log(self._model, old)
        self._reset()
        self.runtime.write_weights(weights, fractions)
        self._done = old.steps["coefficient"].tolist()
        if len(old.steps):
            control.resume(len(old.steps), int(old.mean_squares[-1]))
            # Of the epoch that was cut short.
            self._epoch_losses = old.losses[
                len(old.steps) // self.steps_per_epoch * self.steps_per_epoch :
            ].tolist()
        return opened(old.whole_bytes)

    def _reset(self) -> None:
        """The weights that the model starts with."""
        self._done, self._epoch_losses = [], []
        self.runtime.invoke(self.runtime.command(loss=False).restore())

    def _run(
        self,
        control: Control,
        x: list[NDArray[Any]],
        y: NDArray[Any],
        callbacks: Sequence[Callback],
        history: History,
    ) -> None:
        runtime, writer, per_epoch, losses = (
            self.runtime,
            self._writer,
            self.steps_per_epoch,
            self._epoch_losses,
        )
        fed = -1
        while (request := control.next()) is not None:
            if request.first_sample != fed:
                chosen = control.samples(request.first_sample)
                runtime.feed([values[chosen] for values in x], y[chosen])
                fed = request.first_sample
            runtime.invoke(request.words, start=request.start_segment, checked=True)
            self.forwards += runtime.batch
            report = control.report(runtime.losses())
            if report is None:
                continue
            if writer is not None:
                writer.append()
            self._done.append(control.coefficients)
            self.step = control.step
            history.steps.append(report.loss)
            losses.append(report.loss)
            for callback in callbacks:
                callback.on_step_end(self, report.step, {"loss": report.loss, "rate": report.rate})
            if control.step % per_epoch == 0 or control.step == control.settings.steps:
                self._settle(control)
                fed = -1
                logs = {"loss": float(np.mean(losses)), "rate": report.rate}
                if self._validation is not None:
                    logs |= self.validate()
                losses.clear()
                history.append(**logs)
                for callback in callbacks:
                    callback.on_epoch_end(self, (control.step - 1) // per_epoch, logs)
            if self.stop_training:
                break
        self._settle(control)

    def _settle(self, control: Control) -> None:
        words = control.settle()
        if words is not None:
            self.runtime.invoke(words)

    def _settle_run(self) -> None:
        """Before a callback uses the model between steps: applies the step that rides on the next invoke."""
        if self._control is not None:
            self._settle(self._control)

    def validate(self) -> dict[str, float]:
        """For callbacks: "val_loss" and "val_accuracy" on the run's validation data, with the weights as they
        are.

        Raises:
            ValueError: no run is in progress, or it has no validation data.
        """
        if self._validation is None:
            raise ValueError("there are no validation data: give fit validation_data")
        self._settle_run()
        return {f"val_{k}": v for k, v in evaluate(self.runtime, *self._validation).values().items()}

    def validate_at(self, steps: int) -> dict[str, float]:
        """For callbacks, before a run's first step: `validate` with the weights after so many steps."""
        weights, fractions = self.runtime.read_weights(), self.runtime.read_fractions()
        self.runtime.write_weights(*replay_log(self._model, self._log().first(steps)))
        try:
            return self.validate()
        finally:
            self.runtime.write_weights(weights, fractions)

    def has_run(self, log: SeedLog) -> bool:
        """For callbacks: whether the log's steps are the first ones of the run in progress."""
        own = self._log()
        return (
            log.fingerprint == own.fingerprint
            and log.settings.as_bytes() == own.settings.as_bytes()
            and len(log.steps) <= len(own.steps)
            and bool((log.steps == own.steps[: len(log.steps)]).all())
        )

    def _log(self) -> SeedLog:
        """The run in progress so far."""
        assert self._control is not None
        return SeedLog.from_steps(self._control.settings, self._mark, self._done)

    def save_log(self, path: str | os.PathLike[str]) -> None:
        """For callbacks: copies the seed log up to the last whole step, whole or not at all.

        Args:
            path: of the copy; replaced. It is a log like any other: it can be replayed and resumed from.

        Raises:
            ValueError: no run is in progress, or it has no log.
            OSError: it cannot be written; what was there is as it was.
        """
        if self._writer is None:
            raise ValueError("there is no seed log to copy: give fit a log")
        try:
            save_bytes(self._writer.whole(len(self._done)), Path(path), True)
        except OSError as error:
            # Name the file that was asked for, not the temporary one.
            raise OSError(error.errno, error.strerror or str(error), str(path)) from error

    def _return_to_last_step(self) -> None:
        """Whatever was under way: the weights of the last whole step, from the record of the run."""
        if self._writer is not None:  # the interruption may have come between the log's record and ours
            self._writer.keep(len(self._done))
        self.runtime.write_weights(*replay_log(self._model, self._log()))

    # --- using ----------------------------------------------------------------------------------------------

    def evaluate(self, x: Samples, y: NDArray[Any] | None = None) -> dict[str, float]:
        """Mean "loss" of the labelled samples and, unless it is the mean squared error, "accuracy" (0..1).

        Args:
            x: as for `fit`.
            y: as for `fit`.

        Raises:
            ValueError: wrong data, or no label at all.
        """
        inputs, labels = self._prepare(x, y)
        self._settle_run()
        return evaluate(self.runtime, inputs, labels).values()

    def predict(self, x: Samples) -> NDArray[Any]:
        """The output that the loss belongs to, of every sample, in the model's own dtype, [samples, ...].

        A classifier's loss reads the logits, but this is the model's output: probabilities behind a SOFTMAX.
        """
        inputs = prepare_samples(self.runtime, x)
        self._settle_run()
        return predict(self.runtime, inputs)

    def export(self) -> Model:
        """The plain int8 model with the weights as they are now: no custom op, any runtime runs it."""
        self._settle_run()
        return export_model(self._model, self.runtime.read_weights())
