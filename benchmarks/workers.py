# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""Speed-up by workers, and the cost of calling them.

    python benchmarks/workers.py MODELS…

Steps of weight perturbation with four queries are done by this process alone, by one worker and by two, by
turns. Times are those of the fastest of some rounds, as a step's wall clock and as a share of the possible: a
run alone, divided by workers. A call is one of each worker that does nothing. From it and from the time of a
step alone the script estimates the speed of more workers on as many cores: each does an equal share of the
step's invokes, as far as invokes can be divided, and then waits for the call, whose cost is taken to grow
with the number of workers.

Needs Ray, and a core for each worker.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from harness import progress
from rich.console import Console
from rich.table import Table

from tflm_zo import algorithms, inject, load_model
from tflm_zo.data import Data
from tflm_zo.runtime import load
from tflm_zo.training import Workers, inject_settings
from tflm_zo.training.lowering import lower
from tflm_zo.training.run import Run
from tflm_zo.training.weight_run import WeightRun

QUERIES, SECONDS, ROUNDS = 4, 1.0, 3
FORETOLD = (4, 16, 64)
ALONE = 0


def step_time(run: Run) -> float:
    """Measures seconds of a step: the mean over many steps."""
    steps, begin = 0, time.perf_counter()
    while (spent := time.perf_counter() - begin) < SECONDS:
        run.advance()
        steps += 1
    return spent / steps


def measure(path: Path, batch_size: int, counts: list[int]) -> dict[str, Any]:
    """Measures seconds of a step by number of workers."""
    settings = algorithms.weight(batch_size=batch_size, seed=1, learning_rate=0.5, queries=QUERIES)
    model = inject(load_model(path.read_bytes()), inject_settings(settings, batch=min(batch_size, 32)))
    runtime = load(model)
    loss = runtime.metadata.loss
    assert loss is not None
    rng = np.random.default_rng(0)
    shape = runtime.input_details()[0][1:]
    x = rng.integers(-128, 128, (1024, *shape)).astype(np.int8)
    y = x.reshape(len(x), -1) if loss.kind == "mse" else rng.integers(0, loss.elements, len(x)).astype(np.int32)
    best: dict[int, float] = {}
    runs: dict[int, Any] = {}
    pools = [Workers(count) for count in counts]
    try:
        lowered = lower(model, runtime.metadata, settings, steps=1 << 20, samples=len(x))
        given = (model, lowered, Data([x], y))
        runs[ALONE] = WeightRun(runtime, *given)
        for pool, count in zip(pools, counts, strict=True):
            runs[count] = WeightRun(load(model), *given, pool)
        for run in runs.values():
            run.begin()
            run.advance()
        for _ in range(ROUNDS):
            for count, run in runs.items():
                best[count] = min(best.get(count, 1e9), step_time(run))
        call = call_time(pools[0])
        invokes = runs[counts[0]].executor.invokes_of_step
    finally:
        for pool in reversed(pools):
            pool.stop()
    return {
        "batch_size": batch_size,
        "invokes": invokes,
        "step_seconds": best,
        "call_seconds": call,
        "efficiency": {count: best[ALONE] / count / best[count] for count in counts},
        "foretold": {n: best[ALONE] / foretold(best[ALONE], invokes, call, n) for n in FORETOLD},
    }


def call_time(pool: Workers) -> float:
    """Measures seconds of a call that does nothing."""
    times = []
    for _ in range(100):
        begin = time.perf_counter()
        pool.call("__repr__", [()] * pool.count, lambda _: ())
        times.append(time.perf_counter() - begin)
    return float(np.median(times))


def foretold(alone: float, invokes: int, call: float, workers: int) -> float:
    """Estimates seconds of a step with several workers from the seconds of a call of one."""
    return alone * -(-invokes // workers) / invokes + call * min(workers, invokes)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", type=Path, metavar="MODELS", help=".tflite files")
    parser.add_argument("--batch-size", type=int, nargs="+", default=[64, 512], help="samples of a minibatch")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    arguments = parser.parse_args()
    try:
        import ray
    except ImportError:
        print("SKIPPED: Ray is not installed", file=sys.stderr)
        return
    if not arguments.models:
        print("left out: give .tflite files", file=sys.stderr)
        return
    counts = [n for n in (1, 2) if n <= (os.cpu_count() or 1)]
    # All at once, of which one works at a time.
    ray.init("local", num_cpus=sum(counts), include_dashboard=False, log_to_driver=False, logging_level="error")
    results: dict[str, list[dict[str, Any]]] = {}
    cases = [(path, size) for path in arguments.models for size in arguments.batch_size]
    with progress("models", len(cases)) as advance:
        for path, size in cases:
            results.setdefault(path.stem, []).append(measure(path, size, counts))
            advance(1)
    if arguments.json:
        json.dump(results, sys.stdout, indent=2)
        return
    table = Table(title=f"Weight perturbation, {QUERIES} queries")
    for column in (
        "model",
        "minibatch",
        "alone",
        "1 worker",
        "2 workers",
        "2 / possible",
        "a call",
        *(f"{n}, foretold" for n in FORETOLD),
    ):
        table.add_column(column, justify="left" if column == "model" else "right")
    for name, rows in results.items():
        for found in rows:
            step = {int(k): v for k, v in found["step_seconds"].items()}
            times = [f"{step[k] * 1e3:.2f} ms" if k in step else "" for k in (ALONE, 1, 2)]
            share = found["efficiency"].get(2)
            table.add_row(
                name,
                f"{found['batch_size']}",
                *times,
                "" if share is None else f"{share:.2f}",
                f"{found['call_seconds'] * 1e3:.2f} ms",
                *(f"{x:.1f}" for x in found["foretold"].values()),
            )
    Console().print(table)


if __name__ == "__main__":
    main()
