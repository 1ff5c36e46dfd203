"""The choice of the way to train: candidates are compared by samples that they were not trained on.

A candidate is a rung of the ladder (`tflm_zo.planner.ways`) with a start, the model as it is or recalibrated. If the
model has a new class (`tflm_zo.converters.grow_classes`), a last layer by class means makes further starts. If the
highest rung that fits the device trains all layers, it is tried alone, from each start. Else all rungs that fit are
tried, the highest from each start, and the others from the best one. These trials take a quarter of the length of a
run. The best ones, unless they lose by more than two standard errors of the paired losses, are tried with twice and
half the measured rate, too, which is taken if it wins by more than a standard error. Then they are tried for the whole
length. The highest rung wins, unless another is better by more than a standard error.

If the best trial is worse by more than 1.5 standard errors than the model without training, as it is or recalibrated,
the next rungs are tried. The winner trains on all samples. If there is none, the model stays without training, or gets
class means if they have the least loss.
"""

from __future__ import annotations

import dataclasses
import math
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from ..converters import ConversionError, Model, read_metadata
from ..converters.grow_classes import has_new_class
from ..converters.settings import InjectChanges
from ..data import Data, DataWarning
from ..planner.ways import Way
from ..training import Settings, Trainer, inject_for
from ..training.algorithms import with_fitting_minibatch
from ..training.evaluation import losses_of
from ..training.rate import with_measured_rate
from .starts import Start

# Length of short trials, as a share of whole ones, and standard errors by which a candidate loses there.
_SHORT: Final = 1 / 4
_LOST: Final = 2.0
_LOST_WHOLE: Final = 1.0
# Weights that perturbation trains, for one that the highest rung trains, from which on both are tried.
_FEW: Final = 2.0
# Standard errors by which a trial is worse than the model without training.
_HARM: Final = 1.5
# Whole trials of a group, at most.
_WHOLE: Final = 3
# Highest rate that is tried, LSB. Doubling on would find rates that go well in one run and not in the next.
_HIGHEST: Final = 1.0


def groups_of(ladder: Sequence[Way]) -> list[list[Way]]:
    """Returns the rungs that are tried together, the first way of each name, in the order of the ladder. Lower groups
    are only tried if those above are worse than the model.
    """
    rungs = list({way.name: way for way in reversed(ladder)}.values())[::-1]
    if not rungs or not rungs[0].is_whole:
        return [rungs] if rungs else []
    algorithm, reached = rungs[0].settings.algorithm, rungs[0].trained.weights
    # Errors that stop at the last layers, as in a recurrent network, learn less than perturbed weights of all
    # (docs/how-to/recurrent-layers.md).
    wider = [way for way in rungs[1:] if way.name == "weights" and way.trained.weights > _FEW * reached]
    first = [*wider, rungs[0]] if algorithm == "exact" else rungs[:1]
    rest = [way for way in rungs if way.settings.algorithm != algorithm or way.trains_last_layer_alone]
    return [first, *groups_of([way for way in rest if way not in first])]


@dataclass(frozen=True)
class Candidate:
    """A way to train from a start."""

    start: Start
    way: Way | None  # None: the model is not trained
    settings: Settings  # of the run
    inject: InjectChanges  # further settings of `inject`

    @property
    def rung(self) -> str:
        """Name of the way, or "no training"."""
        return "no training" if self.way is None else self.way.name

    @property
    def rate(self) -> float | None:
        """Learning rate at the first step, LSB; None: it is not measured yet."""
        return self.settings.learning_rate


