"""The statistics of training data in a converted model, against Keras' own outputs on these data."""

from typing import Any

import numpy as np
import pytest

from helpers.examples import slow_but
from helpers.keras_networks import data, keras, layers
from tflm_zo.conversion import convert
from tflm_zo.converters import Model, load_model
from tflm_zo.converters.channel_statistics import Statistics, read_statistics, with_statistics
from tflm_zo.recalibration import channel_statistics_of, recalibrate
from tflm_zo.recalibration.walk import corrected_layers

pytestmark = pytest.mark.usefixtures("keras_seed")

SAMPLES = 260  # more than pass through Keras at once


def images(seed: int, samples: int = SAMPLES) -> np.ndarray:
    """Draws noise in which each sample has a level of its own."""
    rng = np.random.default_rng(seed)
    noise = rng.normal(0, 0.3, (samples, 10, 10, 2)) + rng.normal(0, 0.2, (samples, 1, 1, 1))
    return np.asarray(noise, np.float32)


def shifted(x: np.ndarray) -> np.ndarray:
    """Applies another gain and offset, which a convolution without padding passes on to its channels."""
    return np.asarray(1.6 * x + 0.5, np.float32)


def network() -> Any:
    """Builds convolutions with batch norm: folded, without beta, without gamma, and one that cannot be folded."""
    x = image = keras.Input((10, 10, 2), name="image")
    x = layers.Conv2D(6, 3, use_bias=False, name="first")(x)
    x = layers.ReLU(name="first_relu")(layers.BatchNormalization(name="first_norm")(x))
    x = layers.DepthwiseConv2D(3, name="second")(x)
    x = layers.ReLU(name="second_relu")(layers.BatchNormalization(center=False, name="second_norm")(x))
    x = layers.BatchNormalization(scale=False, name="alone")(layers.Conv2D(5, 1, name="third")(x))
    x = layers.ReLU(name="third_relu")(x)
    x = layers.BatchNormalization(name="behind_relu")(x)
    x = layers.Dense(8, name="dense", activation="relu")(layers.Flatten(name="flatten")(x))
    return keras.Model(image, layers.Dense(3, name="answer")(x))


def trained_on(model: Any, x: Any) -> Any:
    """Gives each batch norm of a flat model random beta and gamma, and the data's statistics."""
    rng = np.random.default_rng(5)
    for layer in model.layers:
        if isinstance(layer, layers.BatchNormalization):
            for weight in (w for w in (layer.gamma, layer.beta) if w is not None):
                weight.assign(rng.uniform(0.5, 1.5, weight.shape))
            seen = np.asarray(keras.Model(model.input, layer.input)(x))
            axes = tuple(range(seen.ndim - 1))
            layer.moving_mean.assign(seen.mean(axes))
            layer.moving_variance.assign(seen.var(axes))
    return model


def real(model: Model, kept: Statistics) -> list[tuple[Any, Any]]:
    scales = [op.outputs[0].quantization.scale for op in corrected_layers(model)]  # type: ignore[union-attr]
    return [(s * layer.mean, s * layer.deviation) for s, layer in zip(scales, kept.layers, strict=True)]


def kept_by(model: Model) -> Statistics:
    found = read_statistics(model)
    assert found is not None
    return found


def as_measured(model: Model, x: Any) -> bytes:
    return with_statistics(model, channel_statistics_of(model, x)).to_bytes()


