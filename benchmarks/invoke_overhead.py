# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""Costs of the weight ops: time in LiteRT, memory in TFLM.

    python benchmarks/invoke_overhead.py lenet5.tflite kws_ref_model.tflite …

For each int8 model, all weights trainable:

* time: one invoke with a perturbation of every weight (Rademacher, +-2 LSB) against an invoke of the plain
  model, same runtime (LiteRT, one thread), same kernels, same batch. The two alternate
  in one process; the ratio is the median over rounds of (fastest ZO invoke / fastest plain invoke) of the
  round, which other load on the machine disturbs least.
* weights: nanoseconds a weight of the C core, with this machine's kernel set, to perturb, to update along one
  direction, and to replay a step; beside them the time to copy a byte.
* memory: TFLM's arena (its recording allocator, batch 1, 64-bit structs) of the ZO model against the
  original's plus the trainable bytes.

The four MLPerf Tiny models are in github.com/mlcommons/tiny, benchmark/training/*/trained_models; without
arguments the LeNet-5 of the tests, with random weights, is measured.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable

import numpy as np
from harness import HEADROOM, add_models_argument, chosen_models, interpreter, nanoseconds_a_weight, progress
from rich.console import Console
from rich.table import Table

from tflm_zo import Rademacher, inject
from tflm_zo.converters import Model, read_metadata, set_batch
from tflm_zo.core import Command
from tflm_zo.firmware.arena import recorded


def fastest(run: Callable[[int], None], repeats: int) -> float:
    """Measures seconds of the fastest of `repeats` calls."""
    best = float("inf")
    for i in range(repeats):
        begin = time.perf_counter()
        run(i)
        best = min(best, time.perf_counter() - begin)
    return best


def measure_time(model: Model, batch: int, rounds: int, advance: Callable[[int], None]) -> dict[str, float]:
    """Measures microseconds per invoke: plain, ZO without a command, ZO with a perturbation; and ratios to
    plain.
    """
    rebatched = set_batch(model, batch)
    plain = interpreter(rebatched.to_bytes(), "exact")
    zo = inject(model, trainable="all", nodes=(), headroom=HEADROOM, batch=batch, update_bits=8, replay=True)
    trained = interpreter(zo.to_bytes(), "exact")
    port = next(d["index"] for d in trained.get_input_details() if d["name"] == "zo_command")
    words = read_metadata(zo).command_words
    z = Rademacher(HEADROOM)
    idle = np.zeros(words, np.int32)
    perturb = [Command(words, loss=False).perturb([(1, k)], z).words for k in (1, -1)]

    def run_plain(_: int) -> None:
        plain.invoke()

    def run_idle(_: int) -> None:
        trained.invoke()

    def run_perturb(i: int) -> None:
        trained.set_tensor(port, perturb[i % 2])
        trained.invoke()

    trained.set_tensor(port, idle)
    once = max(fastest(run_plain, 3), 1e-6)
    repeats = max(4, min(200, int(0.02 / once)))
    repeats += repeats % 2  # a perturbation is undone by the next one
    seconds: dict[str, list[float]] = {"plain": [], "idle": [], "perturb": []}
    for _ in range(rounds):
        seconds["plain"].append(fastest(run_plain, repeats))
        trained.set_tensor(port, idle)
        seconds["idle"].append(fastest(run_idle, repeats))
        seconds["perturb"].append(fastest(run_perturb, repeats))
        advance(1)
    ratio = [p / q for p, q in zip(seconds["perturb"], seconds["plain"], strict=True)]
    share = [(p - i) / q for p, i, q in zip(seconds["perturb"], seconds["idle"], seconds["plain"], strict=True)]
    return {
        **{f"{name}_us": statistics.median(values) * 1e6 for name, values in seconds.items()},
        "ratio": statistics.median(ratio),
        "perturb_share": statistics.median(share),
    }


def measure_memory(model: Model) -> dict[str, int]:
    zo = inject(model, trainable="all", nodes=(), headroom=HEADROOM, update_bits=8, replay=True)
    trainable = sum(t.size for t in read_metadata(zo).trainable)
    original, total = (sizes["total"] for sizes in recorded([model, zo]) or ())
    return {
        "arena_original": original,
        "trainable": trainable,
        "arena_zo": total,
        "overhead": total - original - trainable,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_models_argument(parser, "int8 models")
    parser.add_argument("--batch", type=int, default=8, help="samples per invoke of the timing")
    parser.add_argument("--rounds", type=int, default=21, help="rounds of the timing")
    parser.add_argument("--json", action="store_true", help="print JSON instead of tables")
    arguments = parser.parse_args()

    models = chosen_models(arguments.models)
    results = {}
    with progress("measuring", len(models) * arguments.rounds) as advance:
        for name, model in models.items():
            timing = measure_time(model, arguments.batch, arguments.rounds, advance)
            results[name] = {**timing, **measure_memory(model)}
    weights = nanoseconds_a_weight(10 * arguments.rounds)
    if arguments.json:
        print(json.dumps({"batch": arguments.batch, "models": results, "weights_ns": weights}, indent=2))
        return

    table = Table(title=f"LiteRT, batch {arguments.batch}, all weights trainable and perturbed")
    for column in ("model", "weights", "plain µs", "ZO idle µs", "ZO perturb µs", "ratio", "perturbation"):
        table.add_column(column, justify="left" if column == "model" else "right")
    for name, r in results.items():
        table.add_row(
            name,
            f"{r['trainable']:,}",
            f"{r['plain_us']:.0f}",
            f"{r['idle_us']:.0f}",
            f"{r['perturb_us']:.0f}",
            f"{r['ratio']:.3f}",
            f"{100 * r['perturb_share']:.1f} %",
        )
    Console().print(table)
    table = Table("weights", "ns a weight", "/ copying", title="The C core")
    for name, own in weights.items():
        table.add_row(name, f"{own:.3f}", f"{own / weights['copy']:.1f}")
    Console().print(table)
    table = Table(title="TFLM arena, batch 1, 8-bit update, bytes")
    for column in ("model", "original", "trainable", "ZO", "overhead"):
        table.add_column(column, justify="left" if column == "model" else "right")
    for name, r in results.items():
        table.add_row(name, *(f"{r[k]:,}" for k in ("arena_original", "trainable", "arena_zo", "overhead")))
    Console().print(table)


if __name__ == "__main__":
    main()
