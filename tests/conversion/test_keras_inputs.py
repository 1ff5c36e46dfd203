"""Sources of conversion: files, signatures, data of every form; and what is refused in one sentence."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from helpers.commands import refused
from helpers.interpreters import run_plain
from helpers.keras_networks import check_full_int8, check_trainable, data, keras, layers, small, tf, two_inputs
from tflm_zo.conversion import convert
from tflm_zo.converters import ConversionError, load_model
from tflm_zo.io.errors import DataError

pytestmark = pytest.mark.usefixtures("keras_seed")


@pytest.mark.slow
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
        run_plain(result.model.to_bytes(), "litert", inputs), run_plain(expected.to_bytes(), "litert", inputs)
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
    logits, probabilities = run_plain(result.model.to_bytes(), "litert", [x])
    # 1/256 per step from -128, for all logits.
    assert probabilities.astype(int).sum() == pytest.approx(256 - 4 * 128, abs=3)
    assert logits.argmax() == probabilities.argmax()
    tf.saved_model.save(module, tmp_path / "b", signatures={"other": module.run})
    with pytest.raises(ConversionError, match="no signature serving_default, but 'other'"):
        convert(tmp_path / "b", data(8))


def test_targets_that_are_no_classes(tmp_path: Path) -> None:
    np.savez(tmp_path / "x.npz", x=data(8, 8, 1), y=np.linspace(0, 1, 60))
    report = convert(small(None, 1), tmp_path / "x.npz").report
    assert report.float_accuracy is None and report.int8_accuracy is None
    (warning,) = report.warnings
    assert warning.startswith("accuracy not measured: y is float64; labels are integers")


def test_data_without_a_range_are_warned_about() -> None:
    (warning,) = convert(small(), np.zeros((60, 8, 8, 1))).report.warnings
    assert warning == "representative data of input `image`: every value is 0, which tells no range"


@pytest.mark.slow
def test_the_command(tmp_path: Path) -> None:
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
        ("bad.keras", "x.npz", "error: layer `norm`: "),
        ("good.keras", "nan.npz", "nan.npz: x contains NaN or infinity"),
        ("x.npz", "x.npz", "expected a .keras or .h5 file"),
    ):
        refused(tmp_path / "out", *arguments(model, source), said=message)
    # A process of its own, so that the output of TensorFlow's C++ code would show.
    command = [sys.executable, "-c", "from tflm_zo.cli import app; app()", *arguments("good.keras", "x.npz")]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0 and done.stderr == ""
    report = json.loads(done.stdout)
    assert report["operators"][-1] == "SOFTMAX" and report["int8_accuracy"] is not None
    (written,) = load_model(tmp_path / "out" / "m.tflite").subgraphs[0].inputs
    assert (written.name, written.type_name) == ("image", "INT8")


def test_few_samples_are_warned_about() -> None:
    assert "only 5 representative samples" in convert(small(), data(8, 8, 1, samples=5)).report.warnings[0]


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
    for model, message in [
        (tmp_path / "text.keras", "cannot be read as a Keras model"),
        (tmp_path, "expected a .keras or .h5 file or a SavedModel folder"),
        (3, "`model` must be a Keras model or a path. Received: int"),
        (keras.Sequential([layers.Dense(3)]), r"does not know its inputs; .* keras.Model\(x, model\(x\)\)"),
        (keras.Model(inputs, pooled), r"`image` has shape \[None, None, 8, 1\]"),
        (keras.Model(integers, embedded), "`tokens` is int32"),
    ]:
        with pytest.raises(ConversionError, match=message):
            convert(model, x)
    with pytest.raises(FileNotFoundError):
        convert(tmp_path / "missing.keras", x)


class Doubled(layers.Layer):  # type: ignore[misc]
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
