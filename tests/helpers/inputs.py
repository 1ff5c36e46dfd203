"""Models of every kind of input and loss, and samples of them."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from helpers.injection import inject_all
from helpers.models import MODELS, GraphBuilder
from helpers.models.graph_builder import Activation
from tflm_zo.data import Data, Inputs

SAMPLES = 9


def pixel_model() -> bytes:
    """Builds an int8 input that covers 0..1, and three classes."""
    g = GraphBuilder(40)
    x = g.flatten(g.input("image", [1, 6, 6, 1], 1 / 255, -128), "flatten")
    return g.build([g.softmax(g.dense(x, "fc", 3, Activation.NONE), "softmax")])


BUILT: dict[str, Callable[[], bytes]] = {
    "classes": MODELS["small_cnn"],
    "pixels": pixel_model,
    "uint8 input": MODELS["uint8_edges"],
    "float input": MODELS["float_edges"],
    "two inputs": MODELS["two_inputs"],
    "binary": MODELS["logistic_head"],
    "targets": MODELS["autoencoder"],
}


@functools.cache
def model(name: str) -> Inputs:
    return Inputs(inject_all(BUILT[name](), batch=2))


@dataclasses.dataclass(frozen=True)
class Example:
    """Data for a model in one plain form, and the model's inputs."""

    name: str
    inputs: list[Any]  # of the inputs' own types
    labels: Any

    @staticmethod
    def of(name: str, seed: int) -> Example:
        rng, zo = np.random.default_rng(seed), model(name)
        inputs = []
        for i in range(len(zo.metadata.original.inputs)):
            shape, dtype, _, _ = zo.input_details(i)
            size = (SAMPLES, *shape[1:])
            if dtype.kind == "f":
                inputs.append(rng.uniform(-1, 1, size).astype(dtype))
            else:
                bounds = np.iinfo(dtype)
                inputs.append(rng.integers(bounds.min, bounds.max + 1, size).astype(dtype))
        loss = zo.metadata.loss
        assert loss is not None
        if loss.kind == "mse":
            labels = rng.integers(-128, 128, (SAMPLES, loss.elements)).astype(np.int8)
        elif loss.of_classes:
            labels = rng.integers(0, loss.elements, SAMPLES).astype(np.int32)
        else:
            labels = rng.integers(0, 2, (SAMPLES, loss.elements)).astype(np.int32)
        return Example(name, inputs, labels)

    def check(self, found: Data) -> None:
        assert len(found) == SAMPLES and len(found.inputs) == len(self.inputs)
        for array, expected in zip((*found.inputs, found.labels), (*self.inputs, self.labels), strict=True):
            assert array.dtype == expected.dtype and array.flags.c_contiguous
            np.testing.assert_array_equal(array, expected)
