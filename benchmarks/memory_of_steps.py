# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""Whether memory grows with the number of steps of a run.

    python benchmarks/memory_of_steps.py --steps 1000000

A tiny CNN on random data, 1,000 samples with minibatches of 1, is trained in LiteRT by perturbed weights and
by perturbed nodes, each in a process of its own, with a log on disk. Printed is the memory that the process
has resident after 10,000 steps (half of the steps, if these are fewer), after all, and after the finished run
has been resumed from its log. The script fails if the run has grown by more than 5 MB after its first
10,000 steps, besides the 8 bytes of each step's loss in its history. A million steps take some minutes.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

FIRST = 10_000
LARGEST_GROWTH_MB = 5.0
KINDS = ("weight", "node")


def resident_mb() -> float:
    """Measures this process."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def train(kind: str, steps: int, folder: str) -> dict[str, float]:
    sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
    from helpers.models import MODELS
    from tflm_zo import inject
    from tflm_zo.training import ALGORITHMS, Callback, RunProgress, Trainer, inject_settings

    class Watch(Callback):
        def __init__(self) -> None:
            self.found: dict[str, float] = {}

        def on_step_end(self, progress: RunProgress, logs: dict[str, float]) -> None:
            if progress.step == min(FIRST, steps // 2):
                self.found["first_mb"] = resident_mb()
            if progress.step == steps:
                self.found["last_mb"] = resident_mb()

    rng = np.random.default_rng(0)
    x = rng.integers(-128, 128, (1000, 8, 8, 1)).astype(np.int8)
    y = rng.integers(0, 4, len(x))
    settings = ALGORITHMS[kind](batch_size=1, queries=1)
    model = inject(MODELS["small_cnn"](), inject_settings(settings))
    log, watch = Path(folder) / f"{kind}.zolog", Watch()
    Trainer(model, settings).fit(x, y, steps=steps, callbacks=[watch], log=log, keep="last")
    Trainer(model, settings).fit(x, y, steps=steps, log=log, resume=True, keep="last")
    return {**watch.found, "resumed_mb": resident_mb()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--steps", type=int, default=1_000_000, help="of each run (default: a million)")
    parser.add_argument("--json", action="store_true", help="print the result as JSON")
    parser.add_argument("--kind", choices=KINDS, help=argparse.SUPPRESS)  # of a process of its own
    options = parser.parse_args()
    if options.kind:
        with tempfile.TemporaryDirectory() as folder:
            print(json.dumps(train(options.kind, options.steps, folder)))
        return
    results = {}
    for kind in KINDS:
        command = [sys.executable, __file__, "--kind", kind, "--steps", str(options.steps)]
        done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
        results[kind] = found = json.loads(done.stdout)
        found["grown_mb"] = found["last_mb"] - found["first_mb"]
        if not options.json:
            print(
                f"{kind:6}  {found['first_mb']:.1f} MB after {min(FIRST, options.steps // 2):,} steps, "
                f"{found['last_mb']:.1f} MB after {options.steps:,}, {found['resumed_mb']:.1f} MB resumed",
                flush=True,
            )
    if options.json:
        print(json.dumps({"steps": options.steps, "models": {"small": results}}))
    grown = [kind for kind in KINDS if results[kind]["grown_mb"] > LARGEST_GROWTH_MB]
    if grown:
        sys.exit(f"grown by more than {LARGEST_GROWTH_MB:g} MB: {', '.join(grown)}")


if __name__ == "__main__":
    main()
