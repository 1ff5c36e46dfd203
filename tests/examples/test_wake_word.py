"""examples/wake_word: features are ESPHome's, and the voice wakes the model that it did not wake before."""

import importlib.util
import json
import os
import shutil
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from examples.programs import path_of, program, run
from tflm_zo import load_model

MODEL = (
    Path(os.environ.get("TFLM_ZO_MODELS") or "none") / "wild" / "micro-wake-word-models-models__v2__okay_nabu.tflite"
)
needs_frontend = pytest.mark.skipif(
    importlib.util.find_spec("pymicro_features") is None,
    reason="NO pymicro-features (pip install pymicro-features): NO FEATURES OF WAKE WORDS WERE COMPUTED",
)


@pytest.fixture(scope="module")
def example() -> ModuleType:
    return program("wake_word")


def test_noise_has_its_level(example: ModuleType) -> None:
    random = np.random.default_rng(1)
    speech = np.sin(np.arange(32_000) / 7) * 100
    quiet = example.in_noise(speech, 60, 0.5, 0.25, random).astype(float)
    assert len(quiet) == 44_000
    assert np.abs(quiet[:8_000]).max() < 50 and np.sqrt((quiet[8_000:40_000] ** 2).mean()) == pytest.approx(
        3000, rel=0.01
    )
    loud = example.in_noise(speech, 0, 0.5, 0.25, random).astype(float)
    assert loud[:8_000].std() == pytest.approx(3000, rel=0.05)


def test_a_manifest_is_that_of_version_2(example: ModuleType) -> None:
    found = example.manifest("okay nabu", 30_720)
    assert (found["type"], found["version"], found["model"]) == ("micro", 2, "wake_word.tflite")
    assert found["wake_word"] == "Okay Nabu" and found["micro"]["feature_step_size"] == 10


@pytest.fixture
def false_accepts(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(path_of("wake_word").parent)
    return importlib.import_module("false_accepts")


def test_an_accept_counts_once(false_accepts: ModuleType) -> None:
    means = np.zeros(300)
    means[10:20] = means[50:60] = means[70] = means[200] = 250.0
    # The first ones come in the first second, and those at 70 in the second after an accept.
    assert false_accepts.accepts(means) == 2
    assert false_accepts.accepts(np.full(300, 247.9)) == 0


def test_a_stream_has_its_level(false_accepts: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(false_accepts, "STREAM", 10)
    random = np.random.default_rng(1)
    speech = (np.sin(np.arange(24_000) / 7) for _ in range(100))
    for kind, level in ((0, 10.0), (1, 20.0)):
        sound, spoken = false_accepts.stream(kind, level, speech, random)
        assert len(sound) == 160_000 and 3 <= spoken <= 6
        energy = 3000**2 * (24_000 * spoken / 160_000 + 10 ** (-level / 10))
        assert (sound.astype(float) ** 2).mean() == pytest.approx(energy, rel=0.1)


@needs_frontend
def test_features_are_those_of_tensorflow(example: ModuleType) -> None:
    """Compares them with TensorFlow's own operator of the audio microfrontend, with the parameters of microWakeWord."""
    tensorflow = pytest.importorskip("tensorflow")
    from tensorflow.lite.experimental.microfrontend.python.ops import audio_microfrontend_op

    random = np.random.default_rng(2)
    samples = (random.normal(size=16_000) * np.linspace(50, 6_000, 16_000)).astype(np.int16)
    found = example.features_of(samples)
    raw = audio_microfrontend_op.audio_microfrontend(
        tensorflow.constant(samples),
        sample_rate=16_000,
        window_size=30,
        window_step=10,
        num_channels=40,
        upper_band_limit=7_500,
        lower_band_limit=125,
        enable_pcan=True,
        min_signal_remaining=0.05,
        out_scale=1,
        out_type=np.uint16,
    ).numpy()
    expected = np.clip((256 * raw.astype(int) + 333) // 666 - 128, -128, 127)
    rows = min(len(found), len(expected))
    assert rows > 90 and found.shape[1] == 40
    # Their Fourier transforms round a few values in other ways.
    assert np.mean(found[:rows] == expected[:rows]) > 0.99


@pytest.mark.slow
@needs_frontend
@pytest.mark.skipif(shutil.which("espeak-ng") is None, reason="NO espeak-ng: NO WAKE WORD WAS SPOKEN")
@pytest.mark.skipif(not MODEL.is_file(), reason="TFLM_ZO_MODELS HAS NO wild/: NO WAKE WORD WAS FINE-TUNED")
def test_the_voice_wakes_it(tmp_path: Path) -> None:
    done = run("wake_word", MODEL, "-o", tmp_path)
    assert done.returncode == 0, done.stderr
    rows = [[cell.strip() for cell in line.split("│")[1:-1]] for line in done.stdout.splitlines() if "│" in line]
    wakes = {row[0]: tuple(map(int, row[1:4])) for row in rows}
    assert wakes["this voice, slow and in noise"][1] <= 2 and wakes["this voice, slow and in noise"][2] >= 16
    assert wakes["other sentences of it"][2] == 0
    assert wakes["other voices"][2] >= wakes["other voices"][1] - 2
    assert wakes["their other sentences"][2] <= wakes["their other sentences"][1]
    assert "the same bits as in TFLM's interpreter" in done.stdout
    names = {op.code.name for op in load_model(tmp_path / "wake_word.tflite").subgraphs[0].operators}
    assert {"CALL_ONCE", "VAR_HANDLE", "READ_VARIABLE", "ASSIGN_VARIABLE"} <= names
    assert json.loads((tmp_path / "wake_word.json").read_text())["model"] == "wake_word.tflite"