@pytest.mark.parametrize("size", slow_but([1], [1, 0.05]))
def test_statistics_are_those_of_the_training_data(size: float) -> None:
    """Includes small values, of which batch norm's epsilon is a large part."""
    old = images(1) * np.float32(size)
    new = shifted(old)
    model = trained_on(network(), old)
    before = [w.copy() for w in model.get_weights()]
    result = convert(model, new).model
    for was, now in zip(before, model.get_weights(), strict=True):
        np.testing.assert_array_equal(was, now)
    np.testing.assert_array_equal(model(new), network_like(model)(new))
    kept = kept_by(result)
    assert kept.samples == SAMPLES and kept.layout is not None
    names = ("first_relu", "second_relu", "third_relu", "dense")
    for name, (mean, deviation), moved in zip(
        names, real(result, kept), real(result, channel_statistics_of(result, new)), strict=True
    ):
        y = np.asarray(keras.Model(model.input, model.get_layer(name).output)(old))
        y = y.reshape(-1, y.shape[-1]).astype(float)
        wanted, unit = y.mean(0), y.std(0)
        # Only rounding differs, and the statistics that normalize a part of the samples.
        assert np.abs(mean - wanted).max() < 0.01 * unit.max(), name
        assert np.abs(np.log(deviation / unit)).max() < 0.04, name
        assert np.abs(moved[0] - wanted).max() > 0.3 * unit.max(), name


def network_like(model: Any) -> Any:
    copy = keras.models.clone_model(model)
    copy.set_weights(model.get_weights())
    return copy


def test_recalibration_leads_shifted_data_back_to_the_training_data() -> None:
    old, new, test = images(1), shifted(images(2)), images(3)
    model = trained_on(network(), old)
    converted = convert(model, new).model
    wanted = np.asarray(model(test))

    def error(m: Model) -> float:
        (output,) = (t.quantization for t in m.subgraphs[0].outputs)
        assert output is not None
        levels = outputs_of(m, shifted(test))
        return float(np.sqrt(np.mean(((levels - output.zero_point) * output.scale - wanted) ** 2)))

    assert error(recalibrate(converted, shifted(images(4, 64))).model) < 0.25 * error(converted)


def outputs_of(model: Model, x: np.ndarray) -> np.ndarray:
    from ai_edge_litert.interpreter import Interpreter

    interpreter = Interpreter(model_content=model.to_bytes())
    interpreter.allocate_tensors()
    (given,), (output,) = interpreter.get_input_details(), interpreter.get_output_details()
    scale, zero_point = given["quantization"]
    rows = []
    for sample in x:
        levels = np.clip(np.rint(sample / scale) + zero_point, -128, 127).astype(np.int8)
        interpreter.set_tensor(given["index"], levels[None])
        interpreter.invoke()
        rows.append(interpreter.get_tensor(output["index"])[0].astype(float))
    return np.array(rows)


def test_where_batch_norm_knows_the_data_already_the_statistics_are_theirs() -> None:
    x = images(1, 100)
    result = convert(trained_on(network(), x), x).model
    for kept, own in zip(kept_by(result).layers, channel_statistics_of(result, x).layers, strict=True):
        # Less the rounding of an int8 model's activations.
        assert np.abs(kept.mean - own.mean).max() < 1
        assert np.abs(np.log(kept.deviation / own.deviation)).max() < 0.03


def frozen() -> Any:
    model = trained_on(network(), images(1))
    model.trainable = False
    return model


def fine_tuned() -> Any:
    """As in Keras' guide: the pre-trained part is called for inference, even in training."""
    body = trained_on(network(), images(1))
    image = keras.Input((10, 10, 2))
    return keras.Model(image, layers.Dense(2)(layers.ReLU()(body(image, training=False))))


def without_batch_norm() -> Any:
    image = keras.Input((10, 10, 2))
    x = layers.Conv2D(4, 3, activation="relu")(image)
    return keras.Model(image, layers.Dense(2)(layers.Flatten()(x)))


def of_one_sample() -> Any:
    """Builds a model that takes no other batch."""
    image = keras.Input(batch_shape=(1, 10, 10, 2))
    x = layers.ReLU()(layers.BatchNormalization(name="norm")(layers.Conv2D(4, 3)(image)))
    model = keras.Model(image, layers.Dense(2)(keras.ops.reshape(x, (1, 256))))
    model.get_layer("norm").moving_mean.assign([1, 2, 3, 4])
    return model


