"""Float32 .tflite files become full-int8 models that can be trained."""

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from helpers.commands import refused, result_of, run
from helpers.interpreters import run_plain
from helpers.keras_networks import check_full_int8, check_trainable, data, keras, layers, small, tf, two_inputs
from tflm_zo.conversion import convert, quantize
from tflm_zo.converters import ConversionError, Model, load_model
from tflm_zo.io.errors import DataError
from tflm_zo.training import Trainer, algorithms

pytest.importorskip(
    "ai_edge_quantizer",
    reason="NO ai-edge-quantizer (pip install 'tflm_zo[quantizer]'): NO FLOAT .tflite WAS QUANTIZED",
)
pytestmark = pytest.mark.usefixtures("keras_seed")


def floats(model: Any) -> bytes:
    """Converts a Keras model, whose batch is not fixed, to TensorFlow's float32 .tflite."""
    return bytes(tf.lite.TFLiteConverter.from_keras_model(model).convert())


def test_it_computes_what_the_float_model_computes() -> None:
    model, x = small(), data(8, 8, 1)
    made = floats(model)
    assert "SHAPE" in [op.code.name for op in load_model(made).subgraphs[0].operators]
    result = quantize(made, x)
    check_full_int8(result)
    assert result.report.operators == ("CONV_2D", "MAX_POOL_2D", "RESHAPE", "FULLY_CONNECTED", "SOFTMAX")
    assert result.report.warnings == ()
    check_trainable(result)
    port, out = result.report.inputs[0], result.report.outputs[0]
    expected = model.predict(x, verbose=0)
    for sample, wanted in zip(x, expected, strict=True):
        levels = np.clip(np.rint(sample[None] / port.scale) + port.zero_point, -128, 127).astype(np.int8)
        (found,) = run_plain(result.model.to_bytes(), "litert", [levels])
        np.testing.assert_allclose((found[0].astype(float) - out.zero_point) * out.scale, wanted, atol=0.03)


def test_ranges_are_those_that_tensorflows_converter_finds() -> None:
    """Finds the extremes of the data. Values outside of the quantizer's moving averages would saturate."""
    model, x = small(), data(8, 8, 1)
    found, other = (r.model.subgraphs[0] for r in (quantize(floats(model), x), convert(model, x)))
    for a, b in zip(found.operators, other.operators, strict=True):
        for t, u in zip([*a.inputs[:1], a.outputs[0]], [*b.inputs[:1], b.outputs[0]], strict=True):
            assert t is not None and u is not None
            assert t.quantization is not None and u.quantization is not None
            np.testing.assert_allclose(t.quantization.scales, u.quantization.scales, rtol=1e-4)
            assert abs(t.quantization.zero_point - u.quantization.zero_point) <= 1
    assert [t.name for t in (*found.inputs, *found.outputs)] == ["image", "output_0"]


def test_the_same_data_give_the_same_bytes() -> None:
    made, x = floats(small()), data(8, 8, 1)
    assert quantize(made, x).model.to_bytes() == quantize(load_model(made), x).model.to_bytes()


@pytest.mark.slow
def test_it_is_trained_from_the_command_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    datasets = pytest.importorskip("sklearn.datasets", reason="NO scikit-learn: NOTHING WAS TRAINED")
    x, y = datasets.load_digits(return_X_y=True)
    x = (x.reshape(-1, 8, 8, 1) / 16).astype(np.float32)
    model = small(classes=10)
    model.compile("adam", "sparse_categorical_crossentropy")
    model.fit(x[:1000], y[:1000], epochs=15, verbose=0)
    monkeypatch.chdir(tmp_path)
    Path("float.tflite").write_bytes(floats(model))
    turned = np.rot90(x, axes=(1, 2))
    np.savez("calibration.npz", x=x[:300], y=y[:300])
    np.savez("adapt.npz", x=turned[:1000], y=y[:1000])
    np.savez("test.npz", x=turned[1000:], y=y[1000:])
    report = result_of("convert", "float.tflite", "calibration.npz", "-o", "model.tflite")
    assert report["float_accuracy"] > 0.85 and abs(report["int8_accuracy"] - report["float_accuracy"]) < 0.05
    before = result_of("evaluate", "model.tflite", "test.npz")["accuracy"]
    run("train", "model.tflite", "adapt.npz", "-o", "trained.tflite", "--batch-size", "16", "--epochs", "15")
    after = result_of("evaluate", "trained.tflite", "test.npz")["accuracy"]
    assert before < 0.35 and after > before + 0.3


