"""The drift of data: none of old data, more of data that are further away, exact from sums of devices."""

import json
from pathlib import Path

import numpy as np
import pytest

import tflm_zo as zo
from helpers.commands import invoke
from helpers.models import MODELS
from tflm_zo import DataError, RunningMoments
from tflm_zo.converters import ConversionError, Model
from tflm_zo.converters.channel_statistics import with_statistics
from tflm_zo.recalibration import channel_statistics_of, corrected_names

PLAIN = zo.load_model(MODELS["residual"]())


def data(count: int, seed: int, gain: float = 30, offset: float = 0) -> np.ndarray:
    x = offset + np.random.default_rng(seed).normal(0, gain, (count, 8, 8, 3))
    return np.clip(np.rint(x), -128, 127).astype(np.int8)


@pytest.fixture(scope="module")
def model() -> Model:
    return with_statistics(PLAIN, channel_statistics_of(PLAIN, data(300, 0)))


def test_old_data_have_none_and_others_more_the_further_they_are(model: Model) -> None:
    for count in (16, 200):
        old = [zo.drift(model, data(count, seed)).score for seed in range(1, 9)]
        gains = [zo.drift(model, data(count, 9, gain)).score for gain in (45, 60, 80)]
        offsets = [zo.drift(model, data(count, 9, 30, offset)).score for offset in (10, 20, 40)]
        assert gains == sorted(gains) and offsets == sorted(offsets)
        assert max(old) < 0.5 * gains[0] and max(old) < 0.5 * offsets[0]


def test_it_is_the_formula(model: Model) -> None:
    """recalibrate reports the same shifts of its first layer, and the shares that are not chance."""
    x = data(40, 3, 50, 10)
    found, change = zo.drift(model, x), zo.recalibrate(model, x).layers[0]
    assert list(found.layers) == corrected_names(model)
    size = np.hypot(change.mean_share**0.5 * change.mean_shift, change.deviation_share**0.5 * change.deviation_shift)
    assert found.layers[change.layer] == pytest.approx(size)
    assert found.score == np.median(list(found.layers.values())) and found.samples == 40
    one = zo.drift(model, x[:1])  # much of a sample's distance is chance
    assert one.samples == 1 and 0 <= one.score < np.inf


def test_sums_of_devices_give_the_drift_of_all_samples(model: Model) -> None:
    whole = zo.drift(model, data(48, 5, 50))
    for layer, name in enumerate(corrected_names(model)):
        total = RunningMoments(model, layer)
        for part in np.split(data(48, 5, 50), [7, 20]):
            own = RunningMoments(model, layer)
            own.add(part)
            total += own
        assert zo.drift(model, total).layers == {name: whole.layers[name]}
    with pytest.raises(DataError, match="of no sample"):
        zo.drift(model, RunningMoments(model, 0))
    with pytest.raises(DataError, match="of another model"):
        zo.drift(model, RunningMoments(PLAIN, 0))


def test_the_command(model: Model, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    model.save("m.tflite")
    PLAIN.save("plain.tflite")
    np.save("x.npy", data(30, 4, 60))
    found = zo.drift(model, "x.npy")
    told = json.loads(invoke("drift", "m.tflite", "x.npy", "--json").stdout)
    assert told == {"samples": 30, "score": found.score, "layers": found.layers}
    assert f"score {found.score:.2f} of 30 samples" in invoke("drift", "m.tflite", "x.npy").stdout
    with pytest.raises(ConversionError, match="keeps no statistics"):
        zo.drift(PLAIN, "x.npy")
    refused = invoke("drift", "plain.tflite", "x.npy")
    assert refused.exit_code == 1 and "keeps no statistics" in refused.stderr
