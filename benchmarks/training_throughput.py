# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""How near training comes to the forward passes it consists of, and how far it is from a simulation in NumPy.

    python benchmarks/training_throughput.py lenet5.tflite kws_ref_model.tflite …

For each int8 classifier, all weights trainable, random data, in samples per second that pass forward through
the network:

* training: `Trainer.fit` (LiteRT, one thread; antithetic SPSA, minibatch 64, 16-bit
  update, seed log on disk);
* forwards: the plain model alone in the same runtime with the same kernels and batch;
* simulation: the same step on the same int8 network, interpreted in NumPy (see numpy_simulation/), one BLAS
  thread, with the fastest of 8, 16, 32 or 64 samples per forward pass; left out if the model has an
  unsupported operator.

The three alternate in one process; figures and ratios are medians over rounds. Seconds are processor time:
one thread does all the work, so on an idle machine they are those of the clock, and other load does not
count. Beside them the same training with --threads threads, in seconds of the clock, as a ratio to one
thread; and, as the machine's limit, two processes' forwards at the same time as a ratio to those of one. The
next two columns are node perturbation, the default algorithm, with minibatches of 16: milliseconds of a step
with one thread, by the clock, and the ratio of --threads threads to it; left out if no layer carries nodes.
The last two are exact gradients of all layers with minibatches of 32: how many forward passes a step takes as
long as, without the preparation of the run, and the ratio of threads.
All figures include the preparation of a run. Ratios of threads need an idle machine. Without arguments the
LeNet-5 of the tests, with random weights, is measured.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from harness import HEADROOM, add_models_argument, chosen_models, interpreter, progress, random_data, trainable_model
from numpy_simulation import Network, Simulation, UnsupportedError
from rich.console import Console
from rich.table import Table
from threadpoolctl import threadpool_limits

from tflm_zo.converters import ConversionError, Model, export_model, set_batch
from tflm_zo.training import Settings, Trainer, Weights, algorithms

MINIBATCH = 64
SIMULATION_BATCHES = (8, 16, 32, 64)


def bare_forwards(model: Model, batch: int) -> Callable[[], int]:
    """Makes a function that invokes the plain model and returns its samples."""
    own = interpreter(set_batch(model, batch).to_bytes(), "exact")

    def forward() -> int:
        own.invoke()
        return batch

    return forward


def simulated_steps(model: Model, batch: int, x: np.ndarray[Any, Any], y: np.ndarray[Any, Any]) -> Callable[[], int]:
    """Makes a function that trains a step in NumPy and returns the samples that it passes forward."""
    simulation = Simulation(Network(model), headroom=HEADROOM, batch=batch)
    rng = np.random.default_rng(0)

    def step() -> int:
        chosen = rng.integers(0, len(x), MINIBATCH)
        simulation.step(x[chosen], y[chosen])
        return 2 * MINIBATCH

    return step


def samples_per_second(run: Callable[[], int], seconds: float) -> float:
    """Measures the speed of repeated calls that return their numbers of samples."""
    done, begin = 0, time.process_time()
    end = begin
    while end - begin < seconds:
        done += run()
        end = time.process_time()
    return done / (end - begin)


def fastest_simulation(
    model: Model, x: np.ndarray[Any, Any], y: np.ndarray[Any, Any], seconds: float
) -> Callable[[], int] | None:
    """Finds the number of samples per forward pass that suits the machine; None: not simulated."""
    try:
        steps = [simulated_steps(model, batch, x, y) for batch in SIMULATION_BATCHES]
    except UnsupportedError:
        return None
    return max(steps, key=lambda step: samples_per_second(step, seconds))


def _forwards_until(data: bytes, batch: int, seconds: float, barrier: Any, found: Any) -> None:
    """Counts forward passes in a process of its own for `seconds` of the clock. All processes begin
    together.
    """
    own = interpreter(data, "exact")
    barrier.wait()
    begin, done = time.perf_counter(), 0
    while time.perf_counter() - begin < seconds:
        own.invoke()
        done += batch
    found.put(done / (time.perf_counter() - begin))


def cores_worth(model: Model, batch: int, processes: int, seconds: float) -> float:
    """Measures forward passes a second of several processes at the same time, as a ratio to those of one."""
    context, speeds = multiprocessing.get_context("spawn"), []
    for count in (1, processes):
        barrier, found = context.Barrier(count), context.Queue()
        arguments = (set_batch(model, batch).to_bytes(), batch, seconds, barrier, found)
        made = [context.Process(target=_forwards_until, args=arguments) for _ in range(count)]
        for process in made:
            process.start()
        speeds.append(sum(found.get() for _ in made))
        for process in made:
            process.join()
    return speeds[1] / speeds[0]


def by_the_clock(trainers: list[Trainer], x: Any, y: Any, steps: int, rounds: int) -> tuple[float, float]:
    """Measures seconds of a step of the first trainer, and the speed-up of the second one."""
    seconds, ratios = [], []
    for _ in range(rounds):
        taken = []
        for trainer in trainers:
            begin = time.perf_counter()
            trainer.fit(x, y, steps=steps, keep="last")
            taken.append(time.perf_counter() - begin)
        seconds.append(taken[0] / steps)
        ratios.append(taken[0] / taken[1])
    return statistics.median(seconds), statistics.median(ratios)


