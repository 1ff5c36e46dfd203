# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""How long a fleet's log takes to replay, and a client to catch up, beside a round of its own.

    python benchmarks/fleet_catch_up.py model.tflite [--queries 1 4 32] [--rounds 10000] [--missed 1000]

The model is a plain int8 classifier, LeNet-5 in the figures of docs/costs.md. Rounds are put together of
random differences, since the time does not depend on them.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

from tflm_zo import algorithms, inject, load_model
from tflm_zo.fleet import FleetLog, Replica
from tflm_zo.logs import replay_log
from tflm_zo.training import inject_settings

MINIBATCH = 16


def seconds(work: Callable[[], object]) -> float:
    begin = time.perf_counter()
    work()
    return time.perf_counter() - begin


def row(plain: Path, queries: int, rounds: int, missed: int) -> list[str]:
    """Returns the cells of `queries` queries."""
    random, settings = np.random.default_rng(0), algorithms.weight(batch_size=MINIBATCH, queries=queries)
    model = inject(load_model(plain), inject_settings(settings, batch=MINIBATCH))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "fleet.zolog"
        log = FleetLog(model, settings, rounds, 100, path)
        x = random.integers(-128, 128, (100, *model.subgraphs[0].inputs[0].shape[1:])).astype(np.int8)
        client = Replica(model, log.header, x, random.integers(0, 2, 100))
        first = client.snapshot()
        for step in range(rounds):
            if step == rounds - missed:
                client.take_snapshot(log.snapshot())
            log.decide_mean(np.array([*random.normal(0, 0.1, queries), 1.0]), 100)
        log.close()
        records, snapshot = log.records(client.step), log.snapshot()
        replay = seconds(lambda: replay_log(model, path))
        by_records = seconds(lambda: client.take(records))
        by_snapshot = seconds(lambda: client.take_snapshot(snapshot))
        assert client.weights_checksum == log.weights_checksum
        client.take_snapshot(first)
        client.answer()
        answer = min(seconds(client.answer) for _ in range(5))
        return [
            str(queries),
            f"{path.stat().st_size:,} B",
            f"{replay:.2f} s",
            f"{len(records):,} B",
            f"{1000 * by_records:.0f} ms",
            f"{len(snapshot):,} B",
            f"{1000 * by_snapshot:.1f} ms",
            f"{1000 * answer:.0f} ms",
        ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("--queries", nargs="+", type=int, default=[1, 4, 32], help="of a round")
    parser.add_argument("--rounds", type=int, default=10_000, help="of the log (default: %(default)s)")
    parser.add_argument("--missed", type=int, default=1_000, help="by the client (default: %(default)s)")
    options = parser.parse_args()
    table = Table("queries", "log", "replay", "records missed", "by them", "snapshot", "by it", "an answer")
    for queries in options.queries:
        table.add_row(*row(options.model, queries, options.rounds, options.missed))
    console = Console()
    if not console.is_terminal:
        console.width = 120
    console.print(table)


if __name__ == "__main__":
    main()
