"""Layers with weights of 16 bits in the runtimes: their outputs, and whole runs."""

from typing import Any

import numpy as np
import pytest

from helpers.injection import inject_all
from helpers.interpreters import RUNTIMES, random_inputs, require, run_plain
from helpers.models import MODELS
from helpers.oracle import int16 as oracle
from tflm_zo.converters import Last, Model, initial_weights, load_model, read_metadata, set_batch
from tflm_zo.converters.passes.int16_layers import quantize_multiplier
from tflm_zo.core import Gaussian
from tflm_zo.runtime import Runtime, load
from tflm_zo.training import Settings, SettingsError, Trainer, Weights

# Last layers per channel and per tensor, with a bias and without; all of an MLP's, with RELU.
LAYERS = {
    **{name: (name, Last(1)) for name in ("lenet5", "small_cnn", "depthwise_separable", "two_inputs")},
    **{name: (name, Last(1)) for name in ("logistic_head", "dense_after_4d", "two_outputs")},
    **{f"{name}, all": (name, "*") for name in ("dense_per_tensor", "autoencoder", "float_edges")},
}


def made(name: str, **changes: Any) -> tuple[bytes, Model]:
    model, which = LAYERS[name]
    original = MODELS[model]()
    return original, inject_all(original, **{"int16": which, "headroom": 0, **changes})


def inputs_of(runtime: Runtime, seed: int) -> list[Any]:
    return random_inputs([runtime.input_details(i) for i in range(len(runtime.inputs))], seed)


@pytest.mark.parametrize("name", RUNTIMES)
@pytest.mark.parametrize("layers", LAYERS)
def test_without_fractions_the_layer_is_the_plain_one(layers: str, name: str) -> None:
    """Compares bit for bit if the runtime computes like TFLM; "litert" rounds ties its own way."""
    require(name)
    original, zo = made(layers, batch=3)
    assert any(t.int16 for t in read_metadata(zo).trainable)
    runtime, plain = load(zo, name), set_batch(load_model(original), 3).to_bytes()
    for seed in range(3):
        inputs = inputs_of(runtime, seed)
        runtime.set_inputs(*inputs)
        runtime.invoke()
        for found, expected in zip(runtime.outputs(), run_plain(plain, name, inputs), strict=True):
            assert np.unique(expected).size > 1
            if name == "litert" and found.dtype == np.int8:
                assert np.abs(found.astype(int) - expected).max() <= 1
            elif name != "litert":
                np.testing.assert_array_equal(found, expected)


def set_fractions(runtime: Runtime, seed: int) -> dict[str, Any]:
    """Sets random fractions in the interpreter's memory."""
    rng = np.random.default_rng(seed)
    for name, fraction in runtime.all_weight_views()[1].items():
        fraction[:] = rng.integers(-128, 128, fraction.size)
        assert name in runtime.read_fractions()
    return runtime.read_fractions()


@pytest.mark.parametrize("name", RUNTIMES)
@pytest.mark.parametrize("model", ["dense_per_tensor", "autoencoder"])
def test_fractions_count_as_the_oracle_says(model: str, name: str) -> None:
    """Measures the first layer of an MLP, whose input is the model's: segments show its output."""
    require(name)
    original = load_model(MODELS[model]())
    op = original.subgraphs[0].operators[0]
    zo = inject_all(original, int16="*", headroom=0, batch=4, cuts=[op.outputs[0].name])
    runtime = load(zo, name)
    weights, fractions = runtime.read_weights(), set_fractions(runtime, 1)
    (x,) = inputs_of(runtime, 2)
    runtime.set_inputs(x)
    runtime.invoke()
    data, filter_, bias, y = op.inputs[0], op.inputs[1], op.input(2), op.outputs[0]
    scales = filter_.quantization.scales
    assert len(scales) == 1
    real = float(np.float32(data.quantization.scale) * scales[0]) / float(y.quantization.scale)
    zero = int(y.quantization.zero_points[0])
    rest = (
        None if bias is None else bias.numpy(),
        [quantize_multiplier(real)] * filter_.shape[0],
        int(data.quantization.zero_points[0]),
        *(zero, zero, 127),  # RELU
    )
    found = fractions[filter_.name]
    expected, whole = (
        oracle.fully_connected(x, weights[filter_.name], own, *rest) for own in (found, np.zeros_like(found))
    )
    np.testing.assert_array_equal(runtime.boundary(1), expected)
    assert not np.array_equal(whole, expected), "fractions that change nothing prove nothing"


@pytest.mark.parametrize("layers", LAYERS)
def test_fractions_count_alike_in_every_runtime(layers: str) -> None:
    require("tflm")
    _, zo = made(layers, batch=2)
    found = []
    for name in ("litert", "tflm"):
        runtime = load(zo, name)
        set_fractions(runtime, 7)
        runtime.set_inputs(*inputs_of(runtime, 3))
        runtime.invoke()
        found.append(runtime.outputs())
    for a, b in zip(*found, strict=True):
        np.testing.assert_array_equal(a, b)


# --- runs --------------------------------------------------------------------------------------------------

RNG = np.random.default_rng(4)
X = RNG.integers(-128, 128, (24, 8, 8, 1)).astype(np.int8)
Y = RNG.integers(0, 4, 24)


def test_perturbations_below_half_an_lsb_are_seen_by_an_int16_layer_alone() -> None:
    """Finds a gradient with 16 bits for perturbations that 8 bits round to nothing."""
    for int16, moves in (((), False), (Last(1), True)):
        model = inject_all(MODELS["small_cnn"](), batch=4, trainable=Last(1), int16=int16)
        settings = Settings(tasks=(Weights(perturbation=Gaussian(0.1)),), batch_size=4)
        trainer = Trainer(model, settings)
        trainer.fit(X, Y, steps=10, keep="last")
        (found,) = trainer.runtime.read_weights().values()
        (before,) = initial_weights(model).values()
        assert np.array_equal(found, before) != moves


def test_sharpness_needs_room_for_what_is_not_rounded() -> None:
    """Sets reaches of 1.45 LSB each: two LSB rounded, 2.9 without rounding."""
    settings = Settings(tasks=(Weights(sharpness=True, perturbation=Gaussian(0.5)),), batch_size=4)
    Trainer(inject_all(MODELS["small_cnn"](), batch=4), settings).fit(X, Y, steps=1, keep="last")
    model = inject_all(MODELS["small_cnn"](), batch=4, int16=Last(1))
    with pytest.raises(SettingsError, match=r"`weights\.perturbation` must move weights by at most the"):
        Trainer(model, settings).fit(X, Y, steps=1, keep="last")
    Trainer(inject_all(MODELS["small_cnn"](), batch=4, headroom=3, int16=Last(1)), settings).fit(
        X, Y, steps=1, keep="last"
    )
