"""The control unit (zo_control.h): order and words of the commands exactly, real-valued formulas in float64."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from . import command
from .scalar import MASK, fmix, query_seed
from .stream import Dist

ONE = 65536
GRADIENT, NORMALIZED, SIGN = 0, 1, 2
CONSTANT, LINEAR, COSINE, STEP = 0, 1, 2, 3


@dataclass(frozen=True)
class Settings:
    """zo_control_settings."""

    run_seed: int = 1
    steps: int = 3
    samples: int = 10
    batch: int = 2
    parts: int = 1
    queries: int = 1
    one_sided: bool = False
    rule: int = GRADIENT
    dist: Dist = Dist(0, 2)
    rate: int = ONE
    final_rate: int = 0
    schedule: int = CONSTANT
    warmup_steps: int = 0
    decay: int = ONE // 2
    decay_steps: int = 1
    clip: int = 0
    gradient_norm: int = 0
    segments: tuple[int, ...] = ()  # of the blocks; none: the whole model moves

    @property
    def minibatch(self) -> int:
        return self.batch * self.parts

    @property
    def evaluations(self) -> int:
        return self.queries + 1 if self.one_sided else 2 * self.queries

    @property
    def unit(self) -> float:
        """Units of z per standard deviation (zo_types.h) or 1."""
        return 127 / 3.5 if self.dist.kind == 2 else 1.0


def sample_at(run_seed: int, samples: int, position: int) -> int:
    """Returns the number of the training sample at a position."""
    epoch, value = divmod(position, samples)
    key = fmix(run_seed ^ fmix(0x3C6EF372 + epoch & MASK))
    h = next(h for h in range(1, 17) if 4**h >= samples or h == 16)
    while True:
        left, right = divmod(value, 2**h)
        for i in range(4):
            left, right = right, left ^ fmix(key + 0x9E3779B9 * i + right & MASK) % 2**h
        value = 2**h * left + right
        if value < samples:
            return value


def rate(s: Settings, step: int) -> float:
    """Computes the rate of a step, unit 2^-16, before any rounding."""
    at = min(1.0, step / max(1, s.steps - 1))
    value = float(s.rate)
    if s.schedule == LINEAR:
        value = s.rate + (s.final_rate - s.rate) * at
    elif s.schedule == COSINE:
        value = s.final_rate + (s.rate - s.final_rate) * (1 + math.cos(math.pi * at)) / 2
    elif s.schedule == STEP:
        value = max(float(s.final_rate), s.rate * (s.decay / ONE) ** (step // s.decay_steps))
    if step < s.warmup_steps:
        value *= (step + 1) / s.warmup_steps
    if s.gradient_norm:
        n = s.minibatch * s.queries
        value *= n / (n + s.gradient_norm - 1)
    return value


def coefficient(s: Settings, d: float, step_rate: float, rms: float) -> tuple[float, float]:
    """Computes the coefficient of a mean loss difference, and the bound of its rounding. All units 2^-16."""
    r, mu = step_rate / ONE, s.dist.mu
    if s.rule == GRADIENT:
        if s.clip:
            d = max(-s.clip, min(s.clip, d))
        sides = 1 if s.one_sided else 2
        # Moves per unit of z by rate / mu / sides / Q, where mu is a standard deviation of the perturbation.
        scale = {0: 1 / mu, 1: 1.0, 2: 4096 / mu / s.unit**2, 3: 1 / mu}[s.dist.kind] * r / sides / s.queries
        c = -d * scale
        slack = 0.5 * scale + {0: 1 / mu, 1: 1.0, 2: 4096 / mu / s.unit**2, 3: 1 / mu}[s.dist.kind] + 1
    elif s.rule == NORMALIZED:
        ratio = d / rms * ONE
        if s.clip:
            ratio = max(-s.clip, min(s.clip, ratio))
        c = -ratio * r / s.queries / s.unit
        slack = abs(c) * 1.1 / rms + (1 + 0.5 * ONE / rms) * r / s.queries / s.unit + 2
    else:
        c = -math.copysign(step_rate, d) / s.queries / s.unit if d else 0.0
        slack = 1.0
    limit = 2**30 / s.queries / s.dist.z_max
    return max(-limit, min(limit, c)), slack


Directions: TypeAlias = list[tuple[tuple[int, ...], int]]
"""(seeds of a direction, k)."""


def terms(directions: Directions) -> list[tuple[int, int]]:
    return [(seed, 0 if j else k) for seeds, k in directions for j, seed in enumerate(seeds)]


@dataclass
class Invoke:
    """An expected request of the control unit."""

    words: list[int]
    step: int
    first_sample: int
    start_segment: int
    carried: Directions  # perturbations of the weights in the forward pass
    block: int | None
    applied: list[tuple[int, int]] | None  # the step that this command applies
    applied_block: int | None


class Control:
    """The order of things. `finish` takes the coefficients of a finished step."""

    def __init__(self, settings: Settings, step: int = 0) -> None:
        self.settings, self.step = settings, step
        self.pending: list[tuple[int, int]] | None = None
        self.in_force: Directions = []  # the state after the last command
        self.losses: list[Sequence[int]] = []  # of the step's invokes so far, one list each

    def block(self, step: int) -> int | None:
        return step % len(self.settings.segments) if self.settings.segments else None

    def seed(self, query: int, step: int | None = None) -> int:
        return query_seed(self.settings.run_seed, self.step if step is None else step, query)

    def seeds(self, query: int) -> tuple[int, ...]:
        """Returns the seed of the query's direction, as a key."""
        return (self.seed(query),)

    def apply(self) -> list[int]:
        """Returns the instruction that undoes the directions in force and applies the pending step."""
        assert self.pending is not None
        s, undo = self.settings, terms([(seeds, -k) for seeds, k in self.in_force])
        words = command.update(self.pending, s.dist, undo, self.block(self.step - 1))
        self.pending, self.in_force = None, []
        return words

    def settle(self) -> list[int] | None:
        if self.pending is None:
            return None
        return command.command([self.apply()], loss=False, checksum=True)

    def wanted(self) -> Iterator[Directions]:
        """Yields the directions that each evaluation of the loss needs in force, in order."""
        s = self.settings
        if s.one_sided:
            yield []
        for q in range(s.queries):
            z = self.seeds(q)
            yield [(z, 1)]
            if not s.one_sided:
                yield [(z, -1)]

    def moves(self, wanted: Directions) -> Directions:
        """Computes the moves from the directions in force to the wanted ones: undone, changed, then added."""
        before, after = dict(self.in_force), dict(wanted)
        changes = [(seeds, -k) for seeds, k in before.items() if seeds not in after]
        for seeds, k in sorted(after.items(), key=lambda term: term[0] not in before):
            step = k - before.get(seeds, 0)
            changes += [(seeds, 1)] * 2 if step == 2 else [(seeds, step)] * (step != 0)
        return changes

    def invokes(self) -> Iterator[Invoke]:
        """Yields invokes of the complete step; the losses of each are appended to `losses` before the next."""
        s, block = self.settings, self.block(self.step)
        self.losses = []
        for e, wanted in enumerate(self.wanted()):
            for part in range(s.parts):
                body: list[list[int]] = []
                applied = self.pending if part == 0 else None
                if applied is not None:
                    body.append(self.apply())
                if part == 0:
                    moves = terms(self.moves(wanted))
                    if moves:
                        body.append(command.perturb(moves, s.dist, block))
                    self.in_force = wanted
                suffix = e > 0 and s.parts == 1 and block is not None
                yield Invoke(
                    command.command(body),
                    self.step,
                    (self.step * s.parts + part) * s.batch,
                    s.segments[block] if suffix and block is not None else 0,
                    list(wanted),
                    block,
                    applied,
                    self.block(self.step - 1) if applied else None,
                )

    def sums(self) -> list[int]:
        """Sums the losses of each evaluation so far."""
        p = self.settings.parts
        return [sum(map(sum, self.losses[i : i + p])) for i in range(0, len(self.losses), p)]

    def differences(self) -> list[int]:
        """Computes d of each query as the sum over the minibatch."""
        sums = self.sums()
        if self.settings.one_sided:
            return [plus - sums[0] for plus in sums[1:]]
        return [plus - minus for plus, minus in zip(sums[::2], sums[1::2], strict=True)]

    def finish(self, coefficients: Sequence[int]) -> None:
        self.pending = [(self.seed(q), c) for q, c in enumerate(coefficients)]
        self.step += 1
