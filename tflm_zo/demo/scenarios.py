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
    """The original domain of a network, and the new domain after its deployment.

    Attributes:
        title: title of one line.
        build: function that builds the untrained Keras model.
        epochs: number of epochs of pre-training.
        pretrain: (x, y) of the old domain.
        old: the old domain in a word or two.
        new: the new domain in a word or two.
        upright: (x, y) of the old domain, test.
        adapt: (x, y) of the new domain, for training on the device.
        test: (x, y) of the new domain, test.
        budget: budget of adaptation, forward equivalents.
    """

    title: str
    old: str
    new: str
    build: Callable[[], Any]
    epochs: int
    pretrain: tuple[NDArray[Any], NDArray[Any]]
    upright: tuple[NDArray[Any], NDArray[Any]]
    adapt: tuple[NDArray[Any], NDArray[Any]]
    test: tuple[NDArray[Any], NDArray[Any]]
    budget: int


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
    order = np.random.default_rng(0).permutation(len(data.target))
    x = (data.images[order, ..., None] / 16).astype(np.float32)
    y = data.target[order].astype(np.int32)
    turned = rotated(x)
    return Scenario(
        title=f"scikit-learn's digits, rotated by {DEGREES} degrees",
        old="upright",
        new="rotated",
        build=digits_cnn,
        epochs=40,
        pretrain=(x[:900], y[:900]),
        upright=(x[1400:], y[1400:]),
        adapt=(turned[900:1400], y[900:1400]),
        test=(turned[1400:], y[1400:]),
        budget=100_000,
    )


def load_mnist() -> tuple[NDArray[np.float32], NDArray[np.int32]]:
    """Loads MNIST's 10,000 test images in a fixed random order, on which all splits are based.

    It reads mnist10k.npz (x uint8 [10000, 28, 28], y) in the folder TFLM_ZO_DATA, or uses Keras' loader.

    Returns:
        x float32 [10000, 28, 28, 1], 0..1, and y int32 [10000].
    """
    folder = os.environ.get("TFLM_ZO_DATA")
    path = Path(folder) / "mnist10k.npz" if folder else None
    if path is not None and path.is_file():
        arrays = read_arrays(path)
        images, labels = arrays["x"], arrays["y"]
    else:
        import keras

        _, (images, labels) = keras.datasets.mnist.load_data()
    order = np.random.default_rng(0).permutation(len(labels))
    return (images[order, ..., None] / 255).astype(np.float32), labels[order].astype(np.int32)


def mnist() -> Scenario:
    """Returns MNIST: 7,000 to pre-train, 1,000 to adapt, 1,000 to test."""
    from ..keras_models import lenet5

    x, y = load_mnist()
    turned = rotated(x[8000:])
    return Scenario(
        title=f"MNIST, rotated by {DEGREES} degrees",
        old="upright",
        new="rotated",
        build=lenet5,
        epochs=5,
        pretrain=(x[:7000], y[:7000]),
        upright=(x[9000:], y[9000:]),
        adapt=(turned[:1000], y[8000:9000]),
        test=(turned[1000:2000], y[9000:]),
        budget=100_000,
    )


def fsdd(speaker: str | None = None) -> Scenario:
    """Returns spoken digits of five speakers and of a new sixth one, from fsdd.npz in the folder
    TFLM_ZO_DATA.

    Five speakers: takes 5 and up to pre-train, takes 0-4 to test. The sixth: 128 utterances from takes 0-19
    to adapt, takes 20 and up to test.

    Args:
        speaker: name of the sixth; default: the file's last one.
    """
    from ..features import log_mel
    from ..keras_models import ds_cnn

    recordings = read_spoken_digits()
    x = np.concatenate([log_mel(recordings.signal[i : i + 250]) for i in range(0, len(recordings.signal), 250)])[
        ..., None
    ]
    y, take = recordings.digit, recordings.take
    names = recordings.speakers
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

    signal: NDArray[np.int16]  # int16 [recordings, 8000], one second at 8 kHz, zero-padded at the end
    digit: NDArray[np.int32]  # spoken digit, 0..9, int32 [recordings]
    speaker: NDArray[np.int32]  # int32 [recordings], index into ``speakers``
    # int32 [recordings], number of the repetition of this digit by this speaker, from 0
    take: NDArray[np.int32]
    speakers: tuple[str, ...]  # names of the speakers, by number


def read_spoken_digits() -> SpokenDigits:
    """Reads fsdd.npz in the folder of the environment variable TFLM_ZO_DATA.

    Raises:
        FileNotFoundError: the file does not exist; the message describes it and its source.
        ValueError: the file is not in that format.
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
    _check(path, arrays)
    return SpokenDigits(
        signal=arrays["x"],
        digit=arrays["y"].astype(np.int32),
        speaker=arrays["speaker"].astype(np.int32),
        take=arrays["take"].astype(np.int32),
        speakers=tuple(map(str, arrays["speakers"])),
    )


def _check(path: Path, arrays: dict[str, NDArray[Any]]) -> None:
    x, names = arrays["x"], arrays["speakers"]
    if x.dtype != np.int16 or x.ndim != 2 or x.shape[1] != _SAMPLES:
        raise ValueError(f"{path}: expected x int16 [n, {_SAMPLES}], got {x.dtype} {list(x.shape)}")
    for name, end in (("y", 10), ("speaker", len(names)), ("take", 2**31)):
        values = arrays[name]
        if values.dtype.kind not in "iu" or values.shape != x.shape[:1]:
            raise ValueError(f"{path}: expected {name} integers [{len(x)}], got {values.dtype} {list(values.shape)}")
        if len(values) and not 0 <= int(values.min()) <= int(values.max()) < end:
            raise ValueError(f"{path}: expected {name} in 0..{end - 1}, got {values.min()}..{values.max()}")
