"""Layers of a converted model have Keras' names in every output."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from helpers.commands import invoke, run
from helpers.examples import slow_but
from tflm_zo.conversion import convert
from tflm_zo.conversion.keras_source import all_layers
from tflm_zo.converters import ConversionError
from tflm_zo.converters.summary import summarize
from tflm_zo.recalibration.walk import corrected_names
from tflm_zo.training import Trainer, algorithms

keras = pytest.importorskip("keras")
L = keras.layers


@pytest.fixture(autouse=True)
def new_session() -> Iterator[None]:
    """Resets the session, so that default names begin at 0."""
    keras.utils.clear_session()
    yield
    keras.utils.clear_session()


def dense(*layers: Any) -> Any:
    return keras.Sequential([keras.Input((16,)), *layers])


def three() -> tuple[Any, list[str]]:
    names = ["dense", "dense_1", "dense_2"]
    return dense(L.Dense(8, activation="relu"), L.Dense(8, activation="relu"), L.Dense(4)), names


def later() -> tuple[Any, list[str]]:
    for _ in range(9):
        L.Dense(1)
    return dense(*(L.Dense(8) for _ in range(3))), ["dense_9", "dense_10", "dense_11"]


def backwards() -> tuple[Any, list[str]]:
    """Names whose numbers are in another order than the layers."""
    names = ["dense_2", "dense_1_1", "dense", "dense_1", "d_1", "d"]
    return dense(*(L.Dense(6, name=name) for name in names)), names


def convolutions() -> tuple[Any, list[str]]:
    x = keras.Input((12, 12, 1))
    y = L.Conv2D(4, 3, padding="same", use_bias=False)(x)
    y = L.ReLU()(L.BatchNormalization()(y))
    z = L.Conv2D(4, 3, padding="same", use_bias=False)(y)
    y = L.Add()([y, L.ReLU()(L.BatchNormalization()(z))])
    y = L.SeparableConv2D(6, 3, activation="relu")(y)
    y = L.DepthwiseConv2D(3)(y)
    y = L.SeparableConv2D(6, 3)(y)
    y = L.Dense(4)(L.GlobalAveragePooling2D()(y))
    names = ["conv2d", "conv2d_1", "separable_conv2d/depthwise", "separable_conv2d", "depthwise_conv2d"]
    return keras.Model(x, y), [*names, "separable_conv2d_1/depthwise", "separable_conv2d_1", "dense"]


def of_time() -> tuple[Any, list[str]]:
    x = keras.Input((32, 3))
    y = L.MaxPooling1D()(L.Conv1D(4, 3, activation="relu")(x))
    y = L.Conv1D(4, 3, activation="relu")(L.Conv1D(4, 3)(y))
    return keras.Model(x, L.Dense(4)(L.GlobalAveragePooling1D()(y))), ["conv1d", "conv1d_2", "conv1d_1", "dense"]


def nested() -> tuple[Any, list[str]]:
    def part(name: str) -> Any:
        own = [L.Dense(8, activation="relu", name="a"), L.Dense(8, activation="relu", name="b")]
        return keras.Sequential([keras.Input((8,)), *own], name=name)

    x = keras.Input((16,))
    y = part("decoder")(part("encoder")(L.Dense(8)(x)))
    names = ["dense", "encoder/a", "encoder/b", "decoder/a", "decoder/b", "b"]
    return keras.Model(x, L.Dense(4, name="b")(y)), names


def shared() -> tuple[Any, list[str]]:
    again = L.Dense(16, activation="relu")
    x = keras.Input((16,))
    return keras.Model(x, L.Dense(4)(again(again(x)))), ["dense", "dense_1"]


MODELS: list[Callable[[], tuple[Any, list[str]]]] = [three, later, backwards, convolutions, of_time, nested, shared]


def converted(model: Any) -> Any:
    shape = (40, *model.inputs[0].shape[1:])
    return convert(model, np.random.default_rng(0).normal(size=shape).astype(np.float32)).model


@pytest.mark.parametrize("make", slow_but(MODELS[:1], MODELS), ids=lambda make: make.__name__)
def test_one_name_everywhere(make: Callable[[], tuple[Any, list[str]]]) -> None:
    """In training, recalibration and inspection, plain and as ZO model; Keras' model keeps its names."""
    model, names = make()
    own = [layer.name for layer in all_layers(model)]
    plain = converted(model)
    assert [layer.name for layer in all_layers(model)] == own
    zo = Trainer(plain, algorithms.weight(batch_size=8)).model
    trained = [t["layer"] for t in summarize(zo, 0)["zo"]["trainable"]]
    assert trained == names
    if make is not shared:  # whose layers no recalibration moves
        assert set(corrected_names(plain)) <= set(names)
    for shown in (plain, zo):
        operators = summarize(shown, 0)["operators"]
        assert list(dict.fromkeys(op["name"] for op in operators if op["weights"])) == names
        others = [op["name"] for op in operators if not op["weights"] and op["name"]]
        assert len(set(others)) == len(others) and not set(others) & set(names)


def test_the_named_layer_is_the_one_that_is_trained(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    model, _ = three()
    converted(model).save(tmp_path / "m.tflite")
    x = np.random.default_rng(1).normal(size=(20, 16)).astype(np.float32)
    np.savez(tmp_path / "d.npz", x=x, y=np.arange(20) % 4)
    asked = "--algorithm", "weight", "--set", "layers=dense", "--set", "scope=layers", "--steps", 3
    told = run("train", "m.tflite", "d.npz", "-o", "t.tflite", "--batch-size", 4, "--json", *asked)
    assert json.loads(told.stdout)["trains"]["layers"] == ["dense"]
    assert "trains 1 of 3 layers" in told.stderr and ": dense" in told.stderr
    shown = invoke("inspect", "m.tflite").stdout
    assert all(f"│ {name} " in shown for name in ("dense", "dense_1", "dense_2"))
    refused = invoke("train", "m.tflite", "d.npz", "-o", "u.tflite", "--set", "layers=dense_3")
    assert refused.exit_code and "dense, dense_1, dense_2" in refused.stderr.replace("\n", " ")


def test_a_model_that_cannot_be_converted_keeps_its_names() -> None:
    model = dense(L.Dense(8), L.Reshape((8, 1)), L.Conv1DTranspose(3, 3), L.Lambda(keras.ops.erfinv))
    own = [layer.name for layer in model.layers]
    with pytest.raises(ConversionError) as refused:
        converted(model)
    assert [layer.name for layer in model.layers] == own
    assert "zo." not in str(refused.value)
