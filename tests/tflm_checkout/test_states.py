"""Networks with states on emulated cores: log and weights of the desktop, and the arena of inference and weights."""

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from helpers.models.streaming_networks import FEATURES, lstm_network, svdf_network, with_variables
from tflm_checkout.firmware_build import Library, on
from tflm_checkout.runs import check_run
from tflm_zo import Model, load_model
from tflm_zo.converters import inject, read_metadata
from tflm_zo.converters.states import is_streaming
from tflm_zo.data import Data, Inputs, prepare
from tflm_zo.training import Exact, Settings, Weights, inject_settings

TESTED = ("cortex-m0plus-reference", "cortex-m4-cmsis_nn", "cortex-m55-cmsis_nn")
STEPS, SAMPLES, LENGTH = 3, 6, 5
WEIGHTS = Settings(tasks=(Weights(queries=2),), batch_size=2, seed=3, learning_rate=20.0)


def sequences(zo: Model, shape: tuple[int, ...], labels: int, steps: int = LENGTH) -> Data:
    rng = np.random.default_rng(3)
    many = (SAMPLES, steps) if steps > 1 else (SAMPLES,)
    dtype = Inputs(zo).input_details()[1]
    limits = np.iinfo(dtype)
    x = rng.integers(limits.min, limits.max, (*many, *shape), dtype, endpoint=True)
    return prepare(Inputs(zo), x, np.arange(SAMPLES) % labels)


@on(*TESTED)
@pytest.mark.parametrize("outputs", [1, 4])
def test_ring_buffers(outputs: int, library: Library, tmp_path: Path) -> None:
    zo = load_model(inject(with_variables(outputs, initial=5), inject_settings(WEIGHTS, batch=2)).to_bytes())
    data = sequences(zo, (1, 1, FEATURES), max(2, outputs))
    check_run(library, zo, WEIGHTS, data, STEPS, "stream", tmp_path)


@on(*TESTED)
@pytest.mark.parametrize("bits", [8, 16])
def test_svdf(bits: int, library: Library, tmp_path: Path) -> None:
    """Weights of time are trained if they are int8."""
    zo = load_model(inject(svdf_network(bits=bits), inject_settings(WEIGHTS, batch=2)).to_bytes())
    layers = ["svdf/features", *(["svdf/time"] if bits == 8 else []), "fc"]
    assert [t.layer for t in read_metadata(zo).trainable] == layers
    check_run(library, zo, WEIGHTS, sequences(zo, (FEATURES,), 4), STEPS, "svdf", tmp_path)


#: All weights, and in a layer-wise run the gates with an exact last layer.
LSTM = {
    "weights": WEIGHTS,
    "weights before an exact head": Settings(
        tasks=(Exact(), Weights(queries=2)), batch_size=2, seed=3, learning_rate=1.0
    ),
}


@on(*TESTED)
@pytest.mark.parametrize("name", LSTM)
def test_lstm(name: str, library: Library, tmp_path: Path) -> None:
    zo = load_model(inject(lstm_network(), inject_settings(LSTM[name], batch=2)).to_bytes())
    assert [t.layer for t in read_metadata(zo).trainable][::8] == ["lstm/input_gate", "fc"]
    check_run(library, zo, LSTM[name], sequences(zo, (5, FEATURES), 4, 1), STEPS, "lstm", tmp_path)


WILD = Path(os.environ.get("TFLM_ZO_MODELS") or "none") / "wild"
#: File, settings, and number of labels.
FILES: dict[str, tuple[str, Any, int]] = {
    "wake word": ("micro-wake-word-models-models__v2__okay_nabu", WEIGHTS, 2),
    "LSTM, weights behind it": ("tflite-micro-trained_lstm_int8", WEIGHTS, 10),
    "LSTM, exact head": (
        "tflite-micro-trained_lstm_int8",
        Settings(tasks=(Exact(),), batch_size=2, seed=4, learning_rate=1.0),
        10,
    ),
}


@pytest.mark.slow
@on(*TESTED)
@pytest.mark.parametrize("name", FILES)
def test_files_of_others(name: str, library: Library, tmp_path: Path) -> None:
    file, settings, labels = FILES[name]
    path = WILD / f"{file}.tflite"
    if not path.is_file():
        pytest.skip("TFLM_ZO_MODELS NAMES NO FOLDER WITH wild/: NO WAKE WORD, SVDF OR LSTM RAN")
    model = load_model(path)
    zo = load_model(inject(model, inject_settings(settings, batch=1)).to_bytes())
    data = sequences(zo, model.subgraphs[0].inputs[0].shape[1:], labels, LENGTH if is_streaming(model) else 1)
    check_run(library, zo, settings, data, STEPS, "model", tmp_path)
