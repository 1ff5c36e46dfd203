# SPDX-License-Identifier: Apache-2.0
"""Keras models become full-int8 models that can be trained."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from helpers.injection import inject_all
from helpers.interpreters import random_inputs, run_plain
from tflm_zo import keras_models
from tflm_zo.cli import app
from tflm_zo.converters import (
    ConversionError,
    ConversionResult,
    Model,
    convert,
    initial_weights,
    load_model,
    read_metadata,
)
from tflm_zo.converters.errors import DataError
from tflm_zo.logs import SeedLog
from tflm_zo.runtime import available, load
from tflm_zo.training import Settings, Trainer, Weights, replay_log

keras: Any = pytest.importorskip("keras")
tf: Any = pytest.importorskip("tensorflow")
layers: Any = keras.layers


@pytest.fixture(autouse=True)
def _seed() -> None:
    keras.utils.set_random_seed(1)


def data(*shape: int, samples: int = 60, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).uniform(-1, 1, (samples, *shape)).astype(np.float32)


def settle_batch_norm(model: Any, x: np.ndarray) -> None:
    """Random weights without statistics make activations vanish in deep networks."""
    for layer in model.layers:
        if isinstance(layer, layers.BatchNormalization):
            layer.momentum = 0.0
    model(x, training=True)


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
    runtime = load(inject_all(result.model, headroom=0), "litert-ref")
    count = len(result.model.subgraphs[0].inputs)
    inputs = random_inputs([runtime.input_details(i) for i in range(count)], 3)
    runtime.set_inputs(*inputs)
    runtime.invoke()
    outputs = runtime.outputs()
    for name in {"litert-ref", "tflm"} & set(available()):
        for a, b in zip(outputs, run_plain(plain, name, inputs), strict=True):
            np.testing.assert_array_equal(a, b)


def check_training_step(result: ConversionResult, x: np.ndarray, log: Path) -> None:
    """One step moves weights of every layer, and the log alone says where to."""
    zo = inject_all(result.model)
    trainer = Trainer(zo, Settings(tasks=(Weights(),), batch_size=2, learning_rate=4.0), runtime="litert-ref")
    history = trainer.fit(x[:2], np.array([0, 1]), steps=1, log=log, keep="last")
    assert history.forwards == 4
    before, after = initial_weights(zo), trainer.runtime.read_weights()
    replayed, _ = replay_log(zo, SeedLog.read(log))
    for name, values in after.items():
        np.testing.assert_array_equal(replayed[name], values)
        assert (before[name] != values).any()


@pytest.mark.parametrize(
    ("name", "parameters", "weights"),
    [
        ("lenet5", 61_706, 61_470),
        ("digits_cnn", 3_818, 3_784),
        ("ds_cnn", 24_908, 22_016),
        ("mobilenet_v1", 219_058, 208_112),
        ("resnet8", 78_666, 77_360),
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


def two_inputs() -> Any:
    # Names in another order than the alphabet's, two outputs.
    image, features = keras.Input((8, 8, 1), name="z_image"), keras.Input((5,), name="a_features")
    x = layers.Flatten(name="flatten")(layers.Conv2D(3, 3, activation="relu", name="conv")(image))
    y = layers.Dense(4, activation="relu", name="side")(features)
    x = layers.Concatenate(name="join")([x, y])
    ends = [layers.Dense(3, activation="softmax", name="kind")(x), layers.Dense(1, name="size")(x)]
    return keras.Model([image, features], ends)


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
    outputs = run_plain(result.model.to_bytes(), "litert-ref", quantized)
    for a, p, b in zip(outputs, result.report.outputs, model([v[:1] for v in x]), strict=True):
        np.testing.assert_allclose((a.astype(float) - p.zero_point) * p.scale, b, atol=0.1)
    with pytest.raises(DataError, match=r"the model has 2 inputs \(z_image, a_features\), got 1 array"):
        convert(model, x[0])


def test_formats_and_data_sources(tmp_path: Path, capfd: Any) -> None:
    model, x = small(), data(8, 8, 1)
    model.save(tmp_path / "m.keras")
    model.save(tmp_path / "m.h5")
    model.export(tmp_path / "folder", verbose=False)
    capfd.readouterr()
    expected = convert(model, x).model
    for path in (tmp_path / "m.keras", str(tmp_path / "m.h5")):
        assert convert(path, x).model.to_bytes() == expected.to_bytes()
    result = convert(tmp_path / "folder", x, labels=np.zeros(60, int))
    check_full_int8(result)
    check_trainable(result)
    inputs = [np.arange(64).astype(np.int8).reshape(1, 8, 8, 1)]
    np.testing.assert_array_equal(
        run_plain(result.model.to_bytes(), "litert-ref", inputs),
        run_plain(expected.to_bytes(), "litert-ref", inputs),
    )
    np.save(tmp_path / "x.npy", x)
    np.savez(tmp_path / "x.npz", x=x, y=np.zeros(60, int))
    batches = tf.data.Dataset.from_tensor_slices((x, np.zeros(60))).batch(7)
    for source in (tmp_path / "x.npy", tmp_path / "x.npz", list(x), (a[None] for a in x), batches):
        assert convert(model, source).model.to_bytes() == expected.to_bytes()
    assert convert(model, tmp_path / "x.npz").report.int8_accuracy is not None
    captured = capfd.readouterr()
    assert (captured.out, captured.err) == ("", "")
    assert convert(model, x).save(tmp_path / "m.tflite").read_bytes() == expected.to_bytes()
    with pytest.raises(FileExistsError):
        convert(model, x).save(tmp_path / "m.tflite")


def test_saved_model_with_two_inputs(tmp_path: Path) -> None:
    model = two_inputs()
    model.export(tmp_path / "folder", verbose=False)
    x = [data(8, 8, 1), 3 * data(5)]
    result = convert(tmp_path / "folder", x[::-1])
    check_full_int8(result)
    assert [p.name for p in result.report.inputs] == ["a_features", "z_image"]
    assert [p.shape for p in result.report.outputs] == [(1, 3), (1, 1)]
    check_trainable(result)


@pytest.mark.slow
def test_repeatable_in_other_processes(tmp_path: Path) -> None:
    model, x = residual(), data(8, 8, 2)
    model.save(tmp_path / "m.keras")
    np.save(tmp_path / "x.npy", x)
    code = (
        "import sys; from tflm_zo.converters import convert; "
        "convert(sys.argv[1], sys.argv[2]).save(sys.argv[3])"
    )
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
    """The old classes keep their accuracy; a name for the new ones comes with training."""
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


@pytest.mark.parametrize("make", [residual, two_inputs, small])
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
    # Outputs are what they were, but for rounding.
    rng = np.random.default_rng(1)
    inputs = [rng.integers(-100, 100, t.shape).astype(np.int8) for t in a.inputs]
    outputs = []
    for m in (narrow, wide):
        values = run_plain(m.to_bytes(), "litert-ref", inputs)
        ports = [t.quantization for t in m.subgraphs[0].outputs]
        outputs.append(
            [(v.astype(float) - p.zero_point) * p.scale for v, p in zip(values, ports, strict=True) if p]
        )
    for v, w in zip(*outputs, strict=True):
        np.testing.assert_allclose(v, w, atol=0.08)


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
    with pytest.raises(ConversionError, match=rf"^layer «culprit»: .*{operator}") as e:
        convert(keras.Model(inputs, x), data(8, 8, 1))
    assert "\n" not in str(e.value)


def test_wrong_data(tmp_path: Path) -> None:
    model, x = small(), data(8, 8, 1)
    spoiled = x.copy()
    spoiled[3, 2, 1, 0] = np.nan
    np.savez(tmp_path / "other.npz", images=x)
    (tmp_path / "text.npy").write_text("no array")
    for source, message in [
        (data(7, 8, 1), r"representative data: x: expected samples of shape \[8, 8, 1\], got \[7, 8, 1\]"),
        ([data(7, 8, 1)], r"image: expected samples of shape \[8, 8, 1\], got \[7, 8, 1\]"),
        (x[0, 0], r"expected samples of shape \[8, 8, 1\], got \[1\]"),
        (spoiled, "x contains NaN or infinity"),
        (x * 1e300, "x contains NaN or infinity"),
        (x[:0], "x is empty"),
        ([], "no samples"),
        (x.astype(str), "x is <U32, not numbers"),
        (None, "cannot use NoneType"),
        (tmp_path / "other.npz", "other.npz: no array «x»; there are: images"),
        (tmp_path / "text.npy", "text.npy: no .npz or .npy file"),
        (tmp_path / "missing.npy", "missing.npy: cannot be read: No such file"),
    ]:
        with pytest.raises(DataError, match=message):
            convert(model, source)
    with pytest.raises(DataError, match="x has 60 samples, y has 59 labels"):
        convert(model, x, labels=np.zeros(59, np.int64))
    with pytest.raises(ConversionError, match="batch must be"):
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
        (3, "expected a Keras model or a path, got int"),
        (keras.Sequential([layers.Dense(3)]), r"does not know its inputs; .* keras.Model\(x, model\(x\)\)"),
        (keras.Model(inputs, pooled), r"«image» has shape \[None, None, 8, 1\]"),
        (keras.Model(integers, embedded), "«tokens» is int32"),
        (keras.Model(series, recurrent), "layer «memory»: recurrent"),
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
        (Doubled(), "class «Doubled» is not registered here; convert the model object"),
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
    with pytest.raises(ConversionError, match=rf"layer «conv» computes in {policy[6:]}; .* policy float32"):
        convert(model, data(8, 8, 1))


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
    # What the message says to do.
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
    """It is an operator of its own, whose input are the logits."""
    logits = small(None)
    model = keras.Model(logits.input, end()(logits.output))
    result = convert(model, data(8, 8, 1))
    check_full_int8(result)
    assert result.report.operators[-2:] == ("FULLY_CONNECTED", "SOFTMAX")
    assert result.report.warnings == ()
    assert read_metadata(inject_all(result.model)).loss is not None


def test_nested_models() -> None:
    inner = keras.Sequential([layers.Conv2D(3, 3, name="inside"), layers.ReLU()], name="block")
    outer = keras.Sequential([keras.Input((8, 8, 1), name="image"), inner, layers.Flatten()])
    outer.add(keras.Sequential([layers.Dense(4, activation="softmax", name="fc")]))
    result = convert(outer, data(8, 8, 1))
    check_full_int8(result)
    assert {t.layer for t in read_metadata(inject_all(result.model)).trainable} == {"inside", "fc"}
    check_trainable(result)


def test_dictionaries() -> None:
    a, b = keras.Input((3,), name="a"), keras.Input((2,), name="b")
    ends = {"y": layers.Dense(2)(a), "x": layers.Dense(4)(layers.concatenate([a, b]))}
    model = keras.Model({"a": a, "b": b}, ends)
    x = {"b": data(2), "a": data(3)}
    result = convert(model, x, labels=np.arange(60) % 2)
    check_full_int8(result)
    assert [(p.name, p.shape) for p in result.report.inputs] == [("a", (1, 3)), ("b", (1, 2))]
    assert [(p.name, p.shape) for p in result.report.outputs] == [("y", (1, 2)), ("x", (1, 4))]
    for same in ([x["a"], x["b"]], [{"a": x["a"][i], "b": x["b"][i]} for i in range(60)]):
        assert convert(model, same).model.to_bytes() == result.model.to_bytes()
    with pytest.raises(DataError, match=r"expected arrays a, b \(or x0, x1\); there are: a"):
        convert(model, {"a": x["a"]})


def test_a_dozen_outputs_stay_in_order() -> None:
    inputs = keras.Input((8,))
    result = convert(keras.Model(inputs, [layers.Dense(k + 1)(inputs) for k in range(12)]), data(8))
    assert [p.shape for p in result.report.outputs] == [(1, k + 1) for k in range(12)]
    (signature,) = result.model.signatures or ()
    assert [(n, t.shape) for n, t in signature.outputs] == [(f"output_{k}", (1, k + 1)) for k in range(12)]


def test_saved_model_keeps_the_names_of_its_signature(tmp_path: Path) -> None:
    class Module(tf.Module):  # type: ignore[misc]
        weights = tf.constant(np.random.default_rng(0).normal(size=(8, 4)).astype(np.float32))

        @tf.function(input_signature=[tf.TensorSpec((None, 8), tf.float32, name="window")])  # type: ignore[untyped-decorator]
        def run(self, window: Any) -> dict[str, Any]:
            logits = tf.matmul(window, self.weights)
            return {"probabilities": tf.nn.softmax(logits), "logits": logits}

    module = Module()
    tf.saved_model.save(module, tmp_path / "a", signatures={"serving_default": module.run})
    result = convert(tmp_path / "a", data(8))
    check_full_int8(result)
    (signature,) = result.model.signatures or ()
    assert [n for n, _ in signature.inputs] == ["window"]
    assert [n for n, _ in signature.outputs] == ["logits", "probabilities"]
    x = np.full((1, 8), 50, np.int8)
    logits, probabilities = run_plain(result.model.to_bytes(), "litert-ref", [x])
    # 1/256 per step from -128, whatever the logits are.
    assert probabilities.astype(int).sum() == pytest.approx(256 - 4 * 128, abs=3)
    assert logits.argmax() == probabilities.argmax()
    tf.saved_model.save(module, tmp_path / "b", signatures={"other": module.run})
    with pytest.raises(ConversionError, match="no signature serving_default, but 'other'"):
        convert(tmp_path / "b", data(8))


def test_inputs_and_outputs_that_cannot_be() -> None:
    a, b = keras.Input((8,), name="a"), keras.Input((4,), name="b")
    with pytest.raises(ConversionError, match="input «b»: no output depends on it"):
        convert(keras.Model([a, b], layers.Dense(3)(a)), [data(8), data(4)])
    with pytest.raises(ConversionError, match="the model cannot be called with one sample: "):
        convert(keras.Model(a, a), data(8))


def test_labels_out_of_range() -> None:
    for labels, message in (
        (np.full(60, 4), r"label 4 is out of range: expected 0\.\.3"),
        (np.full(60, -1), "no sample has a label"),
    ):
        with pytest.raises(DataError, match=message):
            convert(small(), data(8, 8, 1), labels=labels)
    with pytest.raises(DataError, match=r"label 2 is out of range: expected 0\.\.1"):
        convert(small("sigmoid", 1), data(8, 8, 1), labels=np.full(60, 2))


def test_targets_that_are_no_classes(tmp_path: Path) -> None:
    """A file's y may be what a regression learns: the model is converted, and its accuracy is not known."""
    np.savez(tmp_path / "x.npz", x=data(8, 8, 1), y=np.linspace(0, 1, 60))
    report = convert(small(None, 1), tmp_path / "x.npz").report
    assert report.float_accuracy is None and report.int8_accuracy is None
    (warning,) = report.warnings
    assert warning.startswith("accuracy not measured: y is float64; labels are integers")


