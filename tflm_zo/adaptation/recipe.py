"""The whole recipe: recalibration, held-out samples, training, comparison."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, cast

from numpy.typing import ArrayLike

from ..converters import Model, load_model, read_metadata
from ..converters.channel_statistics import read_statistics
from ..converters.model import Operator
from ..converters.settings import InjectChanges
from ..data import Data, Labels, Samples
from ..io.errors import SettingsError
from ..planner.boards import find_board
from ..planner.plan import Cost, plan
from ..planner.ways import ways
from ..recalibration import Recalibration
from ..recalibration.recalibrate import recalibrate as recalibrated
from ..training import Callback, History, Settings, TrainedLayers, Trainer, Workers, trained_layers
from ..training.injection import is_zo
from ..training.length import check_length, chosen_steps, planned_steps, usual_epochs
from ..training.run_data import Given, RunData, Split
from ..training.setting_texts import MEASURED_RATE
from ..training.trainer import Keep
from .choice import Candidate, Choice, Contest
from .evaluation import labels_in, loss_told, with_loss
from .parts import Division, Parts
from .starts import Start
from .zo_model import Changes, KeptZoModel, chosen_before, model_of_run, of_resumed_run

# Settings of `inject` that fit any way to train.
_OF_ANY_RUN: Final = {"loss", "loss_output", "loss_over", "update_bits"}
# Runs of a chosen way whose rate is quartered after each that diverges, at most.
_ATTEMPTS: Final = 3
# Forward equivalents of a budget for each sample of a whole trial, so that trials take about two thirds of it: a sample
# costs three or four, and trials take four or five times the whole length.
_EQUIVALENTS_PER_SAMPLE: Final = 16.0
# Inferences of the parts of a whole trial together, at most, where samples are sequences: all trials of a wake word
# then take about two minutes.
_MOST_INFERENCES: Final = 1_200_000


class Observer(Callback):
    """A callback that also hears of the decisions before a run, and of its model."""

    def recalibrating(self, layers: Sequence[Operator]) -> Iterable[Operator]:
        """Passes on the layers that are recalibrated, for a progress bar."""
        return layers

    def on_recalibrated(self, found: Recalibration | None) -> None:
        """Is called after a recalibration; None: an autoencoder with statistics is not recalibrated."""

    def on_trial(self, candidate: Candidate) -> None:
        """Is called before a candidate's rate is measured, and before each of its trials."""

    def on_chosen(self, choice: Choice, parts: Parts | None, cost: Cost | None) -> None:
        """Is called when a way to train is chosen, with its costs if a device is given."""

    def on_diverged(self, rate: float) -> None:
        """Is called when the run of the chosen way has diverged at a rate, LSB, and is repeated at a quarter of it."""

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
    `data.measured`, or, with `parts`, on these by runs on the other samples. A run that keeps the last weights has none
    before it if it is resumed, none after it if it was interrupted.
    """

    model: Model  #: the trained model, a plain int8 model
    trainer: Trainer  #: trainer of the run, with the kept weights
    history: History  #: history of the run
    data: RunData  #: training and validation samples of the run, and classes without samples
    trained: TrainedLayers  #: layers that the run trains
    recalibration: Recalibration | None  #: recalibration before the run
    choice: Choice | None  #: choice of the way to train
    parts: Parts | None  #: parts of the samples that were held out in turn for it
    cost: Cost | None  #: costs of the chosen way on the device; None: no device was given
    budget: float | None  #: forward equivalents that the run may cost
    before: dict[str, float] | None  #: values of the weights before the first step
    after: dict[str, float] | None  #: values of the kept weights

    @property
    def is_worse(self) -> bool:
        """True if the kept weights are worse than those before the first step, which keep="last" allows; of a choice,
        by more than 1.5 standard errors.
        """
        if self.before is None or self.after is None:
            return False
        if self.choice is not None and self.after == self.choice.best.values:
            return self.choice.best.harms(self.choice.before)
        before, after = ((-found.get("accuracy", 0.0), found["loss"]) for found in (self.before, self.after))
        return after > before

    @property
    def is_unchanged(self) -> bool:
        """True if no measurement was better than that before the first step, whose weights are kept."""
        return not self.is_trained or bool(self.history.measurements) and not self.history.kept_step

    @property
    def is_trained(self) -> bool:
        """False if no way to train was better than the model without training, so that there is no run."""
        return self.choice is None or self.choice.trains

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
    groups: ArrayLike | None = None,
    board: str | None = None,
    ram: int | None = None,
    forward_only: bool = False,
    keep: Keep = "best",
    observer: Observer | None = None,
    callbacks: Sequence[Callback] = (),
    log: str | os.PathLike[str] | None = None,
    zo_model: str | os.PathLike[str] | None = None,
    resume: bool = False,
    replace: bool = False,
) -> Adaptation:
    """Adapts a model to new data, as ``tflm-zo train`` does: the same arguments give the same bits.

    Without settings, changes and settings of `inject` but loss and bits, the way to train a plain model is chosen:
    several, from the model as it is and recalibrated, are compared by the loss of parts of the samples that are held
    out in turn, and the best one trains on all samples (see `choice`). If all are worse than the model, it stays as
    it is.

    With `board`, `ram` or `forward_only`, these are the ways that fit, and an algorithm's name is its first one.

    With settings, a plain classifier that keeps statistics is recalibrated, a fifth of the samples is held out and
    selects the best weights, and a run without a given length takes 10 epochs or 300 steps.

    Args:
        model: a plain int8 model or a ZO model, its bytes or its path.
        x: samples, as `Trainer.fit` takes them.
        y: labels, as `Trainer.fit` takes them.
        settings: settings of the run, e.g. ``algorithms.weight()``, or the name of an algorithm.
            None: those of the ZO model; for a plain model the best of several.
        changes: function that changes the settings, given the metadata of the ZO model, or None before it is
            made. None: settings that are not given take a minibatch that fits the model.
        inject: further settings of `inject` for a plain model.
        runtime: name of the runtime that runs the model.
        threads: number of threads. Does not affect results.
        workers: workers that share steps of weight perturbation, as for `Trainer`. Does not affect results.
        recalibrate: True to recalibrate a plain model first. None: as the choice or `recalibrates` decides.
        epochs: passes over the samples, >= 1. Of `epochs`, `steps` and `budget` one is given at most.
        steps: number of steps.
        budget: forward equivalents that the run may cost, see `Trainer.fit`; trials count, and leave at least a third.
        validation_data: samples that the run is measured on, as for `Trainer.fit`.
        validation_split: share of the samples that is held out and measured, as for `Trainer.fit`. None:
            "auto", but 0 with `validation_data` and with keep="last".
        rehearsal: samples that the model knows, which are mixed in against forgetting.
        groups: group of each sample, [samples], for example its recording or person. Whole groups are held out. None:
            the array `groups` of the file or dictionary, if there is one.
        board: name of the board whose memory the run must fit, as for `plan`; None: any.
        ram: bytes of RAM that the run must fit; None: those of the board.
        forward_only: True to choose among ways that pass no errors back through layers.
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
    check_length(epochs, steps, budget)
    told = loss_told(source, x, y, (inject or {}).get("loss"), (inject or {}).get("loss_output"))
    if told is not None:
        inject = {**(inject or {}), "loss": told}
    given = settings is not None or changes is not None or not set(inject or {}) <= _OF_ANY_RUN
    chooses = not given and not is_zo(source) and keep == "best" and validation_split != 0
    device = {"board": board, "ram": ram, "forward_only": forward_only or None}
    limited = [name for name, value in device.items() if value is not None]
    if limited and (is_zo(source) or isinstance(settings, Settings)):
        why = "the model is a ZO model already" if is_zo(source) else "the settings are given"
        raise SettingsError(limited[0], f"be left out, since {why}")
    refits = chooses and validation_data is None and validation_split is None
    starts = _starts(source, recalibrate, chooses, observer, x, y, inject)
    known = chosen_before(zo_model) if chooses and resume and zo_model is not None else None
    if known is not None:
        given_ram = ram or (find_board(board).ram * 1024 if board else known.ram)
        if given_ram != known.ram:
            first = "not limited" if known.ram is None else f"{known.ram} bytes"
            raise SettingsError("ram", f"be that of the resumed run, {first}", given_ram, "Give the same options")
        settings, steps, ram, starts = known.settings, known.steps, known.ram, [Start.named(known.start, source)]
        inject = {**(inject or {}), "update_bits": known.update_bits}
    recalibration = None
    if starts[-1].is_recalibrated:
        recalibration = recalibrated(source, x, runtime=runtime, threads=threads, watch=observer.recalibrating)
        starts[-1] = dataclasses.replace(starts[-1], model=recalibration.model)
    choice = way = None
    costs = list[Cost]()
    if limited and known is None:
        planned = plan(source, board=board, ram=ram, forward_only=forward_only, inject=inject)
        costs, ram = planned.fitting_of(cast(str | None, settings)), planned.target.ram
        way = costs[0].way
    division = Division(source, inject or {}, x, y, validation_data, validation_split, rehearsal, groups)
    if chooses and known is None and (pairs := division.pairs()):
        ladder = [cost.way for cost in costs] or ways(source, inject)

        def load(zo: Model, settings: Settings) -> Trainer:
            return Trainer(zo, settings, runtime=runtime, threads=threads)

        contest = Contest(starts, ladder, inject or {}, runtime, load, observer.on_trial)
        choice = contest.run(pairs, lambda own: _steps_of_trials(own, division, epochs, steps, budget))
        way = choice.best.candidate.way
    if way is not None:
        settings, inject = way.settings, {**(inject or {}), "update_bits": way.update_bits}
    start = starts[0] if choice is None else choice.best.candidate.start
    cost = next((cost for cost in costs if cost.way is way), None)
    if choice is not None:
        observer.on_chosen(choice, division.parts, cost)
        settings = choice.best.candidate.settings
        if budget is not None:
            budget = max(budget / 3, budget - choice.equivalents)
        elif refits and epochs is None and steps is None:
            steps = chosen_steps(settings, len(division.data.train))
    if not start.is_recalibrated:
        recalibration = None
    elif recalibration is not None:
        observer.on_recalibrated(recalibration)
    source = start.model
    if start.has_class_means:
        source = start.for_samples(division.data.train, (inject or {}).get("loss_output"), runtime)
    if refits:
        keep = "last"
    if validation_split is None:
        validation_split = "auto" if validation_data is None and keep == "best" else 0.0
    diverged = False
    for attempt in range(_ATTEMPTS):
        of_choice = {"start": start.name if chooses else None, "ram": ram}
        length = {"epochs": epochs, "steps": steps, **of_choice, MEASURED_RATE: "auto"}
        found = model_of_run(source, settings, changes, inject=inject, length=length)
        zo = found.zo
        if resume and zo_model is not None:
            zo = of_resumed_run(zo, zo_model)
        trainer = Trainer(zo, found.settings, runtime=runtime, threads=threads, workers=workers)
        data = RunData.of(
            trainer.runtime,
            x,
            y,
            validation_data=validation_data,
            validation_split=validation_split,
            rehearsal=rehearsal,
            seed=found.settings.seed,
        )
        if epochs is None and steps is None and budget is None:
            epochs = usual_epochs(found.settings, len(data.train))
        trained = trained_layers(zo, trainer.settings)
        result = Adaptation(
            model=source,
            trainer=trainer,
            history=History(),
            data=data,
            trained=trained,
            recalibration=recalibration,
            choice=choice,
            parts=division.parts,
            cost=cost,
            budget=budget,
            before=None if choice is None else choice.before.values,
            after=None if choice is None else choice.best.values,
        )
        if not result.is_trained:
            observer.on_trained(source)
            return result
        kept_zo = KeptZoModel(zo_model, zo, log, replace=replace or attempt > 0, resume=resume)
        before = result.before
        if keep == "last" and choice is None and not resume:
            before = trainer.evaluate(data.measured)
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
                replace=replace or attempt > 0,
                keep=keep,
            )
        except BaseException:
            kept_zo.withdraw()
            raise
        rate = trainer.settings.learning_rate
        if choice is None or not refits or trainer.interrupted or rate is None:
            break
        # If more than half of the trials' gain is lost, the run was unstable where they were not.
        diverged = trainer.evaluate(data.train)["loss"] > (choice.before.loss + choice.best.loss) / 2
        if not diverged:
            break
        observer.on_diverged(rate)
        settings = dataclasses.replace(trainer.settings, learning_rate=rate / 4)
    adapted = trainer.export()
    observer.on_trained(adapted)
    after = result.after if refits and not trainer.interrupted and not diverged else None
    if history.measurements:
        at = {found["step"]: found for found in history.measurements}
        before, after = ({k: v for k, v in at[step].items() if k != "step"} for step in (0, history.kept_step))
    elif after is None and not trainer.interrupted:  # after Ctrl-C the user expects the prompt
        after = trainer.evaluate(data.measured)
    for values in (before, after) if data.constant and not history.measurements else ():
        if values is not None:
            values.pop("accuracy", None)
    return dataclasses.replace(result, model=adapted, history=history, before=before, after=after)