def test_options_of_keras_models_are_those_of_float_models(tmp_path: Path) -> None:
    made, x = floats(small()), data(8, 8, 1)
    dense = ("FULLY_CONNECTED", -2)
    scales = {
        per_channel: _filter(quantize(made, x, per_channel_dense=per_channel).model, *dense)
        for per_channel in (True, False)
    }
    assert (scales[True], scales[False]) == (4, 1)
    wide = quantize(made, x, activation_headroom=0.5, classes=6, batch=2)
    plain = quantize(made, x).model.subgraphs[0].operators[0].outputs[0].quantization
    own = wide.model.subgraphs[0].operators[0].outputs[0].quantization
    assert own is not None and plain is not None and own.scale == pytest.approx(1.5 * plain.scale)
    assert wide.report.inputs[0].shape == (2, 8, 8, 1) and wide.report.outputs[0].shape == (2, 6)
    Trainer(wide.model, algorithms.node(batch_size=8)).fit(x, np.arange(60) % 4, steps=2)


def _filter(model: Model, kind: str, number: int) -> int:
    op = model.subgraphs[0].operators[number]
    assert op.code.name == kind
    filters = op.inputs[1]
    assert filters is not None and filters.quantization is not None
    return len(filters.quantization.scales)


def test_several_inputs_go_by_the_signatures_names() -> None:
    made = floats(two_inputs())
    signature = (load_model(made).signatures or [])[0]
    x = {name: data(*t.shape[1:], seed=len(t.shape)) for name, t in signature.inputs}
    result = quantize(made, x)
    assert len(result.report.inputs) == 2 and len(result.report.outputs) == 2
    assert {p.shape[1:] for p in result.report.inputs} == {(8, 8, 1), (5,)}
    with pytest.raises(DataError, match="z_image|a_features"):
        quantize(made, {"nothing": x[signature.inputs[0][0]]})


def test_a_file_without_a_signature_is_taken() -> None:
    model, x = load_model(floats(small())), data(8, 8, 1)
    model.signatures = None
    assert check_full_int8(quantize(model, x))


def test_labels_tell_accuracies() -> None:
    model, x = small(), data(8, 8, 1)
    labels = model.predict(x, verbose=0).argmax(1)
    report = quantize(floats(model), x, labels=labels).report
    assert report.float_accuracy == 1.0 and report.int8_accuracy is not None and report.int8_accuracy > 0.8


def test_what_is_refused(tmp_path: Path) -> None:
    x = data(8, 8, 1)
    int8 = quantize(floats(small()), x).model
    with pytest.raises(ConversionError, match=r"input .* is INT8: this takes float32 models"):
        quantize(int8, x)
    inputs = keras.Input((None, 8, 1))
    free = keras.Model(inputs, layers.GlobalAveragePooling2D()(layers.Conv2D(2, 3)(inputs)))
    with pytest.raises(ConversionError, match=r"shape \[-1, -1, 8, 1\]: sizes but for the first, the batch"):
        quantize(floats(free), x)
    with pytest.raises(DataError, match="representative data"):
        quantize(floats(small()), data(9, 9, 1))
    with pytest.raises(DataError, match="x has 60 samples, y has 3 labels"):
        quantize(floats(small()), x, labels=[1, 2, 3])
    inputs = keras.Input((8, 8, 1))
    odd = keras.Model(inputs, layers.Dense(4)(layers.Flatten()(keras.ops.sin(inputs))))
    with pytest.raises(ConversionError, match="stays float, the converter has no int8 form for it here"):
        quantize(floats(odd), x)


def test_without_the_extra_the_message_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "ai_edge_quantizer", None)
    (tmp_path / "float.tflite").write_bytes(floats(small()))
    np.save(tmp_path / "x.npy", data(8, 8, 1))
    words = ("convert", str(tmp_path / "float.tflite"), str(tmp_path / "x.npy"), "-o", str(tmp_path / "out.tflite"))
    refused(tmp_path, *words, said="pip install 'tflm_zo[quantizer]'")
