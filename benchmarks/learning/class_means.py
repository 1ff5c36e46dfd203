# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""Class means: their accuracy, and runs where classes are new, for which they are a start.

    python benchmarks/learning/class_means.py [--tasks watch-7 …] [--samples 32 …] [--work FOLDER]

The bare `train` is compared with class means alone. For new classes, two rows of the last layer are as
`converters.grow_classes` makes them. The network's other layers have seen these classes.
"""

from __future__ import annotations

import argparse
import warnings
from pathlib import Path

import numpy as np
from old_statistics import with_old_statistics
from rich.console import Console
from tasks import TASKS

import tflm_zo as zo
from tflm_zo.adaptation.evaluation import with_loss
from tflm_zo.adaptation.starts import with_class_means
from tflm_zo.converters import Model
from tflm_zo.converters.grow_classes import QUIET, class_layer
from tflm_zo.converters.passes.loss import logits_of
from tflm_zo.data import Inputs, prepare
from tflm_zo.io.table import table

_TASKS = "watch-7 watch-8 watch-9 speech-23 speech-25 speech-27".split()
_NEW = (1, 4)


def without_classes(model: Model) -> Model:
    """Returns a copy whose last layer has weights of zero and a quiet bias for two classes."""
    made = model.copy()
    graph = made.only_graph
    logits, _ = logits_of(graph, graph.outputs[0])
    layer = class_layer(graph, logits)
    weights, bias, data = graph.own_input(layer, 1), graph.own_input(layer, 2), layer.inputs[0]
    assert data is not None and data.quantization is not None and logits.quantization is not None
    assert weights.quantization is not None
    values, biases = weights.numpy().copy(), bias.numpy().copy()
    products = data.quantization.scale * np.broadcast_to(weights.quantization.scales, len(biases))
    quiet = (-128 + QUIET * 255 - logits.quantization.zero_point) * logits.quantization.scale
    for number in _NEW:
        values[number] = 0
        biases[number] = round(float(quiet / products[number]))
    weights.set_data(values)
    bias.set_data(biases)
    return made


def rows_of(name: str, folder: Path, samples: list[int]) -> list[list[object]]:
    """Returns rows of accuracies, %."""
    task = TASKS[name](folder, 0)
    model = with_old_statistics(zo.load_model(task.model), task.keras, task.calibration)
    x, y = (np.asarray(values) for values in task.adapt[:2])

    def accuracy(of: Model) -> str:
        return f"{100 * (zo.evaluate(of, *task.test).accuracy or 0.0):.1f}"

    rows = []
    for count in samples:
        drawn = np.sort(np.random.default_rng(1).permutation(len(y))[: count or None])
        own = x[drawn], y[drawn]
        row: list[object] = [name, len(drawn), accuracy(model)]
        row += [accuracy(with_class_means(model, prepare(Inputs(with_loss(model)), *own)))]
        row += [accuracy(zo.adapt(model, *own).model)]
        row += [accuracy(zo.adapt(without_classes(model), *own).model)]
        rows.append(row)
        print(*row, flush=True)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", nargs="+", default=_TASKS, choices=TASKS, metavar="TASK")
    parser.add_argument("--samples", nargs="+", type=int, default=[0, 64], help="numbers of samples; 0: all")
    parser.add_argument("--work", type=Path, default=Path("learning"), help="folder for models")
    given = parser.parse_args()
    given.work.mkdir(exist_ok=True)
    columns = ["task", "samples", "before", "class means", "train", "train, two classes new"]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        rows = [row for name in given.tasks for row in rows_of(name, given.work, given.samples)]
    Console().print(table("Class means", columns, rows))


if __name__ == "__main__":
    main()
