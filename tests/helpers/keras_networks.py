# SPDX-License-Identifier: Apache-2.0
"""Small Keras models, data for them, and what is checked of what they are converted to."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from helpers.injection import inject_all
from helpers.interpreters import random_inputs, run_plain
from tflm_zo.conversion import ConversionResult
from tflm_zo.converters import Model, load_model
from tflm_zo.runtime import available, load

keras: Any = pytest.importorskip("keras")
tf: Any = pytest.importorskip("tensorflow")
layers: Any = keras.layers


def data(*shape: int, samples: int = 60, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).uniform(-1, 1, (samples, *shape)).astype(np.float32)


def small(end: str | None = "softmax", classes: int = 4) -> Any:
    inputs = keras.Input((8, 8, 1), name="image")
    x = layers.Conv2D(4, 3, activation="relu", name="conv")(inputs)
    x = layers.Flatten(name="flatten")(layers.MaxPooling2D(name="pool")(x))
    return keras.Model(inputs, layers.Dense(classes, activation=end, name="fc")(x))


def check_full_int8(result: ConversionResult) -> Model:
    model = load_model(result.model.to_bytes())
    graph = model.subgraphs[0]
    for tensor in graph.all_tensors():
        assert tensor.type_name in ("INT8", "INT32"), tensor.name
    assert [s.key for s in model.signatures or ()] == ["serving_default"]
    assert result.report.operators == tuple(op.code.name for op in graph.operators)
    return model


def check_trainable(result: ConversionResult) -> None:
    """Injected, it computes what it computes by itself, and in TFLM."""
    plain = result.model.to_bytes()
    runtime = load(inject_all(result.model, headroom=0), "litert")
    count = len(result.model.subgraphs[0].inputs)
    inputs = random_inputs([runtime.input_details(i) for i in range(count)], 3)
    runtime.set_inputs(*inputs)
    runtime.invoke()
    outputs = runtime.outputs()
    for name in {"litert", "tflm"} & set(available()):
        for a, b in zip(outputs, run_plain(plain, name, inputs), strict=True):
            np.testing.assert_array_equal(a, b)


def two_inputs() -> Any:
    # Names in another order than the alphabet's, two outputs.
    image, features = keras.Input((8, 8, 1), name="z_image"), keras.Input((5,), name="a_features")
    x = layers.Flatten(name="flatten")(layers.Conv2D(3, 3, activation="relu", name="conv")(image))
    y = layers.Dense(4, activation="relu", name="side")(features)
    x = layers.Concatenate(name="join")([x, y])
    ends = [layers.Dense(3, activation="softmax", name="kind")(x), layers.Dense(1, name="size")(x)]
    return keras.Model([image, features], ends)