@dataclass(frozen=True)
class Trial:
    """The result of a candidate on the held-out samples."""

    candidate: Candidate
    steps: int  # of the run on the other samples; 0: before any training
    losses: NDArray[np.float64]  # of the held-out samples, nats or `ZoLoss.unit`
    hits: NDArray[np.float64] | None  # share of right outputs of each of them, 0..1; None: there are no classes

    @property
    def loss(self) -> float:
        """Mean loss."""
        return float(self.losses.mean())

    @property
    def accuracy(self) -> float | None:
        """Share of right outputs, 0..1; None: there are no classes."""
        return None if self.hits is None else float(self.hits.mean())

    @property
    def values(self) -> dict[str, float]:
        """Returns "loss" and, if there is one, "accuracy"."""
        return {"loss": self.loss, **({} if self.accuracy is None else {"accuracy": self.accuracy})}

    def beats(self, other: Trial, errors: float = 0.0) -> bool:
        """Returns whether the mean loss is less by more than so many standard errors of the paired differences."""
        return _exceeds(other.losses - self.losses, errors)

    def harms(self, other: Trial) -> bool:
        """Returns whether the mean loss is larger, or fewer outputs are right, by more than 1.5 standard errors. One
        sample that is lost, with none that is won, would be more than one standard error.
        """
        fewer = self.hits is not None and other.hits is not None and _exceeds(other.hits - self.hits, _HARM)
        return fewer or other.beats(self, _HARM)


def _exceeds(gains: NDArray[np.float64], errors: float) -> bool:
    """Returns whether the mean of values is larger than so many of its standard errors."""
    return float(gains.mean()) > errors * float(gains.std()) / math.sqrt(len(gains))


@dataclass(frozen=True)
class Choice:
    """The comparison of candidates, and what came of it."""

    trials: tuple[Trial, ...]  # in the order of the runs, those before any training first
    best: Trial  # the winner
    before: Trial  # the model as it is, or recalibrated if it has to be
    equivalents: float  # forward equivalents of all trials and measured rates

    @property
    def trains(self) -> bool:
        """False if no trial was better than the model before it."""
        return self.best.steps > 0


