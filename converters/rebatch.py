# SPDX-License-Identifier: Apache-2.0
"""Batch size of a plain model."""

from __future__ import annotations

from .constants import METADATA_NAME
from .errors import ConversionError
from .model import Model
from .passes.set_batch import rewrite_batch
from .settings import MOST_SAMPLES, checked_integer


def set_batch(model: Model, batch: int) -> Model:
    """A copy of a plain model for another batch size.

    Args:
        model: one subgraph, batch size 1 (or already ``batch``); it is not changed.
        batch: samples per invoke, at least 1.

    Raises:
        ConversionError: ``batch`` is no positive integer, the model has another batch size or several
            subgraphs, is a ZO model (inject it with the batch size instead), or has an operator that moves or
            merges the batch axis.
    """
    batch = checked_integer(batch, "batch", 1, MOST_SAMPLES)
    if model.find_metadata(METADATA_NAME) is not None:
        raise ConversionError("the batch size of a ZO model is fixed; inject the original with another one")
    if len(model.subgraphs) != 1:
        raise ConversionError(f"the model has {len(model.subgraphs)} subgraphs, only one is supported")
    result = model.copy()
    rewrite_batch(result.subgraphs[0], batch)
    return result
