"""Rules by which steps move weights, as values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from .checks import check_integer, check_number


@dataclass(frozen=True)
class Rms:
    """Move weights by steps of a known size, W <- W - rate G / rms(G): the rate is the RMS of a layer's step, LSB."""


@dataclass(frozen=True)
class PerError:
    """Move weights by W <- W - rate G / rms(G / E), E the RMS of the output's errors p - y; or else by `Rms`."""


@dataclass(frozen=True)
class Standardized:
    """Move weights by standardized gradients, W <- W - rate (G - mean(G)) / std(G) over the layer (FQT)."""


@dataclass(frozen=True, kw_only=True)
class Gradient:
    """Move weights in proportion to the estimate of the gradient.

    Attributes:
        clip: largest |d| of weight perturbation in nats, or in errors of 8 output levels (mean squared error), 0..2^14;
            by `Normalized` largest |d| / rms(d). 0 clips nothing. `Nodes` have `Settings.step_clip` instead.
        gradient_norm: True if the rate is multiplied by N Q / (N Q + d - 1), with N samples in the minibatch, Q queries
            and d nodes or weights (Poor Man's Training, sec. 3.1.2).
        quantization_aware: True if the rate is multiplied by 1 / s^2, with s the scale of the weight's channel (eq.
            11). Runs that train layers one by one only.

    Raises:
        SettingsError: a number is out of range.
    """

    clip: float = 0.0
    gradient_norm: bool = False
    quantization_aware: bool = False

    def __post_init__(self) -> None:
        check_number("clip", self.clip, 0.0, 2.0**14)


@dataclass(frozen=True, kw_only=True)
class Normalized:
    """Move weights by differences relative to their running root mean square.

    Attributes:
        clip: largest |d| / rms(d), 0..2^14. 0 clips nothing.
        gradient_norm: True if the rate is multiplied by N Q / (N Q + d - 1), as by `Gradient`.

    Raises:
        SettingsError: a number is out of range.
    """

    clip: float = 3.0
    gradient_norm: bool = False

    def __post_init__(self) -> None:
        check_number("clip", self.clip, 0.0, 2.0**14)


@dataclass(frozen=True, kw_only=True)
class Sign:
    """Move weights by the signs of differences (QZO-FF, Alg. 1).

    Attributes:
        gradient_norm: True if the rate is multiplied by N Q / (N Q + d - 1), as by `Gradient`.
    """

    gradient_norm: bool = False


@dataclass(frozen=True)
class Bits:
    """Move weights by steps rounded to few bits, without a rate (ElasticZO-INT8, Alg. 2, after NITI).

    Attributes:
        bits: bits of a step, 1..7: of `Weights` a number, of `Exact` one for each of three stages of the run.

    Raises:
        SettingsError: a number is out of range.
    """

    bits: int | tuple[int, int, int] = 1

    def __post_init__(self) -> None:
        given: Any = self.bits
        several = isinstance(given, tuple | list)
        bits = tuple(check_integer("bits", b, 1, 7) for b in (given if several else (given,)))
        object.__setattr__(self, "bits", bits if several else bits[0])


NodeRule = Rms | Gradient
ExactRule = Rms | PerError | Bits | Standardized
WeightRule = Gradient | Normalized | Sign | Bits

#: Rules by name; those of nodes and weights in the order of the control units' numbers.
NODE_RULES: Final[Mapping[str, type[NodeRule]]] = {"rms": Rms, "gradient": Gradient}
EXACT_RULES: Final[Mapping[str, type[ExactRule]]] = {
    "rms": Rms,
    "per-error": PerError,
    "bits": Bits,
    "standardized": Standardized,
}
WEIGHT_RULES: Final[Mapping[str, type[WeightRule]]] = {
    "gradient": Gradient,
    "normalized": Normalized,
    "sign": Sign,
    "bits": Bits,
}
