# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""Weights and fractions that take the place of a model's, checked."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..converters import WeightArray, ZoMetadata

__all__ = ["checked_weights"]

_Arrays = dict[str, NDArray[Any]]


def checked_weights(
    metadata: ZoMetadata,
    kept: Mapping[str, bool],
    weights: Mapping[str, WeightArray],
    fractions: Mapping[str, NDArray[np.int8]],
) -> tuple[_Arrays, _Arrays]:
    """Returns weights and fractions as arrays, by tensor name.

    Args:
        metadata: metadata of the ZO model.
        kept: whether a tensor has fractions, by its name.
        weights: int8 arrays by tensor name, within +-(127 - headroom), and int32 arrays of biases.
        fractions: int8 arrays of fractions by tensor name.

    Raises:
        ValueError: a name is unknown, or a shape, dtype or range is wrong.
    """
    limit = 127 - metadata.headroom
    tensors = {tensor.name: tensor for tensor in metadata.trainable}
    found: _Arrays = {name: np.asarray(array) for name, array in weights.items()}
    given: _Arrays = {name: np.asarray(array) for name, array in fractions.items()}
    for kind, arrays in (("weights", found), ("fractions", given)):
        for name, array in arrays.items():
            if name not in tensors:
                raise ValueError(f"{kind}: no trainable tensor {name!r}; there are {sorted(tensors)}")
            own = tensors[name]
            if kind == "fractions" and own.bias:
                raise ValueError(f"fractions: {name}: biases have none")
            if kind == "fractions" and not kept[name]:
                raise ValueError("fractions: the model has the 8-bit update and keeps none")
            if array.dtype != own.dtype or array.size != own.size:
                raise ValueError(
                    f"{kind}: {name}: expected {own.dtype} {list(own.shape)}, "
                    f"got {array.dtype} {list(array.shape)}"
                )
            if kind == "weights" and not own.bias and np.abs(array.astype(np.int16)).max() > limit:
                raise ValueError(f"weights: {name}: expected values within +-{limit}")
    return found, given
