# SPDX-License-Identifier: Apache-2.0
"""The share of a layer's outputs that its activation clamps, whose errors are zero and cost nothing."""

from __future__ import annotations

import numpy as np

from ..converters import Model, read_metadata
from ..runtime import ModelError, available, load

__all__ = ["USUAL", "clamped_shares"]

#: Share of a layer that was not looked at.
USUAL = 0.5

_SAMPLES = 4


def clamped_shares(zo: Model) -> dict[str, float]:
    """Returns the share of each layer's outputs that are clamped on noise, by the layer's name; of no layer
    where no runtime takes the model.

    Args:
        zo: a ZO model of one sample an invoke.
    """
    metadata = read_metadata(zo)
    nodes = [*metadata.nodes, *(() if metadata.tail is None else metadata.tail.layers)]
    names = [name for name in ("litert", "tflite-runtime") if name in available()]
    try:
        runtime = load(zo, names[0])
    except (IndexError, ModelError):
        return {}
    rng, found = np.random.default_rng(0), dict[str, list[float]]()
    inputs = len(metadata.original.inputs)
    for _ in range(_SAMPLES):
        shapes = [runtime.input_details(i)[0] for i in range(inputs)]
        runtime.set_inputs(*(rng.integers(-128, 128, shape).astype(np.int8) for shape in shapes))
        runtime.invoke()
        for n in nodes:
            outputs = runtime.boundary(n.output_segment)
            layer = metadata.trainable[n.trainable].layer
            found.setdefault(layer, []).append(float((outputs == -128).mean()))
    return {layer: float(np.mean(shares)) for layer, shares in found.items()}