def test_data_without_a_range_are_warned_about() -> None:
    (warning,) = convert(small(), np.zeros((60, 8, 8, 1))).report.warnings
    assert warning == "representative data of input «image»: every value is 0, which tells no range"


def test_the_command(tmp_path: Path) -> None:
    """Standard output is JSON and nothing else; a failure is one line and leaves no file."""
    small().save(tmp_path / "good.keras")
    inputs = keras.Input((8, 8, 1))
    norm = layers.LayerNormalization(name="norm")(inputs)
    keras.Model(inputs, layers.Dense(4)(layers.Flatten()(norm))).save(tmp_path / "bad.keras")
    x, spoiled = data(8, 8, 1), data(8, 8, 1)
    spoiled[3, 2, 1, 0] = np.nan
    np.savez(tmp_path / "x.npz", x=x, y=np.arange(60) % 4)
    np.savez(tmp_path / "nan.npz", x=spoiled)

    def arguments(model: str, source: str) -> list[str]:
        files = [str(tmp_path / name) for name in (model, source)]
        return ["convert", *files, "-o", str(tmp_path / "out" / "m.tflite"), "--json"]

    (tmp_path / "out").mkdir()
    for model, source, message in (
        ("bad.keras", "x.npz", "error: layer «norm»: "),
        ("good.keras", "nan.npz", "nan.npz: x contains NaN or infinity"),
        ("x.npz", "x.npz", "expected a .keras or .h5 file"),
    ):
        failed = CliRunner().invoke(app, arguments(model, source))
        assert failed.exit_code == 1 and failed.stdout == ""
        (line,) = failed.stderr.splitlines()
        assert message in line
        assert not list((tmp_path / "out").iterdir())
    # A process of its own, so that what TensorFlow's C++ code prints would show.
    command = [sys.executable, "-c", "from tflm_zo.cli import app; app()", *arguments("good.keras", "x.npz")]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0 and done.stderr == ""
    report = json.loads(done.stdout)
    assert report["operators"][-1] == "SOFTMAX" and report["int8_accuracy"] is not None
    (written,) = load_model(tmp_path / "out" / "m.tflite").subgraphs[0].inputs
    assert (written.name, written.type_name) == ("image", "INT8")


def test_few_samples_are_warned_about() -> None:
    assert "only 5 representative samples" in convert(small(), data(8, 8, 1, samples=5)).report.warnings[0]


def test_without_tensorflow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tensorflow", None)
    with pytest.raises(ConversionError, match=r"pip install 'tflm_zo\[keras\]'"):
        convert("model.keras", data(8, 8, 1))


def test_tensorflow_is_imported_late() -> None:
    code = "import sys, tflm_zo, tflm_zo.keras_models; assert not {'tensorflow', 'keras'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


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
