"""Keras models become full-int8 models that can be trained."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from helpers.examples import slow_but
from helpers.injection import inject_all
from helpers.interpreters import run_plain
from helpers.keras_networks import check_full_int8, check_trainable, data, keras, layers, small, two_inputs
from tflm_zo import keras_models
from tflm_zo.conversion import ConversionResult, convert
from tflm_zo.converters import ConversionError, initial_weights, read_metadata
from tflm_zo.io.errors import DataError
from tflm_zo.logs import Log, replay_log
from tflm_zo.training import Settings, Trainer, Weights

pytestmark = pytest.mark.usefixtures("keras_seed")


def settle_batch_norm(model: Any, x: np.ndarray) -> None:
    """Sets statistics: random weights without them make activations vanish in deep networks."""
    for layer in model.layers:
        if isinstance(layer, layers.BatchNormalization):
            layer.momentum = 0.0
    model(x, training=True)


def check_training_step(result: ConversionResult, x: np.ndarray, log: Path) -> None:
    zo = inject_all(result.model)
    trainer = Trainer(zo, Settings(tasks=(Weights(),), batch_size=2, learning_rate=4.0), runtime="litert")
    history = trainer.fit(x[:2], np.array([0, 1]), steps=1, log=log, keep="last")
    assert history.forwards == 4
    before, after = initial_weights(zo), trainer.runtime.read_weights()
    replayed, _ = replay_log(zo, Log.read(log))
    for name, values in after.items():
        np.testing.assert_array_equal(replayed[name], values)
        assert (before[name] != values).any()


@pytest.mark.parametrize(
    ("name", "parameters", "weights"),
    [
        ("activity_cnn", 9_942, 9_376),
        ("lenet5", 61_706, 61_470),
        *(
            pytest.param(*large, marks=pytest.mark.slow)
            for large in (
                ("digits_cnn", 3_818, 3_784),
                ("ds_cnn", 24_908, 22_016),
                ("mobilenet_v1", 219_058, 208_112),
                ("resnet8", 78_666, 77_360),
            )
        ),
    ],
)
def test_reference_models(name: str, parameters: int, weights: int, tmp_path: Path) -> None:
    model = getattr(keras_models, name)()
    assert model.count_params() == parameters
    x = data(*model.input_shape[1:])
    settle_batch_norm(model, x)
    result = convert(model, x, activation_headroom=0.25)
    check_full_int8(result)
    assert result.report.operators[-1] == "SOFTMAX"
    assert result.report.warnings == ()
    metadata = read_metadata(inject_all(result.model))
    assert sum(t.size for t in metadata.trainable) == weights
    assert metadata.loss is not None and metadata.loss.kind == "cross_entropy"
    names = {layer.name for layer in model.layers}
    assert all(t.layer in names for t in metadata.trainable)
    check_trainable(result)
    check_training_step(result, x, tmp_path / "run.zolog")


@pytest.mark.parametrize(
    ("end", "classes", "operator", "loss"),
    [
        ("softmax", 4, "SOFTMAX", "cross_entropy"),
        ("sigmoid", 1, "LOGISTIC", "binary_cross_entropy"),
        (None, 4, "FULLY_CONNECTED", "cross_entropy"),
    ],
)
def test_ends(end: str | None, classes: int, operator: str, loss: str) -> None:
    labels = np.arange(60) % max(classes, 2)
    result = convert(small(end, classes), data(8, 8, 1), labels=labels)
    check_full_int8(result)
    assert result.report.operators[-1] == operator
    metadata = read_metadata(inject_all(result.model, loss=loss))
    assert metadata.original.inputs == ("image",)
    assert result.report.float_accuracy is not None and result.report.int8_accuracy is not None
    assert abs(result.report.float_accuracy - result.report.int8_accuracy) <= 0.1
    (port,) = result.report.inputs
    assert (port.name, port.shape) == ("image", (1, 8, 8, 1))
    np.testing.assert_allclose(port.scale, 2 / 255, rtol=0.02)
    check_trainable(result)


def test_two_inputs_and_outputs(tmp_path: Path) -> None:
    model = two_inputs()
    x = [data(8, 8, 1), 3 * data(5)]
    result = convert(model, x, activation_headroom=0.5)
    check_full_int8(result)
    assert [p.name for p in result.report.inputs] == ["z_image", "a_features"]
    assert [p.shape for p in result.report.outputs] == [(1, 3), (1, 1)]
    check_trainable(result)
    assert result.report.inputs[1].scale > 2.5 * result.report.inputs[0].scale
    np.savez(tmp_path / "x.npz", z_image=x[0], a_features=x[1])
    for same in (tmp_path / "x.npz", ([a, b] for a, b in zip(*x, strict=True))):
        again = convert(model, same, activation_headroom=0.5)
        assert again.model.to_bytes() == result.model.to_bytes()
    # Real outputs are close to Keras's.
    quantized = [
        np.clip(np.rint(a[:1] / p.scale) + p.zero_point, -128, 127).astype(np.int8)
        for a, p in zip(x, result.report.inputs, strict=True)
    ]
    outputs = run_plain(result.model.to_bytes(), "litert", quantized)
    for a, p, b in zip(outputs, result.report.outputs, model([v[:1] for v in x]), strict=True):
        np.testing.assert_allclose((a.astype(float) - p.zero_point) * p.scale, b, atol=0.1)
    with pytest.raises(DataError, match=r"the model has 2 inputs \(z_image, a_features\), got 1 array"):
        convert(model, x[0])


@pytest.mark.slow
def test_repeatable_in_other_processes(tmp_path: Path) -> None:
    model, x = residual(), data(8, 8, 2)
    model.save(tmp_path / "m.keras")
    np.save(tmp_path / "x.npy", x)
    code = "import sys; from tflm_zo.conversion import convert; convert(sys.argv[1], sys.argv[2]).save(sys.argv[3])"
    for k in "ab":
        arguments = [str(tmp_path / name) for name in ("m.keras", "x.npy", k)]
        done = subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, check=True)
        assert not done.stdout and not done.stderr
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_dense_per_tensor_and_batch() -> None:
    model, x = small(), data(8, 8, 1)
    for per_channel in (True, False):
        result = convert(model, x, per_channel_dense=per_channel, batch=3)
        check_full_int8(result)
        assert result.report.inputs[0].shape == (3, 8, 8, 1)
        operators = {op.code.name: op for op in result.model.subgraphs[0].operators}
        for kind, expected in (("CONV_2D", True), ("FULLY_CONNECTED", per_channel)):
            weights = operators[kind].inputs[1]
            assert weights is not None and weights.quantization is not None
            assert weights.quantization.is_per_channel == expected


def test_room_for_new_classes() -> None:
    x = data(8, 8, 1)
    model = small()
    y = np.asarray(model(x)).argmax(1)
    result = convert(model, x, classes=7, batch=2, labels=y)
    assert result.report.outputs[0].shape == (2, 7)
    assert result.report.float_accuracy == 1
    assert result.report.int8_accuracy == convert(model, x, labels=y).report.int8_accuracy
    with pytest.raises(ConversionError, match="has 4; expected an integer above, got 4"):
        convert(model, x, classes=4)


def residual() -> Any:
    inputs = keras.Input((8, 8, 2))
    x = layers.Conv2D(4, 3, padding="same", name="stem")(inputs)
    y = layers.BatchNormalization(name="bn")(layers.Conv2D(4, 3, padding="same", name="branch")(x))
    x = layers.ReLU(name="relu")(layers.Add(name="add")([x, y]))
    x = layers.GlobalAveragePooling2D(name="gap")(x)
    return keras.Model(inputs, layers.Dense(3, activation="softmax", name="fc")(x))


@pytest.mark.parametrize("make", slow_but([small], [residual, two_inputs, small]))
def test_headroom_of_activations(make: Any) -> None:
    model = make()
    keras.utils.set_random_seed(2)
    for layer in model.layers:
        if getattr(layer, "use_bias", False):
            layer.bias.assign(0.3 * np.random.default_rng(0).normal(size=layer.bias.shape))
    x = [data(*t.shape[1:], seed=i) for i, t in enumerate(model.inputs)]
    x = x if len(x) > 1 else x[0]
    narrow, wide = (convert(model, x, activation_headroom=h).model for h in (0.0, 0.5))
    check_trainable(ConversionResult(wide, convert(model, x).report))
    ends = ("SOFTMAX", "LOGISTIC")
    scales = 0
    a, b = narrow.subgraphs[0], wide.subgraphs[0]
    fixed = {t.name for t in a.inputs} | {op.outputs[0].name for op in a.operators if op.code.name in ends}
    for s, t in zip(a.all_tensors(), b.all_tensors(), strict=True):
        assert s.name == t.name
        if s.type_name == "INT8" and not s.is_constant:
            assert s.quantization is not None and t.quantization is not None
            factor = 1.0 if s.name in fixed else 1.5
            np.testing.assert_allclose(t.quantization.scale, factor * s.quantization.scale, rtol=1e-6)
            assert t.quantization.zero_point == s.quantization.zero_point
            scales += factor > 1
    assert scales >= 3
    # Every bias has the scale of its input times that of its filter, and the real values stay.
    for p, q in zip(a.operators, b.operators, strict=True):
        if p.code.name in ("CONV_2D", "FULLY_CONNECTED") and p.input(2) is not None:
            real = []
            for op in (p, q):
                source, weights, bias = op.inputs[:3]
                assert source and weights and bias
                assert source.quantization and weights.quantization and bias.quantization
                product = source.quantization.scale * weights.quantization.scales
                np.testing.assert_allclose(bias.quantization.scales, product, rtol=1e-5)
                real.append(bias.numpy() * product)
            np.testing.assert_allclose(real[0], real[1], atol=float(product.max()))
    # Outputs are the same, but for rounding.
    rng = np.random.default_rng(1)
    inputs = [rng.integers(-100, 100, t.shape).astype(np.int8) for t in a.inputs]
    outputs = []
    for m in (narrow, wide):
        values = run_plain(m.to_bytes(), "litert", inputs)
        ports = [t.quantization for t in m.subgraphs[0].outputs]
        outputs.append([(v.astype(float) - p.zero_point) * p.scale for v, p in zip(values, ports, strict=True) if p])
    for v, w in zip(*outputs, strict=True):
        np.testing.assert_allclose(v, w, atol=0.08)


class Subclassed(keras.Model):  # type: ignore[misc]
    """Knows no input shape until it is called."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = small(None)

    def call(self, x: Any) -> Any:
        return keras.ops.softmax(self.inner(x))


