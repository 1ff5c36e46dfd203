"""Tasks: the parts of a model that a run trains, and the estimates of their gradients."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final, Literal, get_args

from ..converters.selections import ALL, ResidualBlocks, TailChoice
from ..converters.settings import PARAMETERS, Parameters
from ..core import MAX_QUERIES, Coordinate, Distribution, Rademacher, SparseUniform
from .checks import SettingsError, check_choice, check_integer, check_number
from .rules import (
    EXACT_RULES,
    NODE_RULES,
    WEIGHT_RULES,
    Bits,
    ExactRule,
    Gradient,
    NodeRule,
    Normalized,
    Rms,
    WeightRule,
)

Scope = Literal["model", "blocks", "layers"]

SCOPES: Final[tuple[str, ...]] = get_args(Scope)


def _check_rule(name: str, rule: object, rules: Mapping[str, type[object]]) -> None:
    if type(rule) not in rules.values():
        raise SettingsError(name, f"be {' or '.join(kind.__name__ for kind in rules.values())}", rule)


Queries = int | Mapping[str, int]


def _check_queries(name: str, queries: Queries) -> Queries:
    if isinstance(queries, Mapping):
        return {layer: check_integer(name, n, 1, MAX_QUERIES) for layer, n in queries.items()}
    return check_integer(name, queries, 1, MAX_QUERIES)


class _Querying:
    queries: Queries | None

    @property
    def queries_by_layer(self) -> Mapping[str, int]:
        """Queries of the layers that have a number of their own."""
        return self.queries if isinstance(self.queries, Mapping) else {}

    def queries_of(self, layers: Iterable[str]) -> int:
        """Returns the queries of layers that are perturbed together; 0 if none is given."""
        if isinstance(self.queries, int):
            return self.queries
        own = self.queries_by_layer
        return max((own[name] for name in layers if name in own), default=0)


@dataclass(frozen=True, kw_only=True)
class Nodes(_Querying):
    """Node perturbation: the layers that carry nodes, which are their outputs, are trained one by one.

    For every layer with nodes y = W a, each sample b draws directions z of its own and re-runs the network
    from the nodes on, with the losses

        d_qb = L_b(y_b + mu z_qb) - L_b(y_b - mu z_qb)                    (estimator "antithetic")
        d_qb = L_b(y_b + mu z_qb) - L_b(y_b)                              (estimator "one-sided")

    and the layer's weights get the outer products of credits and inputs, G = sum over b, q of d z a^T (node
    perturbation; Poor Man's Training on MCUs, sec. 3.2).

    Attributes:
        queries: directions per sample and step, 1..32, of all layers or by layer name. A layer that is given
            none gets as many as cost a tenth of a forward pass, 2 at least and 32 at most.
        perturbation: size mu of the perturbation, 1..127 LSB.
        rule: `Rms`: steps of a known size, W <- W - rate G / rms(G); `Gradient`: W <- W - rate F G_mean,
            where G_mean is the estimate of the gradient of the mean loss with respect to W in LSB, and F is
            the product of the rule's factors (Poor Man's Training, eq. 11).
        masked: True if nodes at the clamp of an activation are left alone.
        parameters: trained parameters of a layer: "weights", "all" (also biases: a bias is a weight whose
            input is always 32 LSB, so it moves by 32 times its step) or "biases" (needs neither the layer's
            inputs nor its filter in RAM; TinyTL).

    Raises:
        SettingsError: a setting is out of range.
    """

    queries: Queries | None = None
    perturbation: int = 1
    rule: NodeRule = Rms()
    masked: bool = True
    parameters: Parameters = "weights"

    def __post_init__(self) -> None:
        _check_rule("nodes.rule", self.rule, NODE_RULES)
        if isinstance(self.rule, Gradient) and self.rule.clip:
            raise SettingsError("nodes.rule", "be Gradient without clip", self.rule)
        check_choice("nodes.parameters", self.parameters, PARAMETERS)
        if self.queries is not None:
            object.__setattr__(self, "queries", _check_queries("nodes.queries", self.queries))
        object.__setattr__(self, "perturbation", check_integer("nodes.perturbation", self.perturbation, 1, 127))


@dataclass(frozen=True, kw_only=True)
class Exact:
    """The exact gradients of the last layers, in integers.

    The gradient of the last layer is the outer product e a^T of its error, the derivative of the loss, and
    its input, which takes no query; errors pass back through the layers before it (the tail of ElasticZO,
    sec. 4), be they dense or convolutions, and through the operators between them: ADD, SUB and MUL, of
    tensors that are spread, too (squeeze and excitation), activations, LOGISTIC, TANH, ELU, HARD_SWISH,
    LEAKY_RELU and ABS, poolings, MEAN, PAD, RESHAPE, CONCATENATION and PACK, SPLIT, UNPACK and SLICE.

    Attributes:
        last: number of layers, 1..64, `ResidualBlocks(n)`, or "all": all layers that errors reach.
        rule: `Rms`: steps of a known size, W <- W - rate G / rms(G); `PerError`: W <- W - rate G / rms(G / E), E
            the root mean square of the error p - y of the model's output (algorithm `exact`); `Bits`: W <- W -
            round(G), to as many bits in each stage (ElasticZO-INT8, Alg. 2, after NITI), which has no rate and
            needs an 8-bit update; `Standardized`: W <- W - rate (G - mean(G)) / std(G) over the layer (FQT).
        rows: (least, most), bounds of the share of a layer's outputs that a step updates. A step updates the
            outputs with the largest errors, a share of least + loss / largest loss so far * (most - least)
            (FQT: dynamic sparse gradients).
        parameters: trained parameters of a layer, as in `Nodes`.

    Raises:
        SettingsError: a setting is out of range.
    """

    last: TailChoice = 1
    rule: ExactRule = Rms()
    rows: tuple[float, float] = (1.0, 1.0)
    parameters: Parameters = "weights"

    def __post_init__(self) -> None:
        _check_rule("exact.rule", self.rule, EXACT_RULES)
        check_choice("exact.parameters", self.parameters, PARAMETERS)
        if self.last != ALL and not isinstance(self.last, ResidualBlocks):
            object.__setattr__(self, "last", check_integer("last", self.last, 1, 64))
        if isinstance(self.rule, Bits) and (isinstance(self.rule.bits, int) or len(self.rule.bits) != 3):
            raise SettingsError("exact.bits", "be a number for each of three stages", self.rule.bits)
        for share in self.rows:
            check_number("rows", share, 0.0, 1.0)
        if len(self.rows) != 2 or self.rows[0] > self.rows[1] or self.rows[1] == 0:
            raise SettingsError("rows", "be a least share and a most that is not less and not 0", self.rows)


@dataclass(frozen=True, kw_only=True)
class Weights(_Querying):
    """Weight perturbation: all trainable layers that no other task trains.

    Each query draws a direction z from a seed and compares losses of the minibatch,

        d = L(w + z) - L(w - z)      estimator "antithetic": SPSA; two forward passes
        d = L(w + z) - L(w)          estimator "one-sided": RGE (Poor Man's Training, eq. 8); one forward
                                     pass, and one more per step

    and a step moves the weights once, by the sum over its queries of c z, with

        gradient     c = -rate d / (2 mu Q)       (one-sided: -rate d / (mu Q)); rate: LSB^2 per nat
        normalized   c = -rate d / rms(d) / Q     rms: running over about 32 queries; rate: LSB
        sign         c = -rate sign(d) / Q        sign-m-SPSA (QZO-FF, Alg. 1); rate: LSB

    where LSB counts per standard deviation of z (per unit of z for sparse uniform). Rule `Bits` moves weights
    by -sign(d) z, rounded to few bits (ElasticZO-INT8, Alg. 2), which has no rate.

    Where it is the only task of a run and perturbs more than single layers, steps are replayed from seeds:
    the log has no weights.

    Attributes:
        perturbation: distribution of z; its reach must be within the model's headroom.
        queries: number Q of directions per step, 1..32; with scope "layers" also by layer name, where a
            layer that is not named has 1.
        rule: `Normalized`, `Gradient`, `Sign` or `Bits`.
        scope: "model": a query perturbs all weights; "blocks": step t perturbs and moves block t modulo the
            number of blocks, and its queries re-run the network from that block on; "layers": each layer has
            queries of its own, which re-run the network from its inputs on.
        learning_rate: rate at the first step of this task beside others; None: the run's rate.
        stage_p_zero: shares of zeros of a sparse uniform perturbation in the later stages of the run
            (ElasticZO-INT8, sec. 5.1.1).
        headroom: headroom of a model that is made trainable for the run, LSB: weights stay within
            +-(127 - headroom). It is at least the largest perturbation of a weight.
        parameters: trained parameters of a layer, as in `Nodes`.

    Raises:
        SettingsError: a setting is out of range.
    """

    perturbation: Distribution = Rademacher(1)
    queries: Queries = 1
    rule: WeightRule = Normalized()
    scope: Scope = "model"
    learning_rate: float | None = None
    stage_p_zero: tuple[float, ...] = ()
    headroom: int = 2
    parameters: Parameters = "weights"

    def __post_init__(self) -> None:
        _check_rule("weights.rule", self.rule, WEIGHT_RULES)
        check_choice("scope", self.scope, SCOPES)
        check_choice("weights.parameters", self.parameters, PARAMETERS)
        object.__setattr__(self, "queries", _check_queries("weights.queries", self.queries))
        object.__setattr__(self, "headroom", check_integer("weights.headroom", self.headroom, 0, 112))
        if isinstance(self.rule, Bits) and not isinstance(self.rule.bits, int):
            raise SettingsError("weights.bits", "be one number", self.rule.bits)
        if self.learning_rate is not None:
            check_number("weights.learning_rate", self.learning_rate, 2.0**-32, 2.0**22)
        if not isinstance(self.perturbation, Distribution):
            raise SettingsError("weights.perturbation", "be a distribution", self.perturbation)
        if isinstance(self.rule, Bits) and isinstance(self.perturbation, Coordinate):
            raise SettingsError("weights.perturbation", "move all weights by rule bits", self.perturbation)
        for share in self.stage_p_zero:
            check_number("stage_p_zero", share, 0.0, 255 / 256)
        if self.stage_p_zero and not isinstance(self.perturbation, SparseUniform):
            problem = "be SparseUniform where later stages have other shares of zeros"
            raise SettingsError("weights.perturbation", problem, self.perturbation)

    @property
    def reach(self) -> int:
        """The largest perturbation of a weight, LSB."""
        return self.perturbation.reach

    @property
    def items(self) -> int:
        """Number of seeds in an update: the smallest max_queries of the model."""
        return self.queries if isinstance(self.queries, int) else 1

    def queries_of(self, layers: Iterable[str]) -> int:
        """Returns the queries of layers that are perturbed together."""
        return super().queries_of(layers) or 1


Task = Nodes | Exact | Weights
"""One of the parts that a run trains, each in its own way."""
