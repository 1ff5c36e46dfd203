"""Small Keras models, data for them, and checks of their conversions."""

import functools
from collections.abc import Callable
from typing import Any, Final

import numpy as np
import pytest

from helpers.injection import inject_all
from helpers.interpreters import random_inputs, run_plain
from tflm_zo.conversion import ConversionResult, convert
from tflm_zo.converters import Model, load_model
from tflm_zo.runtime import available, load

keras: Any = pytest.importorskip("keras")
tf: Any = pytest.importorskip("tensorflow")
layers: Any = keras.layers
L = layers


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
    """Checks that the injected model has the outputs of the model itself, and of TFLM."""
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


TIME, CHANNELS, CLASSES = 16, 3, 4


def _conv(x: Any, **options: Any) -> Any:
    return L.Conv1D(6, 3, **{"padding": "same", "activation": "relu", **options})(x)


def _squeeze_and_excitation(x: Any, activation: str = "sigmoid", as_image: bool = False) -> Any:
    y = _conv(x)
    gate = L.GlobalAveragePooling1D()(y)
    gate = L.Dense(6, activation=activation)(L.Dense(4, activation="relu")(gate))
    y = L.Multiply()([y, L.Reshape((1, 6))(gate)])
    return L.GlobalAveragePooling1D()(_conv(y))


def _residual(x: Any) -> Any:
    y = _conv(x, padding="causal")
    return L.GlobalAveragePooling1D()(L.Add()([y, _conv(y, padding="causal", dilation_rate=2)]))


def _both_poolings(x: Any) -> Any:
    y = _conv(x)
    return L.Concatenate()([L.GlobalAveragePooling1D()(y), L.GlobalMaxPooling1D()(y)])


def _as_image(x: Any) -> Any:
    y = L.Conv2D(6, (3, 1), padding="same", activation="relu")(L.Reshape((TIME, 1, CHANNELS))(x))
    return L.GlobalMaxPooling1D()(L.Reshape((TIME, 6))(y))


def _pooled_twice(x: Any) -> Any:
    return L.Flatten()(L.MaxPooling1D(2)(_conv(L.AveragePooling1D(3, 2, padding="same")(_conv(x)))))


#: Networks before their classifier, by name.
FORMS: Final[dict[str, Callable[[Any], Any]]] = {
    "mean": lambda x: L.GlobalAveragePooling1D()(_conv(_conv(x))),
    "mean, axis kept": lambda x: L.Flatten()(L.GlobalAveragePooling1D(keepdims=True)(_conv(_conv(x)))),
    "mean by keras.ops": lambda x: keras.ops.mean(_conv(_conv(x)), axis=1),
    "maximum": lambda x: L.GlobalMaxPooling1D()(_conv(_conv(x))),
    "maximum, axis kept": lambda x: L.Flatten()(L.GlobalMaxPooling1D(keepdims=True)(_conv(_conv(x)))),
    "poolings": _pooled_twice,
    "overlapping maxima": lambda x: L.Flatten()(L.MaxPooling1D(3, 2)(_conv(_conv(x)))),
    "average of all": lambda x: L.Flatten()(L.AveragePooling1D(TIME)(_conv(_conv(x)))),
    "an image's side": _as_image,
    "causal": lambda x: L.GlobalAveragePooling1D()(_conv(_conv(x), padding="causal", dilation_rate=2)),
    "residual": _residual,
    "separable": lambda x: L.GlobalAveragePooling1D()(
        L.SeparableConv1D(6, 3, padding="same", activation="relu")(_conv(x))
    ),
    "padded and cropped": lambda x: L.GlobalAveragePooling1D()(
        _conv(L.Cropping1D((2, 1))(L.ZeroPadding1D(2)(_conv(x))))
    ),
    "dense at each time": lambda x: L.GlobalAveragePooling1D()(L.Dense(6, activation="relu")(_conv(x))),
    "batch norm, ReLU6": lambda x: L.GlobalAveragePooling1D()(
        L.ReLU(6)(L.BatchNormalization()(_conv(_conv(x), activation=None, use_bias=False)))
    ),
    "both poolings": _both_poolings,
    "swish": lambda x: L.GlobalAveragePooling1D()(_conv(_conv(x), activation="swish")),
    "hard swish": lambda x: L.GlobalAveragePooling1D()(_conv(_conv(x), activation="hard_swish")),
    "hard sigmoid": lambda x: L.GlobalAveragePooling1D()(_conv(_conv(x), activation="hard_sigmoid")),
    "tanh": lambda x: L.GlobalAveragePooling1D()(_conv(_conv(x), activation="tanh")),
    "leaky ReLU": lambda x: L.GlobalAveragePooling1D()(L.LeakyReLU()(_conv(_conv(x), activation=None))),
    "squeeze and excitation": _squeeze_and_excitation,
    "squeeze and excitation, hard sigmoid": lambda x: _squeeze_and_excitation(x, "hard_sigmoid"),
}


@functools.cache
def sequence_network(name: str, end: str | None = "softmax") -> bytes:
    """Makes an int8 model of batch 1 with random weights, calibrated on normal noise."""
    keras.utils.set_random_seed(3)
    inputs = keras.Input((TIME, CHANNELS), name="window")
    outputs = L.Dense(CLASSES, activation=end, name="fc")(FORMS[name](inputs))
    x = np.random.default_rng(3).normal(size=(40, TIME, CHANNELS)).astype(np.float32)
    model: bytes = convert(keras.Model(inputs, outputs), x).model.to_bytes()
    return model
