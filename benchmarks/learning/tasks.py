# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""The tasks: networks, and the data that they adapt to.

Splits are fixed, and validation data, from which everything is tuned, never overlap with test data.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from augmentation import pretrain_on_spectrograms
from cifar import CIFAR_TASKS
from corruptions import contrast, noise
from initialization import unit_outputs
from numpy.typing import NDArray
from sensors import SENSOR_TASKS
from task import Task, converted

from tflm_zo.demo.scenarios import load_mnist
from tflm_zo.demo.scenarios import rotated as turned_by_45


def _lenet5(folder: Path, seed: int, x: NDArray[Any], y: NDArray[Any]) -> Path:
    path = folder / f"lenet5-upright-{seed}.tflite"
    if not path.exists():
        import keras

        from tflm_zo.keras_models import lenet5, pretrain

        keras.utils.set_random_seed(seed)
        model = lenet5()
        pretrain(model, x[:7000], y[:7000], epochs=5, seed=seed)
        converted(model, path, x[7000:7300])
    return path


def _mnist(folder: Path, seed: int, shift: Callable[[NDArray[Any], int], NDArray[Any]], adapt: int = 1000) -> Task:
    """Makes a task: LeNet-5, trained on upright MNIST (7,000 images), meets images that are shifted."""
    x, y = load_mnist()
    new = shift(x[7000:], 0)
    path = _lenet5(folder, seed, x, y)
    return Task(
        model=path,
        adapt=(new[1000 : 1000 + adapt], y[8000 : 8000 + adapt]),
        validation=(new[:1000], y[7000:8000]),
        test=(new[2000:], y[9000:]),
        old=(x[9000:], y[9000:]),
        rehearsal=(x[:500], y[:500]),
        keras=path.with_suffix(".keras"),
        calibration=x[7000:7300],
    )


def rotated(folder: Path, seed: int) -> Task:
    """Makes a task: LeNet-5, trained on upright MNIST (7,000 images), meets images rotated by 45 degrees."""
    return _mnist(folder, seed, lambda x, _: turned_by_45(x))


def rotated_128(folder: Path, seed: int) -> Task:
    """Makes the same task with 128 images for adaptation."""
    return _mnist(folder, seed, lambda x, _: turned_by_45(x), 128)


def mnist_noise(folder: Path, seed: int) -> Task:
    """Makes a task: the same network meets images with noise of a standard deviation of 0.6."""
    return _mnist(folder, seed, lambda x, drawn: noise(x, 0.6, drawn))


def mnist_contrast(folder: Path, seed: int) -> Task:
    """Makes a task: the same network meets images with three tenths of their contrast, on light grey."""
    return _mnist(folder, seed, lambda x, _: contrast(x, 0.3, 0.7))


def scratch(folder: Path, seed: int) -> Task:
    """Makes a task: LeNet-5 with random weights learns upright MNIST from 6,000 images.

    Its layers' outputs have a standard deviation of 1, and room to grow to several times that.
    """
    x, y = load_mnist()
    path = folder / f"lenet5-random-{seed}.tflite"
    if not path.exists():
        import keras

        from tflm_zo.keras_models import lenet5

        keras.utils.set_random_seed(seed)
        model = lenet5()
        unit_outputs(model, x[7000:7300])
        converted(model, path, x[7000:7300], activation_headroom=SCRATCH_HEADROOM)
    return Task(
        model=path,
        adapt=(x[:6000], y[:6000]),
        validation=(x[7000:8000], y[7000:8000]),
        test=(x[9000:], y[9000:]),
        old=None,
        rehearsal=None,
        keras=path.with_suffix(".keras"),
        calibration=x[7000:7300],
    )


SCRATCH_HEADROOM = 3.0
# Of the speakers' DS-CNN. Chosen on validation data, among embeddings of 6 and 8 and none and several ways of
# pre-training: node perturbation is within its spread of the best, and further above the last layer alone
# than without an embedding, whose 40 features leave the layers before it little to learn. With 6, the int8
# last layer stays far behind logistic regression on the same features, so it would be no fair baseline.
FILTERS, EMBEDDING = 40, 8


def _as_it_is(x: NDArray[Any], seed: int) -> NDArray[Any]:
    return x


def _speaker(
    number: int, shift: Callable[[NDArray[Any], int], NDArray[Any]] = _as_it_is, what: str = ""
) -> Callable[[Path, int], Task]:
    def task(folder: Path, seed: int) -> Task:
        from tflm_zo.demo.scenarios import fsdd, read_spoken_digits
        from tflm_zo.features import log_mel

        recordings = read_spoken_digits()
        name = recordings.speakers[number]
        source = fsdd(name)
        path = folder / f"ds_cnn-without-{name}-{seed}.tflite"
        if not path.exists():
            import keras

            from tflm_zo.keras_models import ds_cnn

            keras.utils.set_random_seed(seed)
            x, y = source.pretrain
            model = ds_cnn(x.shape[1:], 10, filters=FILTERS, blocks=3, stride=(4, 2), embedding=EMBEDDING)
            pretrain_on_spectrograms(model, x, y, seed=seed)
            converted(model, path, source.pretrain[0][:300])
        # Takes 0-19 of the speaker that did not adapt.
        own = np.flatnonzero((recordings.speaker == number) & (recordings.take < 20))
        used = np.random.default_rng(0).choice(own, min(128, len(own)), replace=False)
        rest = np.setdiff1d(own, used)
        return Task(
            model=path,
            adapt=(shift(source.adapt[0], 2), source.adapt[1]),
            validation=(shift(log_mel(recordings.signal[rest])[..., None], 1), recordings.digit[rest]),
            test=(shift(source.test[0], 0), source.test[1]),
            old=source.upright,
            rehearsal=(source.pretrain[0][:500], source.pretrain[1][:500]),
            keras=path.with_suffix(".keras"),
            calibration=source.pretrain[0][:300],
        )

    task.__doc__ = f"A DS-CNN made for five speakers meets the sixth, number {number} of the file{what}."
    return task


TASKS: dict[str, Callable[[Path, int], Task]] = {
    "rotated": rotated,
    "rotated-128": rotated_128,
    "scratch": scratch,
    **{f"speaker-{i}": _speaker(i) for i in range(6)},
    "mnist-noise": mnist_noise,
    "mnist-contrast": mnist_contrast,
    "speech-noise": _speaker(0, lambda x, drawn: noise(x, 0.1, drawn), ", with noise on the spectrogram"),
    "speech-quiet": _speaker(0, lambda x, _: contrast(x, 0.8, 0.0), ", with four fifths of the level"),
    **CIFAR_TASKS,
    **SENSOR_TASKS,
}
"""By name: makes the task from a folder for models and the seed of pre-training."""

SHIFTS = (
    *("rotated", "mnist-noise", "mnist-contrast"),  # LeNet-5
    *("speaker-0", "speech-noise", "speech-quiet"),  # DS-CNN
    *(f"{network}-{shift}" for network in ("cifar", "vww", "mobilenet") for shift in ("impulse", "dark", "fog")),
)
"""Names of the tasks of five networks that meet three shifts each."""
