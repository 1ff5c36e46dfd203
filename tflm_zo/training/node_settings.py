# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""How a layer-wise run trains: node perturbation, and what may go with it."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from ..core import MAX_QUERIES, CSettings, Distribution, DistributionKind
from .settings import (
    ESTIMATORS,
    RULES,
    SCHEDULES,
    SettingsError,
    check_choice,
    check_integer,
    check_number,
    without_schedule,
)
from .task_kind import TaskKind

__all__ = ["HEADS", "NodeSettings"]

HEADS: Final = ("zo", "exact")
NODE_RULES: Final = ("rms", "gradient")
OTHERS: Final = ("frozen", "layers", "together")
WEIGHT_RULES: Final = (*RULES, "bits")
EXACT_RULES: Final = ("rms", "bits", "standardized")

# What a layer's queries may cost, as a share of a forward pass, where the number is chosen.
_QUERY_BUDGET: Final = 0.1
_FEWEST_QUERIES: Final = 2


@dataclass(frozen=True)
class NodeSettings:
    """Settings of a layer-wise run: node perturbation, the default algorithm, and what may go with it.

    For every layer that carries nodes y = W a, each sample b draws directions z of its own and re-runs the
    network from the nodes on:

        d_qb = L_b(y_b + mu z_qb) - L_b(y_b - mu z_qb)                    two suffix re-runs a query
        e_b  = sum_q d_qb z_qb                                            estimate of dL_b/dy_b
        G    = sum_b e_b a_b^T
        W   <- W - clip(rate G / rms(G))                                  rms: running, over the layer

    after Poor Man's Training, sec. 3.2 (node perturbation), with a direction for every sample and nodes at
    the clamp of an activation left alone. All layers are estimated at the same weights. Of the last layers
    some may take their exact gradients instead (`head`, `tail`), and trainable layers that carry no nodes may
    be trained by perturbing their weights (`others`), with the rules of `TrainSettings`.

    Attributes:
        batch_size: samples of a minibatch, a multiple of the model's batch.
        rate: RMS of a layer's step at the first step, LSB, > 0; with rule "gradient" the learning rate of
            weights in their real units.
        final_rate: at the last step, 0..rate.
        schedule: "linear", "cosine", "constant" or "step".
        warmup_steps: the rate rises linearly over so many first steps.
        decay: "step" schedule: factor, 0..1.
        decay_steps: "step" schedule: every so many steps, >= 1.
        clip: largest step of a weight, LSB, > 0.
        estimator: "antithetic", or "one-sided": d = L(y + mu z) - L(y), one re-run a query.
        rule: of nodes: "rms", or "gradient": W <- W - rate F G_mean, where G_mean is the estimate of the
            gradient of the mean loss with respect to W in LSB, and F has the factors below
            (Poor Man's Training, eq. 11).
        gradient_norm: with a rule "gradient", F includes N Q / (N Q + d - 1): N samples of the minibatch, Q
            queries, d nodes or weights.
        quantization_aware: with a rule "gradient", F includes 1 / s^2, s the scale of the weight's channel.
        mu: perturbation of a node, 1..127 LSB.
        queries: per sample and step, 1..32, of all layers or by layer name; None or missing: as many as cost
            a tenth of a forward pass, at least 2, at most 32; perturbed weights: 1.
        masked: whether nodes at the clamp of an activation are left alone.
        head: the last layer, whose outputs the cross-entropy reads: "zo": by perturbation like the others,
            strictly forward-only; "exact": by its outer product (softmax - one-hot) a^T, which takes no
            query.
        tail: with head "exact", so many of the last FULLY_CONNECTED layers are trained by their exact
            gradients, errors passed back from the head in integers (the tail of ElasticZO, sec. 4).
        exact_rule: of exact gradients: "rms" as above; "bits": W <- W - round(G), to `exact_bits` bits
            (ElasticZO-INT8, Alg. 2, after NITI; no rate; needs an 8-bit update); "standardized":
            W <- W - rate (G - mean(G)) / std(G) over the layer (FQT).
        exact_bits: 1..7, of the first, second and third stage.
        sparse_rows: (least, most), shares of an exact layer's outputs that a step updates, those with the
            largest errors: least + loss / largest loss so far (most - least) of them (FQT: dynamic sparse
            gradients); (1, 1): all.
        others: trainable layers that carry no nodes: "frozen", "layers": each is perturbed by itself,
            "together": all at once; where layers that are not among them lie in between, those before and
            those after each at once.
        weight_rule: of perturbed weights: "normalized", "gradient" or "sign", see `TrainSettings`, or "bits":
            sign of the loss difference times z rounded to `weight_bits` bits (ElasticZO-INT8, Alg. 2).
        weight_rate: rate of perturbed weights at the first step, LSB, 0..256 times `rate`; None: `rate`.
        weight_clip: as `clip` of `TrainSettings`.
        weight_bits: 1..7.
        distribution: of perturbed weights; its reach must be within the model's head-room.
        stages: shares of the run, 0..1, rising, at which a second and a third stage begin.
        stage_p_zero: sparse uniform distribution: share of zeros in the second and third stage
            (ElasticZO-INT8, sec. 5.1.1).
        only: layers to train, by name or by patterns with * and ?; all others stay as they are. None: all.
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
    estimator: str = "antithetic"
    rule: str = "rms"
    gradient_norm: bool = True
    quantization_aware: bool = True
    mu: int = 2
    queries: int | Mapping[str, int] | None = None
    masked: bool = True
    head: str = "zo"
    tail: int = 1
    exact_rule: str = "rms"
    exact_bits: tuple[int, int, int] = (5, 4, 3)
    sparse_rows: tuple[float, float] = (1.0, 1.0)
    others: str = "frozen"
    weight_rule: str = "normalized"
    weight_rate: float | None = None
    weight_clip: float = 3.0
    weight_bits: int = 1
    distribution: Distribution = field(default_factory=lambda: Distribution.rademacher(2))
    stages: tuple[float, ...] = ()
    stage_p_zero: tuple[float, ...] = ()
    only: tuple[str, ...] | None = None
    snapshot_every: int = 100
    seed: int = 0

    def __post_init__(self) -> None:
        """Checks every range."""
        for name, choices in (
            ("schedule", SCHEDULES),
            ("estimator", ESTIMATORS),
            ("rule", NODE_RULES),
            ("head", HEADS),
            ("exact_rule", EXACT_RULES),
            ("others", OTHERS),
            ("weight_rule", WEIGHT_RULES),
        ):
            check_choice(name, getattr(self, name), choices)
        queries = self.queries
        given = queries.values() if isinstance(queries, Mapping) else [] if queries is None else [queries]
        for name, low, high, values in (
            ("batch_size", 1, 2**20, [self.batch_size]),
            ("warmup_steps", 0, 2**31, [self.warmup_steps]),
            ("decay_steps", 1, 2**31, [self.decay_steps]),
            ("mu", 1, 127, [self.mu]),
            ("tail", 1, 64, [self.tail]),
            ("exact_bits", 1, 7, self.exact_bits),
            ("weight_bits", 1, 7, [self.weight_bits]),
            ("queries", 1, MAX_QUERIES, list(given)),
            ("snapshot_every", 1, 2**31, [self.snapshot_every]),
            ("seed", 0, 2**32 - 1, [self.seed]),
        ):
            for value in values:
                check_integer(name, value, low, high)
        if self.tail > 1 and self.head != "exact":
            raise SettingsError('tail: more than the last layer needs head="exact"')
        for name, lower, upper in (
            ("rate", 2.0**-16, 2.0**7 if self.rule == "rms" else 2.0**14),
            ("final_rate", 0.0, self.rate),
            ("decay", 0.0, 1.0),
            ("clip", 2.0**-16, 2.0**8),
            ("weight_clip", 0.0, 2.0**14),
        ):
            check_number(name, getattr(self, name), lower, upper)
        if self.weight_rate is not None:
            check_number("weight_rate", self.weight_rate, self.rate / 65536, 255 * self.rate)
        if self.weight_rule == "bits" and self.distribution.kind is DistributionKind.COORDINATE:
            raise SettingsError("weight_rule: bits takes a direction of all weights, not single coordinates")
        self._check_stages()
        self._check_only()
        if len(self.exact_bits) != 3:
            raise SettingsError(
                f"exact_bits: expected a number for each of three stages, got {self.exact_bits!r}"
            )
        least, most = self.sparse_rows
        for share in self.sparse_rows:
            check_number("sparse_rows", share, 0.0, 1.0)
        if least > most or most == 0:
            raise SettingsError(
                f"sparse_rows: expected a least share, and a most above it and 0, got {self.sparse_rows!r}"
            )

    def _check_only(self) -> None:
        if self.only is None:
            return
        if not isinstance(self.only, tuple) or not all(isinstance(name, str) for name in self.only):
            raise SettingsError(
                f"only: expected a tuple of names of layers or patterns, or None, got {self.only!r}"
            )
        if not self.only:
            raise SettingsError("only: expected at least one layer, got none; None trains all")

    def _check_stages(self) -> None:
        if len(self.stages) > 2 or list(self.stages) != sorted(set(self.stages)):
            raise SettingsError(f"stages: expected at most two rising shares of the run, got {self.stages!r}")
        for share in self.stages:
            check_number("stages", share, 0.0, 1.0)
        if self.stage_p_zero and len(self.stage_p_zero) != len(self.stages):
            raise SettingsError(
                f"stage_p_zero: expected one share of zeros for each of {len(self.stages)} later stages, "
                f"got {self.stage_p_zero!r}"
            )
        for share in self.stage_p_zero:
            check_number("stage_p_zero", share, 0.0, 255 / 256)
        if self.stage_p_zero and self.distribution.kind != DistributionKind.SPARSE_UNIFORM:
            raise SettingsError("stage_p_zero: needs a sparse uniform distribution")

    def without_effect(self, kinds: Collection[TaskKind] | None = None) -> dict[str, str]:
        """Settings that change nothing beside the others, each with why; their values are not looked at.

        Args:
            kinds: of the tasks that the run has with a model (`plan_tasks`); None: any that these allow.
        """
        reasons: dict[str, str] = {}

        def say(reason: str, *names: str) -> None:
            for name in names:
                reasons.setdefault(name, reason)

        frozen = self.others == "frozen"
        if kinds is None:
            kinds = {TaskKind.NODES, TaskKind.EXACT, TaskKind.WEIGHTS}
        nodes = TaskKind.NODES in kinds
        weights = TaskKind.WEIGHTS in kinds and not frozen
        exact = TaskKind.EXACT in kinds and self.head == "exact"
        if not nodes:
            say("no layer is trained by perturbing its nodes", "mu", "masked", "rule")
            if not weights:
                say("no query is made where all layers have their exact gradients", "estimator", "queries")
        if not weights:
            why = "no weights are perturbed" + (" where others are frozen" if frozen else "")
            if not frozen:
                say("every layer that is trained carries nodes", "others")
            say(why, "weight_rule", "weight_rate", "weight_clip", "weight_bits", "distribution")
            say(why, "stage_p_zero")
        if self.weight_rule in ("sign", "bits"):
            say(f"weight-rule {self.weight_rule} looks at the sign of a difference alone", "weight_clip")
        if self.weight_rule == "bits":
            say("weight-rule bits has no rate", "weight_rate")
        else:
            say("only weight-rule bits has them", "weight_bits")
        if not ((nodes and self.rule == "gradient") or (weights and self.weight_rule == "gradient")):
            say("only a rule gradient has such factors", "gradient_norm", "quantization_aware")
        if self.head != "exact":
            why = "no layer has its exact gradient where head is not exact"
            say(why, "exact_rule", "exact_bits", "sparse_rows", "tail")
        elif self.exact_rule != "bits":
            say("only exact-rule bits has them", "exact_bits")
        if not (weights and self.stage_p_zero) and not (exact and self.exact_rule == "bits"):
            say("nothing changes between them without stage-p-zero or exact-rule bits", "stages")
        steps = nodes or (exact and self.exact_rule != "bits")
        if not steps:
            say("no step of a weight is clipped to it", "clip")
            if not (weights and self.weight_rule != "bits"):
                say("rules of bits have no rate", "rate", "final_rate", "schedule", "warmup_steps")
                say("rules of bits have no rate", "decay", "decay_steps")
        return {**without_schedule(self.schedule), **reasons}

    @property
    def head_room(self) -> int:
        """Head-room that the run needs of the model, LSB: how far weights are perturbed at most."""
        return 0 if self.others == "frozen" else self.distribution.reach

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

    def weight_queries_of(self, layers: Sequence[str]) -> int:
        """Queries of layers whose weights are perturbed together."""
        if isinstance(self.queries, int):
            return self.queries
        named = [self.queries[name] for name in layers if name in self.queries] if self.queries else []
        return max(named, default=1)

    def as_integers(self, *, steps: int, samples: int, batch: int) -> CSettings:
        """The settings as the control unit takes them.

        Args:
            steps: of the whole run.
            samples: in the training set.
            batch: of the model.
        """
        p_zero = [round(p * 256) for p in self.stage_p_zero] or [self.distribution.p_zero] * 2
        begins = [max(1, round(share * steps)) for share in self.stages]
        if len(begins) == 2 and begins[1] <= begins[0]:
            begins[1] = begins[0] + 1
        return CSettings(
            run_seed=self.seed,
            steps=steps,
            samples=samples,
            batch=batch,
            parts=self.batch_size // batch,
            queries=1,
            estimator=ESTIMATORS.index(self.estimator),
            rule=WEIGHT_RULES.index(self.weight_rule),
            distribution=self.distribution.struct,
            rate=max(1, round(self.rate * 65536)),
            final_rate=round(self.final_rate * 65536),
            schedule=SCHEDULES.index(self.schedule),
            warmup_steps=self.warmup_steps,
            decay=round(self.decay * 65536),
            decay_steps=self.decay_steps,
            clip=round(self.clip * 65536),
            stage_steps=tuple(begins),
            stage_p_zero=p_zero[0] | (p_zero[1] << 8 if len(p_zero) > 1 else 0),
        )
