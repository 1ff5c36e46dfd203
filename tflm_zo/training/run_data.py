"""The training and validation samples of a run, and their classes."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import NDArray

from ..converters.metadata import ZoLoss
from ..core import samples_in_order
from ..data import Data, DataWarning, Inputs, Labels, Samples, labelled, prepare
from .checks import SettingsError, check_number

Given = Samples | tuple[Samples, Labels | None]
"""Samples that have their labels, or a tuple of samples and labels."""

Split = float | Literal["auto"]
"""Share of the samples that is held out, 0..1; "auto": a fifth, or none where that leaves a class without
samples on one side."""

# Share of the samples that tells the best state of a run for which nobody gives other samples.
_USUAL_SHARE: Final = 0.2
# Largest number of training samples for a measurement: two passes over a million would take longer than most
# runs. Losses of two states differ, sample by sample, by about one nat at most, so the mean difference is
# known to a hundredth of a nat.
_MOST_SAMPLES: Final = 10_000

# Of the order in which those are drawn: no run's own, so that it does not favour the samples that come first.
_DRAW: Final = 2**32 - 1
_NAMED: Final = 10  # missing classes that a message names


@dataclass(frozen=True)
class RunData:
    """The samples of a run."""

    train: Data  # training samples; those of the rehearsal are the last ones
    validation: Data | None  # samples for the measurements of the run; None: those of `train`
    # samples that the run is measured on: `validation` or, without it, `train`, of which the same 10,000
    # labelled samples each time if there are more
    measured: Data
    samples: int  # number of training samples without the rehearsal
    held_out: int  # number of samples that were held out
    too_few: bool  # True if "auto" held out no sample because a class has too few samples
    missing: tuple[str, ...]  # names of the classes without a training sample
    # True if all measured samples have the same class, so that accuracy has no meaning
    constant: bool

    @classmethod
    def of(
        cls,
        model: Inputs,
        x: Samples,
        y: Labels | None = None,
        *,
        validation_data: Given | None = None,
        validation_split: Split = 0.0,
        rehearsal: Given | None = None,
        seed: int = 0,
    ) -> RunData:
        """Returns the samples of a run; see `Trainer.fit`. `seed` selects the held-out samples."""
        if validation_data is not None and validation_split not in (0.0, "auto"):
            raise SettingsError("validation_data", "be given without a validation split")
        own, loss = prepare(model, x, y), model.metadata.known_loss
        validation = None if validation_data is None else prepare(model, *_pair(validation_data))
        data = own if rehearsal is None else own + prepare(model, *_pair(rehearsal))
        judged: Any = None
        if validation is None and validation_split == "auto":
            judged = usual_held_out_samples(data.labels, loss, seed)
        elif validation is None and validation_split != 0.0:
            assert not isinstance(validation_split, str)
            judged = held_out_samples(data.labels, loss, validation_split, seed)
        too_few = validation is None and validation_split == "auto" and judged is None
        samples, held_out = len(own), 0
        if judged is not None:
            samples, held_out = samples - int((judged < len(own)).sum()), len(judged)
            data, validation = hold_out(data, judged)
        return cls(
            data,
            validation,
            validation or _measured_samples(data, loss.kind),
            samples,
            held_out,
            too_few,
            covered(data, loss).missing,
            covered(validation or data, loss).constant,
        )


def _measured_samples(data: Data, kind: str) -> Data:
    if len(data) <= _MOST_SAMPLES:
        return data
    numbers = np.flatnonzero(labelled(data.labels, kind))
    drawn = samples_in_order(_DRAW, len(numbers), min(_MOST_SAMPLES, len(numbers)))
    return data.take(np.sort(numbers[drawn]))


def _pair(given: Given) -> tuple[Samples, Labels | None]:
    return given if isinstance(given, tuple) else (given, None)


def held_out_samples(labels: NDArray[Any], loss: ZoLoss, share: float, seed: int) -> NDArray[np.intp]:
    """Chooses a share, 0..1, of the labelled samples to hold out, of every class alike. Returns their numbers in rising
    order. Raises SettingsError if the share is out of range, or leaves one side without a labelled sample.
    """
    check_number("held_out", share, 0.0, 1.0)
    numbers = np.flatnonzero(labelled(labels, loss.kind))
    wanted = round(share * len(numbers))
    if not 0 < wanted < len(numbers):
        raise SettingsError(
            "held_out", f"divide the {len(numbers)} labelled samples into two parts that are not empty", share
        )
    order = np.random.default_rng(seed).permutation(numbers)
    own_strata = strata(labels, loss)[order]
    # Where each sample is in its class, 0..1: the first ones of all classes are held out.
    place = np.empty(len(order))
    for label in np.unique(own_strata):
        own = np.flatnonzero(own_strata == label)
        place[own] = (np.arange(len(own)) + 0.5) / len(own)
    return np.sort(order[np.argsort(place, kind="stable")[:wanted]])


def usual_held_out_samples(labels: NDArray[Any], loss: ZoLoss, seed: int) -> NDArray[np.intp] | None:
    """Holds out a fifth, as `held_out_samples` does; None if a class has too few samples for that."""
    try:
        judged = held_out_samples(labels, loss, _USUAL_SHARE, seed)
    except SettingsError:
        return None
    of = strata(labels, loss)
    classes = set(of[labelled(labels, loss.kind)].tolist())
    if not all(classes <= set(part.tolist()) for part in (np.delete(of, judged), of[judged])):
        return None
    return judged


def strata(labels: NDArray[Any], loss: ZoLoss) -> NDArray[np.int32]:
    """Returns the class of each sample or sequence, 0 where it has several."""
    if not loss.of_samples and loss.over != "largest":
        return np.zeros(len(labels), np.int32)
    return np.asarray(labels.reshape(len(labels), -1).max(1), np.int32)


def hold_out(data: Data, judged: NDArray[np.intp]) -> tuple[Data, Data]:
    """Splits samples into the training set and the held-out samples of these numbers; both stay in their order."""
    return data.take(np.setdiff1d(np.arange(len(data)), judged)), data.take(judged)


@dataclass(frozen=True)
class Coverage:
    """The classes in a set of samples."""

    present: int  # number of classes with a sample; of binary outputs, 0 and 1 of each output count
    missing: tuple[str, ...]  # names of the classes without a sample
    constant: bool  # True if all samples have the same class, so that accuracy has no meaning

    @property
    def sentence(self) -> str:
        """Description of present and missing classes, such as "1 of 3 classes; missing: 0, 2"."""
        more = len(self.missing) - _NAMED
        named = ", ".join(self.missing[:_NAMED]) + (f" and {more} more" if more > 0 else "")
        return f"{self.present} of {self.present + len(self.missing)} classes; missing: {named}"


def covered(data: Data, loss: ZoLoss) -> Coverage:
    """Finds the classes in a set of samples. For targets without classes, none is missing."""
    if not loss.has_answers:
        return Coverage(0, (), constant=False)
    outputs = 1 if loss.of_classes else loss.elements  # places share their classes
    columns = data.labels.reshape(-1, outputs).T
    found = [(k, v) for k, column in enumerate(columns) for v in np.unique(column[column >= 0]).tolist()]
    there = set(found)
    missing = tuple(
        f"{v} of output {k}" if outputs > 1 else str(v)
        for k in range(outputs)
        for v in range(loss.classes)
        if (k, v) not in there
    )
    return Coverage(len(found), missing, constant=len(found) <= outputs)


def warn_of_missing_classes(data: Data, validation: Data | None, loss: ZoLoss) -> None:
    """Warns (`DataWarning`) if training samples, or other samples for the measurements, lack a class."""
    of_data = covered(data, loss)
    if of_data.missing:
        _warn(
            f"the training data have samples of {of_data.sentence}. The run can unlearn a class without "
            "samples. Add some of each, for example as --rehearsal"
        )
    if validation is None:
        return
    of_validation = covered(validation, loss)
    if set(of_validation.missing) - set(of_data.missing):
        _warn(
            f"the validation data have samples of {of_validation.sentence}. They cannot show that a missing "
            "class gets worse. Add some of each"
        )


def _warn(message: str) -> None:
    warnings.warn(message, DataWarning, stacklevel=4)