def steps_by_the_clock(model: Model, settings: Settings, threads: int, rounds: int, seconds: float) -> dict[str, float]:
    """Measures milliseconds of a step, its ratio to a forward pass, and the speed-up by threads; {} if there is
    nothing to train.
    """
    try:
        trainers = [Trainer(model, settings, threads=n) for n in (1, threads)]
    except ConversionError:
        return {}
    x, y = random_data(trainers[0].runtime, 1000)
    first, _ = by_the_clock(trainers, x, y, 20, 2)
    steps = max(1, round(seconds / first))
    step, ratio = by_the_clock(trainers, x, y, 2 * steps, rounds)
    shorter, _ = by_the_clock(trainers, x, y, steps, rounds)
    forward, taken = bare_forwards(model, settings.batch_size), []
    for _ in range(100):
        begin = time.perf_counter()
        forward()
        taken.append(time.perf_counter() - begin)
    more = 2 * step - shorter  # of the longer run's other steps: without its preparation
    return {"step_ms": step * 1e3, "step_over_forward": more / statistics.median(taken), "threads_over_one": ratio}


def measure(
    model: Model, batch: int, rounds: int, seconds: float, threads: int, advance: Callable[[int], None]
) -> dict[str, float]:
    zo = trainable_model(model, batch)
    settings = Settings(tasks=(Weights(queries=1),), batch_size=MINIBATCH)
    trainer, other = (Trainer(zo, settings, threads=n) for n in (1, threads))
    x, y = random_data(trainer.runtime, 512)
    bare = bare_forwards(model, batch)
    simulation = fastest_simulation(export_model(zo), x, y, seconds / 4)
    steps = max(1, round(seconds * samples_per_second(bare, seconds) / (2 * MINIBATCH)))
    forwards, training, simulated = [], [], []
    for _ in range(rounds):
        with tempfile.TemporaryDirectory() as folder:
            forwards.append(samples_per_second(bare, seconds))
            begin = time.process_time()
            trainer.fit(x, y, steps=steps, log=Path(folder) / "run.zolog", keep="last")
            training.append(steps * 2 * MINIBATCH / (time.process_time() - begin))
            if simulation is not None:
                simulated.append(samples_per_second(simulation, seconds))
        advance(1)
    result = {
        "weights": sum(t.size for t in trainer.runtime.metadata.trainable),
        "bare_samples_per_s": statistics.median(forwards),
        "training_samples_per_s": statistics.median(training),
        "ratio": statistics.median(t / f for t, f in zip(training, forwards, strict=True)),
    }
    _, result["threads_over_one"] = by_the_clock([trainer, other], x, y, steps, rounds)
    result["processes_over_one"] = cores_worth(model, batch, threads, seconds)
    if simulated:
        speedup = statistics.median(t / s for t, s in zip(training, simulated, strict=True))
        result["simulation_samples_per_s"] = statistics.median(simulated)
        result["speedup_over_simulation"] = speedup
    exact = algorithms.exact(batch_size=32, learning_rate=0.05)  # a measurement would count as steps
    for name, own in (("node", algorithms.node(batch_size=16)), ("exact", exact)):
        found = steps_by_the_clock(model, own, threads, rounds, seconds)
        result |= {f"{name}_{key}": value for key, value in found.items()}
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_models_argument(parser, "int8 classifiers")
    parser.add_argument("--batch", type=int, default=32, help="samples per invoke of LiteRT")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=2.0, help="of each measurement")
    parser.add_argument("--threads", type=int, default=2, help="(default: %(default)s)")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    arguments = parser.parse_args()

    models = chosen_models(arguments.models)
    results = {}
    with threadpool_limits(1, user_api="blas"), progress("measuring", len(models) * arguments.rounds) as advance:
        for name, model in models.items():
            results[name] = measure(
                model, arguments.batch, arguments.rounds, arguments.seconds, arguments.threads, advance
            )
    if arguments.json:
        print(json.dumps({"batch": arguments.batch, "models": results}, indent=2))
        return
    table = Table(title=f"Samples per second, LiteRT (batch {arguments.batch}) and NumPy, one thread each")
    columns = ("model", "weights", "forwards", "training", "of forwards", "NumPy", "training / NumPy")
    columns += (f"{arguments.threads} threads / 1", f"{arguments.threads} processes / 1")
    columns += ("node step, ms", f"{arguments.threads} threads / 1")
    columns += ("exact step / forward", f"{arguments.threads} threads / 1")
    for column in columns:
        table.add_column(column, justify="left" if column == "model" else "right")
    for name, r in results.items():
        table.add_row(
            name,
            f"{r['weights']:,}",
            f"{r['bare_samples_per_s']:,.0f}",
            f"{r['training_samples_per_s']:,.0f}",
            f"{r['ratio']:.3f}",
            f"{r['simulation_samples_per_s']:,.0f}" if "simulation_samples_per_s" in r else "–",
            f"{r['speedup_over_simulation']:.1f}x" if "speedup_over_simulation" in r else "–",
            f"{r['threads_over_one']:.2f}",
            f"{r['processes_over_one']:.2f}",
            f"{r['node_step_ms']:.2f}" if "node_step_ms" in r else "–",
            f"{r['node_threads_over_one']:.2f}" if "node_step_ms" in r else "–",
            f"{r['exact_step_over_forward']:.1f}" if "exact_step_ms" in r else "–",
            f"{r['exact_threads_over_one']:.2f}" if "exact_step_ms" in r else "–",
        )
    Console().print(table)


if __name__ == "__main__":
    main()
