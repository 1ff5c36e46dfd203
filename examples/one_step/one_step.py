# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""Zeroth-order training by hand: inject, perturb, compare losses, update, replay; one graph, two runtimes.

    python examples/one_step/one_step.py [MODEL.tflite] [--runtime litert --runtime tflm]

Any full-int8 classifier will do; without one, the tests' small CNN with random weights is used.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import numpy as np

import tflm_zo
from tflm_zo import Model, Rademacher, algorithms
from tflm_zo.core import query_seed
from tflm_zo.training import inject_settings

QUERIES, STEPS, BATCH, LEARNING_RATE = 4, 40, 8, 50.0


def train(model: Model, runtime_name: str) -> int:
    """Trains on one batch, prints the loss, replays the run from its log; returns the weights' checksum."""
    runtime = tflm_zo.runtime.load(model, runtime_name)
    weights = sum(tensor.size for tensor in runtime.metadata.trainable)
    print(f"{runtime_name}: {weights:,} trainable weights, {BATCH} samples")

    # A batch: random pixels and labels, which is enough to see a loss fall.
    rng = np.random.default_rng(0)
    shape, dtype, _, _ = runtime.input_details()
    runtime.set_inputs(rng.integers(-128, 128, shape).astype(dtype))
    runtime.set_labels(rng.integers(0, runtime.output_details()[0][-1], BATCH))

    # SPSA: two invokes per query, and nothing else. An invoke's command changes the weights before its
    # forward pass; the first invoke of the next step applies the update of this step.
    z = Rademacher(2)  # every weight moves by +2 or -2 LSB
    gain = LEARNING_RATE / (2 * QUERIES * BATCH)
    log: list[list[tuple[int, int]]] = []
    for step in range(STEPS):
        seeds = [query_seed(run_seed=42, step=step, query=q) for q in range(QUERIES)]
        queries = []
        for q, seed in enumerate(seeds):
            command = runtime.command()
            if q == 0 and log:
                command.update(log[-1], z, restore_k=1)  # undoes the last perturbation on the way
            undo = [(seeds[q - 1], +1)] if q > 0 else []
            runtime.invoke(command.perturb([*undo, (seed, +1)], z))
            plus = int(runtime.losses().sum())
            runtime.invoke(runtime.command().perturb([(seed, -2)], z))
            minus = int(runtime.losses().sum())
            queries.append((seed, round(-gain * (plus - minus))))
        log.append(queries)
        if step % 10 == 0:
            print(f"  step {step:3d}: loss {(plus + minus) / 2 / BATCH / 65536:.4f}")
    runtime.invoke(runtime.command(checksum=True).update(log[-1], z, restore_k=1))
    trained = runtime.status().checksum
    print(f"  step {STEPS:3d}: loss {runtime.losses().mean() / 65536:.4f}, checksum {trained:#010x}")

    # The log of seeds and coefficients is all of the training: replayed from the initial weights, it gives
    # the trained ones, bit for bit.
    runtime.invoke(runtime.command().restore())
    for queries in log:
        runtime.invoke(runtime.command(loss=False, checksum=True).replay([queries], z))
    replayed = runtime.status().checksum
    print(f"  replayed from {STEPS * QUERIES * 8} bytes: checksum {replayed:#010x}")
    if replayed != trained:
        raise SystemExit("the replay differs from the training")
    return trained


def small_cnn() -> bytes:
    """Returns the tests' small CNN with random weights."""
    sys.path.insert(0, str(Path(__file__).parents[2] / "tests"))
    from helpers.models import MODELS

    return MODELS["small_cnn"]()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", nargs="?", type=Path, help="a full-int8 classifier (.tflite)")
    parser.add_argument(
        "--runtime",
        action="append",
        choices=list(tflm_zo.runtime.RUNTIMES),
        help="may be repeated; default: litert and, where it is installed, tflm",
    )
    arguments = parser.parse_args()
    default = [name for name in ("litert", "tflm") if name in tflm_zo.runtime.available()]
    names = arguments.runtime or default

    # The rewriter turns the int8 model into one whose weights the graph itself can change.
    settings = inject_settings(algorithms.weight(), batch=BATCH, max_queries=QUERIES)
    model = tflm_zo.inject(arguments.model or small_cnn(), settings)
    checksums = {name: train(model, name) for name in names}
    if len(set(checksums.values())) > 1:
        raise SystemExit(f"the weights differ: {checksums}")
    if len(checksums) > 1:
        print(f"the weights are identical in {' and '.join(checksums)}")


if __name__ == "__main__":
    main()
