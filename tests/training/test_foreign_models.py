"""Models in the folder `wild` of TFLM_ZO_MODELS: each trains with the same bits in LiteRT and TFLM, or is refused."""

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from helpers.interpreters import require
from tflm_zo.converters import ConversionError, load_model, read_metadata
from tflm_zo.converters.states import is_streaming
from tflm_zo.runtime import Runtime, load
from tflm_zo.training import Trainer
from tflm_zo.training.injection import trainable_model

FOLDER = Path(os.environ.get("TFLM_ZO_MODELS") or ".") / "wild"
pytestmark = [
    pytest.mark.skipif(not FOLDER.is_dir(), reason="TFLM_ZO_MODELS HAS NO FOLDER `wild` OF FOREIGN MODELS"),
    pytest.mark.filterwarnings("ignore"),
]

NO_LOSS = "`loss` must be .*`binary_cross_entropy` or `mse`, because output"
MSE = {"loss": "mse"}
WAKE = "micro-wake-word-models-"

# Of each file why it is refused at the defaults, or "", and the settings with which it trains, or None.
TABLE: dict[str, tuple[str, dict[str, Any] | None]] = {
    "mlonmcu-models-CNN_full_quantized": (NO_LOSS, MSE),
    "openmv-blazeface_front_128": (NO_LOSS, MSE),
    "openmv-face_landmarks_192": (
        r"`loss` must be `cross_entropy`, `binary_cross_entropy` or `mse`, .* fits several\. Received: 'auto'\.$",
        MSE,
    ),
    "openmv-force_int_quant": (NO_LOSS, MSE),
    "openmv-yolo_lc_192": (NO_LOSS, MSE),
    "tflite-micro-conv0": (NO_LOSS, MSE),
    "tinyengine-detection": (NO_LOSS, MSE),
    "made/maxpool_scale": ("MAX_POOL_2D `pool`: .*which TFLM's kernel does not convert; convert the model", None),
    "made/softmax_scale": ("SOFTMAX `softmax`: .*TFLM's kernel always gives 1/256 and -128; convert", None),
    "made/two_subgraphs": ("`signature` must name one of 2 subgraphs: `main`, `second`", {"signature": "second"}),
}
# Noise hardly changes the output of the first, and scrambled biases saturate the others: no loss may differ.
CONSTANT = {f"{WAKE}hey_jarvis", "tflite-micro-keyword_scrambled", "tflite-micro-keyword_scrambled_8bit"}
TRAINED = {
    *CONSTANT,
    *(f"{WAKE}models__v2__okay_nabu", f"{WAKE}okay_nabu", f"{WAKE}vad"),
    *("test_data-keras_lstm_mnist_ptq", "tflite-micro-micro_speech_lstm", "tflite-micro-trained_lstm_int8"),
    *("ai-edge-quantizer-conv_fc_mnist_srq_a8w8", "mlonmcu-models-bigsine_quant"),
    *("mlonmcu-models-rnnoise_INT8", "tiny-str_ww_ref_model", "tinyengine-ptq_mnist_lenet-300-100"),
    *("tinyengine-vww", "made/argmax_end", "made/bias_scale", "made/context_input_no_softmax"),
    *("made/dead_channel_scale_0", "made/dead_channel_scale_tiny", "made/dilated"),
    *("made/duplicate_filter_names", "made/dynamic_batch", "made/empty_names", "made/fc_rank3_keep_dims"),
    *("made/grouped_conv", "made/ok_small_cnn", "made/okay_nabu_v2_state_as_ports", "made/softmax_600"),
    *("made/softmax_600_flat", "made/stale_signature", "made/unused_float_tensor"),
    *("made/softmax_per_step", "made/weights_minus_128", "made/zip_at_end", "openmv-fomo_face_detection"),
}
TABLE |= dict.fromkeys(sorted(TRAINED), ("", {}))
SLOW = {
    *("openmv-blazeface_front_128", "openmv-face_landmarks_192", "openmv-fomo_face_detection"),
    *("mlonmcu-models-CNN_full_quantized", "tinyengine-detection", "tinyengine-vww", "openmv-yolo_lc_192"),
    *("mlonmcu-models-bigsine_quant", "made/softmax_per_step", "made/okay_nabu_v2_state_as_ports"),
}


def test_every_file_is_in_the_table() -> None:
    found = {str(path.relative_to(FOLDER).with_suffix("")) for path in FOLDER.rglob("*.tflite")}
    assert found == {*TABLE}


def samples(runtime: Runtime, rng: np.random.Generator, many: tuple[int, ...]) -> tuple[list[np.ndarray], np.ndarray]:
    """Draws samples of each input over its range, four or four sequences, and labels or targets of the loss."""
    inputs = []
    for i in range(len(runtime.metadata.original.inputs)):
        shape, dtype, _, _ = runtime.input_details(i)
        whole = (*many, *shape[1:])
        largest = 32768 if dtype == np.int16 else 128
        drawn = rng.normal(size=whole) if dtype.kind == "f" else rng.integers(-largest, largest, whole)
        inputs.append(drawn.astype(dtype))
    loss = runtime.metadata.loss
    assert loss is not None
    if loss.of_classes:
        return inputs, rng.integers(-1, loss.classes, (4, loss.places) if loss.places > 1 else 4)
    targets = rng.normal(size=(4, loss.elements)).astype(np.float32)
    return inputs, targets if loss.kind == "mse" else (targets > 0).astype(np.int32)


@pytest.mark.parametrize("name", [pytest.param(n, marks=[pytest.mark.slow] * (n in SLOW)) for n in TABLE])
def test_trains_with_the_same_bits_or_is_refused(name: str, tmp_path: Path) -> None:
    require("tflm")
    refused, settings = TABLE[name]
    model = load_model(FOLDER / f"{name}.tflite")
    if refused:
        with pytest.raises(ConversionError, match=refused):
            trainable_model(model, None, batch=1)
    if settings is None:
        return
    zo, run = trainable_model(model, None, batch=1, **settings)
    assert read_metadata(zo).trainable
    found, streams = [], is_streaming(model)
    for runtime in ("litert", "tflm"):
        inputs, labels = samples(load(zo, runtime), np.random.default_rng(1), (4, 6) if streams else (4,))
        trainer, log = Trainer(zo, run, runtime=runtime), tmp_path / runtime
        trainer.fit(inputs if len(inputs) > 1 else inputs[0], labels, steps=12 if streams else 2, log=log, keep="last")
        weights = {key: value.tobytes() for key, value in trainer.runtime.read_weights().items()}
        found.append((log.read_bytes(), weights))
    assert found[0] == found[1]
    initial = load(zo, "litert").read_weights()
    moved = any(initial[key].tobytes() != value for key, value in found[0][1].items())
    assert moved or name in CONSTANT