def test_subclassed_model() -> None:
    model, x = Subclassed(), data(8, 8, 1)
    model(x[:1])
    with pytest.raises(ConversionError, match="does not know its inputs"):
        convert(model, x)
    # The message's advice.
    inputs = keras.Input((8, 8, 1), name="image")
    result = convert(keras.Model(inputs, model(inputs)), x)
    check_full_int8(result)
    assert result.report.operators[-1] == "SOFTMAX"
    check_trainable(result)


@pytest.mark.parametrize(
    "end",
    [
        lambda: layers.Softmax(),
        lambda: layers.Activation("softmax"),
        lambda: keras.ops.softmax,
        lambda: keras.activations.softmax,
    ],
    ids=["layer", "activation", "ops", "function"],
)
def test_softmax_however_it_is_written(end: Any) -> None:
    """Finds an operator of its own, whose input are the logits."""
    logits = small(None)
    model = keras.Model(logits.input, end()(logits.output))
    result = convert(model, data(8, 8, 1))
    check_full_int8(result)
    assert result.report.operators[-2:] == ("FULLY_CONNECTED", "SOFTMAX")
    assert result.report.warnings == ()
    assert read_metadata(inject_all(result.model)).loss is not None


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "options"),
    [
        ("GRU", {}),
        ("GRU", {"reset_after": False, "return_sequences": True}),
        ("LSTM", {"return_sequences": True}),
    ],
)
def test_unrolled_layers_over_a_window(kind: str, options: dict[str, bool], tmp_path: Path) -> None:
    """Nothing reads one part of the first step's SPLIT, which TensorFlow leaves in float in some conversions."""
    series = keras.Input((6, 5))
    y = getattr(layers, kind)(8, unroll=True, **options)(layers.Conv1D(6, 3, activation="relu")(series))
    model = keras.Model(series, layers.Dense(4, activation="softmax")(layers.Flatten()(y)))
    x = np.random.default_rng(0).normal(size=(60, 6, 5)).astype(np.float32)
    result, *others = (convert(model, x) for _ in range(4))
    assert {r.model.to_bytes() for r in others} == {result.model.to_bytes()}
    check_full_int8(result)
    assert "SPLIT" in result.report.operators and "DEQUANTIZE" not in result.report.operators
    assert not result.report.warnings
    port = result.report.inputs[0]
    levels = np.clip(np.rint(x[:20] / port.scale) + port.zero_point, -128, 127).astype(np.int8)
    own = [run_plain(result.model.to_bytes(), "litert", [sample[None]])[0][0] for sample in levels]
    np.testing.assert_allclose((np.array(own, float) + 128) / 256, model.predict(x[:20], verbose=0), atol=0.02)
    check_trainable(result)
    check_training_step(result, x, tmp_path / "log")


