# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""Distributions of perturbations."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .arguments import integer, unsigned
from .declarations import Struct
from .loader import constants, library, structs

__all__ = ["Distribution", "DistributionKind", "query_seed", "query_seeds"]


class DistributionKind(IntEnum):
    """Family of the random direction; values are part of the file format."""

    RADEMACHER = constants.ZO_RADEMACHER
    SPARSE_UNIFORM = constants.ZO_SPARSE_UNIFORM
    GAUSSIAN = constants.ZO_GAUSSIAN
    COORDINATE = constants.ZO_COORDINATE


@dataclass(frozen=True)
class Distribution:
    """Distribution of a perturbation; use the constructors below.

    Attributes:
        kind: family of the direction z.
        mu: size of the perturbation; the unit depends on the kind.
        p_zero: sparse uniform only: zero probability in 1/256.

    Raises:
        ValueError: a parameter is out of range.
    """

    kind: DistributionKind
    mu: int
    p_zero: int = 0

    def __post_init__(self) -> None:
        """Checks the parameters against the ranges of ``zo_types.h``."""
        object.__setattr__(self, "kind", DistributionKind(self.kind))
        integer("mu", self.mu, 1, 65535 if self.kind is DistributionKind.GAUSSIAN else 127)
        integer("p_zero", self.p_zero, 0, 255 if self.kind is DistributionKind.SPARSE_UNIFORM else 0)

    @classmethod
    def rademacher(cls, mu: int = 1) -> Distribution:
        """Every weight moves by +mu or -mu LSB, mu in 1..127."""
        return cls(DistributionKind.RADEMACHER, mu)

    @classmethod
    def sparse_uniform(cls, radius: int, p_zero_fraction: float = 0.0) -> Distribution:
        """A weight stays with the given probability, else moves uniformly by -radius..radius LSB.

        Args:
            radius: 1..127 LSB.
            p_zero_fraction: 0 to 1, kept in units of 1/256, 255/256 at most.
        """
        if not 0.0 <= p_zero_fraction <= 1.0:
            raise ValueError(f"p_zero_fraction: expected 0 to 1, got {p_zero_fraction}")
        return cls(DistributionKind.SPARSE_UNIFORM, radius, min(255, round(p_zero_fraction * 256)))

    @classmethod
    def gaussian(cls, std_lsb: float) -> Distribution:
        """Every weight moves by a quantized normal of the given standard deviation, in LSB (up to 580)."""
        mu = std_lsb * 3.5 / 127 * 4096
        if not 0.5 <= mu < 65535.5:
            raise ValueError(f"std_lsb: expected 0.0045 to 580, got {std_lsb}")
        return cls(DistributionKind.GAUSSIAN, round(mu))

    @classmethod
    def coordinate(cls, mu: int = 1) -> Distribution:
        """One weight of each tensor moves by mu LSB, mu in 1..127: coordinate-wise estimation (DeepZero)."""
        return cls(DistributionKind.COORDINATE, mu)

    @property
    def reach(self) -> int:
        """Largest change of one weight, in LSB: the headroom that the distribution needs."""
        return int(library().zo_distribution_reach(self.struct))

    @property
    def z_max(self) -> int:
        """Largest |z| of one weight: what a coefficient of an update is multiplied with."""
        return int(library().zo_distribution_z_max(self.struct))

    @property
    def word(self) -> int:
        """The distribution as a word of ``zo_command``."""
        return int(self.kind) << 24 | self.p_zero << 16 | self.mu

    @property
    def struct(self) -> Struct:
        """``zo_distribution``."""
        struct: Struct = structs.zo_distribution(int(self.kind), self.p_zero, self.mu)
        return struct

    @classmethod
    def of(cls, struct: Any) -> Distribution:
        """That of a ``zo_distribution``."""
        return cls(DistributionKind(struct.kind), struct.mu, struct.p_zero)


def query_seed(run_seed: int, step: int, query: int) -> int:
    """Seed of a query of a step of a run, as the control unit chooses it; all of them 0..2^32-1."""
    return int(
        library().zo_query_seed(
            unsigned("run_seed", run_seed), unsigned("step", step), unsigned("query", query)
        )
    )


def query_seeds(run_seed: int, first: int, steps: int, queries: int) -> NDArray[np.uint32]:
    """Seeds of consecutive steps of a run, uint32 [steps, queries]; see `query_seed`."""
    seed, numbers = library().zo_query_seed, range(first, first + steps)
    seeds = [[seed(run_seed, step, query) for query in range(queries)] for step in numbers]
    return np.array(seeds, np.uint32).reshape(steps, queries)
