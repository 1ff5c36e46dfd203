# SPDX-License-Identifier: Apache-2.0
"""The weights that a ZO model starts from."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from . import constants
from .metadata import read_metadata
from .model import Model, Subgraph


def initial_weights(model: Model) -> dict[str, npt.NDArray[np.int8]]:
    """The initial weights of a ZO model's trainable filters.

    Args:
        model: a ZO model; it is not changed.

    Returns:
        Copies, int8, in the filters' own shapes, by tensor name, in the order of their streams.

    Raises:
        ConversionError: it is no ZO model, or does not fit its metadata.
    """
    metadata = read_metadata(model)
    at = [0] * len(metadata.segments)
    data = [_initial(graph) for graph in model.subgraphs]
    weights = {}
    for t in metadata.trainable:
        values = data[t.segment][at[t.segment] : at[t.segment] + t.size]
        weights[t.name] = values.reshape(t.shape).copy()
        at[t.segment] += t.size
    return weights


def _initial(graph: Subgraph) -> npt.NDArray[Any]:
    """The constant initial weights of a segment, flat; empty where it has none."""
    tensors = [t for t in graph.tensors if t.name == constants.INITIAL and t.is_constant]
    return tensors[0].numpy().reshape(-1) if tensors else np.empty(0, np.int8)