@pytest.mark.parametrize(
    "build", slow_but([network, without_batch_norm], [network, frozen, fine_tuned, without_batch_norm, of_one_sample])
)
def test_where_batch_norm_knows_nothing_the_data_count(build: Any) -> None:
    x = shifted(images(2, 60))
    result = convert(build(), x).model
    assert result.to_bytes() == as_measured(result, x)


@pytest.mark.slow
def test_a_part_that_was_trained_with_the_rest_counts() -> None:
    body = trained_on(network(), images(1))
    image = keras.Input((10, 10, 2))
    model = keras.Sequential([image, keras.Model(image, body(image)), layers.ReLU(), layers.Dense(2)])
    x = shifted(images(2, 60))
    result = convert(model, x).model
    np.testing.assert_allclose(kept_by(result).layers[0].mean, kept_of_flat(body, x), atol=0.5)


def kept_of_flat(body: Any, x: np.ndarray) -> Any:
    return kept_by(convert(body, x).model).layers[0].mean


def constant_channel() -> tuple[Any, Any]:
    model = trained_on(network(), images(1))
    filters = model.get_layer("first").get_weights()
    filters[0][..., 2] = 0
    model.get_layer("first").set_weights(filters)
    return trained_on(model, images(1)), shifted(images(2, 60))


def dead_in_training() -> tuple[Any, Any]:
    model = trained_on(network(), images(1))
    model.get_layer("second_norm").moving_variance.assign([0, 1e-12, 1, 1, 1, 1])
    return model, shifted(images(2, 60))


def test_branches_of_the_same_shapes_are_not_confused() -> None:
    """The converter puts layers of an int8 and of a float model in different orders."""
    rng = np.random.default_rng(1)
    old = [rng.normal(size=(100, 6)).astype(np.float32) for _ in range(2)]
    ends = [keras.Input((6,), name=name) for name in "za"]
    x = [layers.BatchNormalization()(layers.Dense(4)(end)) for end in ends]
    x = [layers.ReLU(name=f"half_{end.name}")(y) for end, y in zip(ends, x, strict=True)]
    model = keras.Model(ends, layers.Dense(2)(layers.Dense(5, activation="relu")(layers.Concatenate()(x))))
    result = convert(trained_on(model, old), [2 * a for a in old]).model
    found = 0
    for op, (mean, _) in zip(corrected_layers(result), real(result, kept_by(result)), strict=True):
        for end in ends:
            if f"half_{end.name}/" in op.outputs[0].name:
                found += 1
                y = np.asarray(keras.Model(ends, model.get_layer(f"half_{end.name}").output)(old))
                np.testing.assert_allclose(mean, y.mean(0), atol=0.02)
    assert found == 2


def shared() -> tuple[Any, Any]:
    ends, norm = [keras.Input((6,), name="z"), keras.Input((6,), name="a")], layers.BatchNormalization()
    x = layers.Add()([layers.ReLU()(norm(layers.Dense(4)(end))) for end in ends])
    model = keras.Model(ends, layers.Dense(2)(layers.Dense(5, activation="relu")(x)))
    norm.moving_mean.assign([1, 0, -1, 2])
    return model, [data(6, samples=40), 2 * data(6, samples=40, seed=1)]


@pytest.mark.parametrize("build", slow_but([constant_channel], [constant_channel, dead_in_training, shared]))
def test_unusual_models_keep_finite_statistics(build: Any) -> None:
    model, x = build()
    result = convert(model, x).model
    kept = kept_by(load_model(result.to_bytes()))  # which refuses values that are not finite
    assert result.to_bytes() != as_measured(result, x)
    if build is constant_channel:
        assert [layer.deviation[2] == 0 for layer in kept.layers[:2]] == [True, True]
    if build is dead_in_training:
        assert kept.layers[1].deviation.max() > 0