class Contest:
    """Runs trials of candidates.

    Args:
        starts: starts with their own last layer, the model as it is first if it is one of them.
        ladder: rungs that fit the device, in the order of the ladder.
        inject: further settings of `inject`.
        runtime: name of the runtime.
        load: function that makes a trainer of a ZO model and settings.
        watch: function that is called before each trial, with its candidate.
    """

    def __init__(
        self,
        starts: Sequence[Start],
        ladder: Sequence[Way],
        inject: InjectChanges,
        runtime: str,
        load: Callable[[Model, Settings], Trainer],
        watch: Callable[[Candidate], None],
    ) -> None:
        self._starts, self._ladder, self._inject, self._runtime = starts, ladder, inject, runtime
        self._load, self._watch = load, watch
        self._trials, self._equivalents = list[Trial](), 0.0
        self._models = dict[tuple[str, str, int | None], Model]()

    def run(self, pairs: Sequence[tuple[Data, Data]], steps_of: Callable[[Settings], int]) -> Choice:
        """Compares all candidates.

        Args:
            pairs: training and held-out samples, one pair at least.
            steps_of: function that returns the number of steps of a whole trial.

        Raises:
            ConversionError, SettingsError: a model cannot be trained by a rung.
        """
        self._pairs, self._steps_of = pairs, steps_of
        groups = groups_of(self._ladder)
        highest = [self._candidate(start, groups[0][0]) for start in self._starts]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DataWarning)  # of missing classes: the whole of the samples matters
            own = [self._trial(dataclasses.replace(c, way=None), 0) for c in highest]
            before = own[0]
            harmless = [before, *(trial for trial in own[1:] if not trial.harms(before))]
            unchanged = min(harmless, key=lambda trial: trial.loss)
            means = list[Trial]()
            if has_new_class(self._starts[0].model, self._inject.get("loss_output")):
                means = self._trials_of_class_means(own)
            starts = [trial.candidate.start for trial in (*means, *own)]
            for rungs in groups:
                best = self._best(rungs, starts)
                if not best.harms(unchanged):
                    break
            else:
                means = means or self._trials_of_class_means(own)
                harmless += [trial for trial in means if not trial.harms(before)]
                best = min(harmless, key=lambda trial: trial.loss)
        return Choice(tuple(self._trials), best, before, self._equivalents)

    def _candidate(self, start: Start, way: Way) -> Candidate:
        candidate = Candidate(start, way, way.settings, {"update_bits": way.update_bits, **self._inject})
        settings = with_fitting_minibatch(way.settings, read_metadata(self._zo(candidate)))
        return dataclasses.replace(candidate, settings=settings)

    def _zo(self, candidate: Candidate, pair: int | None = None) -> Model:
        """Returns the ZO model of a candidate's trial on a pair; None: one with the same tensors and other weights."""
        start, way = candidate.start, candidate.way
        if not start.has_class_means:
            pair = None
        key = (start.name, candidate.rung, pair)
        if key not in self._models:
            model = start.model
            if pair is not None:
                train, _ = self._pairs[pair]
                model = start.for_samples(train, self._inject.get("loss_output"), self._runtime)
                self._equivalents += len(train)
            self._models[key] = inject_for(model, way.settings if way else candidate.settings, **candidate.inject)
        return self._models[key]

    def _trials_of_class_means(self, own: Sequence[Trial]) -> list[Trial]:
        """Returns the untrained trials of starts with class means. The list is empty if a class has no samples, or if
        the last layer is of another kind.
        """
        loss = read_metadata(self._zo(own[0].candidate)).known_loss
        known = np.concatenate([data.labels for data in self._pairs[0]])
        if not loss.of_samples or set(range(loss.elements)) - set(known.tolist()):
            return []
        made = [(t.candidate, dataclasses.replace(t.candidate.start, has_class_means=True)) for t in own]
        try:
            return [self._trial(dataclasses.replace(candidate, start=start), 0) for candidate, start in made]
        except ConversionError:
            return []

    def _short_trial(self, start: Start, way: Way) -> Trial:
        """Measures the rate of a candidate, and trains for a quarter of the length."""
        candidate = self._candidate(start, way)
        self._watch(candidate)
        settings = candidate.settings
        steps, trainer = self._steps_of(settings), self._load(self._zo(candidate, 0), settings)
        found, _, cost = with_measured_rate(trainer.runtime, trainer.model, settings, self._pairs[0][0], steps)
        self._equivalents += cost
        return self._trial(dataclasses.replace(candidate, settings=found), max(1, round(_SHORT * steps)))

    def _trial(self, candidate: Candidate, steps: int) -> Trial:
        """Trains on each part's other samples, and measures the held-out ones."""
        self._watch(candidate)
        settings, losses, hits = candidate.settings, list[NDArray[Any]](), list[NDArray[Any] | None]()
        for pair, (train, judged) in enumerate(self._pairs):
            trainer = self._load(self._zo(candidate, pair), settings)
            if steps:
                trainer.fit(train, steps=steps, keep="last")
                self._equivalents += trainer.equivalents
            found = losses_of(trainer.runtime, judged)
            losses.append(found[0])
            hits.append(found[1])
        right = [h for h in hits if h is not None]
        result = Trial(candidate, steps, np.concatenate(losses), np.concatenate(right) if right else None)
        self._trials.append(result)
        return result

    def _best(self, rungs: Sequence[Way], starts: Sequence[Start]) -> Trial:
        """Returns the whole trial of the highest rung of a group that no other one beats by a standard error."""

        def by_loss(trials: Iterable[Trial]) -> list[Trial]:
            return sorted(trials, key=lambda trial: trial.loss)

        highest, *others = rungs
        short = by_loss(self._short_trial(start, highest) for start in starts)
        start = short[0].candidate.start
        best, *next_best = by_loss([*short, *(self._short_trial(start, way) for way in others)])
        contenders = [best, *(trial for trial in next_best if not best.beats(trial, _LOST))][:_WHOLE]
        better = (self._at_better_rate(trial) for trial in contenders)
        trials = by_loss(self._trial(c, self._steps_of(c.settings)) for c in better)
        equal = [trial for trial in trials if not trials[0].beats(trial, _LOST_WHOLE)]
        return min(equal, key=lambda trial: rungs.index(trial.candidate.way))

    def _at_better_rate(self, best: Trial) -> Candidate:
        """Returns the candidate of a short trial at the rate up to which doubling or halving it wins."""
        for factor in (2.0, 0.5):
            known = best.candidate
            while (rate := best.candidate.rate) is not None and factor * rate <= _HIGHEST:
                settings = dataclasses.replace(known.settings, learning_rate=factor * rate)
                trial = self._trial(dataclasses.replace(known, settings=settings), best.steps)
                if not trial.beats(best, 1.0):
                    break
                best = trial
            if best.candidate is not known:
                break
        return best.candidate