def test_nested_models() -> None:
    inner = keras.Sequential([layers.Conv2D(3, 3, name="inside"), layers.ReLU()], name="block")
    outer = keras.Sequential([keras.Input((8, 8, 1), name="image"), inner, layers.Flatten()])
    outer.add(keras.Sequential([layers.Dense(4, activation="softmax", name="fc")]))
    result = convert(outer, data(8, 8, 1))
    check_full_int8(result)
    assert {t.layer for t in read_metadata(inject_all(result.model)).trainable} == {"inside", "fc"}
    check_trainable(result)


def test_a_dozen_outputs_stay_in_order() -> None:
    inputs = keras.Input((8,))
    result = convert(keras.Model(inputs, [layers.Dense(k + 1)(inputs) for k in range(12)]), data(8))
    assert [p.shape for p in result.report.outputs] == [(1, k + 1) for k in range(12)]
    (signature,) = result.model.signatures or ()
    assert [(n, t.shape) for n, t in signature.outputs] == [(f"output_{k}", (1, k + 1)) for k in range(12)]


def test_tensorflow_is_imported_late() -> None:
    code = "import sys, tflm_zo, tflm_zo.keras_models; assert not {'tensorflow', 'keras'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.slow
def test_pretraining() -> None:
    x, y = data(8, 8, 1), np.arange(60) % 4
    weights = []
    for _ in range(2):
        keras.utils.set_random_seed(5)
        model = small()
        keras_models.pretrain(model, x, y, epochs=2, seed=3)
        weights.append(model.get_weights())
    for a, b in zip(*weights, strict=True):
        np.testing.assert_array_equal(a, b)
