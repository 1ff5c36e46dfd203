"""Small int8 networks with several outputs, or several losses in one. Each function returns bytes, batch 1."""

from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tflm_zo import Model, Settings, load_model
from tflm_zo.converters import inject
from tflm_zo.training.injection import inject_for

from .graph_builder import Activation, GraphBuilder

#: Rows and columns of the grid.
GRID = 4


@cache
def grid(seed: int = 1) -> bytes:
    """Builds a detector on 8 x 8 x 2 with an output [4, 4, 8]: a score, four sides of a box, three classes."""
    g = GraphBuilder(seed)
    x = g.input("image", [1, 8, 8, 2])
    x = g.conv(x, "conv", 6, (3, 3), stride=2)
    x = g.conv(x, "head", 8, (1, 1), activation=Activation.NONE)
    return g.build([x])


@cache
def two_heads(seed: int = 2) -> bytes:
    """Builds a network on 8 x 8 x 2 with classes behind a SOFTMAX [5], and landmarks [6] of an earlier layer."""
    g = GraphBuilder(seed)
    x = g.input("image", [1, 8, 8, 2])
    x = g.conv(x, "conv", 6, (3, 3), stride=2)
    flat = g.flatten(x, "flatten")
    landmarks = g.dense(flat, "landmarks", 6, Activation.NONE)
    hidden = g.dense(flat, "hidden", 12)
    classes = g.softmax(g.dense(hidden, "classes", 5, Activation.NONE), "softmax")
    return g.build([landmarks, classes])


LOSSES = {
    "grid": {"0[0]": "binary_cross_entropy", "0[1:5]": "huber*5", "0[5:]": "cross_entropy*0.5"},
    "heads": {"0": "mae*2", "1": "cross_entropy"},
}


def injected_detector(name: str, settings: Settings | None = None, **changes: Any) -> Model:
    """Returns the ZO model of a detector, "grid" or "heads", for a run, or without trainable layers."""
    model = load_model({"grid": grid, "heads": two_heads}[name]())
    if settings is None:
        return inject(model, trainable="none", nodes=(), loss=LOSSES[name], **changes)
    return inject_for(model, settings, loss=LOSSES[name], **changes)


def detector_samples(name: str, rng: np.random.Generator, samples: int) -> tuple[NDArray[np.int8], dict[str, Any]]:
    """Draws images, and labels. Half of a grid's cells have an object; the others have no box and no class, and some of
    them no score.
    """
    x = rng.integers(-128, 128, (samples, 8, 8, 2)).astype(np.int8)
    if name == "heads":
        return x, {"0": rng.normal(0, 1, (samples, 6)), "1": rng.integers(-1, 5, samples)}
    there = rng.integers(0, 2, (samples, GRID, GRID))
    boxes = rng.normal(0, 1, (samples, GRID, GRID, 4))
    boxes[there == 0] = np.nan
    scores = np.where((there == 0) & (rng.random(there.shape) < 0.2), -1, there)
    return x, {"0[0]": scores, "0[1:5]": boxes, "0[5:]": np.where(there, rng.integers(0, 3, there.shape), -1)}
