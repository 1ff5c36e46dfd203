# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""Buckets of answers, so that rules against garbage bear clients whose data differ."""

from __future__ import annotations

from collections.abc import Iterable
from copy import copy
from logging import INFO

import numpy as np
from flwr.app import Array, ArrayRecord, ConfigRecord, Message, MetricRecord, RecordDict
from flwr.serverapp import Grid
from flwr.serverapp.strategy import Strategy
from flwr.supercore import log

from .messages import SAMPLES

__all__ = ["Bucketing"]


class Bucketing(Strategy):
    """Wrapper of a strategy that puts answers together by a robust rule, such as FedMedian or Krum. It
    divides a round's answers at random into buckets, and gives the strategy the mean of each bucket
    (Karimireddy, He and Jaggi, Byzantine-Robust Learning on Heterogeneous Datasets via Bucketing, 2022,
    Algorithm 1).

    A robust rule takes answers that are unlike the others for garbage. Where clients have other classes than
    their neighbours, honest answers are unlike each other, too; means of buckets are less so. A client that
    sends garbage spoils one bucket, so that the share of spoilt buckets is up to `size` times that of such
    clients, and has to be below a half.

    Args:
        strategy: strategy that puts the means together; what it is told of garbage, such as Krum's
            `num_malicious_nodes`, is a number of buckets.
        size: answers of a bucket, >= 1; the last bucket has those that are left.
        seed: seed of the division, for repeated experiments; None: one that no client knows.
    """

    def __init__(self, strategy: Strategy, size: int = 2, *, seed: int | None = None) -> None:
        if size < 1:
            raise ValueError(f"size: expected answers of a bucket, >= 1, got {size}")
        self._strategy, self._size = strategy, size
        self._random = np.random.default_rng(seed)

    def summary(self) -> None:
        """Logs the strategy that puts the means together, and the buckets' size."""
        log(INFO, "\t├──> Bucketing:")
        log(INFO, "\t│\t└── Answers of a bucket: %d", self._size)
        self._strategy.summary()

    def configure_train(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """Makes the wrapped strategy's messages."""
        return self._strategy.configure_train(server_round, arrays, config, grid)

    def aggregate_train(
        self, server_round: int, replies: Iterable[Message]
    ) -> tuple[ArrayRecord | None, MetricRecord | None]:
        """Puts the means of buckets together."""
        given = sorted(
            (reply for reply in replies if not reply.has_error()), key=lambda r: r.metadata.src_node_id
        )
        order = self._random.permutation(len(given))
        buckets = [order[k : k + self._size] for k in range(0, len(given), self._size)]
        return self._strategy.aggregate_train(server_round, [_mean([given[i] for i in b]) for b in buckets])

    def configure_evaluate(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """Makes the wrapped strategy's messages."""
        return self._strategy.configure_evaluate(server_round, arrays, config, grid)

    def aggregate_evaluate(self, server_round: int, replies: Iterable[Message]) -> MetricRecord | None:
        """Puts evaluations together as the wrapped strategy does: they are in no buckets."""
        return self._strategy.aggregate_evaluate(server_round, replies)


def _mean(replies: list[Message]) -> Message:
    """Returns a message in the place of others: means of their arrays and metrics, weighted by samples."""
    contents = [reply.content for reply in replies]
    counts = [_samples(content) for content in contents]
    found = RecordDict()
    for key, arrays in contents[0].array_records.items():
        found[key] = ArrayRecord(
            {
                name: Array(np.average([c.array_records[key][name].numpy() for c in contents], 0, counts))
                for name in arrays
            }
        )
    for key, metrics in contents[0].metric_records.items():
        means = {
            name: np.average([c.metric_records[key][name] for c in contents], 0, counts).tolist()
            for name in metrics
        }
        found[key] = MetricRecord({**means, SAMPLES: sum(counts)})
    mean = copy(replies[0])
    mean.content = found
    return mean


def _samples(content: RecordDict) -> int:
    (metrics,) = content.metric_records.values()
    samples = metrics[SAMPLES]
    assert isinstance(samples, int)  # strategies have seen to it
    return samples
