# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""Scenarios of the demo: data to classify, and a shift that a network does not survive."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..data import read_arrays
from .spoken_digits import read_spoken_digits

__all__ = ["SCENARIOS", "Scenario", "load_mnist", "rotated"]

DEGREES = 45


@dataclass(frozen=True)
class Scenario:
    """A network's first domain, which it was made for, and the one that it meets once it is deployed.

    Attributes:
        title: title of one line.
        build: function that makes the untrained Keras model.
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
    """Images turned counter-clockwise by 45 degrees, float32 [samples, height, width, channels]."""
    from scipy.ndimage import rotate

    turned: NDArray[Any] = rotate(x, DEGREES, axes=(2, 1), reshape=False, order=1)
    return turned.astype(np.float32)


def digits() -> Scenario:
    """scikit-learn's bundled 8 x 8 digits: 900 to pre-train, 500 to adapt, 397 to test."""
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
    """MNIST's 10,000 test images, in the one random order that all splits refer to.

    mnist10k.npz (x uint8 [10000, 28, 28], y) in the folder TFLM_ZO_DATA, or Keras' own loader.

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
    """MNIST: 7,000 to pre-train, 1,000 to adapt, 1,000 to test."""
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
    """Spoken digits of five speakers; then a sixth one comes: fsdd.npz in the folder TFLM_ZO_DATA.

    Of the five, takes 5 and up pre-train and takes 0-4 test. Of the sixth, 128 utterances drawn from takes
    0-19 adapt and takes 20 and up test.

    Args:
        speaker: name of the sixth; default: the file's last one.
    """
    from ..features import log_mel
    from ..keras_models import ds_cnn

    recordings = read_spoken_digits()
    x = np.concatenate(
        [log_mel(recordings.signal[i : i + 250]) for i in range(0, len(recordings.signal), 250)]
    )[..., None]
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
