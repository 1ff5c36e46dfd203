# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""How a run trains, in units people think in."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from ..core import MAX_CHAIN, MAX_QUERIES, CSettings, Distribution, DistributionKind, command_words

__all__ = ["ESTIMATORS", "RULES", "SCHEDULES", "SettingsError", "TrainSettings"]

ESTIMATORS: Final = ("antithetic", "one-sided")
RULES: Final = ("gradient", "normalized", "sign")
SCHEDULES: Final = ("constant", "linear", "cosine", "step")
SCOPES: Final = ("model", "blocks")

# Of the rate that is chosen. What a step moves the weights by is noise almost entirely: over a run it adds up
# to a random walk of rate sqrt(steps m / queries) LSB, m the mean square of the schedule. Walks of 40 to 60
# LSB were best on validation data, for networks of 61,470 (LeNet-5) and of 3,784 weights (the demo's), 781 to
# 39,062 steps, 1 and 4 queries, linear and constant rates.
_WALK: Final = 46.0
_LARGEST_RATE: Final = 2.0
_GRADIENT_RATE: Final = 2.0


def _q16(value: float) -> int:
    return round(value * 65536)


class SettingsError(ValueError):
    """A setting is out of range; the message says what is possible."""


def check_choice(name: str, value: object, choices: Sequence[str]) -> None:
    """Raises SettingsError where a setting is none of its choices."""
    if value not in choices:
        raise SettingsError(f"{name}: no {value!r}; there are {', '.join(choices)}")


def check_integer(name: str, value: object, low: int, high: int) -> None:
    """Raises SettingsError where a setting is no integer from low to high."""
    if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
        raise SettingsError(f"{name}: expected an integer in {low}..{high}, got {value!r}")


def check_number(name: str, value: object, lower: float, upper: float) -> None:
    """Raises SettingsError where a setting is no number from lower to upper."""
    if not isinstance(value, (int, float)) or not lower <= value <= upper:
        raise SettingsError(f"{name}: expected {lower:g}..{upper:g}, got {value!r}")


def without_schedule(schedule: str) -> dict[str, str]:
    """Settings that a schedule does not look at, each with why."""
    reasons: dict[str, str] = {}
    if schedule != "step":
        reasons |= dict.fromkeys(("decay", "decay_steps"), "only schedule step has them")
    if schedule == "constant":
        reasons["final_rate"] = "with schedule constant the rate stays what it is"
    return reasons


