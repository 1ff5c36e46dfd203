"""Real models: recalibrated ones run in every runtime with the same bits, and learn their tasks."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from helpers.examples import REAL_MODELS
from helpers.interpreters import require, run_plain
from tflm_zo.conversion import convert
from tflm_zo.converters import load_model
from tflm_zo.firmware.arena import recorded
from tflm_zo.recalibration import Recalibration, recalibrate
from tflm_zo.recalibration.walk import corrected_layers

DATA = os.environ.get("TFLM_ZO_DATA")


@pytest.mark.parametrize("read", REAL_MODELS)
def test_weights_operators_arena_and_bits(read: Callable[[], bytes]) -> None:
    require("tflm")
    plain = read()
    model = load_model(plain)
    shape = model.subgraphs[0].inputs[0].shape[1:]
    rng = np.random.default_rng(1)
    # Smooth, as real samples are: their sums over a receptive field do not vanish.
    smooth = rng.normal(0, 30, (24, *[1] * len(shape))) + rng.normal(0, 25, (24, *shape))
    old, new = (np.clip(np.rint(a), -128, 127).astype(np.int8) for a in (smooth[:16], 0.7 * smooth[16:] + 10))
    result = recalibrate(model, new, source=old, runtime="litert")
    assert sum(layer.corrected for layer in result.layers) > 0 or result.uneven
    for a, b in zip(corrected_layers(model), corrected_layers(result.model), strict=True):
        assert a.inputs[1].numpy().tobytes() == b.inputs[1].numpy().tobytes()
        assert a.inputs[1].quantization.scales.shape == b.inputs[1].quantization.scales.shape
    data = result.model.to_bytes()
    after, before = recorded([load_model(data), model]) or ()
    assert after["total"] == before["total"]
    for i in range(2):
        outputs = [run_plain(data, r, [new[i : i + 1]])[0] for r in ("litert", "tflm")]
        assert np.array_equal(*outputs)


@pytest.fixture(scope="module")
def resnet() -> tuple[bytes, Any, Any]:
    folder = os.environ.get("TFLM_ZO_MODELS")
    path = Path(folder or "") / "pretrainedResnet_quant.tflite"
    if not DATA or not folder or not path.exists():
        pytest.skip("TFLM_ZO_DATA and TFLM_ZO_MODELS name no CIFAR-10 and no ResNet-8")
    with np.load(Path(DATA) / "cifar10.npz") as arrays:
        return path.read_bytes(), arrays["x"], arrays["y"]


def levels(pixels: Any) -> Any:
    return (pixels.astype(np.int16) - 128).astype(np.int8)


def accuracy(model: bytes, x: Any, y: Any) -> float:
    import ai_edge_litert.interpreter as litert

    interpreter = litert.Interpreter(
        model_content=model,
        num_threads=1,
        experimental_op_resolver_type=litert.OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES,
    )
    interpreter.resize_tensor_input(interpreter.get_input_details()[0]["index"], x.shape)
    interpreter.allocate_tensors()
    interpreter.set_tensor(interpreter.get_input_details()[0]["index"], x)
    interpreter.invoke()
    return float(np.mean(interpreter.get_tensor(interpreter.get_output_details()[0]["index"]).argmax(1) == y))


CORRUPTIONS: dict[str, Callable[[Any], Any]] = {
    "fog": lambda x: np.round(0.4 * x + 120).astype(np.uint8),
    "dark": lambda x: np.round(255 * (x / 255) ** 4).astype(np.uint8),
    "turned": lambda x: np.pad(np.rot90(x, 1, (1, 2))[:, 4:-4], ((0, 0), (4, 4), (0, 0), (0, 0))),
    "clean": lambda x: x,
}


@pytest.mark.slow
@pytest.mark.parametrize(("name", "gain"), [("fog", 0.14), ("dark", -0.01), ("turned", 0.0), ("clean", -0.01)])
def test_resnet_8_gains_from_16_images_or_is_left_as_it_was(resnet: Any, name: str, gain: float) -> None:
    """Measures on validation images, which are not among the benchmarks' test data."""
    plain, x, y = resnet
    corrupt, source, validation = CORRUPTIONS[name], levels(x[2000:2400]), slice(3000, 3500)
    found: Recalibration = recalibrate(plain, levels(corrupt(x[:16])), source=source)
    after, before = (
        accuracy(m, levels(corrupt(x[validation])), y[validation]) for m in (found.model.to_bytes(), plain)
    )
    assert after - before >= gain
    assert found.uneven == (name == "turned")


@pytest.mark.slow
@pytest.mark.parametrize(("name", "gain"), [("clean", 0.02)])
def test_statistics_of_the_training_data_are_worth_more_than_those_of_images_at_hand(
    resnet: Any, name: str, gain: float
) -> None:
    """Gains more than images at hand: the batch norm of ResNet-8 knows that it was not trained on JPEG's CIFAR-10."""
    pytest.importorskip("tensorflow")
    path = Path(os.environ["TFLM_ZO_MODELS"]) / "pretrainedResnet.h5"
    if not path.exists():
        pytest.skip("TFLM_ZO_MODELS has no pretrainedResnet.h5")
    _, x, y = resnet
    known, samples = x[2000:2300].astype(np.float32), levels(CORRUPTIONS[name](x[:16]))
    plain = convert(path, known).model
    test, labels = levels(CORRUPTIONS[name](x[3000:3500])), y[3000:3500]
    trained, at_hand = (
        accuracy(recalibrate(plain, samples, source=source).model.to_bytes(), test, labels) for source in (None, known)
    )
    assert trained - at_hand >= gain
