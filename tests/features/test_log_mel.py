"""Log-mel spectrograms against sums written out, and against known properties of tones."""

import math
from typing import Any

import numpy as np
import pytest

from tflm_zo.features import log_mel, mel_filters

RATE, FRAME, HOP = 8000, 256, 160


def tone(hertz: float, samples: int = 8000, amplitude: float = 1000.0) -> np.ndarray:
    return amplitude * np.sin(2 * np.pi * hertz * np.arange(samples) / RATE)


def written_out(signal: np.ndarray, n_mels: int, low: float, top_db: float) -> np.ndarray:
    """Computes the definition, term by term: a direct DFT, filters from the textbook's formula."""

    def mel(f: float) -> float:
        return 2595 * math.log10(1 + f / 700)

    def weight(band: int, f: float) -> float:
        step = (mel(RATE / 2) - mel(low)) / (n_mels + 1)
        a, b, c = (700 * (10 ** ((mel(low) + k * step) / 2595) - 1) for k in (band, band + 1, band + 2))
        if a <= f <= b:
            return (f - a) / (b - a)
        return (c - f) / (c - b) if b <= f <= c else 0.0

    bins = range(FRAME // 2 + 1)
    dft = np.array([[np.exp(-2j * np.pi * k * n / FRAME) for n in range(FRAME)] for k in bins])
    hann = np.array([math.sin(math.pi * n / FRAME) ** 2 for n in range(FRAME)])
    weights = np.array([[weight(m, k * RATE / FRAME) for m in range(n_mels)] for k in bins])
    starts = range(0, len(signal) - FRAME + 1, HOP)
    power = np.array([(abs(dft @ (hann * signal[s : s + FRAME])) ** 2) @ weights for s in starts])
    level = 10 * np.log10(power / power.max())
    return np.asarray(np.maximum(level, -top_db) / top_db + 1)


@pytest.mark.parametrize("dtype", [np.int16, np.float32, np.float64])
def test_against_a_direct_dft(dtype: Any) -> None:
    signal = (3000 * np.random.default_rng(0).standard_normal(1500)).astype(dtype)
    signal[700:] = (signal[700:] / 1000).astype(dtype)
    result = log_mel(signal, n_mels=15, low_hz=80, top_db=40)
    assert result.dtype == np.float32 and result.shape == (1 + (1500 - 256) // 160, 15)
    assert result.min() == 0 and result.max() == 1
    np.testing.assert_allclose(result, written_out(signal.astype(float), 15, 80, 40), atol=1e-6)


@pytest.mark.parametrize("band", range(20))
def test_a_tone_lands_in_the_band_around_it(band: int) -> None:
    low, high = (2595 * math.log10(1 + f / 700) for f in (60, 4000))
    peak = 700 * (10 ** ((low + (band + 1) * (high - low) / 21) / 2595) - 1)
    result = log_mel(tone(peak))
    assert result.shape == (49, 20)
    # Hann's main lobe is as wide as the lowest bands.
    assert np.abs(result.argmax(1) - band).max() <= (1 if band < 3 else 0)
    # Its next side lobe is 31 dB down.
    far = np.abs(np.arange(20) - band) > 4
    assert result[:, far].max() < 1 - 31 / 60


def test_energy() -> None:
    """Triangles that begin where the one before peaks add up to 1, so bands hold the spectrum's energy."""
    filters = mel_filters(sample_rate=RATE, fft_size=512, n_mels=24, low_hz=0)
    assert filters.shape == (257, 24) and filters.min() == 0
    peaks = 700 * (10 ** (np.linspace(0, 2595 * math.log10(1 + 4000 / 700), 26)[[1, 24]] / 2595) - 1)
    bins = np.arange(257) * RATE / 512
    inside = (bins >= peaks[0]) & (bins <= peaks[1])
    np.testing.assert_allclose(filters[inside].sum(1), 1)


def test_decibels_are_relative_to_the_loudest_cell() -> None:
    quiet, loud = tone(1000, amplitude=10), tone(1000, amplitude=20_000)
    np.testing.assert_allclose(log_mel(quiet), log_mel(loud), atol=1e-6)
    # A second tone 20 dB below the first one, in the same place of another band.
    steps = np.concatenate([tone(1000), tone(1000, amplitude=100.0)])
    result = log_mel(steps, top_db=50)
    np.testing.assert_allclose(result[0].max() - result[-1].max(), 20 / 50, atol=1e-3)


def test_silence_and_batches() -> None:
    noise = np.random.default_rng(1).standard_normal((2, 3, 1000))
    noise[1, 0] = 0
    result = log_mel(noise)
    assert result.shape == (2, 3, 5, 20) and not result[1, 0].any()
    np.testing.assert_array_equal(result[0, 2], log_mel(noise[0, 2]))


def test_frames_in_other_units() -> None:
    # 40 ms at 16 kHz are 640 samples, 10 ms are 160; the FFT is over 1,024.
    result = log_mel(np.ones(16_000), sample_rate=16_000, frame_ms=40, hop_ms=10, n_mels=40)
    assert result.shape == (1 + (16_000 - 640) // 160, 40)


@pytest.mark.parametrize(
    ("signal", "options", "message"),
    [
        (np.zeros(255), {}, "at least 256 samples, one frame. Received: 255"),
        (np.array(3.0), {}, r"must be numbers \[..., samples\]"),
        (np.array(["a"] * 300), {}, "must be numbers"),
        (np.array([np.nan] * 300), {}, "NaN or infinity"),
        (np.ma.masked_less(np.arange(-9, 300), 0), {}, "masked values"),
        (np.zeros(300), {"hop_ms": 0}, "`frame_ms` must"),
        (np.zeros(300), {"top_db": 0}, "top_db"),
        (np.zeros(300), {"high_hz": 5000}, "<= 4000 Hz"),
        (np.zeros(300), {"low_hz": 4000}, "low_hz"),
        (np.zeros(300), {"n_mels": 0}, "at least 1"),
        (np.zeros(300), {"n_mels": 120}, "no bin of an FFT over 256 points; choose fewer bands than 120"),
    ],
)
def test_wrong_parameters(signal: np.ndarray, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        log_mel(signal, **options)
