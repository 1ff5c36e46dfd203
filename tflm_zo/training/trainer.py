# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""Keras-like training of a ZO model."""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

from numpy.typing import ArrayLike, NDArray

from ..converters import Model, export_model, load_model
from ..converters.files import write_output
from ..data import Data, Samples, prepare, prepare_samples
from ..logs import IncompleteHeaderError, LogWarning
from ..runtime import load
from .best_state import BestState, measured_samples, measuring_interval
from .callbacks import Callback
from .costs import Costs, NodeCosts, WeightCosts
from .evaluation import evaluate, predict
from .history import History
from .node_run import NodeRun
from .node_settings import NodeSettings
from .run import Run
from .settings import SettingsError, TrainSettings
from .tasks import plan_tasks
from .weight_run import WeightRun

__all__ = ["KEEPS", "Trainer"]

KEEPS: Final = ("best", "last")

# Steps of a run that a budget ends, where steps cost next to nothing (the last layer alone). The longest run
# that was measured to be worth its steps has 39,062 (LeNet-5, weight perturbation).
MOST_BUDGET_STEPS: Final = 50_000

# Least steps of a run whose length nobody gives. With 128 samples, 40, 150, 300, 600 and 1,200 steps gave on
# validation data
#   72.7, 82.5, 85.2, 86.2, 85.8 %   LeNet-5, rotated MNIST
#   51.6, 59.6, 66.7, 74.6 %         the same by weight perturbation, up to 600 steps
#   95.1, 97.2, 98.6, 98.6, 98.6 %   DS-CNN, a new speaker
#   68.8, 68.3, 67.6, 65.8, 62.1 %   ResNet-8, the last layer alone, CIFAR-10 in other colours
_USUAL_EPOCHS: Final = 10
_USUAL_STEPS: Final = 300


