# SPDX-License-Identifier: Apache-2.0
"""Chooses the weights of a filter that are trained, where it is not trained as a whole."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from .. import constants
from ..errors import ConversionError
from ..model import Buffer, Model, Tensor
from ..model.schema import TensorType
from ..settings import InjectSettings
from ..sparse import SparseRule
from .plan import Plan, Trainable


def select_weights(model: Model, settings: InjectSettings, plan: Plan) -> None:
    """Adds the constant ``<name>/zo_mask`` of each trainable filter that ``settings.sparse`` trains in part.

    Headroom has been reserved, so thresholds compare the weights that training starts with.

    Raises:
        ConversionError: a mask names no trainable filter or has a wrong shape or type, or leaves a layer
            nothing to train.
    """
    if settings.sparse is None:
        return
    masks = settings.sparse if isinstance(settings.sparse, Mapping) else None
    filters = [t for t in plan.trainable if not t.is_bias]
    if masks is not None:
        known = [t.name for t in filters]
        unknown = next((name for name in masks if name not in known), None)
        if unknown is not None:
            raise ConversionError(
                f"sparse: `{unknown}` is no trainable filter tensor; there are: {', '.join(known)}"
            )
    for trainable in filters:
        if masks is None:
            selected = _by_rule(trainable, SparseRule.parse(str(settings.sparse)), settings.sparse_seed)
        elif trainable.name in masks:
            selected = _given(trainable, masks[trainable.name])
        else:
            continue
        if selected.all():
            continue
        trainable.selected = selected
        trainable.mask = _mask(trainable.name, selected)
        plan.segments[trainable.segment].subgraph.tensors.append(trainable.mask)


def _by_rule(trainable: Trainable, rule: SparseRule, seed: int) -> npt.NDArray[np.bool_]:
    values = trainable.tensor.numpy().reshape(-1)
    try:
        return rule.select(values, seed << 16 | trainable.stream)
    except ConversionError as error:
        raise ConversionError(f"sparse: layer `{trainable.layer}`: {error}") from None


def _given(trainable: Trainable, mask: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
    mask = np.asarray(mask)
    if mask.dtype != np.bool_ or mask.shape != trainable.tensor.shape:
        raise ConversionError(
            f"sparse: `{trainable.name}` needs bool {list(trainable.tensor.shape)}, "
            f"not {mask.dtype} {list(mask.shape)}"
        )
    if not mask.any():
        raise ConversionError(
            f"sparse: the mask of `{trainable.name}` selects nothing; leave the layer out of "
            "the trainable ones"
        )
    return mask.reshape(-1)


def _mask(name: str, selected: npt.NDArray[np.bool_]) -> Tensor:
    data = np.packbits(selected, bitorder="little").tobytes()
    return Tensor(f"{name}{constants.MASK}", (len(data),), TensorType.INT8, Buffer(data))
