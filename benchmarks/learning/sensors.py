# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""Tasks of real sensors: a watch on another arm, new speakers, gas sensors that drift.

The data are `watch.npz`, `speech.npz` and `gas.npz` in the folder TFLM_ZO_DATA, and so are the splits. Subjects 4
to 6, speakers 21, 22, 24 and 26 and batch 5 are for choosing defaults; the others are targets. None has a
validation part of its own. A name with -64 behind it is the same task with 64 samples of all classes alike.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from task import Labelled, Task, converted

Array = NDArray[Any]

_CHOSEN_ON = {"watch": (4, 5, 6), "speech": (21, 22, 24, 26), "gas": (5,)}
_TARGETS = {"watch": (7, 8, 9), "speech": (23, 25, 27), "gas": (4, 6, 8)}


def _read(name: str) -> dict[str, Array]:
    with np.load(Path(os.environ["TFLM_ZO_DATA"]) / f"{name}.npz") as file:
        return {key: file[key] for key in file.files}


@dataclass(frozen=True)
class _Shift:
    """A network with the data that it was made for, and those that it meets."""

    network: Callable[[], Any]
    x: Array
    y: Array
    known: Array  # samples of the pre-training
    adapt: Array
    test: Array


def watch(subject: int) -> _Shift:
    """A Conv1D network meets subject {} with the watch on the other arm."""
    from tflm_zo.keras_models import activity_cnn

    d = _read("watch")
    known = (d["subject"] <= 6) & (d["side"] == 1) & (d["where"] < 0.75)
    x = d["x"].astype(np.float32)
    x /= 3 * x[known].std((0, 1))
    own = (d["subject"] == subject) & (d["side"] == 0)
    adapt, test = own & (d["where"] < 0.45), own & (d["where"] > 0.55)
    return _Shift(lambda: activity_cnn(x.shape[1:], 7), x, d["y"], *map(np.flatnonzero, (known, adapt, test)))


def _speech(speaker: int) -> _Shift:
    """A DS-CNN of 20 words meets speaker {}."""
    from tflm_zo.keras_models import ds_cnn

    d = _read("speech")
    x = (d["x"].astype(np.float32) / 255)[..., None]
    known, own = (d["speaker"] <= 20) & (d["round"] != 5), d["speaker"] == speaker
    adapt, test = own & (d["round"] <= 5), own & (d["round"] >= 6)

    def network() -> Any:
        return ds_cnn(x.shape[1:], 20, filters=40, blocks=3, stride=(2, 2))

    return _Shift(network, x, d["y"], *map(np.flatnonzero, (known, adapt, test)))


def _gas(batch: int) -> _Shift:
    """A dense network meets batch {} of gas sensors that drift."""
    d = _read("gas")
    x, known = d["x"] * d["scale"], d["batch"] <= 3
    x = np.clip((x - x[known].mean(0)) / x[known].std(0), -4, 4).astype(np.float32)
    own = np.flatnonzero(d["batch"] == batch)
    rows = own[np.random.default_rng(batch).permutation(len(own))]

    def network() -> Any:
        from keras import Input, Model, layers

        inputs = values = Input(x.shape[1:], name="features")
        for i, width in enumerate((64, 32), 1):
            values = layers.Dense(width, activation="relu", name=f"fc{i}")(values)
        classes = int(d["y"].max()) + 1
        return Model(inputs, layers.Dense(classes, activation="softmax", name="fc")(values), name="gas")

    return _Shift(network, x, d["y"], np.flatnonzero(known), rows[::2], rows[1::2])


_SHIFTS = {"watch": watch, "speech": _speech, "gas": _gas}


def _few(rows: Array, labels: Array, count: int) -> Array:
    """Returns so many of the rows, of all classes alike, in their order."""
    drawn, turn = np.random.default_rng(count).permutation(len(rows)), np.empty(len(rows), int)
    for label in np.unique(labels[rows]):
        own = drawn[labels[rows[drawn]] == label]
        turn[own] = np.arange(len(own))
    return rows[np.sort(np.lexsort((drawn, turn))[:count])]


def _task(name: str, number: int, samples: int | None = None) -> Callable[[Path, int], Task]:
    def task(folder: Path, seed: int) -> Task:
        shift, path = _SHIFTS[name](number), folder / f"{name}-{seed}.tflite"
        labels = shift.y.astype(np.int32)

        def part(rows: Array) -> Labelled:
            return shift.x[rows], labels[rows]

        known = part(shift.known[np.random.default_rng(seed).permutation(len(shift.known))])
        if not path.exists():
            import keras

            from tflm_zo.keras_models import pretrain

            keras.utils.set_random_seed(seed)
            model = shift.network()
            pretrain(model, *known, epochs=30, seed=seed)
            converted(model, path, known[0][:300])
        some = np.random.default_rng(0).permutation(len(known[0]))[:500]
        old, test = (known[0][some], known[1][some]), part(shift.test)
        return Task(
            model=path,
            adapt=part(shift.adapt if samples is None else _few(shift.adapt, labels, samples)),
            validation=test,
            test=test,
            old=old,
            rehearsal=old,
            keras=path.with_suffix(".keras"),
            calibration=known[0][:300],
        )

    task.__doc__ = (_SHIFTS[name].__doc__ or "").format(number)
    return task


SENSOR_TASKS = {
    f"{name}-{number}{few}": _task(name, number, samples)
    for few, samples in (("", None), ("-64", 64))
    for of in (_CHOSEN_ON, _TARGETS)
    for name, numbers in of.items()
    for number in numbers
}
"""By name: makes the task from a folder for models and the seed of pre-training."""
