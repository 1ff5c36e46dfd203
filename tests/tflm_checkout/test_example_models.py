"""Models that come with TensorFlow Lite Micro, from a checkout: injected, run, and made into firmware."""

from pathlib import Path

import numpy as np
import pytest

from helpers.commands import run
from helpers.injection import inject_all
from tflm_checkout.firmware_build import TFLM_DIR
from tflm_zo import load_model, runtime
from tflm_zo.converters import Last

if TFLM_DIR is None:
    reason = "TFLM_DIR IS NOT SET: NO MODEL OF TFLM'S WAS TRIED (a checkout of tflite-micro is needed)"
    pytestmark = pytest.mark.skip(reason=reason)

MICRO = Path(TFLM_DIR or "") / "tensorflow/lite/micro"
MODELS = {
    # Biases name dimension 3 as the quantized one, of one: LiteRT refuses the model, TFLM runs it.
    "person_detect": (MICRO / "models/person_detect.tflite", (96, 96, 1), 2),
    "micro_speech": (MICRO / "examples/micro_speech/models/micro_speech_quantized.tflite", (1960,), 4),
}


@pytest.mark.parametrize("name", MODELS)
def test_firmware_with_data(name: str, tmp_path: Path) -> None:
    path, shape, classes = MODELS[name]
    rng = np.random.default_rng(0)
    x = rng.integers(-128, 128, (6, *shape)).astype(np.int8)
    np.savez(tmp_path / "d.npz", x=x, y=np.arange(6) % classes)
    zo = tmp_path / "m.zo.tflite"
    inject_all(path, trainable=Last(1)).save(zo)
    out = tmp_path / "out"
    run("firmware", zo, "-o", out, "--data", tmp_path / "d.npz")
    assert "6 samples of d.npz" in (out / "m_zo_samples.cc").read_text()
    # The ZO model runs where the original may not, with the same outputs in both exact runtimes.
    outputs = {}
    for chosen in ("litert", "tflm"):
        loaded = runtime.load(load_model(zo), chosen)
        loaded.set_inputs(x[:1])
        loaded.invoke()
        outputs[chosen] = loaded.outputs()[0]
    np.testing.assert_array_equal(outputs["litert"], outputs["tflm"])
