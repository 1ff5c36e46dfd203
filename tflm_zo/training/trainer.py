"""`Trainer`: fit, evaluate and predict for an int8 model, as in Keras."""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any, Final, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from ..converters import Model, WeightArray, export_model, initial_weights, load_model, with_initial_weights
from ..data import Data, DataError, Labels, Samples, prepare, prepare_samples
from ..logs import IncompleteHeaderError, LogWarning
from ..logs.writer import log_exists
from ..runtime import load
from .algorithms import usual_settings
from .best_state import BestState, measuring_interval
from .callbacks import Callback
from .checks import SettingsError, check_choice
from .evaluation import evaluate, predict
from .injection import is_zo, trainable_model
from .length import affordable_steps, check_length, most_budget_steps, planned_steps, usual_epochs
from .lowering import lower
from .model_fit import check_model
from .node_run import NodeRun
from .progress import History, RunProgress
from .rate import with_measured_rate
from .run import Run
from .run_data import Given, RunData, Split, warn_of_missing_classes
from .setting_texts import with_found, written
from .settings import Settings
from .weight_run import WeightRun
from .workers import Workers

Keep = Literal["best", "last"]
KEEPS: Final[tuple[str, ...]] = get_args(Keep)


class Trainer:
    """Trains an int8 model in a runtime, with forward passes only.

    Args:
        model: a plain int8 model, which is injected as the settings need it, or a ZO model with a loss; the model,
            its bytes or its path.
        settings: settings of the runs, e.g. ``algorithms.weight()``. None uses the algorithm that a ZO
            model was made for, and node perturbation for a plain model (or, with a warning, weight perturbation if no
            layer can carry nodes).
        runtime: name of the runtime that runs the model.
        threads: number of threads. Does not affect results. The runtime tflm has one.
        workers: number of worker processes for weight perturbation, or `Workers` on other machines. Does not affect
            results. 0: this process only.

    Attributes:
        settings: settings of the runs.
        model: the ZO model that is trained; logs belong to it.
        runtime: the loaded model.
        forwards: number of forward passes of a sample in training, partial ones included.
        equivalents: cost of the run in forward equivalents: multiply-accumulates, updates included, divided by those
            of one sample's complete forward pass.
        step: number of complete steps, including those before the run was resumed.
        planned: planned number of steps; a run with a budget may do fewer.
        measured_rate: learning rate that the run measured, LSB; None where it was given or chosen.
        log: path of the run's log, or None.
        data: training and validation samples of the run; None before the first run.
        interrupted: True if Ctrl-C ended the run.

    Raises:
        SettingsError: the settings do not fit the model.
    """

    def __init__(
        self,
        model: Model | bytes | str | os.PathLike[str],
        settings: Settings | None = None,
        runtime: str = "litert",
        *,
        threads: int = 1,
        workers: int | Workers = 0,
    ) -> None:
        if not isinstance(settings, Settings | None):
            raise TypeError(f"`settings` must be Settings, such as algorithms.node(). Received: {settings!r}.")
        loaded = load_model(model)
        if not is_zo(loaded):
            loaded, settings = trainable_model(loaded, settings)
        self.model, self.runtime = loaded, load(loaded, runtime, threads=threads)
        self._threads, self._workers = threads, workers
        metadata = self.runtime.metadata
        if not metadata.trainable or metadata.loss is None:
            raise SettingsError("model", "have trainable tensors and a loss", fix="Inject the original model again")
        self.settings = settings or usual_settings(metadata)
        check_model(self.settings, metadata)
        if workers and self.settings.is_layerwise:
            problem = "be 0 for a layer-wise run, whose steps are too short to share"
            raise SettingsError("workers", problem, workers, "Use more threads, or weight perturbation")
        self.forwards, self.equivalents = 0, 0.0
        self.step = self.planned = 0
        self.measured_rate: float | None = None
        self.log: Path | None = None
        self.data: RunData | None = None
        self.interrupted = False
        self._run: Run | None = None  # in progress

    # --- training -------------------------------------------------------------------------------------------

    def fit(
        self,
        x: Samples,
        y: Labels | None = None,
        *,
        epochs: int | Literal["auto"] | None = None,
        steps: int | None = None,
        budget: float | None = None,
        validation_data: Given | None = None,
        validation_split: Split = 0.0,
        rehearsal: Given | None = None,
        callbacks: Sequence[Callback] = (),
        log: str | os.PathLike[str] | None = None,
        resume: bool = False,
        replace: bool = False,
        keep: Keep = "best",
        initial_weights: Mapping[str, WeightArray] | None = None,
    ) -> History:
        """Trains the model. A second call continues from the present weights.

        It rounds the weights, as an export does, and `model` becomes the ZO model with the rounded weights, to which
        the new log belongs. Give at most one of `epochs`, `steps` and `budget`.

        Args:
            x: samples, [samples, ...], floating point in the units that the model was trained on, int8 as its
                input, or uint8 pixels: an array or list, for several inputs a list or dictionary of them, or
                the path of an .npz or .npy file; see `tflm_zo.data.Samples`.
            y: labels, or the path of an .npy file of them: class numbers [samples] or one-hot
                [samples, classes]; 0 and 1 [samples, outputs] for binary cross-entropy; -1 in either stands
                for no label; targets shaped like the output for the mean squared error. None takes the
                labels of the file or dictionary, and x itself for an autoencoder.
            epochs: passes over the samples, >= 1; "auto": 10, or the number that takes 300 steps if that is larger;
                None: 1.
            steps: number of steps.
            budget: largest cost of the run in forward equivalents. The run has at most 60 passes over the samples or,
                if that is more, 2,000 steps (weight perturbation: 50,000). With keep="best" it ends early when three
                quarters of the measurements in a row bring no improvement.
            validation_data: (x, y), or samples with labels, evaluated after each epoch.
            validation_split: share of each class, 0..1, that is held out and used as `validation_data`; "auto": a
                fifth, or none if a class has too few samples. The seed of the settings chooses them.
            rehearsal: (x, y), or samples with labels, of the model's original data; they are mixed in against
                forgetting.
            callbacks: callbacks that are called after every step and epoch.
            log: path of the log to write, which must not exist unless `resume` or `replace` is set.
            resume: True to resume the run in the log, which must have the same model and settings. The result is the
                same as without the interruption. If the log has no complete header, the run starts with a LogWarning.
            replace: True to overwrite an existing log, after all arguments are checked.
            keep: "best" measures the loss before the first step, at ends of epochs, at most 20 times, and
                after the last step, on `data.measured`, which counts in no
                budget, and ends with the best weights measured; "last" keeps those of the last step.
            initial_weights: weights that replace the present ones before the run, int8 arrays by tensor name, e.g.
                from `converters.initial_weights`.

        Returns:
            The history, also if Ctrl-C or a callback ended the run.

        Raises:
            DataError: the data do not fit the model; nothing has been trained.
            LogError: the file is no log, or a log of another model or run.
            FileExistsError: the log exists, and neither `resume` nor `replace` is set.
            OSError: the log cannot be written, e.g. because the disk is full. Log and weights are those of the last
                complete step, and the run can be resumed.

        Warns:
            DataWarning: a class has no sample in the training or validation data.
        """
        self.data = RunData.of(
            self.runtime,
            x,
            y,
            validation_data=validation_data,
            validation_split=validation_split,
            rehearsal=rehearsal,
            seed=self.settings.seed,
        )
        data = self.data.train
        if data.steps > 1 and len(self.runtime.segments) > 1:
            raise DataError(
                f"`x` must have samples of one step, since the model is cut into {len(self.runtime.segments)} segments "
                f"for `{self.settings.algorithm}`. Received: sequences of {data.steps} steps. Train the plain model "
                "with algorithm `weight`, `mezo` or `qzo-ff`, which cut nothing"
            )
        if epochs == "auto":
            epochs = usual_epochs(self.settings, len(data))
        total = self._planned_steps(epochs, steps, budget, len(data))
        check_choice("keep", keep, KEEPS)
        _check_log(log, resume=resume, replace=replace)
        warn_of_missing_classes(data, self.data.validation, self.runtime.metadata.known_loss)
        if not resume:
            self._begin_with(initial_weights)
        elif initial_weights is not None:
            raise ValueError("initial_weights: a resumed run continues from its log")
        settings, total, spent = with_measured_rate(self.runtime, self.model, self.settings, data, total, budget)
        self.measured_rate = settings.learning_rate if spent else None
        rate = "none" if self.measured_rate is None else written(self.measured_rate)
        self.model = with_found(self.model, rate)
        with self._running_workers() as workers:
            run = self._new_run(settings, data, total, keep, workers)
            run.spent = spent
            self.log = None if log is None else Path(log)
            progress = RunProgress(
                run,
                self.runtime,
                self.model,
                self.settings,
                samples=len(data),
                log=self.log,
                measured_rate=self.measured_rate,
            )
            opened = _log_of(run, log, resume=resume, replace=replace, sync_every=self.settings.sync_every)
            measured = self.data.measured if keep == "best" else None
            try:
                return self._train(run, progress, opened, callbacks, measured, may_end=budget is not None)
            finally:
                self._run = None

    def _train(
        self,
        run: Run,
        progress: RunProgress,
        opened: AbstractContextManager[Callable[[], None]],
        callbacks: Sequence[Callback],
        measured: Data | None,
        *,
        may_end: bool,
    ) -> History:
        """Runs the steps. At the end the runtime has the kept weights."""
        history, begun, forwards, begin = History(), list[Callback](), self.forwards, time.perf_counter()
        self.interrupted = False
        try:
            with opened as open_log:
                self._run = run
                best = None if measured is None else BestState(self.runtime, run, measured, may_end=may_end)
                # The cost before the first step counts for a new run.
                before = run.equivalents if run.step else 0.0
                try:
                    # A new log is made, and an old one replaced, when no callback has refused the run.
                    if run.step:
                        open_log()
                    for callback in callbacks:
                        begun.append(callback)
                        callback.on_train_begin(progress)
                    if not run.has_log:
                        open_log()
                    self._loop(run, progress, best, history, callbacks)
                except BaseException as error:
                    run.roll_back()
                    if not isinstance(error, KeyboardInterrupt):
                        raise
                    self.interrupted = True
        finally:
            self.step, self.equivalents, self.forwards = run.step, run.equivalents, forwards + run.forwards
            for callback in begun:
                callback.on_train_end(progress)
        history.kept_step = run.step
        if best is not None:
            step = best.restore()
            history.kept_step = run.step if step is None else step
            history.measurements = best.values()
        history.forwards = run.forwards
        history.equivalents = run.equivalents - before
        history.seconds = time.perf_counter() - begin
        return history

    def _loop(
        self, run: Run, progress: RunProgress, best: BestState | None, history: History, callbacks: Sequence[Callback]
    ) -> None:
        per_epoch, unit = progress.steps_per_epoch, self.runtime.metadata.loss_unit
        if best is not None:
            best.measure_where_due()
        # Of the epoch, also of one that was cut short and resumed: losses are whole multiples of 2^-16, so
        # the sum is exact in any order.
        resumed = run.resumed_losses(run.step // per_epoch * per_epoch)
        total, count = float(resumed.sum()), len(resumed)
        while run.step < run.total and not progress.stopped and not (best is not None and best.is_over):
            report = run.advance()
            history.append_step(report.loss * unit)
            if best is not None:
                best.measure_where_due()
            total, count = total + report.loss, count + 1
            for callback in callbacks:
                callback.on_step_end(progress, {"loss": report.loss * unit, "rate": report.rate})
            if run.step % per_epoch == 0 or run.step == run.total:
                run.settle()
                logs = {"loss": total / count * unit, "rate": report.rate, "equivalents": run.equivalents}
                logs |= self._validate(run, best)
                history.append(**logs)
                for callback in callbacks:
                    callback.on_epoch_end(progress, logs)
                total, count = 0.0, 0
        run.settle()

    def _validate(self, run: Run, best: BestState | None) -> dict[str, float]:
        """Returns "val_loss" and, if there is one, "val_accuracy" on the validation data; {} without data."""
        assert self.data is not None
        if self.data.validation is None:
            return {}
        found = best.last if best is not None else None
        values = (found or run.evaluate(self.data.validation)).values()
        if self.data.constant:
            values.pop("accuracy", None)
        return {f"val_{name}": value for name, value in values.items()}

    def _running_workers(self) -> AbstractContextManager[Workers | None]:
        """Starts the workers of a run, and stops them at its end unless the caller owns them."""
        if isinstance(self._workers, Workers):
            return nullcontext(self._workers)
        return Workers(self._workers) if self._workers else nullcontext()

    def _planned_steps(self, epochs: int | None, steps: int | None, budget: float | None, samples: int) -> int:
        check_length(epochs, steps, budget)
        if budget is not None:
            steps = min(self.affordable_steps(budget, samples), most_budget_steps(self.settings, samples))
        return planned_steps(self.settings, samples, epochs, steps)

    def _new_run(self, settings: Settings, data: Data, total: int, keep: Keep, workers: Workers | None) -> Run:
        lowered = lower(self.model, self.runtime.metadata, settings, steps=total, samples=len(data))
        run: Run
        if lowered.tasks:
            run = NodeRun(self.runtime, self.model, lowered, data)
        else:
            run = WeightRun(self.runtime, self.model, lowered, data, workers)
        per_epoch, self.planned = self.settings.steps_per_epoch(len(data)), total
        run.measure_every = measuring_interval(total, per_epoch) if keep == "best" else 0
        return run

    def _begin_with(self, given: Mapping[str, WeightArray] | None) -> None:
        """Stores the weights at the beginning of a run as the model's initial weights."""
        wanted, own = self.runtime.read_weights(), initial_weights(self.model)
        if given is not None:
            wanted = {**own, **given}
        if any(not np.array_equal(wanted[name], own[name]) for name in own) or len(wanted) > len(own):
            self.model = with_initial_weights(self.model, wanted)
            self.runtime = load(self.model, self.runtime.name, threads=self._threads)

    def affordable_steps(self, budget: float, samples: int) -> int:
        """Returns the number of steps that a budget of forward equivalents pays for on so many training samples. Raises
        SettingsError if the budget is out of range or less than a step costs; the message names that cost.
        """
        return affordable_steps(self.settings, self.model, self.runtime.metadata, budget, samples)

    def _settle_run(self) -> None:
        """Applies a pending update, so that the weights are those after the last step."""
        if self._run is not None:
            self._run.settle()

    # --- using ----------------------------------------------------------------------------------------------

    def evaluate(self, x: Samples, y: Labels | None = None) -> dict[str, float]:
        """Returns the mean "loss" of the labelled samples, given as to `fit`, and, unless that is the mean squared
        error, their "accuracy" (0..1). Raises DataError if the data do not fit the model, or have no label at all.
        """
        data = prepare(self.runtime, x, y)
        self._settle_run()
        return evaluate(self.runtime, data).values()

    def predict(self, x: Samples) -> NDArray[Any]:
        """Returns the output that the loss reads for all samples, in the model's dtype, [samples, ...].

        For a classifier with a SOFTMAX it returns the probabilities.
        """
        inputs = prepare_samples(self.runtime, x)
        self._settle_run()
        return predict(self.runtime, inputs)

    def export(
        self,
        path: str | os.PathLike[str] | None = None,
        *,
        batch: int | None = None,
        re_range: bool = False,
        force: bool = False,
    ) -> Model:
        """Exports a plain int8 model with the present weights.

        Args:
            path: path of the file to write; None writes no file.
            batch: samples per invoke of the exported model; None: as many as `export_model` chooses.
            re_range: True to give filters new scales from the range of their weights, see `export_model`. The
                exported weights then differ from the trained ones by rounding.
            force: replaces a file that exists.

        Raises:
            ConversionError: an operator ties the model to its batch size.
            FileExistsError: the file exists and ``force`` is not set.
            OSError: the file cannot be written.
        """
        self._settle_run()
        weights = self.runtime.read_weights()
        fractions = self.runtime.read_fractions() if re_range else None
        exported = export_model(self.model, weights, batch=batch, fractions=fractions, re_range=re_range)
        if path is not None:
            exported.save(path, force=force)
        return exported


def _check_log(log: str | os.PathLike[str] | None, *, resume: bool, replace: bool) -> None:
    if log is None:
        if resume:
            raise SettingsError("resume", "have a log to resume from", fix="Give", give={"log": ...})
    elif not resume and not replace and os.path.exists(log):
        raise log_exists(log)


@contextmanager
def _log_of(
    run: Run, log: str | os.PathLike[str] | None, *, resume: bool, replace: bool, sync_every: float | None
) -> Iterator[Callable[[], None]]:
    """Begins or resumes a run, and closes its log at the end.

    Yields a function that opens the log; until then the file is not changed.
    """
    kept = None
    try:
        if log is None or not resume:
            run.begin()
        else:
            kept = run.resume(Path(log))
    except (FileNotFoundError, IncompleteHeaderError) as error:
        what, kept = (f"{log}: no such log", None) if isinstance(error, FileNotFoundError) else (error, 0)
        warnings.warn(f"{what}; training from the beginning", LogWarning, stacklevel=5)
        run.begin()

    def open_log() -> None:
        if log is not None:
            run.open_log(Path(log), kept, replace=replace, sync_every=sync_every)

    try:
        yield open_log
    finally:
        run.close_log()
