"""The choice of the way to train: candidates are compared by samples that they were not trained on.

A candidate is a rung of the ladder (`RUNGS`) with a start, the model as it is or recalibrated. The highest rung of the
ladder is tried from each start for a quarter of the length of a run. The start that loses by more than two standard
errors of the paired losses is left out. The better one is tried with twice and half the measured rate, too, which is
taken if it wins by more than a standard error. Then each start is tried for the whole length. If the best trial is no
better than the model without training, the next rung is tried. The winner trains on all samples; if there is none, the
model stays as it is, or is recalibrated if that alone is better.
"""

from __future__ import annotations

import dataclasses
import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from ..converters import ConversionError, Model, read_metadata
from ..converters.settings import InjectChanges
from ..data import Data, DataWarning
from ..io.errors import SettingsError
from ..runtime import Runtime
from ..training import Settings, Trainer, algorithms, inject_for
from ..training.algorithms import with_fitting_minibatch
from ..training.evaluation import losses_of
from ..training.rate import with_measured_rate

# Length of short trials, as a share of whole ones, and standard errors by which a start loses there.
_SHORT: Final = 1 / 4
_LOST: Final = 2.0
# Highest rate that is tried, LSB. Doubling on would find rates that go well in one run and not in the next.
_HIGHEST: Final = 1.0


#: The ladder: settings of each rung by its name, the one that takes the most memory first.
RUNGS: Final[Mapping[str, Callable[[], Settings]]] = {
    "exact gradients": algorithms.exact,
    "nodes": algorithms.node,
    "last layer, exact": algorithms.last_layer,
    "weights": algorithms.weight,
}
AS_IS, RECALIBRATED = "as is", "recalibrated"
# Rungs that pass errors back through layers.
_WITH_ERRORS: Final = ("exact gradients",)


def rungs(forward_only: bool) -> list[str]:
    """Returns the names of the rungs, highest first; `forward_only`: of those that pass no errors back."""
    return [name for name in RUNGS if not (forward_only and name in _WITH_ERRORS)]


@dataclass(frozen=True)
class Candidate:
    """A way to train from a start."""

    start: str  # AS_IS or RECALIBRATED
    rung: str  # a key of RUNGS; "": none, the model is not trained
    settings: Settings  # of the run
    zo: Model  # the ZO model of the run

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
        gain = other.losses - self.losses
        return float(gain.mean()) > errors * float(gain.std()) / math.sqrt(len(gain))

    def harms(self, other: Trial) -> bool:
        """Returns whether the loss is no less, or fewer outputs are right."""
        return self.loss >= other.loss or (self.accuracy or 0.0) < (other.accuracy or 0.0)


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
        starts: plain models by start.
        rungs: names of rungs, highest first.
        inject: further settings of `inject`.
        load: function that makes a trainer of a ZO model and settings.
        watch: function that is called before each trial, with its candidate.
    """

    def __init__(
        self,
        starts: Mapping[str, Model],
        rungs: Sequence[str],
        inject: InjectChanges,
        load: Callable[[Model, Settings], Trainer],
        watch: Callable[[Candidate], None],
    ) -> None:
        self._starts, self._rungs, self._inject, self._load, self._watch = starts, rungs, inject, load, watch
        self._trials, self._equivalents = list[Trial](), 0.0

    def run(
        self, divide: Callable[[Runtime], list[tuple[Data, Data]]], length_of: Callable[[], float]
    ) -> Choice | None:
        """Compares all candidates. Returns None if too few samples have labels for that.

        Args:
            divide: function that prepares pairs of training and held-out samples for a loaded model.
            length_of: function that returns the length of whole trials, in samples, after that.

        Raises:
            ConversionError, SettingsError: the model has no rung.
        """
        every, error = dict[str, list[Candidate]](), None
        for rung in self._rungs:
            try:
                every[rung] = [self._candidate(start, model, rung) for start, model in self._starts.items()]
            except (ConversionError, SettingsError) as this:
                error = error or this
        if not every:
            assert error is not None
            raise error
        highest = next(iter(every.values()))
        self._pairs = divide(self._load(highest[0].zo, highest[0].settings).runtime)
        if not self._pairs:
            return None
        length = length_of()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DataWarning)  # of missing classes: the whole of the samples matters
            before, *recalibrated = [self._trial(dataclasses.replace(c, rung=""), 0) for c in highest]
            unchanged = min([before, *(t for t in recalibrated if not t.harms(before))], key=lambda t: t.loss)
            for candidates in every.values():
                best = self._best(candidates, length)
                if not best.harms(unchanged):
                    break
            else:
                best = unchanged
        return Choice(tuple(self._trials), best, before, self._equivalents)

    def _candidate(self, start: str, model: Model, rung: str) -> Candidate:
        settings = RUNGS[rung]()
        zo = inject_for(model, settings, **self._inject)
        settings = with_fitting_minibatch(settings, read_metadata(zo))
        self._load(zo, settings)  # which says whether the settings fit the model
        return Candidate(start, rung, settings, zo)

    def _measured(self, candidate: Candidate) -> Candidate:
        settings, data = candidate.settings, self._pairs[0][0]
        self._watch(candidate)
        trainer = self._load(candidate.zo, settings)
        found, _, cost = with_measured_rate(trainer.runtime, trainer.model, settings, data, steps_of(settings, 2**13))
        self._equivalents += cost
        return dataclasses.replace(candidate, settings=found)

    def _trial(self, candidate: Candidate, samples: float) -> Trial:
        """Trains on each part's other samples, so many of them, and measures the held-out ones."""
        self._watch(candidate)
        settings, losses, hits = candidate.settings, list[NDArray[Any]](), list[NDArray[Any] | None]()
        steps = steps_of(settings, samples) if samples else 0
        for train, judged in self._pairs:
            trainer = self._load(candidate.zo, settings)
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

    def _best(self, candidates: Sequence[Candidate], length: float) -> Trial:
        """Returns the whole trial with the least loss of a rung's candidates."""
        short = sorted((self._trial(self._measured(c), _SHORT * length) for c in candidates), key=lambda t: t.loss)
        best, *others = short
        contenders = [t.candidate for t in others if not best.beats(t, _LOST)]
        return min((self._trial(c, length) for c in (self._at_better_rate(best), *contenders)), key=lambda t: t.loss)

    def _at_better_rate(self, best: Trial) -> Candidate:
        """Returns the candidate of a short trial at the rate up to which doubling or halving it wins."""
        samples = best.steps * best.candidate.settings.batch_size
        for factor in (2.0, 0.5):
            known = best.candidate
            while (rate := best.candidate.rate) is not None and factor * rate <= _HIGHEST:
                settings = dataclasses.replace(known.settings, learning_rate=factor * rate)
                trial = self._trial(dataclasses.replace(known, settings=settings), samples)
                if not trial.beats(best, 1.0):
                    break
                best = trial
            if best.candidate is not known:
                break
        return best.candidate


def steps_of(settings: Settings, samples: float) -> int:
    """Returns the number of steps that use so many samples."""
    return max(1, round(samples / settings.batch_size))
