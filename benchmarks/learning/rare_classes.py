# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""Rare classes: what repeated samples of them gain.

    python benchmarks/learning/rare_classes.py [--tasks watch-7 …] [--share 8] [--work FOLDER]

Every other class keeps one of `share` samples, at least two: once the even ones, once the odd ones. The bare `train`,
which repeats samples of rare classes, is compared with the same without repeats. Accuracies are means over the classes
of the test data, and over the rare ones alone.
"""

from __future__ import annotations

import argparse
import warnings
from contextlib import ExitStack
from pathlib import Path
from unittest import mock

import numpy as np
from old_statistics import with_old_statistics
from rich.console import Console
from tasks import TASKS

import tflm_zo as zo
from tflm_zo.adaptation import parts
from tflm_zo.converters import Model
from tflm_zo.io.table import table
from tflm_zo.training import run_data

_TASKS = "watch-7 watch-8 watch-9 gas-4 gas-6 gas-8".split()


def rows_of(name: str, folder: Path, share: int) -> list[list[object]]:
    """Returns rows of accuracies, %."""
    task = TASKS[name](folder, 0)
    model = with_old_statistics(zo.load_model(task.model), task.keras, task.calibration)
    (x, y), (test_x, test_y) = (tuple(map(np.asarray, pair[:2])) for pair in (task.adapt, task.test))
    rows = []
    for odd in (0, 1):
        kept, rng = [], np.random.default_rng(1)
        for label in np.unique(y):
            own = np.flatnonzero(y == label)
            few = rng.permutation(own)[: max(2, len(own) // share)]
            kept.append(few if label % 2 == odd else own)
        chosen = np.sort(np.concatenate(kept))

        def accuracies(of: Model, rare: int = odd) -> list[str]:
            found = {c: zo.evaluate(of, test_x[test_y == c], test_y[test_y == c]) for c in np.unique(test_y)}
            all_classes = {c: 100 * (each.accuracy or 0.0) for c, each in found.items()}
            rare_ones = [value for c, value in all_classes.items() if c % 2 == rare]
            return [f"{np.mean(values):.1f}" for values in (list(all_classes.values()), rare_ones)]

        row: list[object] = [f"{name}, {'odd' if odd else 'even'}", len(chosen), *accuracies(model)]
        with ExitStack() as without:
            for module in (run_data, parts):
                without.enter_context(mock.patch.object(module, "with_rare_repeated", lambda data, _: data))
            row += accuracies(zo.adapt(model, x[chosen], y[chosen]).model)
        row += accuracies(zo.adapt(model, x[chosen], y[chosen]).model)
        rows.append(row)
        print(*row, flush=True)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", nargs="+", default=_TASKS, choices=TASKS, metavar="TASK")
    parser.add_argument("--share", type=int, default=8, help="a rare class keeps one of so many samples")
    parser.add_argument("--work", type=Path, default=Path("learning"), help="folder for models")
    given = parser.parse_args()
    given.work.mkdir(exist_ok=True)
    columns = ["task, rare classes", "samples", "before", "rare", "without repeats", "rare", "train", "rare"]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        rows = [row for name in given.tasks for row in rows_of(name, given.work, given.share)]
    Console().print(table("Rare classes", columns, rows))


if __name__ == "__main__":
    main()
