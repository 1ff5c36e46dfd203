"""Scenarios of the demo: a classification task and a shift of its data."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from ..data import read_arrays

DEGREES = 45


@dataclass(frozen=True)
class Scenario:
    """The original domain of a network, and the new domain after its deployment."""

    title: str  #: title of one line
    old: str  #: the old domain in a word or two
    new: str  #: the new domain in a word or two
    build: Callable[[], Any]  #: function that builds the untrained Keras model
    epochs: int  #: number of epochs of pre-training
    pretrain: tuple[NDArray[Any], NDArray[Any]]  #: (x, y) of the old domain
    upright: tuple[NDArray[Any], NDArray[Any]]  #: (x, y) of the old domain, test
    adapt: tuple[NDArray[Any], NDArray[Any]]  #: (x, y) of the new domain, for training on the device
    test: tuple[NDArray[Any], NDArray[Any]]  #: (x, y) of the new domain, test
    budget: int  #: budget of adaptation, forward equivalents


def rotated(x: NDArray[Any]) -> NDArray[Any]:
    """Rotates images counter-clockwise by 45 degrees, float32 [samples, height, width, channels]."""
    from scipy.ndimage import rotate

    turned: NDArray[Any] = rotate(x, DEGREES, axes=(2, 1), reshape=False, order=1)
    return turned.astype(np.float32)


def digits() -> Scenario:
    """Returns scikit-learn's 8 x 8 digits: 900 to pre-train, 500 to adapt, 397 to test."""
    from sklearn.datasets import load_digits

    from ..keras_models import digits_cnn

    data = load_digits()
    return _rotation("scikit-learn's digits", digits_cnn, 40, _shuffled(data.images, data.target, 16), 900, 1400)


def _shuffled(images: NDArray[Any], labels: NDArray[Any], most: int) -> tuple[NDArray[np.float32], NDArray[np.int32]]:
    """Returns images of 0..most as 0..1, and labels, in a fixed random order."""
    order = np.random.default_rng(0).permutation(len(labels))
    return (images[order, ..., None] / most).astype(np.float32), labels[order].astype(np.int32)


def _rotation(
    title: str, build: Callable[[], Any], epochs: int, data: tuple[NDArray[Any], NDArray[Any]], adapt: int, test: int
) -> Scenario:
    """Returns a scenario of images that are rotated from number `adapt` on, and tested from number `test` on."""
    x, y = data
    return Scenario(
        title=f"{title}, rotated by {DEGREES} degrees",
        old="upright",
        new="rotated",
        build=build,
        epochs=epochs,
        pretrain=(x[:adapt], y[:adapt]),
        upright=(x[test:], y[test:]),
        adapt=(rotated(x[adapt:test]), y[adapt:test]),
        test=(rotated(x[test:]), y[test:]),
        budget=100_000,
    )


def load_mnist() -> tuple[NDArray[np.float32], NDArray[np.int32]]:
    """Loads MNIST's 10,000 test images in a fixed random order, on which all splits are based: x float32 [10000, 28,
    28, 1], 0..1, and y int32 [10000]. It reads mnist10k.npz (x uint8 [10000, 28, 28], y) in the folder TFLM_ZO_DATA, or
    uses Keras' loader.
    """
    folder = os.environ.get("TFLM_ZO_DATA")
    path = Path(folder) / "mnist10k.npz" if folder else None
    if path is not None and path.is_file():
        arrays = read_arrays(path)
        images, labels = arrays["x"], arrays["y"]
    else:
        import keras

        _, (images, labels) = keras.datasets.mnist.load_data()
    return _shuffled(images, labels, 255)


def mnist() -> Scenario:
    """Returns MNIST: 7,000 to pre-train, 1,000 to adapt, 1,000 to test."""
    from ..keras_models import lenet5

    x, y = load_mnist()
    rest = slice(7000, 8000)  # of `benchmarks/pretraining`
    return _rotation("MNIST", lenet5, 5, (np.delete(x, rest, 0), np.delete(y, rest, 0)), 7000, 8000)


