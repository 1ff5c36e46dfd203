# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""Classes without a sample, which a run unlearns and a measurement does not see."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Final

import numpy as np

from ..converters.metadata import ZoLoss
from ..data import Data, DataWarning

__all__ = ["Coverage", "covered", "warn_of_missing_classes"]

_NAMED: Final = 10  # missing classes that a message names


@dataclass(frozen=True)
class Coverage:
    """The classes of a model that samples have.

    Attributes:
        present: number of classes with a sample; of binary outputs, 0 and 1 of each output count.
        missing: names of the classes without a sample.
        constant: one constant answer is right for all labelled samples, so accuracy says nothing.
    """

    present: int
    missing: tuple[str, ...]
    constant: bool

    @property
    def sentence(self) -> str:
        """The classes that are there and those that are missing, such as "1 of 3 classes; missing: 0, 2"."""
        more = len(self.missing) - _NAMED
        named = ", ".join(self.missing[:_NAMED]) + (f" and {more} more" if more > 0 else "")
        return f"{self.present} of {self.present + len(self.missing)} classes; missing: {named}"


def covered(data: Data, loss: ZoLoss) -> Coverage:
    """Returns which classes of the model's loss some samples have; of targets, which have no classes, none is
    missing.
    """
    if loss.kind == "mse":
        return Coverage(0, (), constant=False)
    outputs = 1 if loss.of_classes else loss.elements
    values = loss.elements if loss.of_classes else 2
    columns = data.labels.reshape(len(data), outputs).T
    found = [(k, v) for k, column in enumerate(columns) for v in np.unique(column[column >= 0]).tolist()]
    there = set(found)
    missing = tuple(
        f"{v} of output {k}" if outputs > 1 else str(v)
        for k in range(outputs)
        for v in range(values)
        if (k, v) not in there
    )
    return Coverage(len(found), missing, constant=len(found) <= outputs)


def warn_of_missing_classes(data: Data, validation: Data | None, loss: ZoLoss) -> None:
    """Warns (`DataWarning`) of classes that the samples of a run do not have.

    Args:
        data: samples that the run is trained on.
        validation: samples that it is measured on, where those are others.
        loss: the model's loss.
    """
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