@dataclass(frozen=True)
class TrainSettings:
    """Settings of a weight-perturbation run.

    Each query draws a direction z from a seed and compares losses of the minibatch:

        antithetic   d = L(w + z) - L(w - z)      SPSA; two forwards
        one-sided    d = L(w + z) - L(w)          RGE (Poor Man's Training, eq. 8); one forward, and one
                                                  more per step

    and a step moves the weights once, by the sum over its queries of c z, with

        gradient     c = -rate d / (2 mu Q)       (one-sided: -rate d / (mu Q)); rate: LSB^2 per nat
        normalized   c = -rate d / rms(d) / Q     rms: running over about 32 queries; rate: LSB
        sign         c = -rate sign(d) / Q        sign-m-SPSA (QZO-FF, Alg. 1); rate: LSB

    where LSB counts per standard deviation of z (per unit of z for sparse uniform).

    A sharpness-aware step (QZO-FF, sec. 3.4) compares losses not at w but uphill of it: each query first
    takes a direction z_s of its own, as large as z, and

        g = sign(L(w + z_s) - L(w - z_s)),    d = L(w + g z_s + z) - L(w + g z_s - z)

    before w itself is moved: four forwards, and weights that are 2 reaches away, for which the model needs
    head-room.

    Without a rate, a run of T steps (scope "blocks": of each block) takes

        sqrt(Q) min(2, 46 / sqrt(T m))    LSB; m: mean square of the schedule (linear: 1/3, which makes it
                                          min(2, 80 / sqrt(T)) with one query)
        2                                 LSB^2 per nat, rule "gradient": a cautious beginning, since what is
                                          right there depends on the network (LeNet-5: about 100)

    which lets the noise of the steps add up to the same walk of the weights, 46 LSB, whatever their number: a
    longer run takes smaller steps. Deep networks of narrow layers (DS-CNN) bear less: try a rate of a fifth.
    Coordinates, which move one weight of each layer a query, need a rate of their own: tens of LSB.

    Directions with memory (momentum-guided sampling; QZO-FF, sec. 3.4) are drawn around the last ones. The
    paper's z_{t+1} = beta z_1 + (1 - beta) z_2 with z_1 ~ N(0, alpha) and z_2 ~ N(z_t, 1 - alpha) is

        z_{t+1} = rho z_t + n,    rho = 1 - beta,

    with n normal: alpha only splits n between two normals, and so sets its size. Here z always has the
    distribution's, whatever rho. The paper keeps z_t in memory; here it is made anew from the seeds of the
    last J steps, z_t ~ sum of rho^j n(seed_{t-j}), j < J. Each query, and in scope "blocks" each block, has
    memory of its own. Perturbing and updating take J times as long; the model's max_queries must be J Q.

    Attributes:
        estimator: "antithetic" or "one-sided".
        rule: "gradient", "normalized" or "sign".
        distribution: of the perturbation; its reach must be within the model's head-room.
        queries: Q, 1..32.
        batch_size: samples of a minibatch, a multiple of the model's batch.
        rate: at the first step, > 0; None: chosen by the number of steps, see above and `chosen_rate`.
        final_rate: at the last step, 0..rate.
        schedule: "constant", "linear", "cosine" (both from rate to final_rate) or "step".
        warmup_steps: the rate rises linearly over so many first steps.
        decay: "step" schedule: factor, 0..1.
        decay_steps: "step" schedule: every so many steps, >= 1.
        clip: of |d| in nats ("gradient") or of |d| / rms(d) ("normalized"); 0 for none.
        gradient_norm: multiplies the rate by N Q / (N Q + d - 1), N the minibatch, d the trained weights
            (Poor Man's Training, sec. 3.1.2).
        scope: "model": every step moves every trainable weight; "blocks": step t moves block t modulo the
            number of blocks, and queries re-run the network from its segment on.
        momentum: rho, the memory of directions, 0 (none) to 65535/65536; Gaussian distribution only.
        momentum_terms: J, 2..8, and J Q <= 32; only counts with momentum.
        sharpness: sharpness-aware steps; antithetic only.
        seed: of directions, rounding and the order of samples, 0..2^32-1.

    Raises:
        SettingsError: at construction.
    """

    estimator: str = "antithetic"
    rule: str = "normalized"
    distribution: Distribution = field(default_factory=lambda: Distribution.rademacher(2))
    queries: int = 1
    batch_size: int = 64
    rate: float | None = None
    final_rate: float = 0.0
    schedule: str = "linear"
    warmup_steps: int = 0
    decay: float = 0.5
    decay_steps: int = 1000
    clip: float = 3.0
    gradient_norm: bool = False
    scope: str = "model"
    momentum: float = 0.0
    momentum_terms: int = 8
    sharpness: bool = False
    seed: int = 0

    def __post_init__(self) -> None:
        """Checks every range."""
        for name, choices in (
            ("estimator", ESTIMATORS),
            ("rule", RULES),
            ("schedule", SCHEDULES),
            ("scope", SCOPES),
        ):
            check_choice(name, getattr(self, name), choices)
        for name, low, high in (
            ("queries", 1, MAX_QUERIES),
            ("batch_size", 1, 2**20),
            ("warmup_steps", 0, 2**31),
            ("decay_steps", 1, 2**31),
            ("momentum_terms", 2, MAX_CHAIN),
            ("seed", 0, 2**32 - 1),
        ):
            check_integer(name, getattr(self, name), low, high)
        for name, lower, upper in (
            *([] if self.rate is None else [("rate", 2.0**-16, 2.0**14)]),
            ("final_rate", 0.0, 2.0**14 if self.rate is None else self.rate),
            ("decay", 0.0, 1.0),
            ("clip", 0.0, 2.0**14),
            ("momentum", 0.0, 1 - 2.0**-16),
        ):
            check_number(name, getattr(self, name), lower, upper)
        if self.momentum > 0 and self.distribution.kind is not DistributionKind.GAUSSIAN:
            raise SettingsError(
                f"momentum: needs the Gaussian distribution, not {self.distribution.kind.name.lower()}"
            )
        if self.items > MAX_QUERIES:
            raise SettingsError(
                f"momentum_terms: times queries must be {MAX_QUERIES} at most, got {self.momentum_terms} * "
                f"{self.queries}"
            )
        if not isinstance(self.sharpness, bool):
            raise SettingsError(f"sharpness: expected True or False, got {self.sharpness!r}")
        if self.sharpness and self.estimator != "antithetic":
            raise SettingsError(f"sharpness: needs the antithetic estimator, not {self.estimator}")

    def without_effect(self) -> dict[str, str]:
        """Settings that change nothing beside the others, each with why; their values are not looked at."""
        reasons = without_schedule(self.schedule)
        if not self.momentum > 0:
            reasons["momentum_terms"] = "directions have no memory without momentum"
        if self.rule == "sign":
            reasons["clip"] = "rule sign looks at the sign of a difference alone"
        return reasons

    @property
    def head_room(self) -> int:
        """Head-room that the run needs of the model, LSB: how far weights are perturbed at most."""
        return self.distribution.reach * (2 if self.sharpness else 1)

    @property
    def items(self) -> int:
        """Seeds in an update: what the model's max_queries must be at least."""
        return self.queries * (self.momentum_terms if self.momentum > 0 else 1)

    @property
    def _momentum(self) -> int:
        """As the control unit takes it."""
        return self.momentum_terms << 16 | max(1, _q16(self.momentum)) if self.momentum > 0 else 0

    @property
    def command_words(self) -> int:
        """Words that the run needs of the model's ``zo_command``."""
        return command_words(
            CSettings(queries=self.queries, momentum=self._momentum, sharpness=int(self.sharpness))
        )

    @property
    def forwards(self) -> int:
        """Evaluations of the minibatch's loss in a step."""
        if self.estimator == "one-sided":
            return self.queries + 1
        return self.queries * (4 if self.sharpness else 2)

    def chosen_rate(self, steps: int, blocks: int = 1) -> float:
        """The rate at the first step of a run: `rate`, or what is chosen without.

        Args:
            steps: of the whole run.
            blocks: of the model.
        """
        if self.rate is not None:
            return self.rate
        if self.rule == "gradient":
            return _GRADIENT_RATE
        own = steps / blocks if self.scope == "blocks" else steps
        return math.sqrt(self.queries) * min(_LARGEST_RATE, _WALK / math.sqrt(own * self._mean_square(steps)))

    def _mean_square(self, steps: int) -> float:
        """Of the schedule that begins at 1 and ends at 0."""
        if self.schedule == "step":
            # So many stages of decay_steps steps each, and the beginning of another one.
            ratio, (stages, rest) = self.decay**2, divmod(steps, self.decay_steps)
            whole = stages if ratio == 1 else (1 - ratio**stages) / (1 - ratio)
            return (whole * self.decay_steps + rest * ratio**stages) / steps
        return {"constant": 1.0, "linear": 1 / 3, "cosine": 3 / 8}[self.schedule]

    def as_integers(self, *, steps: int, samples: int, batch: int, weights: int, blocks: int) -> CSettings:
        """The settings as the control unit takes them.

        Args:
            steps: of the whole run.
            samples: in the training set.
            batch: of the model.
            weights: trainable ones.
            blocks: of the model.

        Raises:
            SettingsError: the final rate is above the one chosen for so many steps.
        """
        rate = self.chosen_rate(steps, max(blocks, 1))
        if self.final_rate > rate:
            raise SettingsError(
                f"final_rate: expected at most {rate:.3g}, the rate chosen for {steps} steps, got "
                f"{self.final_rate:g}; give rate, too"
            )
        return CSettings(
            run_seed=self.seed,
            steps=steps,
            samples=samples,
            batch=batch,
            parts=self.batch_size // batch,
            queries=self.queries,
            estimator=ESTIMATORS.index(self.estimator),
            rule=RULES.index(self.rule),
            distribution=self.distribution.struct,
            rate=max(1, _q16(rate)),
            final_rate=_q16(self.final_rate),
            schedule=SCHEDULES.index(self.schedule),
            warmup_steps=self.warmup_steps,
            decay=_q16(self.decay),
            decay_steps=self.decay_steps,
            clip=_q16(self.clip),
            gradient_norm=weights if self.gradient_norm else 0,
            blocks=blocks if self.scope == "blocks" else 0,
            momentum=self._momentum,
            sharpness=int(self.sharpness),
        )