def _steps_of_trials(
    settings: Settings, division: Division, epochs: int | None, steps: int | None, budget: float | None
) -> int:
    """Returns the number of steps of a whole trial: those of a run, unless the user gives a shorter length, or the
    samples are long sequences.
    """
    usual, used = chosen_steps(settings, len(division.data.train)), division.parts.used if division.parts else 1
    if division.data.train.steps > 1:
        usual = min(usual, max(1, _MOST_INFERENCES // (2 * settings.batch_size * division.data.train.steps * used)))
    if budget is not None:
        samples = budget / _EQUIVALENTS_PER_SAMPLE / used
        return min(usual, max(1, round(samples / settings.batch_size)))
    given = epochs is not None or steps is not None
    return min(usual, planned_steps(settings, len(division.data.train), epochs, steps)) if given else usual


def _starts(
    source: Model,
    recalibrate: bool | None,
    chooses: bool,
    observer: Observer,
    x: Samples,
    y: Labels | None,
    inject: InjectChanges | None,
) -> list[Start]:
    """Returns the starts that a way to train is chosen for, or the start of the run; the last may be recalibrated."""
    as_is, other = Start(source), Start(source, is_recalibrated=True)
    if recalibrate is not None:
        return [other if recalibrate else as_is]
    if recalibrates(source, x, y, inject):
        return [as_is, other] if chooses else [other]
    if _keeps_statistics(source):
        observer.on_recalibrated(None)
    return [as_is]


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
    return found is None or found.kind != "mse" or y is not None or isinstance(x, Data) or labels_in(x) is not None


def _keeps_statistics(model: Model) -> bool:
    return not is_zo(model) and read_statistics(model) is not None
