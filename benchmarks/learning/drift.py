# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""The drift of the tasks' data, and the accuracy of the model that meets them.

    python benchmarks/learning/drift.py [--tasks watch-4 …] [--work FOLDER]

Old data are samples of the old domain, new ones those to adapt to. The statistics of the old data are those of the
calibration.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from old_statistics import with_old_statistics
from rich.console import Console
from tasks import TASKS

import tflm_zo as zo
from tflm_zo.io.table import table

_TASKS = "watch-4 watch-5 speech-21 speech-24 gas-5 rotated mnist-noise mnist-contrast speaker-0 speaker-1".split()
_FEW = 16


def row_of(name: str, folder: Path) -> list[object]:
    """Returns a task's name, accuracies before and after the shift, %, and scores of few and of all samples of both."""
    task = TASKS[name](folder, 0)
    if task.old is None:
        raise ValueError(f"{name} has no old domain")
    model = with_old_statistics(zo.load_model(task.model), task.keras, task.calibration)
    row: list[object] = [name]
    for x, y in (task.old, task.adapt):
        drawn = np.random.default_rng(0).permutation(len(x))
        row.append(f"{100 * (zo.evaluate(model, x, y).accuracy or 0.0):.1f}")
        row += [f"{zo.drift(model, x[drawn[:count]]).score:.2f}" for count in (_FEW, len(x))]
    return row


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", nargs="+", default=_TASKS, choices=TASKS, metavar="TASK")
    parser.add_argument("--work", type=Path, default=Path("learning"), help="folder for models")
    given = parser.parse_args()
    given.work.mkdir(exist_ok=True)
    columns = ["task", "old: accuracy", f"{_FEW} samples", "all", "new: accuracy", f"{_FEW} samples", "all"]
    Console().print(table("Drift", columns, [row_of(name, given.work) for name in given.tasks]))


if __name__ == "__main__":
    main()
