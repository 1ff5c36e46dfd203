"""Pre-training with a penalty on the largest activations."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tflm_zo.keras_models import narrow_activations

keras = pytest.importorskip("keras")
pytest.importorskip("tensorflow")
layers = keras.layers

RNG = np.random.default_rng(0)
X = RNG.uniform(-1, 1, (48, 5)).astype(np.float32)
Y = (X.sum(axis=1) > 0).astype(np.int32)


@pytest.fixture(autouse=True)
def _seed() -> None:
    keras.utils.set_random_seed(1)


def network() -> Any:
    inputs = keras.Input((5,), name="in")
    x = layers.Dense(8, activation="relu", name="first")(inputs)
    x = layers.ReLU(name="second")(layers.Dense(6, name="linear")(x))
    x = layers.Dense(4, activation="relu6", name="bounded")(x)
    return keras.Model(inputs, layers.Dense(2, activation="softmax", name="end")(x))


def largest(model: Any, x: np.ndarray) -> list[float]:
    """Computes the largest values of "first" and "second", in NumPy."""
    weights = {layer.name: layer.get_weights() for layer in model.layers}
    a = np.maximum(x @ weights["first"][0] + weights["first"][1], 0)
    b = np.maximum(a @ weights["linear"][0] + weights["linear"][1], 0)
    return [float(a.max()), float(b.max())]


@pytest.mark.parametrize("samples", [1, 7, 48])
def test_the_penalty(samples: int) -> None:
    model = network()
    with narrow_activations(model, 0.5) as names:
        assert names == ["first", "second"]
        model(X[:samples])
        assert float(sum(model.losses)) == pytest.approx(0.5 * sum(largest(model, X[:samples])), rel=1e-5)
    model(X[:samples])
    assert model.losses == []


def test_the_largest_magnitude_counts() -> None:
    model = network()
    kernel, bias = model.get_layer("linear").get_weights()
    model.get_layer("linear").set_weights([kernel, bias - 5])
    with narrow_activations(model, 2.0, layers=["linear"]):
        model(X)
        a = np.maximum(X @ model.get_layer("first").get_weights()[0], 0)
        expected = 2 * np.abs(a @ kernel + bias - 5).max()
        assert float(sum(model.losses)) == pytest.approx(float(expected), rel=1e-5)


@pytest.mark.slow
def test_fit_pays_for_it_inside_the_block_only() -> None:
    """Covers fit and evaluate that were compiled before."""
    model = network()
    model.compile(optimizer=keras.optimizers.SGD(0.0), loss="sparse_categorical_crossentropy")

    def losses() -> list[float]:
        fitted = model.fit(X, Y, batch_size=48, verbose=0).history["loss"][0]
        return [fitted, model.evaluate(X, Y, batch_size=48, verbose=0)]

    plain = losses()
    with narrow_activations(model, 0.1):
        paid = losses()
    assert paid == pytest.approx([v + 0.1 * sum(largest(model, X)) for v in plain], rel=1e-5)
    assert losses() == pytest.approx(plain, rel=1e-6)


@pytest.mark.slow
def test_ranges_become_narrower() -> None:
    def trained(weight: float | None) -> float:
        keras.utils.set_random_seed(3)
        model = network()
        model.compile(optimizer=keras.optimizers.Adam(0.02), loss="sparse_categorical_crossentropy")
        if weight is None:
            model.fit(X, Y, epochs=30, verbose=0)
        else:
            with narrow_activations(model, weight):
                model.fit(X, Y, epochs=30, verbose=0)
        return sum(largest(model, X))

    assert trained(0.05) < 0.8 * trained(None)


def test_the_model_is_left_as_it_was(tmp_path: Path) -> None:
    model = network()
    own = keras.regularizers.L2(0.25)
    model.get_layer("first").activity_regularizer = own
    before = model.get_config()
    with pytest.raises(KeyboardInterrupt), narrow_activations(model, 0.5):
        model(X)
        first = np.maximum(X @ model.get_layer("first").get_weights()[0], 0)
        expected = 0.5 * sum(largest(model, X)) + 0.25 * np.square(first).sum() / len(X)
        assert float(sum(model.losses)) == pytest.approx(expected, rel=1e-5)
        raise KeyboardInterrupt
    assert model.get_layer("first").activity_regularizer is own
    assert model.get_config() == before
    model.save(tmp_path / "model.keras")
    again = keras.models.load_model(tmp_path / "model.keras")
    np.testing.assert_array_equal(again(X).numpy(), model(X).numpy())


def test_layers_of_nested_models() -> None:
    inner = network()
    inputs = keras.Input((5,))
    model = keras.Model(inputs, layers.LeakyReLU(name="outer")(inner(inputs)))
    with narrow_activations(model) as names:
        assert sorted(names) == ["first", "outer", "second"]


@pytest.mark.parametrize("weight", [0.0, -1.0, float("nan"), float("inf")])
def test_wrong_weights(weight: float) -> None:
    with pytest.raises(ValueError, match="`weight` must be a number above 0"), narrow_activations(network(), weight):
        pass


def test_wrong_layers() -> None:
    with (
        pytest.raises(ValueError, match="no layer `third`; there are: in, first"),
        narrow_activations(network(), layers=["first", "third"]),
    ):
        pass
    inputs = keras.Input((5,))
    model = keras.Model(inputs, layers.Dense(2, activation="sigmoid")(inputs))
    with pytest.raises(ValueError, match="no layer with an unbounded activation"), narrow_activations(model):
        pass
