# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""The control unit of node perturbation (zo_node_run.h): what it asks for, in order."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from .scalar import query_seed

ONE = 65536
CONSTANT, LINEAR, STEP = 0, 1, 3
FORWARD, QUERY, UPDATE = 1, 2, 3
MAX_QUERIES = 32


@dataclass(frozen=True)
class Task:
    """zo_node_task without its layer and buffers."""

    start_segment: int
    queries: int  # 0: an exact head
    mu: int = 2
    rate: int = ONE


@dataclass(frozen=True)
class Settings:
    """zo_node_settings."""

    tasks: tuple[Task, ...]
    run_seed: int = 1
    steps: int = 3
    samples: int = 10
    batch: int = 2
    parts: int = 1
    rate: int = ONE
    final_rate: int = 0
    schedule: int = CONSTANT
    warmup_steps: int = 0
    decay: int = ONE // 2
    decay_steps: int = 1
    clip: int = 4 * ONE
    first_segment: int = 0

    @property
    def minibatch(self) -> int:
        return self.batch * self.parts

    def seed(self, step: int, task: int, query: int) -> int:
        return query_seed(self.run_seed, step, MAX_QUERIES * task + query)

    def rounding_seed(self, step: int, task: int) -> int:
        return self.seed(step, task, MAX_QUERIES - 1)

    def rate_at(self, step: int) -> int:
        """Rate of a step, unit 2^-16."""
        last = max(1, self.steps - 1)
        rate = self.rate
        if self.schedule == LINEAR:
            rate = self.final_rate + (self.rate - self.final_rate) * (last - min(step, last)) // last
        elif self.schedule == STEP:
            for _ in range(step // self.decay_steps):
                rate = rate * self.decay // ONE
            rate = max(rate, self.final_rate)
        return rate * (step + 1) // self.warmup_steps if step < self.warmup_steps else rate

    def task_rate(self, step: int, task: int) -> int:
        return min(self.rate_at(step) * self.tasks[task].rate // ONE, 2**31 - 1)


@dataclass(frozen=True)
class Request:
    """What the control unit should ask for."""

    action: int
    step: int
    part: int = 0
    task: int = 0
    start_segment: int = 0
    query: int = 0
    side: int = 0  # +1 or -1


def requests(s: Settings, first_step: int = 0) -> Iterator[Request]:
    """All of a run from a step on."""
    for step in range(first_step, s.steps):
        for part in range(s.parts):
            yield Request(FORWARD, step, part, start_segment=s.first_segment)
            for t in range(len(s.tasks)):
                for query in range(s.tasks[t].queries):
                    for side in (1, -1):
                        yield Request(QUERY, step, part, t, s.tasks[t].start_segment, query, side)
        for t in range(len(s.tasks)):
            yield Request(UPDATE, step, task=t)
