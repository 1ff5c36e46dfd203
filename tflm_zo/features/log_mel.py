"""Log-mel spectrograms."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray


def log_mel(
    signal: NDArray[Any],
    *,
    sample_rate: int = 8000,
    frame_ms: float = 32.0,
    hop_ms: float = 20.0,
    n_mels: int = 20,
    low_hz: float = 60.0,
    high_hz: float | None = None,
    top_db: float = 60.0,
) -> NDArray[np.float32]:
    """Log-mel spectrograms from 0 (silence) to 1 (the loudest cell of the recording).

    Frames without padding at the ends, a periodic Hann window, the power spectrum of an FFT over the next
    power of two, triangular mel filters, decibels. They are relative to the recording's own loudest cell and
    end at ``top_db`` below it, so that loudness does not matter, int8 covers a fixed range evenly, and
    silence is the zero with which convolutions pad.

    Args:
        signal: [..., samples], integers or floating point in any unit.
        sample_rate: samples a second, Hz.
        frame_ms: length of a frame, milliseconds.
        hop_ms: distance from one frame's start to the next one's, milliseconds.
        n_mels: number of mel bands.
        low_hz: frequency at which the first band begins, Hz.
        high_hz: frequency at which the last band ends, Hz; None stands for half of the sample rate.
        top_db: the floor, > 0, in decibels below the loudest cell.

    Returns:
        [..., frames, n_mels], frames = 1 + (samples - frame) // hop with both in samples. A recording of
        nothing but zeros gives zeros.

    Raises:
        ValueError: the signal is masked, has NaN or infinity, or is shorter than a frame, or a parameter
            makes no sense.
    """
    frame, hop = (round(sample_rate * ms / 1000) for ms in (frame_ms, hop_ms))
    if frame < 2 or hop < 1:
        raise ValueError(
            f"`frame_ms` must have at least 2 samples and `hop_ms` at least 1 at {sample_rate} Hz. "
            f"Received: {frame_ms:g}, {hop_ms:g}."
        )
    if not top_db > 0:
        raise ValueError(f"`top_db` must be above 0. Received: {top_db!r}.")
    if np.ma.is_masked(signal):
        raise ValueError("signal: masked values are no samples; give signal.filled(0)")
    values = np.asarray(signal)
    if values.dtype.kind not in "iuf" or values.ndim < 1:
        raise ValueError(f"`signal` must be numbers [..., samples]. Received: {values.dtype} {list(values.shape)}.")
    if values.shape[-1] < frame:
        raise ValueError(f"`signal` must have at least {frame} samples, one frame. Received: {values.shape[-1]}.")
    values = values.astype(np.float64)
    if not np.isfinite(values).all():
        raise ValueError("signal: NaN or infinity among the samples")
    fft_size = 1 << (frame - 1).bit_length()
    filters = mel_filters(sample_rate=sample_rate, fft_size=fft_size, n_mels=n_mels, low_hz=low_hz, high_hz=high_hz)
    window = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(frame) / frame)
    frames = np.lib.stride_tricks.sliding_window_view(values, frame, axis=-1)[..., ::hop, :]
    power = np.abs(np.fft.rfft(frames * window, fft_size)) ** 2 @ filters
    loudest = power.max(axis=(-2, -1), keepdims=True)
    # Silence is nowhere louder than its floor.
    relative = np.divide(power, loudest, out=np.zeros_like(power), where=loudest > 0)
    decibels = 10 * np.log10(np.maximum(relative, 10 ** (-top_db / 10)))
    return np.asarray(np.clip(1 + decibels / top_db, 0, 1), np.float32)


def mel_filters(
    *, sample_rate: int, fft_size: int, n_mels: int, low_hz: float, high_hz: float | None = None
) -> NDArray[np.float64]:
    """Returns triangles of height 1, evenly spaced on the mel scale, m = 2595 log10(1 + f / 700 Hz), each from the peak
    of the one before: [fft_size // 2 + 1, n_mels], to multiply power spectra with from the right.

    `fft_size` is the number of points of the FFT; for the other arguments see `log_mel`. Raises ValueError if the edges
    are not 0 <= low < high <= half of the sample rate, or the FFT cannot tell that many bands apart.
    """
    high = sample_rate / 2 if high_hz is None else high_hz
    if not 0 <= low_hz < high <= sample_rate / 2:
        raise ValueError(
            f"`low_hz` and `high_hz` must be 0 <= low < high <= {sample_rate / 2:g} Hz. Received: {low_hz:g}, {high:g}."
        )
    if n_mels < 1:
        raise ValueError(f"`n_mels` must be at least 1. Received: {n_mels}.")
    low_mel, high_mel = (2595 * np.log10(1 + f / 700) for f in (low_hz, high))
    edges = 700 * (10 ** (np.linspace(low_mel, high_mel, n_mels + 2) / 2595) - 1)
    bins = np.fft.rfftfreq(fft_size, 1 / sample_rate)[:, None]
    rising = (bins - edges[:-2]) / (edges[1:-1] - edges[:-2])
    falling = (edges[2:] - bins) / (edges[2:] - edges[1:-1])
    filters: NDArray[np.float64] = np.maximum(0, np.minimum(rising, falling))
    empty = np.flatnonzero(filters.sum(0) == 0)
    if len(empty):
        raise ValueError(
            f"n_mels: band {empty[0]} holds no bin of an FFT over {fft_size} points; "
            f"choose fewer bands than {n_mels} or a longer frame"
        )
    return filters
