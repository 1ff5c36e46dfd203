# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""How well alternatives to tflm_zo adapt a network, by the number of samples that they train with.

    python benchmarks/alternatives/learning_curves.py [--families watch …] [--methods backpropagation …]

Families of tasks are those of real sensors, and rotated MNIST. The alternatives are in alternatives.py, with one line
each in --list. Their C code runs on this machine (device_costs.py compares it with an emulated core). Each length of a
run has a schedule of its own: the rate falls to 0. Rates are chosen by length on the tasks that chose the package's
defaults, and on their validation samples, never on the targets' test samples. Nearest neighbours keep a part of the
samples. After the longest run, the network of backpropagation.c is also converted to int8 and measured (int8).

Every row is a line in --results as soon as it is known; a later call resumes from there. AIFES_DIR and
CMSIS_DSP_DIR are checkouts of github.com/Fraunhofer-IMS/AIfES_for_Arduino and github.com/ARM-software/CMSIS-DSP;
without them, their methods are left out. TFLM_ZO_DATA is the folder of the data sets.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import sys
import tempfile
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))
from alternatives import ALTERNATIVES, FAMILIES, LONG, Alternative, Target
from harness import progress
from int8_conversion import int8_accuracy
from learners import Learner, host_learner, missing_compiler, order, train
from task import Labelled

LENGTHS = (25, 50, 100, 200, 400, 800, 1600, 3200)
#: Rates of a whole network, and of a last layer.
RATES = {True: (0.0003, 0.001, 0.003, 0.01, 0.03), False: (0.003, 0.01, 0.03, 0.1, 0.3, 1.0)}
#: Shares of the samples that nearest neighbours keep.
SHARES = (0.1, 0.2, 0.4, 0.6, 0.8, 1.0)

Row = dict[str, Any]


def read(path: Path) -> list[Row]:
    """Reads the rows of a file; there are none if there is no such file."""
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


class Run:
    """A target with a learner that was built for it.

    Args:
        name: of the task.
        part: samples that are measured, "validation" or "test".
        method: the alternative.
        folder: for the learner.
        work: folder of pre-trained models.
    """

    def __init__(self, name: str, part: str, method: Alternative, folder: Path, work: Path) -> None:
        target = Target(name, work, method.recalibrated)
        self.target = target
        self.adapt: Labelled = target.task.adapt
        self.test: Labelled = getattr(target.task, part)
        sizes = (target.network if method.whole else target.last).sizes
        if not method.whole:
            self.adapt, self.test = target.embeddings(self.adapt), target.embeddings(self.test)
            if not method.neighbours:
                self.adapt, self.test = target.real(self.adapt), target.real(self.test)
        else:
            self.adapt, self.test = target.divided(self.adapt), target.divided(self.test)
        self.learner: Learner = host_learner(method.sources(target), folder, sizes[0], target.network.classes)

    def accuracy(self, steps: int, rate: float) -> float:
        """Trains with this number of samples; without a rate, each is taken once."""
        x, y = self.adapt
        if rate:
            train(self.learner, x, y, steps, rate)
        else:
            self.learner.start()
            chosen = [number for number, _ in zip(order(len(y)), range(steps), strict=False)]
            self.learner.train(self.learner.prepared(x)[chosen], y[chosen], [0.0] * steps)
        return self.learner.accuracy(*self.test)

    def int8_accuracy(self) -> float:
        """Converts the trained network of backpropagation.c to int8, and measures that."""
        network = self.target.network
        weights = self.learner.weights(len(network.weights)).copy()
        if (first := network.layers[0].filter) is not None:
            weights[: first.size] /= self.target.level
        return int8_accuracy(network, weights, self.target.task)


def measure(family: str, name: str, arguments: argparse.Namespace) -> None:
    """Measures the missing rows of a method, and appends them to the results."""
    work, results, lengths = arguments.work, arguments.results, arguments.lengths
    method, tasks = ALTERNATIVES[name], FAMILIES[family]
    done = {(row["family"], row["method"], row["task"], row["step"]) for row in read(results)}
    steps = [f"{share:.0%}" for share in SHARES] if method.neighbours else list(map(str, lengths))
    wanted = [step for step in steps if any((family, name, t, step) not in done for t in tasks.targets)]
    if not wanted:
        return
    with tempfile.TemporaryDirectory() as folder, open(results, "a", encoding="utf-8") as out:
        chosen_on = () if method.neighbours else tasks.chosen_on
        tried = [Run(task, "validation", method, Path(folder) / f"{task}-tried", work) for task in chosen_on]
        runs = {task: Run(task, "test", method, Path(folder) / task, work) for task in tasks.targets}
        with progress(f"{family}, {name}", len(wanted)) as advance:
            for step in wanted:
                rate = _best_rate(tried, int(step), arguments.rates or RATES[method.whole]) if tried else 0.0
                for task, run in runs.items():
                    count = round(float(step[:-1]) / 100 * len(run.adapt[1])) if method.neighbours else int(step)
                    row: Row = {"family": family, "method": name, "task": task, "step": step, "samples": count}
                    row |= {"stored": len(run.adapt[1]), "rate": rate, "test": run.accuracy(count, rate)}
                    if name == "backpropagation" and step == steps[-1] and run.target.task.keras is not None:
                        row["int8"] = run.int8_accuracy()
                    out.write(json.dumps(row) + "\n")
                out.flush()
                advance(1)


def _best_rate(runs: list[Run], steps: int, rates: tuple[float, ...]) -> float:
    """Returns the rate with the best mean accuracy; of several, the one with the smallest loss."""
    found = {}
    for rate in rates:
        accuracy = statistics.mean(run.accuracy(steps, rate) for run in runs)
        loss = statistics.mean(run.learner.loss(*run.test) for run in runs)
        if not math.isnan(loss):
            found[rate] = (accuracy, -loss)
    return max(found, key=lambda rate: found[rate])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--families", nargs="+", choices=FAMILIES, default=[f for f in FAMILIES if f not in LONG])
    parser.add_argument("--methods", nargs="+", choices=ALTERNATIVES, default=list(ALTERNATIVES))
    parser.add_argument("--lengths", nargs="+", type=int, default=list(LENGTHS), help="samples of a run")
    parser.add_argument("--rates", nargs="+", type=float, help="rates to choose from")
    parser.add_argument("--work", type=Path, default=Path("build/learning"), help="folder of learning/compare.py")
    parser.add_argument("--results", type=Path, default=Path("build/alternatives/curves.jsonl"))
    parser.add_argument("--list", action="store_true", help="methods")
    arguments = parser.parse_args()
    if arguments.list:
        for name, method in ALTERNATIVES.items():
            print(f"{name:16} {method.summary}")
        return
    if why := missing_compiler():
        parser.error(why)
    arguments.results.parent.mkdir(parents=True, exist_ok=True)
    for family in arguments.families:
        for name in arguments.methods:
            method = ALTERNATIVES[name]
            if method.families is not None and family not in method.families:
                continue
            if why := method.why_not():
                print(f"{family}, {name}: {why}", file=sys.stderr)
                continue
            measure(family, name, arguments)


if __name__ == "__main__":
    main()
