# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""How well detectors, landmarks and regressions of other people learn a new task, by losses at places and by sums.

    python benchmarks/learning/places.py FOLDER

FOLDER has models of openmv/openmv: ``openmv-fomo_face_detection``, ``openmv-yolo_lc_192``,
``openmv-face_landmarks_192`` and ``openmv-force_int_quant``. Each gets a task that its data set did not have, drawn
here: discs and squares in textured images (their cells; boxes and kinds), five marks on a turned cross, and a function
of 36 values. The bare choice of ``train`` and the last layer alone train on 160 samples (of the function 400). A table
has their scores on as many other samples: F1 of cells with an object, the mean error of boxes and marks, and of the
function the error over its standard deviation. --seed draws other samples.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import tflm_zo as zo
from tflm_zo.data import Inputs, prepare_samples
from tflm_zo.runtime import load
from tflm_zo.training.evaluation import every_output

Array = NDArray[Any]
SAMPLES, CELLS = 160, 12


def textured(rng: np.random.Generator, size: int) -> Array:
    """Draws an image 0..1 of smooth noise."""
    coarse = rng.random((size // 8, size // 8, 3))
    return 0.6 * np.kron(coarse, np.ones((8, 8, 1))) + 0.1 * rng.random((size, size, 3))


def objects(rng: np.random.Generator, samples: int, size: int) -> tuple[Array, Array, Array, Array]:
    """Draws images with one to three discs (kind 0) or squares (kind 1). Returns images, cells with an object, their
    boxes (x and y of the centre in its cell, and width and height in cells; NaN elsewhere), and their kinds (-1).
    """
    images = np.stack([textured(rng, size) for _ in range(samples)])
    there = np.zeros((samples, CELLS, CELLS), int)
    kinds, boxes = there - 1, np.full((samples, CELLS, CELLS, 4), np.nan)
    rows, columns = np.mgrid[:size, :size]
    step = size / CELLS
    for i in range(samples):
        for _ in range(rng.integers(1, 4)):
            radius = rng.uniform(0.06, 0.12) * size
            y, x = rng.uniform(radius, size - radius, 2)
            kind = int(rng.integers(2))
            dy, dx = rows - y, columns - x
            inside = np.maximum(abs(dy), abs(dx)) < radius if kind else dy**2 + dx**2 < radius**2
            images[i][inside] = [0.95, 0.9, 0.3]
            row, column = int(y / step), int(x / step)
            there[i, row, column], kinds[i, row, column] = 1, kind
            boxes[i, row, column] = [x / step - column, y / step - row, 2 * radius / step, 2 * radius / step]
    return images.astype(np.float32), there, boxes, kinds


def f1(found: Array, there: Array) -> float:
    """F1 of cells, where a neighbouring cell counts as found."""
    padded = np.pad(there, ((0, 0), (1, 1), (1, 1)))
    near = np.max([np.roll(padded, (a, b), (1, 2)) for a in (-1, 0, 1) for b in (-1, 0, 1)], 0)[:, 1:-1, 1:-1]
    around = np.pad(found, ((0, 0), (1, 1), (1, 1)))
    close = np.max([np.roll(around, (a, b), (1, 2)) for a in (-1, 0, 1) for b in (-1, 0, 1)], 0)[:, 1:-1, 1:-1]
    precision = (found & near).sum() / max(1, found.sum())
    recall = (there & close).sum() / max(1, there.sum())
    return float(2 * precision * recall / max(1e-9, precision + recall))


@dataclass(frozen=True)
class Task:
    """A task for a model."""

    model: str
    draw: Callable[[np.random.Generator], tuple[Any, Any]]  # samples and labels
    scores: Callable[[list[Array], Any], dict[str, float]]  # of outputs, and labels
    loss: Any = None
    samples: int = SAMPLES


def cells(rng: np.random.Generator) -> tuple[Any, Any]:
    images, there, _, _ = objects(rng, 2 * SAMPLES, 96)
    return images, there


def grid(rng: np.random.Generator) -> tuple[Any, Any]:
    images, there, boxes, kinds = objects(rng, 2 * SAMPLES, 192)
    return images, {"0[0:4]": boxes, "0[4]": there, "0[5:7]": kinds}


def grid_scores(outputs: list[Array], y: Any) -> dict[str, float]:
    box, score, kind = outputs[0][..., :4], outputs[0][..., 4], outputs[0][..., 5:7]
    there = y["0[4]"] == 1
    return {
        "F1": f1((score > 0).astype(int), y["0[4]"]),
        "box error, cells": float(np.abs(box - y["0[0:4]"])[there].mean()),
        "kind, %": 100 * float((kind.argmax(-1) == y["0[5:7]"])[there].mean()),
    }


def landmarks(rng: np.random.Generator) -> tuple[Any, Any]:
    """Draws crosses; their marks are the centre and the four ends, in pixels."""
    size, samples = 192, 2 * SAMPLES
    images = np.stack([textured(rng, size) for _ in range(samples)])
    marks = np.zeros((samples, 5, 2))
    for i in range(samples):
        centre, length, angle = rng.uniform(60, 132, 2), rng.uniform(30, 55), rng.uniform(-0.7, 0.7)
        turned = np.array([[np.cos(angle), np.sin(angle)], [-np.sin(angle), np.cos(angle)]])
        ends = np.array([[0, 0], [0, -1], [1, 0], [0, 1.6], [-1, 0]]) * length
        marks[i] = centre + ends @ turned
        for end in marks[i][1:]:
            for t in np.linspace(0, 1, 60):
                x, y = (marks[i][0] + t * (end - marks[i][0])).astype(int)
                images[i, max(0, y - 2) : y + 3, max(0, x - 2) : x + 3] = [0.95, 0.9, 0.3]
    y = np.full((samples, 1404), np.nan)
    y[:, :15].reshape(samples, 5, 3)[..., :2] = marks
    return (2 * images - 1).astype(np.float32), {"0[0:15]": y[:, :15]}  # the model reads -1..1


def landmark_scores(outputs: list[Array], y: Any) -> dict[str, float]:
    return {"error, pixels": float(np.nanmean(np.abs(outputs[0].reshape(len(outputs[0]), -1)[:, :15] - y["0[0:15]"])))}


def function(rng: np.random.Generator) -> tuple[Any, Any]:
    x = rng.normal(0, 1, (800, 36)).astype(np.float32)
    mixed = np.random.default_rng(7).normal(0, 1 / 6, (36, 4))
    return x, (np.tanh(x @ mixed[:, 0]) + np.abs(x @ mixed[:, 1])).reshape(-1, 1).astype(np.float32)


TASKS = {
    "FOMO, cells": Task(
        "openmv-fomo_face_detection", cells, lambda o, y: {"F1": f1((o[0][..., 1] > o[0][..., 0]).astype(int), y)}
    ),
    "grid, boxes and kinds": Task(
        "openmv-yolo_lc_192",
        grid,
        grid_scores,
        {"0[0:4]": "huber", "0[4]": "binary_cross_entropy", "0[5:7]": "cross_entropy"},
    ),
    "landmarks": Task("openmv-face_landmarks_192", landmarks, landmark_scores, {"0[0:15]": "mae"}),
    "regression": Task(
        "openmv-force_int_quant",
        function,
        lambda o, y: {"error / deviation": float(np.sqrt(((o[0] - y) ** 2).mean()) / y.std())},
        "mse",
        400,
    ),
}


def taken(y: Any, rows: slice) -> Any:
    return {key: array[rows] for key, array in y.items()} if isinstance(y, dict) else y[rows]


def scored(task: Task, model: zo.Model, x: Any, y: Any) -> dict[str, float]:
    zo_model = zo.inject(model, trainable="none", nodes=(), loss="none")
    runtime = load(zo_model)
    outputs = every_output(runtime, prepare_samples(Inputs(zo_model), x))
    return task.scores([o.astype(np.float64) for o in outputs], y)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, metavar="FOLDER")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--task", action="append", choices=TASKS, help="run this task alone; repeatable")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    print("| task | score | before | last layer | `train` | its way | seconds |")
    print("| --- | --- | ---: | ---: | ---: | --- | ---: |")
    for name in arguments.task or TASKS:
        task = TASKS[name]
        x, y = task.draw(np.random.default_rng(arguments.seed))
        fit, held = slice(0, task.samples), slice(task.samples, 2 * task.samples)
        model = zo.load_model(arguments.folder / f"{task.model}.tflite")
        inject: Any = {} if task.loss is None else {"loss": task.loss}
        head = zo.adapt(model, x[fit], taken(y, fit), zo.Settings(tasks=(zo.Exact(),)), inject=inject)
        start = time.perf_counter()
        found = zo.adapt(model, x[fit], taken(y, fit), inject=inject)
        seconds = time.perf_counter() - start
        way = found.choice.best.candidate.rung if found.choice is not None else "no training"
        columns = [scored(task, m, x[held], taken(y, held)) for m in (model, head.model, found.model)]
        for score in columns[0]:
            print(
                f"| {name} | {score} | {' | '.join(f'{c[score]:.3g}' for c in columns)} | {way} | {seconds:.0f} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
