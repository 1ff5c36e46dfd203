# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""Whether weight perturbation gains by a direction for each part of a minibatch.

    python benchmarks/learning/parts_of_minibatches.py [--tasks rotated …] [--parts 1 4 32] [--rates 0.5 1 2]

A minibatch is divided into m parts, each with a direction z_i of its own, along which its own samples alone
are passed forward, twice. All m directions enter one step, whose size does not depend on m:

    d_i = L_i(w + z_i) - L_i(w - z_i),    w <- w - rate / sqrt(m) * sum of d_i / rms(d) z_i

m = 1 is `algorithms.weight()`. A step costs the same for every m, in forward equivalents; with 32 samples and
m = 32 every sample has a direction of its own (Flipout, GRZO). Rates are in LSB, fall linearly to zero, and
the best one of each m is chosen by the validation data, on average over seeds; figures are of the test data.
"""

from __future__ import annotations

import argparse
import math
import statistics
import sys
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table
from task import Labelled, Task
from tasks import TASKS

from tflm_zo import Rademacher, inject, load_model
from tflm_zo.core import query_seed
from tflm_zo.data import prepare
from tflm_zo.runtime import Runtime, load
from tflm_zo.training import algorithm, inject_settings
from tflm_zo.training.evaluation import evaluate

DIRECTIONS = Rademacher(1)
CLIP, MEMORY = 3.0, 32  # of |d| / rms(d), and of the running mean square in queries: the package's own


class Run:
    """Weight perturbation of one model.

    Args:
        task: the model and its data.
        parts: number m of parts of a minibatch.
        samples: in a minibatch.
        seed: of directions and of the order of samples.
    """

    def __init__(self, task: Task, parts: int, samples: int, seed: int) -> None:
        settings = inject_settings(algorithm("weight"), batch=samples // parts, max_queries=parts)
        self.runtime: Runtime = load(inject(load_model(task.model), settings), "litert")
        self.parts, self.samples, self.seed = parts, samples, seed
        data = prepare(self.runtime, *task.adapt)
        self._inputs, self._labels = data.inputs, data.labels
        self._mean_square = 0.0
        # First action of the next invoke: the last step's update, or the last part's weights restored.
        self._pending: list[tuple[int, int]] = []

    def train(self, steps: int, rate: float) -> None:
        random, order = np.random.default_rng(self.seed), np.empty(0, int)
        for step in range(steps):
            if len(order) < self.samples:
                order = np.concatenate([order, random.permutation(len(self._labels))])
            chosen, order = order[: self.samples], order[self.samples :]
            self._step(step, chosen.reshape(self.parts, -1), rate * (1 - step / steps))
        self.runtime.invoke(self.runtime.command(loss=False).update(self._pending, DIRECTIONS, restore_k=1))

    def _step(self, step: int, chosen: np.ndarray, rate: float) -> None:
        done: list[tuple[int, int]] = []
        for part, rows in enumerate(chosen):
            self.runtime.feed([x[rows] for x in self._inputs], self._labels[rows])
            seed, command, terms = query_seed(self.seed, step, part), self.runtime.command(), []
            if part:
                terms = [(done[-1][0], 1)]
            elif self._pending:
                command.update(self._pending, DIRECTIONS, restore_k=1)
            self.runtime.invoke(command.perturb([*terms, (seed, 1)], DIRECTIONS))
            plus = int(self.runtime.losses().sum())
            self.runtime.invoke(self.runtime.command().perturb([(seed, -2)], DIRECTIONS))
            d = float(plus - int(self.runtime.losses().sum()))
            move = rate / math.sqrt(self.parts) * self._normalized(d)
            done.append((seed, round(-move * 2**16)))
        self._pending = done

    def _normalized(self, d: float) -> float:
        self._mean_square += (d * d - self._mean_square) / (MEMORY if self._mean_square else 1)
        if not self._mean_square:
            return 0.0
        return max(-CLIP, min(CLIP, d / math.sqrt(self._mean_square)))

    def accuracy(self, part: Labelled) -> float:
        found = evaluate(self.runtime, prepare(self.runtime, *part)).accuracy
        assert found is not None
        return 100 * found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", nargs="+", default=["rotated"], choices=list(TASKS), metavar="TASK")
    parser.add_argument("--parts", nargs="+", type=int, default=[1, 4, 32], help="m, divisors of --samples")
    parser.add_argument("--rates", nargs="+", type=float, default=[0.5, 1.0, 2.0], help="LSB")
    parser.add_argument("--samples", type=int, default=32, help="in a minibatch (default: %(default)s)")
    parser.add_argument("--budget", type=float, default=1e5, help="forward equivalents")
    parser.add_argument("--seeds", type=int, default=3, help="0, 1, … (default: %(default)s)")
    parser.add_argument("--work", type=Path, default=Path("build/learning"), help="folder for models")
    options = parser.parse_args()
    options.work.mkdir(parents=True, exist_ok=True)
    steps = max(1, int(options.budget / 2 / options.samples))
    table = Table("task", "parts", "rate", "validation", "test")
    for name in options.tasks:
        for parts in options.parts:
            found: dict[float, list[tuple[float, float]]] = {}
            for rate in options.rates:
                for seed in range(options.seeds):
                    task = TASKS[name](options.work, seed)
                    run = Run(task, parts, options.samples, seed)
                    run.train(steps, rate)
                    values = run.accuracy(task.validation), run.accuracy(task.test)
                    found.setdefault(rate, []).append(values)
                    print(name, parts, rate, seed, *(f"{v:.1f}" for v in values), file=sys.stderr, flush=True)
            best = max(found, key=lambda rate: statistics.mean(v for v, _ in found[rate]))
            columns = (_mean([pair[i] for pair in found[best]]) for i in (0, 1))
            table.add_row(name, str(parts), f"{best:g}", *columns)
    Console().print(table)


def _mean(values: list[float]) -> str:
    spread = statistics.stdev(values) if len(values) > 1 else 0.0
    return f"{statistics.mean(values):.1f} ± {spread:.1f}"


if __name__ == "__main__":
    main()
