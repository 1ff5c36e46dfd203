# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""Samples that a run is judged by and is not trained on."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..converters.metadata import ZoLoss
from ..data import Data, labelled
from .checks import SettingsError, check_number

__all__ = ["held_out_samples", "hold_out"]


def held_out_samples(labels: NDArray[Any], loss: ZoLoss, share: float, seed: int) -> NDArray[np.intp]:
    """Numbers of the samples that are held out, rising.

    Args:
        labels: of all samples, as the model takes them.
        loss: the model's.
        share: of the labelled samples, 0..1; of each class as many as its share allows.
        seed: chooses them.

    Raises:
        SettingsError: no share, or it leaves one side without a labelled sample.
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


def hold_out(data: Data, loss: ZoLoss, share: float, seed: int) -> tuple[Data, Data]:
    """Splits samples into those to train on and those to judge by; both stay in their order.

    Args:
        data: all samples.
        loss: as for `held_out_samples`.
        share: as for `held_out_samples`.
        seed: as for `held_out_samples`.

    Returns:
        What to train on, then what is held out.

    Raises:
        SettingsError: as `held_out_samples`.
    """
    judged = held_out_samples(data.labels, loss, share, seed)
    return data.take(np.setdiff1d(np.arange(len(data)), judged)), data.take(judged)
