# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""A camera that gets dirty: MLPerf Tiny's ResNet-8 meets CIFAR-10 with specks, in fog or in the dark.

    python examples/dirty_camera/dirty_camera.py -o camera

cifar10.npz is read from the folder TFLM_ZO_DATA, pretrainedResnet_quant.tflite and, to compare with
backpropagation, pretrainedResnet.h5 from TFLM_ZO_MODELS. The folder gets, for each kind of dirt, the model,
data as .npz files for `tflm-zo`, and the adapted model; the table shows the accuracy of each way to adapt.
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

import tflm_zo as zo

Part = tuple[NDArray[np.int8], NDArray[np.int32]]

MODEL, FLOAT_MODEL = "pretrainedResnet_quant.tflite", "pretrainedResnet.h5"
IMAGES, HELD_OUT = 1000, 200  # of a set, and how many of them choose between weights, rates and epochs
SETS = 3
BUDGET = 100_000  # forward equivalents


def specks(x: NDArray[np.uint8], seed: int) -> NDArray[np.uint8]:
    """Makes three pixels of a hundred black or white."""
    drawn = np.random.default_rng(seed).random(x.shape[:3])
    return np.where((drawn < 0.015)[..., None], 0, np.where((drawn > 0.985)[..., None], 255, x))


def fog(x: NDArray[np.uint8], seed: int) -> NDArray[np.uint8]:
    """Reduces the contrast to two fifths, on grey."""
    return np.round(0.4 * x + 120)


def dark(x: NDArray[np.uint8], seed: int) -> NDArray[np.uint8]:
    """Raises the brightness to the fourth power."""
    return np.round(255 * (x / 255) ** 4)


DIRT = {"specks": specks, "fog": fog, "dark": dark}


def folder(variable: str) -> Path:
    """Returns the folder that an environment variable names."""
    if not os.environ.get(variable):
        raise FileNotFoundError(f"{variable} is not set: --help says which files are read from it")
    return Path(os.environ[variable])


def parts(dirt: str, which: int) -> dict[str, Part]:
    """Returns images in the model's format, pixels - 128, int8 [images, 32, 32, 3], and their classes.

    They are clean ones, a dirty set to adapt on and its held-out part, and dirty ones for a test. No two
    parts share an image.
    """
    with np.load(folder("TFLM_ZO_DATA") / "cifar10.npz") as arrays:
        x, y = arrays["x"], arrays["y"].astype(np.int32)
    own, other = IMAGES * which, IMAGES * ((which + 1) % SETS)
    rows = {
        "old": slice(other, other + 300),
        "adapt": slice(own + HELD_OUT, own + IMAGES),
        "held_out": slice(own, own + HELD_OUT),
        "test": slice(4000, 6000),
    }
    seeds = {"adapt": 2 + which, "held_out": 5 + which, "test": 0}
    images = {name: x[row] if name == "old" else DIRT[dirt](x[row], seeds[name]) for name, row in rows.items()}
    return {name: ((images[name].astype(np.int16) - 128).astype(np.int8), y[rows[name]]) for name in rows}


def adapted(model: zo.Model, settings: zo.Settings, data: dict[str, Part]) -> zo.Model:
    """Adapts the model. The held-out images select its best weights."""
    trainer = zo.Trainer(model, settings)
    trainer.fit(*data["adapt"], budget=BUDGET, validation_data=data["held_out"])
    return trainer.export()


def backpropagated(path: Path, data: dict[str, Part]) -> float:
    """Measures full backpropagation in float32. The held-out images choose rate and epoch."""
    import keras

    pixels = {name: (x.astype(np.float32) + 128, y) for name, (x, y) in data.items()}
    found: list[tuple[float, float]] = []
    for rate in (1e-4, 1e-3):
        keras.utils.set_random_seed(0)
        network: Any = keras.models.load_model(path, compile=False)
        loss = keras.losses.SparseCategoricalCrossentropy()
        network.compile(keras.optimizers.Adam(rate), loss, metrics=["accuracy"])
        stop = keras.callbacks.EarlyStopping("val_loss", patience=5, restore_best_weights=True)
        done = network.fit(*pixels["adapt"], 32, 30, verbose=0, validation_data=pixels["held_out"], callbacks=[stop])
        test = network.evaluate(*pixels["test"], verbose=0)[1]
        found.append((min(done.history["val_loss"]), test))
    return min(found)[1]


def run(dirt: str, which: int, output: Path | None, compare: bool) -> dict[str, float]:
    """Measures accuracies on dirty images, by the way to adapt."""
    data = parts(dirt, which)
    model = zo.load_model(folder("TFLM_ZO_MODELS") / MODEL)
    recalibrated = zo.recalibrate(model, data["adapt"][0], source=data["old"][0]).model
    models = {
        "nothing": model,
        "recalibrated, without labels": recalibrated,
        "then last layer alone, exact": adapted(recalibrated, zo.Settings(tasks=(zo.Exact(last=1),)), data),
        "then forward passes only": adapted(recalibrated, zo.algorithms.node(), data),
    }
    if output is not None:
        (output / dirt).mkdir(parents=True)
        adapt = tuple(map(np.concatenate, zip(data["adapt"], data["held_out"], strict=True)))
        for name, (x, y) in {"old": data["old"], "adapt": adapt, "test": data["test"]}.items():
            np.savez(output / dirt / f"{name}.npz", x=x, y=y)
        model.save(output / dirt / "model.tflite")
        models["then forward passes only"].save(output / dirt / "adapted.tflite")
    found = {
        name: zo.Trainer(m, zo.algorithms.node()).evaluate(*data["test"])["accuracy"] for name, m in models.items()
    }
    path = folder("TFLM_ZO_MODELS") / FLOAT_MODEL
    if compare and path.is_file():
        found["backpropagation in Keras"] = backpropagated(path, data)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-o", "--output", type=Path, required=True, help="a folder that does not exist yet")
    parser.add_argument("--dirt", nargs="+", choices=DIRT, default=list(DIRT), help="which (default: all)")
    parser.add_argument("--sets", type=int, default=1, choices=range(1, SETS + 1), help="whose mean is shown")
    parser.add_argument("--no-keras", action="store_true", help="leaves backpropagation out")
    options = parser.parse_args()
    if options.output.exists():
        parser.error(f"{options.output} exists; choose another name")
    try:
        for path in (folder("TFLM_ZO_DATA") / "cifar10.npz", folder("TFLM_ZO_MODELS") / MODEL):
            path.open("rb").close()
    except FileNotFoundError as error:
        parser.error(str(error))
    columns = {
        dirt: [
            run(dirt, which, None if which else options.output, not options.no_keras) for which in range(options.sets)
        ]
        for dirt in options.dirt
    }
    table = Table(title=f"ResNet-8, {IMAGES:,} dirty images; accuracy, {options.sets} sets of images")
    table.add_column("way to adapt")
    for dirt in columns:
        table.add_column(dirt)
    for name in next(iter(columns.values()))[0]:
        every = (100 * np.array([found[name] for found in runs]) for runs in columns.values())
        table.add_row(name, *(f"{values.mean():.1f} ± {values.std():.1f} %" for values in every))
    Console().print(table)


if __name__ == "__main__":
    main()
