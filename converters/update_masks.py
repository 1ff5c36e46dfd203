# SPDX-License-Identifier: Apache-2.0
"""The masks of the weights that a ZO model trains."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from .constants import MASK
from .model import Model


def update_masks(zo_model: Model) -> dict[str, npt.NDArray[np.uint8]]:
    """The masks of its filters as the C core reads them (``ops/core/weights/zo_mask.h``), by filter tensor.

    Returns:
        Copies, uint8 [(weights + 7) // 8]: bit i % 8 of byte i // 8 says whether weight i is trained. Filters
        that are trained whole are missing.
    """
    tensors = (t for graph in zo_model.subgraphs for t in graph.tensors)
    return {
        t.name.removesuffix(MASK): t.numpy().view(np.uint8).copy() for t in tensors if t.name.endswith(MASK)
    }
