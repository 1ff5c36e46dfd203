# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""Tasks of colour images: networks that were made for CIFAR-10 as it is meet corrupted images.

`cifar10.npz` in the folder TFLM_ZO_DATA has 6,000 images. Its parts are fixed, and the same for every task:
the seed of a task is the number of the set that adapts. Networks that were not published with weights for
these images are pre-trained on the other two sets: few images, so their accuracies are modest.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
from corruptions import IMAGES
from image_networks import made_of_int8, mobilenet_v2, pretrain_on_images
from numpy.typing import NDArray
from task import Labelled, Task, converted

from tflm_zo.data import read_arrays

__all__ = ["CIFAR_TASKS"]

Pixels = NDArray[np.uint8]

# Parts of the file, and the seeds of their random draws.
_SETS = (slice(0, 1000), slice(1000, 2000), slice(2000, 3000))
_VALIDATION, _TEST = slice(3000, 4000), slice(4000, 6000)
_SET_SEED, _VALIDATION_SEED, _TEST_SEED = 2, 1, 0

_ANIMALS = (2, 3, 4, 5, 6, 7)
_RESNET, _VWW = "pretrainedResnet", "vww_96_int8.tflite"


def _in_folder(variable: str, name: str) -> Path:
    folder = os.environ.get(variable)
    if not folder:
        raise FileNotFoundError(f"{name}: set {variable} to the folder that has it")
    return Path(folder) / name


def load_cifar() -> tuple[Pixels, NDArray[np.int32]]:
    """Returns the images, x uint8 [6000, 32, 32, 3], and their classes, y int32 [6000]."""
    arrays = read_arrays(_in_folder("TFLM_ZO_DATA", "cifar10.npz"))
    return arrays["x"], arrays["y"].astype(np.int32)


def enlarged(x: Pixels, times: int) -> Pixels:
    """Enlarges each pixel to a square of `times` by `times` pixels."""
    return x.repeat(times, axis=1).repeat(times, axis=2)


def _task(
    shift: str,
    seed: int,
    *,
    model: Path,
    keras: Path | None,
    adapt: int = 1000,
    times: int = 1,
    classes: Callable[[NDArray[np.int32]], NDArray[np.int32]] = lambda y: y,
) -> Task:
    """Makes the task of one network, one shift ("": none) and one set of samples."""
    x, y = load_cifar()

    def part(where: slice, drawn: int | None) -> Labelled:
        images = x[where] if drawn is None or not shift else IMAGES[shift](x[where], drawn)
        return enlarged(images, times), classes(y[where])

    images, labels = part(_SETS[seed], _SET_SEED + seed)
    known = part(_SETS[(seed + 1) % len(_SETS)], None)
    return Task(
        model=model,
        adapt=(images[:adapt], labels[:adapt]),
        validation=part(_VALIDATION, _VALIDATION_SEED),
        test=part(_TEST, _TEST_SEED),
        old=part(_TEST, None) if shift else None,
        rehearsal=(known[0][:500], known[1][:500]),
        keras=keras,
        calibration=known[0][:300],
    )


def _known(seed: int, times: int) -> Labelled:
    """Returns the two sets that are not for adaptation."""
    x, y = load_cifar()
    others = [s for i, s in enumerate(_SETS) if i != seed]
    return enlarged(np.concatenate([x[s] for s in others]), times), np.concatenate([y[s] for s in others])


def _resnet(shift: str, adapt: int) -> Callable[[Path, int], Task]:
    def task(folder: Path, seed: int) -> Task:
        return _task(
            shift,
            seed,
            model=_in_folder("TFLM_ZO_MODELS", f"{_RESNET}_quant.tflite"),
            keras=_in_folder("TFLM_ZO_MODELS", f"{_RESNET}.h5"),
            adapt=adapt,
        )

    task.__doc__ = f"MLPerf Tiny's ResNet-8 meets CIFAR-10, {shift}: {adapt:,} images to adapt on."
    return task


def _are_animals(y: NDArray[np.int32]) -> NDArray[np.int32]:
    return np.isin(y, _ANIMALS).astype(np.int32)


def vww(folder: Path, seed: int) -> Task:
    """Makes a task of MLPerf Tiny's person detector (MobileNetV1), which learns to tell animals from
    vehicles, on clean images.
    """
    return _task("", seed, model=_in_folder("TFLM_ZO_MODELS", _VWW), keras=None, times=3, classes=_are_animals)


def _vww(shift: str, adapt: int) -> Callable[[Path, int], Task]:
    def task(folder: Path, seed: int) -> Task:
        path = folder / f"vww-animals-{seed}.tflite"
        if not path.exists():
            from tflm_zo.keras_models import mobilenet_v1

            x, y = _known(seed, 3)
            model = made_of_int8(mobilenet_v1(), _in_folder("TFLM_ZO_MODELS", _VWW))
            pretrain_on_images(model, x, _are_animals(y), epochs=6, rate=5e-4, seed=seed, frozen_norm=True)
            converted(model, path, x[:300].astype(np.float32))
        return _task(
            shift, seed, model=path, keras=path.with_suffix(".keras"), adapt=adapt, times=3, classes=_are_animals
        )

    task.__doc__ = f"The person detector, fine-tuned to animals, meets CIFAR-10, {shift}: {adapt:,} images."
    return task


def _mobilenet(shift: str, adapt: int) -> Callable[[Path, int], Task]:
    def task(folder: Path, seed: int) -> Task:
        path = folder / f"mobilenet_v2-cifar-{seed}.tflite"
        if not path.exists():
            import keras

            keras.utils.set_random_seed(seed)
            x, y = _known(seed, 2)
            model = mobilenet_v2(x.shape[1:], 10)
            pretrain_on_images(model, x, y, epochs=40, rate=3e-3, seed=seed)
            converted(model, path, x[:300].astype(np.float32))
        return _task(shift, seed, model=path, keras=path.with_suffix(".keras"), adapt=adapt, times=2)

    task.__doc__ = f"MobileNetV2 x 0.35, pre-trained on 2,000 images, meets {shift}: {adapt:,} images."
    return task


CIFAR_TASKS: dict[str, Callable[[Path, int], Task]] = {
    "vww": vww,
    **{
        f"{network}-{shift}{suffix}": made(shift, adapt)
        for network, made, shifts in (
            ("cifar", _resnet, tuple(IMAGES)),
            ("vww", _vww, ("impulse", "dark", "fog")),
            ("mobilenet", _mobilenet, ("impulse", "dark", "fog")),
        )
        for suffix, adapt in (("", 1000), ("-128", 128))
        for shift in shifts
    },
}
"""By name: makes the task from a folder for models and the number of the set that adapts, 0..2."""
