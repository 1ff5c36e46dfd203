# SPDX-License-Identifier: Apache-2.0
"""The factors of update steps that a ZO model carries."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from .constants import MULTIPLIER
from .model import Model


def step_multipliers(zo_model: Model) -> dict[str, npt.NDArray[np.int32]]:
    """Q31 factors per output channel, int32 [channels], by filter tensor name; empty where it has none."""
    tensors = (t for graph in zo_model.subgraphs for t in graph.tensors)
    return {t.name.removesuffix(MULTIPLIER): t.numpy().copy() for t in tensors if t.name.endswith(MULTIPLIER)}
