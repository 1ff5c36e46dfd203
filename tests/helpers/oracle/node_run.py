"""The control unit of node perturbation (zo_node_run.h): its requests, in order."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from . import node_rules
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
        """Computes the rate of a step, unit 2^-16."""
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
    """An expected request of the control unit."""

    action: int
    step: int
    part: int = 0
    task: int = 0
    start_segment: int = 0
    query: int = 0
    side: int = 0  # +1 or -1


def requests(s: Settings, first_step: int = 0) -> Iterator[Request]:
    """Yields all requests of a run from a step on."""
    for step in range(first_step, s.steps):
        for part in range(s.parts):
            yield Request(FORWARD, step, part, start_segment=s.first_segment)
            for t in range(len(s.tasks)):
                for query in range(s.tasks[t].queries):
                    for side in (1, -1):
                        yield Request(QUERY, step, part, t, s.tasks[t].start_segment, query, side)
        for t in reversed(range(len(s.tasks))):
            yield Request(UPDATE, step, task=t)


Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Scale:
    """mantissa 2^exponent; 0 or 32 bits."""

    mantissa: int
    exponent: int

    @classmethod
    def of(cls, value: int, exponent: int = 0) -> Scale:
        shift = value.bit_length() - 32
        if value == 0:
            return cls(0, 0)
        return cls(value >> shift if shift > 0 else value << -shift, exponent + shift)

    def blend(self, value: Scale, bits: int) -> Scale:
        """Computes self + (value - self) / 2^bits."""
        a = Scale.of(self.mantissa * (2**bits - 1), self.exponent - bits)
        b = Scale(value.mantissa, value.exponent - bits)
        if 0 in (a.mantissa, b.mantissa):
            return a if b.mantissa == 0 else b
        if a.exponent < b.exponent:
            a, b = b, a
        low = (b.mantissa << 31) >> (a.exponent - b.exponent)
        return Scale.of((a.mantissa << 31) + low, a.exponent - 31)

    def root(self) -> Scale:
        odd = self.exponent % 2
        return Scale.of(math.isqrt(self.mantissa << (30 + odd)), (self.exponent - 30 - odd) // 2)

    def over(self, divisor: Scale) -> Scale:
        quotient = (self.mantissa << 32) // divisor.mantissa
        return Scale.of(quotient, self.exponent - divisor.exponent - 32)


def rounded(value: int, scale: Scale) -> int:
    """Computes value * scale, half up."""
    product = value * scale.mantissa
    if scale.exponent >= 0:
        return product << scale.exponent
    return (product + (1 << (-scale.exponent - 1))) >> -scale.exponent


def steps(
    g: Array, shift: int, mean: Scale, rate: int, clip: int, per_error: Scale | None = None
) -> tuple[list[int] | None, Scale]:
    """Steps, unit 2^-16 LSB, of a gradient estimate in units of 2^shift; None: no step. And the new mean, of G^2 of
    errors of 1 with a factor for that.
    """
    squares = sum(int(v) ** 2 for v in np.clip(g.reshape(-1) // 256, -(2**21), 2**21))
    now = Scale.of(squares, 2 * (8 + shift)).over(Scale.of(g.size))
    if per_error is not None:
        now = Scale.of(now.mantissa * per_error.mantissa, now.exponent + per_error.exponent)
    if mean.mantissa == 0:
        mean = now
    if mean.mantissa == 0:
        return None, mean
    unit = mean.root()
    factor = Scale.of(rate).over(Scale(unit.mantissa, unit.exponent - shift))
    found = [max(-clip, min(clip, rounded(-int(v), factor))) for v in g.reshape(-1)]
    return found, mean if per_error is not None and squares == 0 else mean.blend(now, 5)


def move(
    weights: Array, fraction: Array | None, found: list[int], limit: int, seed: int, stream: int, channels: int
) -> None:
    """Moves flat weights, with their fractions or rounding at random, in place."""
    moves, old = np.array(found, np.int64).reshape(channels, -1), weights.astype(np.int64).reshape(channels, -1)
    if fraction is None:
        new, _ = node_rules.apply_8(old, moves, limit, seed, stream, list(range(channels)), channels)
        weights[:] = new.ravel()
        return
    whole, _ = node_rules.apply_16(old, fraction.astype(np.int64).reshape(channels, -1), moves, limit)
    weights[:] = ((whole + 128) >> 8).ravel()
    fraction[:] = whole.ravel() - 256 * weights.astype(np.int64)
