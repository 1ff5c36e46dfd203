"""The whole recipe: recalibration, held-out samples, training, comparison."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ..converters import Model, load_model, read_metadata
from ..converters.channel_statistics import read_statistics
from ..converters.model import Operator
from ..converters.settings import InjectChanges
from ..data import Data, Labels, Samples, read_arrays
from ..io.errors import SettingsError
from ..recalibration import Recalibration
from ..recalibration.recalibrate import recalibrate as recalibrated
from ..training import Callback, History, Settings, TrainedLayers, Trainer, Workers, trained_layers
from ..training.injection import is_zo
from ..training.length import check_length, usual_epochs
from ..training.run_data import Given, RunData, Split
from ..training.setting_texts import MEASURED_RATE
from ..training.trainer import Keep
from .evaluation import with_loss
from .zo_model import Changes, KeptZoModel, model_of_run, of_resumed_run


class Observer(Callback):
    """A callback that also hears of the decisions before a run, and of its model."""

    def recalibrating(self, layers: Sequence[Operator]) -> Iterable[Operator]:
        """Passes on the layers that are recalibrated, for a progress bar."""
        return layers

    def on_recalibrated(self, found: Recalibration | None) -> None:
        """Is called after a recalibration; None: an autoencoder with statistics is not recalibrated."""

    def on_decided(self, settings: Settings, trained: TrainedLayers, data: RunData, budget: float | None) -> None:
        """Hears of the run before its learning rate is measured: its settings, the trained layers, the
        samples, and its budget.
        """

    def on_trained(self, model: Model) -> None:
        """Is called with the trained plain model before it is measured, for example to write it to a file."""


@dataclass(frozen=True)
class Adaptation:
    """A trained model, and the decisions and measurements of its run.

    The trainer's `model` is the ZO model to which the log belongs; its `step`, `equivalents`, `measured_rate` and
    `interrupted` describe the run. Values before and after are "loss" and, if there is one, "accuracy" on
    `data.measured`. A run that keeps the last weights has none before it if it is resumed, none after it if it was
    interrupted.
    """

    model: Model  #: the trained model, a plain int8 model
    trainer: Trainer  #: trainer of the run, with the kept weights
    history: History  #: history of the run
    data: RunData  #: training and validation samples of the run, and classes without samples
    trained: TrainedLayers  #: layers that the run trains
    recalibration: Recalibration | None  #: recalibration before the run
    budget: float | None  #: forward equivalents that the run may cost
    before: dict[str, float] | None  #: values of the weights before the first step
    after: dict[str, float] | None  #: values of the kept weights

    @property
    def is_worse(self) -> bool:
        """True if the kept weights are worse than those before the first step, which keep="last" allows."""
        if self.before is None or self.after is None:
            return False
        before, after = ((-found.get("accuracy", 0.0), found["loss"]) for found in (self.before, self.after))
        return after > before

    @property
    def is_unchanged(self) -> bool:
        """True if no measurement was better than that before the first step, whose weights are kept."""
        return bool(self.history.measurements) and not self.history.kept_step

    def save(self, path: str | os.PathLike[str], force: bool = False) -> Path:
        """Writes the trained model; see ``Model.save``."""
        return self.model.save(path, force)


def adapt(
    model: Model | bytes | str | os.PathLike[str],
    x: Samples,
    y: Labels | None = None,
    settings: Settings | str | None = None,
    *,
    changes: Changes | None = None,
    inject: InjectChanges | None = None,
    runtime: str = "litert",
    threads: int = 1,
    workers: int | Workers = 0,
    recalibrate: bool | None = None,
    epochs: int | None = None,
    steps: int | None = None,
    budget: float | None = None,
    validation_data: Given | None = None,
    validation_split: Split | None = None,
    rehearsal: Given | None = None,
    keep: Keep = "best",
    observer: Observer | None = None,
    callbacks: Sequence[Callback] = (),
    log: str | os.PathLike[str] | None = None,
    zo_model: str | os.PathLike[str] | None = None,
    resume: bool = False,
    replace: bool = False,
) -> Adaptation:
    """Adapts a model to new data, as ``tflm-zo train`` does: the same arguments give the same bits.

    A plain classifier that keeps statistics is recalibrated, a fifth of the samples is held out and selects
    the best weights, and a run without a given length takes 10 epochs or 300 steps.

    Args:
        model: a plain int8 model or a ZO model, its bytes or its path.
        x: samples, as `Trainer.fit` takes them.
        y: labels, as `Trainer.fit` takes them.
        settings: settings of the run, e.g. ``algorithms.weight()``, or the name of an algorithm.
            None: those of the ZO model; for a plain model those of node perturbation or, with a warning, of weight
            perturbation where no layer can carry nodes.
        changes: function that changes the settings, given the metadata of the ZO model, or None before it is
            made. None: settings that are not given take a minibatch that fits the model.
        inject: further settings of `inject` for a plain model.
        runtime: name of the runtime that runs the model.
        threads: number of threads. Does not affect results.
        workers: workers that share steps of weight perturbation, as for `Trainer`. Does not affect results.
        recalibrate: True to recalibrate a plain model first. None: as `recalibrates` decides.
        epochs: passes over the samples, >= 1. Of `epochs`, `steps` and `budget` one is given at most.
        steps: number of steps.
        budget: forward equivalents that the run may cost, see `Trainer.fit`.
        validation_data: samples that the run is measured on, as for `Trainer.fit`.
        validation_split: share of the samples that is held out and measured, as for `Trainer.fit`. None:
            "auto", but 0 with `validation_data` and with keep="last".
        rehearsal: samples that the model knows, which are mixed in against forgetting.
        keep: "best" keeps the best measured weights, "last" those of the last step.
        observer: observer of decisions and run, the first of the callbacks.
        callbacks: callbacks, as for `Trainer.fit`.
        log: path of the log to write, as for `Trainer.fit`.
        zo_model: path of the file that gets the ZO model of a plain model, which `resume` needs.
        resume: resumes the run of the log; see `Trainer.fit`.
        replace: replaces files that exist.

    Raises:
        SettingsError: the settings do not fit the model.
        ConversionError: the model cannot be trained or recalibrated.
        DataError: the data do not fit the model.
        LogError: the file of the log is no log of the run.
        FileExistsError: a file exists, and neither `resume` nor `replace` is set.
        OSError: a file cannot be written.

    Warns:
        DataWarning: the samples, or those of `validation_data`, have none of some class.
    """
    source = load_model(model)
    observer = observer or Observer()
    if zo_model is not None and is_zo(source):
        raise SettingsError("zo_model", "be left out, since the model is a ZO model already")
    if recalibrate is None:
        recalibrate = recalibrates(source, x, y, inject)
        if not recalibrate and _keeps_statistics(source):
            observer.on_recalibrated(None)
    recalibration = None
    if recalibrate:
        recalibration = recalibrated(source, x, runtime=runtime, threads=threads, watch=observer.recalibrating)
        observer.on_recalibrated(recalibration)
        source = recalibration.model
    length = {"epochs": epochs, "steps": steps, MEASURED_RATE: "auto"}
    found = model_of_run(source, settings, changes, inject=inject, length=length)
    zo = found.zo
    if resume and zo_model is not None:
        zo = of_resumed_run(zo, zo_model)
    trainer = Trainer(zo, found.settings, runtime=runtime, threads=threads, workers=workers)
    if validation_split is None:
        alone = validation_data is None and keep == "best"
        validation_split = "auto" if alone else 0.0
    data = RunData.of(
        trainer.runtime,
        x,
        y,
        validation_data=validation_data,
        validation_split=validation_split,
        rehearsal=rehearsal,
        seed=found.settings.seed,
    )
    check_length(epochs, steps, budget)
    if epochs is None and steps is None and budget is None:
        epochs = usual_epochs(found.settings, len(data.train))
    kept_zo = KeptZoModel(zo_model, zo, log, replace=replace, resume=resume)
    trained = trained_layers(zo, trainer.settings)
    before = None if keep == "best" or resume else trainer.evaluate(data.measured)
    observer.on_decided(trainer.settings, trained, data, budget)
    try:
        history = trainer.fit(
            data.train,
            epochs=epochs,
            steps=steps,
            budget=budget,
            validation_data=data.validation,
            callbacks=[observer, *callbacks, kept_zo],
            log=log,
            resume=resume,
            replace=replace,
            keep=keep,
        )
    except BaseException:
        kept_zo.withdraw()
        raise
    adapted = trainer.export()
    observer.on_trained(adapted)
    after = None
    if history.measurements:
        at = {found["step"]: found for found in history.measurements}
        before, after = ({k: v for k, v in at[step].items() if k != "step"} for step in (0, history.kept_step))
    elif not trainer.interrupted:  # after Ctrl-C the user expects the prompt
        after = trainer.evaluate(data.measured)
    for values in (before, after) if data.constant and not history.measurements else ():
        if values is not None:
            values.pop("accuracy", None)
    return Adaptation(
        model=adapted,
        trainer=trainer,
        history=history,
        data=data,
        trained=trained,
        recalibration=recalibration,
        budget=budget,
        before=before,
        after=after,
    )


def recalibrates(model: Model, x: Samples, y: Labels | None = None, inject: InjectChanges | None = None) -> bool:
    """Returns whether `adapt` recalibrates a model unasked.

    A plain model that keeps statistics is recalibrated, unless it is trained to reproduce its input. An
    autoencoder only knows its inputs: after a recalibration it would reproduce the old inputs, not the new
    ones (`examples/machine_sounds`). Arguments are those of `adapt`.

    Raises:
        ConversionError: the model's loss cannot be told.
        DataError: the data cannot be read.
    """
    if not _keeps_statistics(model):
        return False
    given = inject or {}
    zo = with_loss(model, given.get("loss"), given.get("loss_output"))
    found = read_metadata(zo).loss
    return found is None or found.kind != "mse" or y is not None or _has_labels(x)


def _keeps_statistics(model: Model) -> bool:
    return not is_zo(model) and read_statistics(model) is not None


def _has_labels(x: Samples) -> bool:
    if isinstance(x, str | os.PathLike):
        return "y" in read_arrays(x)
    return isinstance(x, Data) or (isinstance(x, Mapping) and "y" in x)