def usual_epochs(samples: int, batch_size: int) -> int:
    """Epochs of a run whose length nobody gives: 10, with few samples as many as take 300 steps."""
    per_epoch = -(-samples // batch_size)
    return max(_USUAL_EPOCHS, -(-_USUAL_STEPS // per_epoch))


def check_length(epochs: int | None, steps: int | None, budget: float | None) -> None:
    """Raises ValueError where the length of a run is given in more than one way."""
    given = {"epochs": epochs, "steps": steps, "budget": budget}
    names = [name for name, value in given.items() if value is not None]
    if len(names) > 1:
        raise ValueError(f"{', '.join(names)}: give one of them")


class Trainer:
    """Trains a ZO model in a runtime, with forward passes only.

    Args:
        model: a ZO model with a loss, its bytes or path.
        settings: how, and by which algorithm: `NodeSettings` (node perturbation, for a model that was
            injected with nodes) or `TrainSettings` (weight perturbation). Default: the defaults of the one
            that the model is for.
        runtime: name of the runtime.

    Attributes:
        settings: of the runs.
        runtime: the loaded model.
        stop_training: set by callbacks to end a run after the step.
        forwards: samples passed through the network by training, whole or from some layer on.
        equivalents: what the whole steps of the run, those before it was resumed included, cost in forward
            equivalents: multiply-accumulates, those of updates included, divided by those of one sample's
            whole forward pass.
        buffer_bytes: what a device keeps of a minibatch besides the arena; 0 before the first run, and for
            weight perturbation.
        step: whole steps of the run, those before it was resumed included.
        steps_per_epoch: of the run.
        planned: steps of the whole run; one that a budget ends may do fewer.
        log: path of the run's log, if it has one.
        interrupted: whether Ctrl-C ended the run.

    Raises:
        SettingsError: settings that the model does not fit.
    """

    def __init__(
        self,
        model: Model | bytes | str | os.PathLike[str],
        settings: TrainSettings | NodeSettings | None = None,
        runtime: str = "litert",
    ) -> None:
        self.runtime = load(model, runtime)
        self._model = model if isinstance(model, Model) else load_model(model)
        metadata = self.runtime.metadata
        if not metadata.trainable or metadata.loss is None:
            raise SettingsError("the model has no trainable tensors or no loss: inject it again")
        self.settings = settings or (NodeSettings() if metadata.nodes else TrainSettings())
        if self.settings.batch_size % metadata.batch:
            raise SettingsError(
                f"batch_size: expected a multiple of the model's batch {metadata.batch}, "
                f"got {self.settings.batch_size}"
            )
        if isinstance(self.settings, NodeSettings):
            NodeRun.check(self.settings, metadata)
            plan_tasks(self.settings, metadata, lambda _: 1.0)  # says what is wrong with `only`
        else:
            WeightRun.check(self.settings, metadata)
        self.stop_training = False
        self.forwards, self.equivalents = 0, 0.0
        self.step = 0
        self.buffer_bytes = 0
        self.steps_per_epoch = self.planned = 0
        self._may_end = False
        self.log: Path | None = None
        self.interrupted = False
        # Of the run in progress.
        self._run: Run | None = None
        self._validation: Data | None = None
        self._best: BestState | None = None

    # --- training -------------------------------------------------------------------------------------------

    def fit(
        self,
        x: Samples,
        y: ArrayLike | None = None,
        *,
        epochs: int | None = None,
        steps: int | None = None,
        budget: float | None = None,
        validation_data: Samples | tuple[Samples, ArrayLike | None] | None = None,
        callbacks: Sequence[Callback] = (),
        log: str | os.PathLike[str] | None = None,
        resume: bool = False,
        replace: bool = False,
        sync_every: float | None = 1.0,
        keep: str = "best",
    ) -> History:
        """Trains, from the weights that the model starts with.

        Args:
            x: samples, [samples, ...]: an array or list, for several inputs a list or dictionary of them, or
                the path of an .npz file. Floating point in the units that the model was trained on, int8 as
                the model's input, or uint8 pixels; see `tflm_zo.data.Samples`.
            y: labels; None: those of the file or dictionary, for an autoencoder x. Cross-entropy: integers
                [samples], classes, or one-hot [samples, classes]; binary cross-entropy: 0 and 1
                [samples, outputs]; -1: unlabelled. Mean squared error: targets shaped like the output.
            epochs: passes over the samples; 1 where neither steps nor a budget are given.
            steps: number of steps instead.
            budget: as many steps as so many forward equivalents are good for instead, 50,000 at most; with
                keep="best" the run is over, too, when three quarters of its measurements in a row have
                brought nothing better.
            validation_data: (x, y), or what has its labels, evaluated after each epoch.
            callbacks: told of every step and epoch.
            log: seed log to write; must not exist unless `resume` or `replace`.
            resume: go on from the log, which must be of the same model and settings; the run ends with the
                same weights as one that was never interrupted. Without a log, or where the run was killed
                before the log's header was whole, it starts from the beginning, with a LogWarning.
            replace: start anew although the log exists; it stays until everything else has been checked.
            sync_every: seconds after which the log is brought to the disk: what a power failure can cost. 0:
                after each step; None: only at the end. A killed program loses no whole step in any case.
            keep: "best": the loss of the weights is measured before the first step, at ends of epochs, at
                most 20 times, and after the last step, on the validation data or, without them, on
                `measured_samples` of the training data; `export` and the rest use the best weights that were
                measured, which may be those that the model starts with. A measurement takes a forward pass of
                each of these samples, which counts in no budget. "last": nothing is measured, and the weights
                are those of the last step.

        Returns:
            The history, also of a run that Ctrl-C or a callback ended: the weights are then the best measured
            so far, with keep="last" those of the last whole step.

        Raises:
            DataError: wrong data; nothing has been trained.
            LogError: the log is of another model or run, or it is none.
            FileExistsError: the log exists.
            OSError: the log cannot be written, e.g. the disk is full. Log and weights are then those of the
                last whole step, and the run can be resumed.
        """
        begin = time.perf_counter()
        data = prepare(self.runtime, x, y)
        validation = None
        if validation_data is not None:
            given = validation_data if isinstance(validation_data, tuple) else (validation_data,)
            validation = prepare(self.runtime, *given)
        per_epoch = -(-len(data) // self.settings.batch_size)
        check_length(epochs, steps, budget)
        if budget is not None:
            steps = min(self.affordable_steps(budget, len(data)), MOST_BUDGET_STEPS)
        total = self.planned_steps(len(data), 1 if epochs is None else epochs, steps)
        if keep not in KEEPS:
            raise ValueError(f"keep: expected one of {', '.join(KEEPS)}, got {keep!r}")
        if sync_every is not None and not sync_every >= 0:
            raise ValueError(f"sync_every: expected seconds from 0 on, got {sync_every}")
        run = self._make_run(total, data)
        self.steps_per_epoch, self.planned, self._may_end = per_epoch, total, budget is not None
        run.measure_every = measuring_interval(total, per_epoch) if keep == "best" else 0
        open_log = self._start(run, log, resume, replace, sync_every)
        self.log = None if log is None else Path(log)
        self.stop_training = self.interrupted = False
        self.buffer_bytes = run.buffer_bytes if isinstance(run, NodeRun) else 0
        best = None
        if keep == "best":
            best = BestState(self.runtime, run, validation or self.measured_samples(data))
        self._run, self._validation, self._best = run, validation, best
        history, forwards = History(), self.forwards
        # A run that begins pays for what it does before its first step, too.
        before = run.equivalents if run.step else 0.0
        self._forwards = forwards
        self._count(run)
        begun: list[Callback] = []
        try:
            # A new log is made, and an old one replaced, when the callbacks have nothing against it.
            if run.step:
                open_log()
            for callback in callbacks:
                begun.append(callback)
                callback.on_train_begin(self, total)
            if not run.has_log:
                open_log()
            self._loop(run, callbacks, history)
        except BaseException as error:
            run.roll_back()
            self._count(run)
            if not isinstance(error, KeyboardInterrupt):
                raise
            self.interrupted = True
        finally:
            self._run, self._validation, self._best = None, None, None
            try:
                run.close_log()
            finally:
                for callback in begun:
                    callback.on_train_end(self)
        history.kept_step = run.step
        if best is not None:
            step = best.restore()
            history.kept_step = run.step if step is None else step
            history.measurements = best.values()
        history.forwards = self.forwards - forwards
        history.equivalents = self.equivalents - before
        history.seconds = time.perf_counter() - begin
        return history

    def measured_samples(self, x: Samples, y: ArrayLike | None = None) -> Data:
        """What a run without validation data is measured on: its training data, of more than 10,000 samples
        10,000 that have a label, always the same ones.

        Args:
            x: as for `fit`.
            y: as for `fit`.

        Raises:
            DataError: wrong data.
        """
        loss = self.runtime.metadata.loss
        assert loss is not None  # the trainer has refused such a model
        return measured_samples(prepare(self.runtime, x, y), loss.kind)

    def planned_steps(self, samples: int, epochs: int, steps: int | None) -> int:
        """Steps of a run.

        Args:
            samples: of the training set.
            epochs: as for `fit`.
            steps: as for `fit`.

        Raises:
            ValueError: too few or too many.
        """
        total = steps if steps is not None else epochs * -(-samples // self.settings.batch_size)
        if total < 1:
            raise ValueError(f"steps: expected at least 1, got {total}")
        longest = (2**32 - 1) // self.settings.batch_size  # positions in the order of samples are 32 bits
        if total > longest:
            raise ValueError(f"steps: expected {longest} at most, got {total}")
        return total

    def affordable_steps(self, budget: float, samples: int) -> int:
        """Steps that a budget is good for.

        Args:
            budget: forward equivalents.
            samples: of the training set.

        Raises:
            ValueError: it is none, or not good for a single step; the message says what one takes.
        """
        if not 0 < budget < 2**63:
            raise ValueError(f"budget: expected forward equivalents above 0, got {budget:g}")
        metadata, costs = self.runtime.metadata, Costs(self._model, self.runtime.metadata)
        if isinstance(self.settings, NodeSettings):
            nodes = NodeCosts(costs, self.settings, metadata)
            total, least = nodes.steps(budget, samples), nodes.until(1, samples)
        else:
            weights = WeightCosts(costs, self.settings, metadata)
            total, least = weights.steps(budget), weights.until(1)
        if total < 1:
            raise ValueError(f"budget: one step takes {least:.0f} forward equivalents, got {budget:g}")
        return total

    def _make_run(self, total: int, data: Data) -> Run:
        inputs, labels = list(data.inputs), data.labels
        if isinstance(self.settings, NodeSettings):
            return NodeRun(self.runtime, self._model, self.settings, total, inputs, labels)
        return WeightRun(self.runtime, self._model, self.settings, total, inputs, labels)

    def _start(
        self,
        run: Run,
        log: str | os.PathLike[str] | None,
        resume: bool,
        replace: bool,
        sync_every: float | None,
    ) -> Callable[[], None]:
        """Sets weights and control unit to where the run begins; returns what opens its log."""
        if log is None:
            if resume:
                raise ValueError("resume: needs a log to go on from")
            run.begin()
            return lambda: None
        path = Path(log)

        def opened(kept: int | None) -> Callable[[], None]:
            return lambda: run.open_log(path, kept, replace=replace, sync_every=sync_every)

        if not resume:
            if path.exists() and not replace:
                raise FileExistsError(f"{log} exists; choose another name, or resume from it or replace it")
            run.begin()
            return opened(None)
        try:
            return opened(run.resume(path))
        except FileNotFoundError:
            warnings.warn(f"{log}: no such log; training from the beginning", LogWarning, stacklevel=3)
            run.begin()
            return opened(None)
        except IncompleteHeaderError as error:
            warnings.warn(f"{error}; training from the beginning", LogWarning, stacklevel=3)
            run.begin()
            return opened(0)

    def _count(self, run: Run) -> None:
        self.forwards, self.equivalents = self._forwards + run.forwards, run.equivalents
        self.step = run.step

    def _loop(self, run: Run, callbacks: Sequence[Callback], history: History) -> None:
        per_epoch, best = self.steps_per_epoch, self._best
        if best is not None:
            best.measure_where_due()
        # Of the epoch: losses are whole multiples of 2^-16, so the sum is exact in any order.
        begun = run.resumed_losses(run.step // per_epoch * per_epoch)
        total, count = float(begun.sum()), len(begun)
        while run.step < run.total and not (self._may_end and best is not None and best.is_stuck):
            report = run.advance()
            self._count(run)
            history.append_step(report.loss)
            if best is not None:
                best.measure_where_due()
            total, count = total + report.loss, count + 1
            for callback in callbacks:
                callback.on_step_end(self, report.step, {"loss": report.loss, "rate": report.rate})
            if run.step % per_epoch == 0 or run.step == run.total:
                run.settle()
                epoch = (run.step - 1) // per_epoch
                # Also of an epoch that was cut short and resumed.
                logs = {"loss": total / count, "rate": report.rate}
                total, count = 0.0, 0
                logs["equivalents"] = run.equivalents
                logs |= self._validate()
                history.append(**logs)
                for callback in callbacks:
                    callback.on_epoch_end(self, epoch, logs)
            if self.stop_training:
                break
        run.settle()

    def _settle_run(self) -> None:
        """Before a callback uses the model between steps: applies the step that rides on the next invoke."""
        if self._run is not None:
            self._run.settle()

    def _validate(self) -> dict[str, float]:
        """The weights as they are on the validation data, "val_loss" and, where there is one, "val_accuracy";
        empty without such data.
        """
        if self._validation is None:
            return {}
        if self._best is not None and self._best.last is not None:
            return {f"val_{k}": v for k, v in self._best.last.values().items()}
        return {f"val_{k}": v for k, v in evaluate(self.runtime, self._validation).values().items()}

    def steps_of_copy(self, log: str | os.PathLike[str]) -> int:
        """For callbacks, before a run's first step: steps that a copy of its log leads to.

        Raises:
            LogError: it is no copy of this run's log.
        """
        assert self._run is not None
        return self._run.steps_of_copy(Path(log))

    def save_log(self, path: str | os.PathLike[str]) -> None:
        """For callbacks: copies the seed log up to the last whole step, whole or not at all.

        Args:
            path: of the copy; replaced. It is a log like any other: it can be replayed and resumed from.

        Raises:
            ValueError: no run is in progress, or it has no log.
            OSError: it cannot be written; what was there is as it was.
        """
        if self._run is None:
            raise ValueError("no run is in progress, so there is no log to copy")
        write_output(Path(path), self._run.log_bytes(), force=True)

    # --- using ----------------------------------------------------------------------------------------------

    def evaluate(self, x: Samples, y: ArrayLike | None = None) -> dict[str, float]:
        """Mean "loss" of the labelled samples and, unless it is the mean squared error, "accuracy" (0..1).

        Args:
            x: as for `fit`.
            y: as for `fit`.

        Raises:
            DataError: wrong data, or no label at all.
        """
        data = prepare(self.runtime, x, y)
        self._settle_run()
        return evaluate(self.runtime, data).values()

    def predict(self, x: Samples) -> NDArray[Any]:
        """The output that the loss belongs to, of every sample, in the model's own dtype, [samples, ...].

        A classifier's loss reads the logits, but this is the model's output: probabilities behind a SOFTMAX.
        """
        inputs = prepare_samples(self.runtime, x)
        self._settle_run()
        return predict(self.runtime, inputs)

    def export(self, batch: int | None = None, *, re_range: bool = False) -> Model:
        """The plain int8 model with the weights as they are now: no custom op, any runtime runs it.

        Args:
            batch: its samples per invoke; None: as `export_model` has it.
            re_range: gives filters new scales from the range of their weights, fractions included; see
                `export_model`. The model is then the trained one but for rounding, not bit for bit.

        Raises:
            ConversionError: an operator ties the model to its batch size.
        """
        self._settle_run()
        weights = self.runtime.read_weights()
        fractions = self.runtime.read_fractions() if re_range else None
        return export_model(self._model, weights, batch=batch, fractions=fractions, re_range=re_range)
