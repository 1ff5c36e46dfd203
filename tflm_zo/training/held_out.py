# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""Held-out samples, by which a run is judged and on which it is not trained."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from ..converters.metadata import ZoLoss
from ..data import Data, labelled
from .checks import SettingsError, check_number

__all__ = ["held_out_samples", "hold_out", "usual_held_out_samples"]

# Share of the samples that tells the best state of a run for which nobody gives other samples.
_USUAL_SHARE: Final = 0.2


def held_out_samples(labels: NDArray[Any], loss: ZoLoss, share: float, seed: int) -> NDArray[np.intp]:
    """Returns the numbers of the samples that are held out, rising.

    Args:
        labels: labels of all samples, as the model takes them.
        loss: the model's loss.
        share: share of the labelled samples, 0..1, in every class alike.
        seed: seed of the choice.

    Raises:
        SettingsError: the share is out of range, or leaves one side without a labelled sample.
    """
    check_number("held_out", share, 0.0, 1.0)
    numbers = np.flatnonzero(labelled(labels, loss.kind))
    wanted = round(share * len(numbers))
    if not 0 < wanted < len(numbers):
        raise SettingsError(
            f"held_out: expected a share that leaves samples to train on and samples to judge by, got "
            f"{share:g} of {len(numbers)} labelled samples"
        )
    order = np.random.default_rng(seed).permutation(numbers)
    strata = labels[order] if loss.of_classes else np.zeros(len(order), np.int32)
    # Where each sample is in its class, 0..1: the first ones of all classes are held out.
    place = np.empty(len(order))
    for label in np.unique(strata):
        own = np.flatnonzero(strata == label)
        place[own] = (np.arange(len(own)) + 0.5) / len(own)
    return np.sort(order[np.argsort(place, kind="stable")[:wanted]])


def usual_held_out_samples(labels: NDArray[Any], loss: ZoLoss, seed: int) -> NDArray[np.intp] | None:
    """Returns the numbers of a fifth of the samples, as `held_out_samples` does; None where they are too few
    for some of every class to be trained on and others of it to be held out.
    """
    try:
        judged = held_out_samples(labels, loss, _USUAL_SHARE, seed)
    except SettingsError:
        return None
    if loss.of_classes:
        classes = set(labels[labelled(labels, loss.kind)].tolist())
        if not all(classes <= set(part.tolist()) for part in (np.delete(labels, judged), labels[judged])):
            return None
    return judged


def hold_out(data: Data, judged: NDArray[np.intp]) -> tuple[Data, Data]:
    """Splits samples into the training set and the held-out samples; both stay in their order.

    Args:
        data: data that is divided.
        judged: numbers of the samples that are held out, rising.
    """
    return data.take(np.setdiff1d(np.arange(len(data)), judged)), data.take(judged)
