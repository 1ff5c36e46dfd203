# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""One zeroth-order training step by hand: inject, perturb, compare losses, update, replay.

    python examples/one_step/one_step.py [MODEL.tflite] [--runtime litert-ref]

Any full-int8 classifier will do; without one, a small CNN is made up on the spot.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import numpy as np

import tflm_zo
from tflm_zo import Distribution
from tflm_zo.native import query_seed

QUERIES, STEPS, LEARNING_RATE = 4, 40, 50.0


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("model", nargs="?", type=Path, help="a full-int8 classifier (.tflite)")
    parser.add_argument("--runtime", default="litert-ref", help=", ".join(tflm_zo.runtime.RUNTIMES))
    arguments = parser.parse_args()

    # 1. The rewriter turns the int8 model into one whose weights the graph itself can change.
    model = tflm_zo.inject(
        arguments.model or small_cnn(),
        trainable="all",
        batch=8,
        head_room=2,
        update_bits=16,
        max_queries=QUERIES,
    )
    runtime = tflm_zo.runtime.load(model, arguments.runtime)
    print(f"{sum(t.size for t in runtime.metadata.trainable):,} trainable weights in {arguments.runtime}")

    # 2. A batch: random pixels and labels, which is enough to see a loss fall.
    rng = np.random.default_rng(0)
    shape, dtype, _, _ = runtime.input_details()
    runtime.set_inputs(rng.integers(-128, 128, shape).astype(dtype))
    runtime.set_labels(rng.integers(0, runtime.metadata.loss.elements, runtime.batch))

    # 3. SPSA: two invokes per query, and nothing else. What one invoke does to the weights before its forward
    #    pass is in its command; the update of a step rides on the first invoke of the next.
    z = Distribution.rademacher(2)  # every weight moves by +2 or -2 LSB
    log: list[list[tuple[int, int]]] = []
    for step in range(STEPS):
        queries = []
        command = runtime.command()
        if log:
            command.update(log[-1], z, restore_k=1)
        for q in range(QUERIES):
            seed = query_seed(run_seed=42, step=step, query=q)
            runtime.invoke(command.perturb([(seed, +1)], z))
            plus = runtime.losses().sum()
            runtime.invoke(runtime.command().perturb([(seed, -2)], z))
            minus = runtime.losses().sum()
            gain = LEARNING_RATE / (2 * QUERIES * runtime.batch)
            queries.append((seed, int(-gain * (plus - minus))))
            # The perturbation is undone by the next command: by its update, or here.
            command = runtime.command()
            if q + 1 < QUERIES:
                command.perturb([(seed, +1)], z)
        log.append(queries)
        if step % 5 == 0:
            print(f"step {step:3d}: loss {(plus + minus) / 2 / runtime.batch / 65536:.4f}")
    runtime.invoke(runtime.command(checksum=True).update(log[-1], z, restore_k=1))
    print(f"step {STEPS:3d}: loss {runtime.losses().mean() / 65536:.4f}, {runtime.status()}")

    # 4. The log of seeds and coefficients is all of the training: replayed from the initial weights, it gives
    #    the trained ones, bit for bit.
    trained = runtime.status().checksum
    runtime.invoke(runtime.command().restore())
    for queries in log:
        runtime.invoke(runtime.command(loss=False, checksum=True).replay([queries], z))
    assert runtime.status().checksum == trained
    print(f"replayed {len(log)} steps of {8 * QUERIES} bytes: checksum {trained:#010x} again")


def small_cnn() -> bytes:
    """The tests' small CNN with random weights."""
    sys.path.insert(0, str(Path(__file__).parents[2] / "tests"))
    from models import MODELS

    return MODELS["small_cnn"]()


if __name__ == "__main__":
    main()
