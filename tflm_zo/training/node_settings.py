# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""How a node-perturbation run trains."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from ..control import CSettings
from ..native import MAX_QUERIES, Distribution
from .settings import SCHEDULES, SettingsError, check_choice, check_integer, check_number

__all__ = ["HEADS", "NodeSettings"]

HEADS: Final = ("zo", "exact")

# What a layer's queries may cost, as a share of a forward pass, where the number is chosen.
_QUERY_BUDGET: Final = 0.1
_FEWEST_QUERIES: Final = 2


@dataclass(frozen=True)
class NodeSettings:
    """Settings of a node-perturbation run, the default algorithm.

    For every layer that carries nodes y = W a, each sample b draws directions z of its own and re-runs the
    network from the nodes on:

        d_qb = L_b(y_b + mu z_qb) - L_b(y_b - mu z_qb)                    two suffix re-runs a query
        e_b  = sum_q d_qb z_qb                                            estimate of dL_b/dy_b
        G    = sum_b e_b a_b^T
        W   <- W - clip(rate G / rms(G))                                  rms: running, over the layer

    after Poor Man's Training, sec. 3.2 (node perturbation), with a direction for every sample and nodes at
    the clamp of an activation left alone. All layers are estimated at the same weights.

    Attributes:
        batch_size: samples of a minibatch, a multiple of the model's batch.
        rate: RMS of a layer's step at the first step, LSB, > 0.
        final_rate: at the last step, 0..rate.
        schedule: "linear", "cosine", "constant" or "step".
        warmup_steps: the rate rises linearly over so many first steps.
        decay: "step" schedule: factor, 0..1.
        decay_steps: "step" schedule: every so many steps, >= 1.
        clip: largest step of a weight, LSB, > 0.
        mu: perturbation of a node, 1..127 LSB.
        queries: per sample and step, 1..32, of all layers or by layer name; None or missing: as many as cost
            a tenth of a forward pass, at least 2, at most 32.
        head: the last layer, whose outputs the cross-entropy reads: "zo": by perturbation like the others,
            strictly forward-only; "exact": by its outer product (softmax - one-hot) a^T, which takes no
            query.
        tail: with head "exact", so many of the last FULLY_CONNECTED layers are trained by their exact
            gradients, errors passed back from the head in integers (the tail of ElasticZO, sec. 4).
        snapshot_every: steps between snapshots of the weights in the log.
        seed: of directions, rounding and the order of samples, 0..2^32-1.

    Raises:
        SettingsError: at construction.
    """

    batch_size: int = 32
    rate: float = 1.0
    final_rate: float = 0.0
    schedule: str = "linear"
    warmup_steps: int = 0
    decay: float = 0.5
    decay_steps: int = 1000
    clip: float = 4.0
    mu: int = 2
    queries: int | Mapping[str, int] | None = None
    head: str = "zo"
    tail: int = 1
    snapshot_every: int = 100
    seed: int = 0

    def __post_init__(self) -> None:
        """Checks every range."""
        for name, choices in (("schedule", SCHEDULES), ("head", HEADS)):
            check_choice(name, getattr(self, name), choices)
        queries = self.queries
        given = queries.values() if isinstance(queries, Mapping) else [] if queries is None else [queries]
        for name, low, high, values in (
            ("batch_size", 1, 2**20, [self.batch_size]),
            ("warmup_steps", 0, 2**31, [self.warmup_steps]),
            ("decay_steps", 1, 2**31, [self.decay_steps]),
            ("mu", 1, 127, [self.mu]),
            ("tail", 1, 64, [self.tail]),
            ("queries", 1, MAX_QUERIES, list(given)),
            ("snapshot_every", 1, 2**31, [self.snapshot_every]),
            ("seed", 0, 2**32 - 1, [self.seed]),
        ):
            for value in values:
                check_integer(name, value, low, high)
        if self.tail > 1 and self.head != "exact":
            raise SettingsError('tail: more than the last layer needs head="exact"')
        for name, lower, upper in (
            ("rate", 2.0**-16, 2.0**7),
            ("final_rate", 0.0, self.rate),
            ("decay", 0.0, 1.0),
            ("clip", 2.0**-16, 2.0**8),
        ):
            check_number(name, getattr(self, name), lower, upper)

    def queries_of(self, layer: str, suffix: float) -> int:
        """Queries of a layer.

        Args:
            layer: its name.
            suffix: cost of re-running the network from its nodes on, as a share of a forward pass.
        """
        if isinstance(self.queries, int):
            return self.queries
        if self.queries is not None and layer in self.queries:
            return self.queries[layer]
        affordable = int(_QUERY_BUDGET / (2 * suffix)) if suffix > 0 else MAX_QUERIES
        return min(MAX_QUERIES, max(_FEWEST_QUERIES, affordable))

    def as_integers(self, *, steps: int, samples: int, batch: int) -> CSettings:
        """The settings as the control unit takes them.

        Args:
            steps: of the whole run.
            samples: in the training set.
            batch: of the model.
        """
        return CSettings(
            run_seed=self.seed,
            steps=steps,
            samples=samples,
            batch=batch,
            parts=self.batch_size // batch,
            queries=1,
            distribution=Distribution.rademacher(self.mu)._c,
            rate=round(self.rate * 65536),
            final_rate=round(self.final_rate * 65536),
            schedule=SCHEDULES.index(self.schedule),
            warmup_steps=self.warmup_steps,
            decay=round(self.decay * 65536),
            decay_steps=self.decay_steps,
            clip=round(self.clip * 65536),
        )
