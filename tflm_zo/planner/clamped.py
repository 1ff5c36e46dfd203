# SPDX-License-Identifier: Apache-2.0
"""The share of a layer's outputs that its activation clamps, whose errors are zero and cost nothing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..converters import Model, read_metadata
from ..data import ModelError
from ..runtime import available, load

__all__ = ["USUAL", "clamped_shares"]

#: Share of a layer that was not looked at.
USUAL = 0.5

_SAMPLES = 4


def clamped_shares(zo: Model, known: Mapping[str, float] | None = None) -> dict[str, float]:
    """Returns the share of each layer's outputs that are clamped on noise, by the layer's name; of no layer
    where no runtime takes the model.

    Args:
        zo: a ZO model of one sample an invoke.
        known: shares of layers that were looked at in another ZO model of the same plain one: they are
            returned as they are, and a model that has no other layers is not run.
    """
    metadata, known = read_metadata(zo), known or {}
    every = [*metadata.nodes, *(() if metadata.tail is None else metadata.tail.layers)]
    # Outputs that enter no segment are the model's, which nothing clamps.
    entering = {metadata.trainable[n.trainable].layer: n.output_segment for n in every if n.output_segment}
    entering = {layer: segment for layer, segment in entering.items() if layer not in known}
    if not entering:
        return dict(known)
    names = [name for name in ("litert", "tflite-runtime") if name in available()]
    try:
        runtime = load(zo, names[0])
    except (IndexError, ModelError):
        return dict(known)
    rng, found = np.random.default_rng(0), dict[str, list[float]]()
    inputs = len(metadata.original.inputs)
    for _ in range(_SAMPLES):
        runtime.set_inputs(*(_noise(rng, *runtime.input_details(i)[:2]) for i in range(inputs)))
        runtime.invoke()
        for layer, segment in entering.items():
            found.setdefault(layer, []).append(float((runtime.boundary(segment) == -128).mean()))
    return {**known, **{layer: float(np.mean(shares)) for layer, shares in found.items()}}


def _noise(rng: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype[Any]) -> NDArray[Any]:
    if dtype.kind == "f":
        return rng.uniform(-1, 1, shape).astype(dtype)
    limits = np.iinfo(dtype)
    return rng.integers(limits.min, limits.max, shape, endpoint=True).astype(dtype)
