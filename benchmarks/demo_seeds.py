# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""The demo's accuracies over several seeds: pre-training and adaptation both start from the seed.

python benchmarks/demo_seeds.py [--dataset digits] [--seeds 5]
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile

from rich.console import Console
from rich.progress import track
from rich.table import Table

from tflm_zo.demo import SCENARIOS, run_demo


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dataset", default="digits", choices=list(SCENARIOS))
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    arguments = parser.parse_args()

    results = []
    for seed in track(range(arguments.seeds), "seeds", console=Console(stderr=True)):
        with tempfile.TemporaryDirectory() as folder:
            results.append(run_demo(folder, dataset=arguments.dataset, seed=seed, exact=False))
    old, new = results[0].old, results[0].new
    columns = {old: [100 * r.upright for r in results], f"{new}, before": [100 * r.before for r in results]}
    for name in results[0].adaptations:
        columns[f"{new}, {name} perturbation"] = [100 * r.adaptations[name].accuracy for r in results]
    if arguments.json:
        print(json.dumps({"dataset": arguments.dataset, "budget": results[0].budget, **columns}))
        return
    budget = f"{results[0].budget:,} forward equivalents"
    table = Table(title=f"{results[0].title}, {len(results)} seeds, {budget}: accuracy, %")
    for column in ("", "mean", "spread (σ)", "least", "most"):
        table.add_column(column, justify="right" if column else "left")
    for name, values in columns.items():
        spread = statistics.stdev(values) if len(values) > 1 else 0.0
        numbers = (statistics.mean(values), spread, min(values), max(values))
        table.add_row(name, *(f"{v:.1f}" for v in numbers))
    Console().print(table)


if __name__ == "__main__":
    main()
