# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""Accuracy before and after recalibration, without labels.

    TFLM_ZO_DATA=folder python benchmarks/learning/recalibration.py [--resnet pretrainedResnet_quant.tflite]

The folder has `cifar10.npz` and `mnist10k.npz`, as the tests take them; MLPerf Tiny's ResNet-8 is a file that
is named, with `pretrainedResnet.h5`, of which it was made, beside it. Without it, tasks of compare.py alone
are measured: LeNet-5 and rotated digits, and a DS-CNN and a new speaker.

ResNet-8 meets CIFAR-10 with a corruption: images 0 to 999, 1000 to 1999 and 2000 to 2999 are three sets to
adapt to, of which the first 16, 128 and 1,000 are taken; 4000 to 5999 are the test images. `convert` computes
the old statistics from images 3000 to 3999, without corruption. With --validation accuracy is measured on
these, corrupted: use it to choose between variants.
"""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from old_statistics import with_old_statistics
from scipy.ndimage import rotate
from tasks import TASKS

from tflm_zo import load_model
from tflm_zo.converters import InjectSettings, Model
from tflm_zo.data import prepare
from tflm_zo.io.table import table, table_console
from tflm_zo.recalibration import recalibrate
from tflm_zo.runtime import load
from tflm_zo.training.evaluation import evaluate
from tflm_zo.training.injection import inject_plain

COUNTS = (16, 128, 1000)
SETS = (slice(0, 1000), slice(1000, 2000), slice(2000, 3000))
VALIDATION, TEST = slice(3000, 4000), slice(4000, 6000)


def impulse(x: NDArray[np.uint8], seed: int) -> NDArray[np.uint8]:
    r, noisy = np.random.default_rng(seed).random(x.shape[:3]), x.copy()
    noisy[r < 0.015], noisy[r > 0.985] = 0, 255
    return noisy


def dark(x: NDArray[np.uint8], seed: int) -> NDArray[np.uint8]:
    return np.round(255 * (x / 255) ** 4).astype(np.uint8)


def fog(x: NDArray[np.uint8], seed: int) -> NDArray[np.uint8]:
    return np.round(0.4 * x + 120).astype(np.uint8)


def rotated(x: NDArray[np.uint8], seed: int) -> NDArray[np.uint8]:
    turned: NDArray[np.uint8] = rotate(x, 45, axes=(2, 1), reshape=False, order=1)
    return turned


def clean(x: NDArray[np.uint8], seed: int) -> NDArray[np.uint8]:
    return x


CORRUPTIONS: tuple[Callable[[NDArray[np.uint8], int], NDArray[np.uint8]], ...] = (impulse, dark, fog, rotated, clean)


def accuracy(model: Model, x: NDArray[Any], y: NDArray[Any]) -> float:
    runtime = load(inject_plain(model, InjectSettings(trainable="none")), "litert")
    found = evaluate(runtime, prepare(runtime, x, y)).accuracy
    assert found is not None
    return 100 * found


def levels(pixels: NDArray[np.uint8]) -> NDArray[np.int8]:
    return (pixels.astype(np.int16) - 128).astype(np.int8)


def resnet_8(path: Path, on_validation: bool) -> Iterator[tuple[str, dict[str, Any]]]:
    with np.load(Path(os.environ["TFLM_ZO_DATA"]) / "cifar10.npz") as arrays:
        x, y = arrays["x"], arrays["y"]
    keras_path = path.with_name(path.name.replace("_quant.tflite", ".h5"))
    model = with_old_statistics(load_model(path), keras_path, x[VALIDATION])
    measured, seed = (VALIDATION, 1) if on_validation else (TEST, 0)
    for corrupt in CORRUPTIONS:
        samples, labels = levels(corrupt(x[measured], seed)), y[measured]
        after: dict[int, list[float]] = {n: [] for n in COUNTS}
        for i, part in enumerate(SETS):
            own = levels(corrupt(x[part], 2 + i))
            for n in COUNTS:
                after[n].append(accuracy(recalibrate(model, own[:n]).model, samples, labels))
        yield f"ResNet-8, {corrupt.__name__}", {"before": accuracy(model, samples, labels), "after": after}


def task(name: str, folder: Path, seeds: int, on_validation: bool) -> dict[str, Any]:
    before, after = [], {n: list[float]() for n in COUNTS}
    for seed in range(seeds):
        found = TASKS[name](folder, seed)
        model = with_old_statistics(load_model(found.model), found.keras, found.calibration)
        x, y = found.validation if on_validation else found.test
        before.append(accuracy(model, x, y))
        for n in COUNTS:
            after[n].append(accuracy(recalibrate(model, found.adapt[0][:n]).model, x, y))
    return {"before": float(np.mean(before)), "after": after}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--resnet", type=Path, help="MLPerf Tiny's ResNet-8, int8")
    parser.add_argument("--tasks", nargs="*", default=["rotated", "speaker-0"], choices=list(TASKS))
    parser.add_argument("--seeds", type=int, default=3, help="pre-trainings of a task (default: %(default)s)")
    parser.add_argument("--validation", action="store_true", help="measure on the validation images")
    parser.add_argument("--work", type=Path, default=Path("build/learning"), help="folder for models")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    options.work.mkdir(parents=True, exist_ok=True)
    results: dict[str, Any] = {}
    if options.resnet is not None:
        results.update(resnet_8(options.resnet, options.validation))
    for name in options.tasks:
        results[name] = task(name, options.work, options.seeds, options.validation)
    if options.json:
        print(json.dumps(results))
        return
    rows = [
        [name, f"{r['before']:.1f}", *(f"{np.mean(a):.1f} ± {np.std(a):.1f}" for a in r["after"].values())]
        for name, r in results.items()
    ]
    table_console().print(table("Accuracy, %", ["", "before", *map(str, COUNTS)], rows))


if __name__ == "__main__":
    main()
