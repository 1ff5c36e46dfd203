"""A Keras model that TensorFlow's own converter makes with int16 activations adapts to changed data."""

from typing import Any

import numpy as np
import pytest

from tflm_zo import Model, adapt, evaluate, load_model

tf: Any = pytest.importorskip("tensorflow")
keras: Any = pytest.importorskip("keras")
datasets: Any = pytest.importorskip("sklearn.datasets")


def digits() -> tuple[np.ndarray, np.ndarray]:
    x, y = datasets.load_digits(return_X_y=True)
    return x.reshape(-1, 8, 8, 1).astype(np.float32) / 16, y


def trained_in_keras(x: np.ndarray, y: np.ndarray) -> Any:
    keras.utils.set_random_seed(0)
    layers = keras.layers
    inputs = keras.Input((8, 8, 1), batch_size=1)
    z = layers.Conv2D(8, 3, strides=2, padding="same", activation="relu")(inputs)
    z = layers.DepthwiseConv2D(3, padding="same", activation="relu")(z)
    model = keras.Model(inputs, layers.Dense(10, activation="softmax")(layers.Flatten()(z)))
    fitted = keras.Model(model.inputs, model.outputs)
    fitted.compile(keras.optimizers.Adam(0.01), "sparse_categorical_crossentropy")
    for _ in range(12):
        for at in np.random.default_rng(0).permutation(len(x)).reshape(-1, 50):
            fitted.train_on_batch(x[at], y[at])
    return model


def converted(model: Any, x: np.ndarray) -> Model:
    function = tf.function(lambda t: model(t, training=False))
    concrete = function.get_concrete_function(tf.TensorSpec((1, 8, 8, 1)))
    converter = tf.lite.TFLiteConverter.from_concrete_functions([concrete])
    converter.optimizations = [tf.lite.Optimize.DEFAULT]
    wide = tf.lite.OpsSet.EXPERIMENTAL_TFLITE_BUILTINS_ACTIVATIONS_INT16_WEIGHTS_INT8
    converter.target_spec.supported_ops = [wide]
    converter.representative_dataset = lambda: ([v[None]] for v in x[:100])
    converter.inference_input_type = converter.inference_output_type = tf.int16
    return load_model(converter.convert())


def changed(x: np.ndarray) -> np.ndarray:
    """Makes another sensor's images: turned around, and grey where they were black."""
    return np.ascontiguousarray(0.25 + 0.5 * x[:, ::-1], np.float32)


@pytest.mark.filterwarnings("ignore")
def test_accuracy_under_a_shift_returns() -> None:
    x, y = digits()
    model = converted(trained_in_keras(x[:1000], y[:1000]), x)
    assert {t.type_name for t in model.subgraphs[0].inputs + model.subgraphs[0].outputs} == {"INT16"}
    new, held_out = changed(x[1000:1500]), changed(x[1500:])
    clean = evaluate(model, x[1500:], y[1500:]).accuracy
    before = evaluate(model, held_out, y[1500:]).accuracy
    found = adapt(model, new, y[1000:1500], "weight", steps=1500)
    after = evaluate(found.model, held_out, y[1500:]).accuracy
    print(clean, before, after)
    assert clean > 0.85
    assert after > before + 0.1
    assert {t.type_name for t in found.model.subgraphs[0].outputs} == {"INT16"}
