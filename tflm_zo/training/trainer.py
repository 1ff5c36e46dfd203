# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""Keras-like training of a ZO model."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import native
from ..control import Control
from ..converters import Model, export_model, initial_weights, load_model, read_metadata
from ..runtime import load
from ..seedlog import LogError, LogWriter, SeedLog, fingerprint
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
        self._control: Control | None = None  # of the run in progress

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
            log: seed log to write; must not exist unless `resume`.
            resume: go on from the log, which must be of the same model and settings; the run ends with the
                same weights as one that was never interrupted.

        Returns:
            The history, also of a run that Ctrl-C or a callback ended: the weights are then those of the last
            whole step.

        Raises:
            ValueError: wrong data; nothing has been trained.
            LogError: the log is of another model or run.
            FileExistsError: the log exists.
        """
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
        writer = self._start(control, log, resume)
        history = History()
        forwards = self.forwards
        self.stop_training = False
        self.step = control.step
        for callback in callbacks:
            callback.on_train_begin(self, total)
        try:
            self._run(control, inputs, labels, validation, per_epoch, callbacks, writer, history)
        except BaseException as error:
            self._return_to_last_step(control, writer)
            if not isinstance(error, KeyboardInterrupt):
                raise
        finally:
            self._control = None
            if writer is not None:
                writer.close()
            for callback in callbacks:
                callback.on_train_end(self)
        history.forwards = self.forwards - forwards
        return history

    def _start(self, control: Control, log: str | os.PathLike[str] | None, resume: bool) -> LogWriter | None:
        self._done: list[list[int]] = []  # coefficients of the whole steps
        if log is None:
            if resume:
                raise ValueError("resume: needs a log to go on from")
            self._reset()
            return None
        if not resume:
            writer = LogWriter(log, control, self._mark)
            self._reset()
            return writer
        old = SeedLog.read(log)
        old.check_model(self._model)
        if old.settings.as_bytes() != control.settings.as_bytes():
            raise LogError("the log is of a run with other settings, data or number of steps")
        weights, fractions = replay_log(self._model, old)
        self.runtime.write_weights(weights, fractions)
        self._done = old.steps["coefficient"].tolist()
        if len(old.steps):
            control.resume(len(old.steps), int(old.mean_squares[-1]))
        return LogWriter(log, control, self._mark, resume=old.whole_bytes)

    def _reset(self) -> None:
        self.runtime.invoke(self.runtime.command(loss=False).restore())

    def _run(
        self,
        control: Control,
        x: list[NDArray[Any]],
        y: NDArray[Any],
        validation: tuple[list[NDArray[Any]], NDArray[Any]] | None,
        per_epoch: int,
        callbacks: Sequence[Callback],
        writer: LogWriter | None,
        history: History,
    ) -> None:
        runtime = self.runtime
        self._control = control
        fed = -1
        epoch_losses: list[float] = []
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
            epoch_losses.append(report.loss)
            for callback in callbacks:
                callback.on_step_end(self, report.step, {"loss": report.loss, "rate": report.rate})
            if control.step % per_epoch == 0 or control.step == control.settings.steps:
                self._settle(control)
                fed = -1
                logs = {"loss": float(np.mean(epoch_losses)), "rate": report.rate}
                if validation is not None:
                    logs |= {f"val_{k}": v for k, v in evaluate(runtime, *validation).values().items()}
                epoch_losses.clear()
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

    def _return_to_last_step(self, control: Control, writer: LogWriter | None) -> None:
        """Whatever was under way: the weights of the last whole step, from the record of the run."""
        if writer is not None:  # the interruption may have come between the log's record and ours
            writer.keep(len(self._done))
        log = SeedLog.from_steps(control.settings, self._mark, self._done)
        self.runtime.write_weights(*replay_log(self._model, log))

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
