"""Models and data that are not converted: each is refused in one sentence."""

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from helpers.keras_networks import check_full_int8, data, keras, layers, small, tf
from tflm_zo.conversion import convert
from tflm_zo.converters import ConversionError
from tflm_zo.io.errors import DataError

pytestmark = pytest.mark.usefixtures("keras_seed")


@pytest.mark.parametrize("value", [-0.1, float("nan"), 100.0])
def test_wrong_headroom(value: float) -> None:
    with pytest.raises(ConversionError, match="from 0 to 7"):
        convert(small(), data(8, 8, 1), activation_headroom=value)


def fft(x: Any) -> Any:
    return tf.math.real(tf.signal.fft(tf.cast(x, tf.complex64)))


@pytest.mark.parametrize(
    ("function", "operator"),
    [
        (tf.math.erf, "Erf"),
        (tf.sin, "SIN"),
        (lambda x: tf.cumsum(x, axis=1), "CUMSUM"),
        (fft, "."),
        (lambda x: tf.strings.to_number(tf.strings.as_string(x)), "AsString"),
    ],
    ids=["erf", "sin", "cumsum", "fft", "string"],
)
def test_operators_without_an_int8_kernel(function: Any, operator: str) -> None:
    inputs = keras.Input((8, 8, 1))
    x = layers.Lambda(function, name="culprit")(layers.Conv2D(2, 3, name="conv")(inputs))
    x = layers.Dense(3, name="fc")(layers.Flatten(name="flatten")(x))
    with pytest.raises(ConversionError, match=rf"^layer `culprit`: .*{operator}") as e:
        convert(keras.Model(inputs, x), data(8, 8, 1))
    assert "\n" not in str(e.value)


def test_wrong_data(tmp_path: Path) -> None:
    model, x = small(), data(8, 8, 1)
    spoiled = x.copy()
    spoiled[3, 2, 1, 0] = np.nan
    np.savez(tmp_path / "other.npz", images=x)
    (tmp_path / "text.npy").write_text("no array")
    for source, message in [
        (data(7, 8, 1), r"representative data: `x` must have samples of shape \[8, 8, 1\]. Received: \[7, 8, 1\]"),
        ([data(7, 8, 1)], r"`image` must have samples of shape \[8, 8, 1\]. Received: \[7, 8, 1\]"),
        (x[0, 0], r"must have samples of shape \[8, 8, 1\]. Received: \[1\]"),
        (spoiled, "x contains NaN or infinity"),
        (x * 1e300, "x contains NaN or infinity"),
        (x[:0], "x is empty"),
        ([], "no samples"),
        (x.astype(str), "x is <U32, not numbers"),
        (None, "cannot use NoneType"),
        (tmp_path / "other.npz", "other.npz: no array `x`; there are: images"),
        (tmp_path / "text.npy", "text.npy: no .npz or .npy file"),
        (tmp_path / "missing.npy", "missing.npy: cannot be read: No such file"),
    ]:
        with pytest.raises(DataError, match=message):
            convert(model, source)
    with pytest.raises(DataError, match="x has 60 samples, y has 59 labels"):
        convert(model, x, labels=np.zeros(59, np.int64))
    with pytest.raises(ConversionError, match="`batch` must be"):
        convert(model, x, batch=0)


def test_wrong_models(tmp_path: Path) -> None:
    x = data(8, 8, 1)
    (tmp_path / "text.keras").write_text("no model")
    inputs = keras.Input((None, 8, 1), name="image")
    pooled = layers.GlobalAveragePooling2D()(inputs)
    integers = keras.Input((4,), dtype="int32", name="tokens")
    embedded = layers.Flatten()(layers.Embedding(5, 3)(integers))
    series = keras.Input((8, 4))
    recurrent = layers.Dense(2)(layers.LSTM(3, name="memory")(series))
    for model, message in [
        (tmp_path / "text.keras", "cannot be read as a Keras model"),
        (tmp_path, "expected a .keras or .h5 file or a SavedModel folder"),
        (3, "`model` must be a Keras model or a path. Received: int"),
        (keras.Sequential([layers.Dense(3)]), r"does not know its inputs; .* keras.Model\(x, model\(x\)\)"),
        (keras.Model(inputs, pooled), r"`image` has shape \[None, None, 8, 1\]"),
        (keras.Model(integers, embedded), "`tokens` is int32"),
        (keras.Model(series, recurrent), "layer `memory`: recurrent"),
    ]:
        with pytest.raises(ConversionError, match=message):
            convert(model, x)
    with pytest.raises(FileNotFoundError):
        convert(tmp_path / "missing.keras", x)


class Doubled(layers.Layer):  # type: ignore[misc]
    """Not registered with Keras."""

    def call(self, x: Any) -> Any:
        return 2 * x


def test_model_files_that_need_code(tmp_path: Path) -> None:
    for layer, message in (
        (Doubled(), "class `Doubled` is not registered here; convert the model object"),
        (layers.Lambda(lambda x: 2 * x), "Lambda layer holds Python code"),
    ):
        inputs = keras.Input((8,))
        model = keras.Model(inputs, layers.Dense(3)(layer(inputs)))
        model.save(tmp_path / "m.keras")
        with pytest.raises(ConversionError, match=message):
            convert(tmp_path / "m.keras", data(8))
        check_full_int8(convert(model, data(8)))


@pytest.mark.parametrize("policy", ["mixed_float16", "mixed_bfloat16"])
def test_reduced_precision_is_refused(policy: str) -> None:
    before = keras.config.dtype_policy()
    keras.config.set_dtype_policy(policy)
    try:
        model = small()
    finally:
        keras.config.set_dtype_policy(before)
    with pytest.raises(ConversionError, match=rf"layer `conv` computes in {policy[6:]}; .* policy float32"):
        convert(model, data(8, 8, 1))


def test_inputs_and_outputs_that_cannot_be() -> None:
    a, b = keras.Input((8,), name="a"), keras.Input((4,), name="b")
    with pytest.raises(ConversionError, match="input `b`: no output depends on it"):
        convert(keras.Model([a, b], layers.Dense(3)(a)), [data(8), data(4)])
    with pytest.raises(ConversionError, match="the model cannot be called with one sample: "):
        convert(keras.Model(a, a), data(8))


def test_labels_out_of_range() -> None:
    for labels, message in (
        (np.full(60, 4), r"label 4 is out of range. It must be in 0\.\.3"),
        (np.full(60, -1), "no sample has a label"),
    ):
        with pytest.raises(DataError, match=message):
            convert(small(), data(8, 8, 1), labels=labels)
    with pytest.raises(DataError, match=r"label 2 is out of range. It must be in 0\.\.1"):
        convert(small("sigmoid", 1), data(8, 8, 1), labels=np.full(60, 2))


def test_without_tensorflow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tensorflow", None)
    with pytest.raises(ConversionError, match=r"pip install 'tflm_zo\[keras\]'"):
        convert("model.keras", data(8, 8, 1))