def fsdd(speaker: str | None = None) -> Scenario:
    """Returns spoken digits of five speakers and of a new sixth one, `speaker` or the last one of the file, from
    fsdd.npz in the folder TFLM_ZO_DATA. Five speakers: takes 5 and up to pre-train, takes 0-4 to test. The sixth: 128
    utterances from takes 0-19 to adapt, takes 20 and up to test.
    """
    from ..features import log_mel
    from ..keras_models import ds_cnn

    recordings = read_spoken_digits()
    signal, y, take, names = recordings.signal, recordings.digit, recordings.take, recordings.speakers
    x = np.concatenate([log_mel(signal[i : i + 250]) for i in range(0, len(signal), 250)])[..., None]
    sixth = names[-1] if speaker is None else speaker
    if sixth not in names:
        raise ValueError(f"no speaker {sixth!r}; there are {', '.join(names)}")
    is_new = recordings.speaker == names.index(sixth)
    random = np.random.default_rng(0)
    candidates = np.flatnonzero(is_new & (take < 20))
    parts = {
        # In random order: its beginning calibrates the quantization.
        "pretrain": random.permutation(np.flatnonzero(~is_new & (take >= 5))),
        "upright": np.flatnonzero(~is_new & (take < 5)),
        "adapt": np.random.default_rng(0).choice(candidates, min(128, len(candidates)), replace=False),
        "test": np.flatnonzero(is_new & (take >= 20)),
    }
    for name, part in parts.items():
        if not len(part):
            raise ValueError(f"the spoken digits hold no utterance for {name!r}: too few speakers or takes")
    return Scenario(
        title=f"spoken digits, a speaker never heard before ({sixth})",
        old=f"on {len(names) - 1} known speakers",
        new="on the new one",
        # 49 frames of 20 mel bands.
        build=lambda: ds_cnn((*x.shape[1:3], 1), classes=10, filters=24, blocks=3, stride=(4, 2)),
        epochs=20,
        **{name: (x[part], y[part]) for name, part in parts.items()},
        budget=20_000,
    )


SCENARIOS: dict[str, Callable[[], Scenario]] = {"digits": digits, "mnist": mnist, "fsdd": fsdd}
"""The scenarios by name."""


_FILE: Final = "fsdd.npz"
_SAMPLES: Final = 8000
_FORMAT: Final = (
    f"x int16 [n, {_SAMPLES}] (8 kHz, zero-padded to 1 s), y [n] (digit), speaker [n] (index into speakers), "
    "take [n], speakers (names)"
)
_SOURCE: Final = "github.com/Jakobovski/free-spoken-digit-dataset"


@dataclass(frozen=True)
class SpokenDigits:
    """Recordings of one spoken digit each."""

    signal: NDArray[np.int16]  #: int16 [recordings, 8000], one second at 8 kHz, zero-padded at the end
    digit: NDArray[np.int32]  #: spoken digit, 0..9, int32 [recordings]
    speaker: NDArray[np.int32]  #: int32 [recordings], index into ``speakers``
    take: NDArray[np.int32]  #: int32 [recordings], number of the repetition of this digit by this speaker, from 0
    speakers: tuple[str, ...]  #: names of the speakers, by number


def read_spoken_digits() -> SpokenDigits:
    """Reads fsdd.npz in the folder of the environment variable TFLM_ZO_DATA. FileNotFoundError describes a missing file
    and its source; ValueError: the file is not in that format.
    """
    folder = os.environ.get("TFLM_ZO_DATA")
    path = Path(folder or ".") / _FILE
    if not folder or not path.is_file():
        where = f"{path} does not exist" if folder else "TFLM_ZO_DATA is not set"
        raise FileNotFoundError(
            f"{where}: the spoken digits are read from {_FILE} in the folder TFLM_ZO_DATA, with the arrays "
            f"{_FORMAT}; make it from the recordings of {_SOURCE}"
        )
    arrays = read_arrays(path)
    if missing := {"x", "y", "speaker", "take", "speakers"} - arrays.keys():
        raise ValueError(f"{path}: no array {', '.join(sorted(missing))}; expected {_FORMAT}")
    x, names = arrays["x"], arrays["speakers"]
    if x.dtype != np.int16 or x.ndim != 2 or x.shape[1] != _SAMPLES:
        raise ValueError(f"{path}: expected x int16 [n, {_SAMPLES}], got {x.dtype} {list(x.shape)}")
    for name, end in (("y", 10), ("speaker", len(names)), ("take", 2**31)):
        values = arrays[name]
        if values.dtype.kind not in "iu" or values.shape != x.shape[:1]:
            raise ValueError(f"{path}: expected {name} integers [{len(x)}], got {values.dtype} {list(values.shape)}")
        if len(values) and not 0 <= int(values.min()) <= int(values.max()) < end:
            raise ValueError(f"{path}: expected {name} in 0..{end - 1}, got {values.min()}..{values.max()}")
    digit, speaker, take = (arrays[name].astype(np.int32) for name in ("y", "speaker", "take"))
    return SpokenDigits(x, digit, speaker, take, tuple(map(str, names)))
