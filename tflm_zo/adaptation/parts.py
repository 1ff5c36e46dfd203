"""Parts of the samples that are held out in turn, so that candidates are judged by samples that they did not see."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..converters import Model
from ..converters.metadata import ZoLoss
from ..converters.settings import InjectChanges
from ..data import Data, DataError, Inputs, Labels, Samples, labelled, read_arrays
from ..training.run_data import Given, RunData, Split, hold_out, strata
from .evaluation import with_loss

# Parts of the samples, and how many of them are held out in turn: a fifth of few samples says little.
_PARTS: Final = 5
_HELD_OUT: Final = ((100, 3), (300, 2))
# Pairs of neighbours that are looked at, and the share of them that overlap if samples are windows of a recording.
_PAIRS: Final = 200
_OVERLAPPING: Final = 0.25


@dataclass(frozen=True)
class Parts:
    """A division of samples into parts.

    Attributes:
        of: part of each sample, 0..4, or -1 of samples without a label, which are always trained on.
        used: number of parts that are held out in turn.
        by: "group" (whole groups), "time" (neighbours in the order of the samples) or "chance".
    """

    of: NDArray[np.intp]
    used: int
    by: str

    @classmethod
    def divide(cls, data: Data, loss: ZoLoss, groups: ArrayLike | None = None) -> Parts:
        """Divides samples into parts: whole groups if there are two or more of them, else of every class alike.

        Args:
            data: the samples.
            loss: the loss of the model.
            groups: group of each sample, [samples], for example its recording or person.

        Raises:
            DataError: the groups are not one for each sample.
        """
        numbers = np.flatnonzero(labelled(data.labels, loss.kind))
        of = np.full(len(data), -1, np.intp)
        used = next((used for most, used in _HELD_OUT if len(numbers) < most), 1)
        if groups is not None:
            given = np.asarray(groups)
            if given.shape != (len(data),):
                raise DataError(f"`groups` must have one value for each of {len(data)} samples, not {given.shape}")
            own, names = given[numbers], np.unique(given[numbers])
            if len(names) > 1:
                filled = np.zeros(min(_PARTS, len(names)), int)
                for name in sorted(names, key=lambda name: -int((own == name).sum())):  # large groups first
                    part = int(filled.argmin())
                    of[numbers[own == name]], filled[part] = part, filled[part] + (own == name).sum()
                return cls(of, min(used, len(filled)), "group")
        in_order = overlap(data)
        random = np.random.default_rng(0)
        classes = strata(data.labels, loss)[numbers]
        for begin, label in enumerate(np.unique(classes)):
            own = numbers[classes == label]
            if in_order:
                of[own] = np.arange(len(own)) * _PARTS // len(own)
            else:  # small classes begin with different parts
                of[random.permutation(own)] = (np.arange(len(own)) + begin) % _PARTS
        return cls(of, used, "time" if in_order else "chance")

    @property
    def held_out(self) -> int:
        """Number of samples that are held out in turn."""
        return int(((self.of >= 0) & (self.of < self.used)).sum())

    @property
    def sentence(self) -> str:
        """Description of the parts, such as "held out in 2 parts of the recording"."""
        which = {"group": "whole groups", "time": "neighbours in time, since windows overlap", "chance": "chance"}[
            self.by
        ]
        return f"held out in {self.used} part{'s' if self.used > 1 else ''} by {which}"

    def pairs(self, data: Data) -> Iterator[tuple[Data, Data]]:
        """Yields the training samples and the held-out ones of each used part that leaves both some."""
        for part in range(self.used):
            judged = np.flatnonzero(self.of == part)
            if 0 < len(judged) < len(data):
                yield hold_out(data, judged)


@dataclass
class Division:
    """The samples of a choice as they were given to `adapt`, and their division.

    Attributes:
        model: plain model or ZO model.
        inject: further settings of `inject` for a plain model.
        parts: parts that are held out in turn; None: the user gives the held-out samples.
    """

    model: Model
    inject: InjectChanges
    x: Samples
    y: Labels | None
    validation_data: Given | None
    validation_split: Split | None
    rehearsal: Given | None
    groups: ArrayLike | None
    parts: Parts | None = None

    @cached_property
    def _inputs(self) -> Inputs:
        given = self.inject
        over = given.get("loss_over", "auto")
        return Inputs(with_loss(self.model, given.get("loss"), given.get("loss_output"), over))

    @cached_property
    def data(self) -> RunData:
        """Samples of the run of the choice. DataError: the samples do not fit the model."""
        given: dict[str, Any] = {"rehearsal": self.rehearsal, "validation_data": self.validation_data}
        return RunData.of(self._inputs, self.x, self.y, validation_split=self.validation_split or 0.0, **given)

    def pairs(self) -> list[tuple[Data, Data]]:
        """Returns pairs of training and held-out samples. DataError: the samples do not fit the model."""
        data = self.data
        if data.validation is not None:
            return [(data.train, data.validation)]
        if self.validation_split is not None:
            return []
        own = data.train.take(slice(data.samples))
        groups = groups_of(self.x) if self.groups is None else self.groups
        self.parts = Parts.divide(own, self._inputs.metadata.known_loss, groups)
        rest = data.train.take(slice(data.samples, None))
        return [(train + rest, judged) for train, judged in self.parts.pairs(own)]


def groups_of(x: Samples) -> Any:
    """Returns the array `groups` of a file or a dictionary of samples, or None."""
    if isinstance(x, str | os.PathLike) and os.fspath(x).endswith(".npz"):
        return read_arrays(x).get("groups")
    return x.get("groups") if isinstance(x, Mapping) else None


def overlap(data: Data) -> bool:
    """Returns whether samples are windows of a recording that overlap: the end of one is the beginning of the next."""
    (x, *_), found = data.inputs, 0
    if data.steps > 1:
        x = x.reshape(len(x), -1, x.shape[-1])
    if x.ndim < 3:
        return False
    pairs, length = min(_PAIRS, len(x) - 1), x.shape[1]
    for i in range(pairs):
        # A constant end says nothing, nor does a single row.
        shifts = (s for s in range(1, length - 1) if np.array_equal(x[i, s:], x[i + 1, :-s]))
        found += any(np.ptp(x[i, s:].astype(int)) > 0 for s in shifts)
    return pairs > 0 and found > _OVERLAPPING * pairs
