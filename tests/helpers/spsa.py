"""A minimal SPSA control loop that drives a ZO model in the tests, by one command per invoke."""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from helpers.oracle import scalar
from tflm_zo import Distribution, Rademacher
from tflm_zo.runtime import Runtime


def spsa_commands(
    runtime: Runtime,
    *,
    steps: int,
    queries: int,
    learning_rate: float,
    seed: int,
    distribution: Distribution | None = None,
    record: list[list[tuple[int, int]]] | None = None,
) -> Iterator[NDArray[np.int32]]:
    """Yields antithetic SPSA after every invoke, two a query; rates are LSB per nat, `record` each step's pairs."""
    z = distribution or Rademacher(runtime.metadata.headroom)
    pending: list[tuple[int, int]] = []
    for step in range(steps):
        seeds = [scalar.query_seed(seed, step, q) for q in range(queries)]
        done: list[tuple[int, int]] = []
        for q, query_seed in enumerate(seeds):
            command = runtime.command(checksum=True)
            if pending and q == 0:
                command.update(pending, z, restore_k=1)
            terms = [(seeds[q - 1], 1)] if q > 0 else []
            command.perturb([*terms, (query_seed, 1)], z)
            runtime.invoke(command)
            yield command.words
            plus = int(runtime.losses().sum())
            command = runtime.command(checksum=True).perturb([(query_seed, -2)], z)
            runtime.invoke(command)
            yield command.words
            minus = int(runtime.losses().sum())
            gain = learning_rate / (2 * queries * runtime.batch)
            done.append((query_seed, round(-gain * (plus - minus))))  # both have 16 fraction bits
        pending = done
        if record is not None:
            record.append(done)
    command = runtime.command(checksum=True).update(pending, z, restore_k=1)
    runtime.invoke(command)
    yield command.words
