# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""Costs of TFLM's exact bits on the desktop: forward passes beside XNNPACK's and LiteRT's own kernels.

    python benchmarks/exactness_speed.py lenet5.tflite kws_ref_model.tflite …

For each int8 model, batches of 32 and 1, one thread of LiteRT:

* exact: the ZO model with all weights variable, as a training run has it, not perturbed;
* XNNPACK on the original, whose weights are constant and whose outputs are not TFLM's;
* LiteRT's optimized kernels and its reference kernels on the original.

All of them alternate in one process; times are those of the processor, and ratios are medians over rounds of
(exact / other) of the round. GMAC/s are 10^9 multiply-accumulates a second of the exact forward pass. The
percentage is relative to the core's peak in registers with the same multiply instruction
(harness/core_peak.c). Without arguments the LeNet-5 of the tests, with random weights, is measured.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from typing import Any

from harness import KINDS, add_models_argument, chosen_models, core_peak, interpreter, progress, trainable_model
from rich.console import Console
from rich.table import Table

from tflm_zo.converters import Model, set_batch
from tflm_zo.converters.kernels import macs

BATCHES = (32, 1)
OTHERS = tuple(kind for kind in KINDS if kind != "exact")


def microseconds(made: Any, seconds: float) -> float:
    """Measures an invoke: the mean processor time over `seconds` of invokes, at least one."""
    begin, count, spent = time.process_time(), 0, 0.0
    while count == 0 or spent < seconds:
        made.invoke()
        count += 1
        spent = time.process_time() - begin
    return spent / count * 1e6


def measure(model: Model, batch: int, rounds: int, seconds: float, kernels: str | None) -> dict[str, float]:
    """Measures microseconds a sample of each kind, and ratios of the exact one to the others."""
    plain = set_batch(model, batch).to_bytes()
    made = {kind: interpreter(plain, kind) for kind in OTHERS}
    made["exact"] = interpreter(trainable_model(model, batch).to_bytes(), "exact", kernels)
    times: dict[str, list[float]] = {kind: [] for kind in made}
    for _ in range(rounds):
        for kind, own in made.items():
            times[kind].append(microseconds(own, seconds) / batch)
    result = {f"{kind}_us": statistics.median(values) for kind, values in times.items()}
    for kind in OTHERS:
        pairs = zip(times["exact"], times[kind], strict=True)
        result[f"to_{kind}"] = statistics.median(own / other for own, other in pairs)
    result["gmac_per_second"] = sum(map(macs, model.subgraphs[0].operators)) / result["exact_us"] / 1e3
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_models_argument(parser, "int8 models")
    parser.add_argument("--rounds", type=int, default=11)
    parser.add_argument("--seconds", type=float, default=0.1, help="of a round, each (default: %(default)s)")
    parser.add_argument("--kernels", help="kernel set of the exact ones (default: the fastest)")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    options = parser.parse_args()
    models = chosen_models(options.models)
    results: dict[str, dict[str, dict[str, float]]] = {}
    peak = core_peak(options.kernels)
    with progress("measuring", len(models) * len(BATCHES)) as advance:
        for name, model in models.items():
            results[name] = {}
            for batch in BATCHES:
                row = measure(model, batch, options.rounds, options.seconds, options.kernels)
                if peak is not None:
                    row["of_peak"] = row["gmac_per_second"] / peak
                results[name][str(batch)] = row
                advance(1)
    if options.json:
        print(json.dumps(results))
        return
    table = Table(
        "model",
        "batch",
        "exact, µs a sample",
        "GMAC/s",
        "of the core's" if peak is None else f"of the core's {peak:.0f}",
        "exact / XNNPACK",
        "optimized / exact",
        "reference / exact",
    )
    for name, found in results.items():
        for batch_name, row in found.items():
            table.add_row(
                name,
                batch_name,
                f"{row['exact_us']:.1f}",
                f"{row['gmac_per_second']:.0f}",
                f"{row['of_peak']:.0%}" if "of_peak" in row else "–",
                f"{row['to_xnnpack']:.2f}",
                f"{1 / row['to_builtin']:.1f}",
                f"{1 / row['to_reference']:.0f}",
            )
    Console().print(table)


if __name__ == "__main__":
    main()
