"""Distributions of perturbations."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from .arguments import integer, unsigned
from .loader import Struct, constants, library, structs


@dataclass(frozen=True, repr=False)
class Distribution:
    """A `Rademacher`, `SparseUniform`, `Gaussian` or `Coordinate`; ValueError if a parameter is out of range."""

    kind: ClassVar[int]  #: number of the family, in files and in ``zo_distribution``.
    _mu_max: ClassVar[int] = 127
    _p_zero_max: ClassVar[int] = 0
    mu: int  #: size of the perturbation in files; the unit depends on the family.
    p_zero: int = 0  #: sparse uniform only: zero probability in 1/256.

    def __post_init__(self) -> None:
        """Checks the parameters against the ranges of ``zo_types.h``."""
        for name, low, high in (("mu", 1, self._mu_max), ("p_zero", 0, self._p_zero_max)):
            object.__setattr__(self, name, integer(name, getattr(self, name), low, high))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.mu})"

    @property
    def reach(self) -> int:
        """Largest change of one weight, in LSB: the headroom that the distribution needs."""
        return int(library().zo_distribution_reach(self.struct))

    @property
    def z_max(self) -> int:
        """Largest |z| of one weight."""
        return int(library().zo_distribution_z_max(self.struct))

    @property
    def word(self) -> int:
        """The distribution as a word of ``zo_command``."""
        return self.kind << 24 | self.p_zero << 16 | self.mu

    @property
    def struct(self) -> Struct:
        """``zo_distribution``."""
        return structs.zo_distribution(self.kind, self.p_zero, self.mu)

    @staticmethod
    def of(struct: Any) -> Distribution:
        """Returns the distribution of a ``zo_distribution``. ValueError: an unknown kind or a number out of range."""
        for family in Rademacher, SparseUniform, Gaussian, Coordinate:
            if family.kind == struct.kind:
                made = object.__new__(family)
                Distribution.__init__(made, struct.mu, struct.p_zero)
                return made
        raise ValueError(f"kind: no distribution has the number {struct.kind}")


class Rademacher(Distribution):
    """Every weight moves by +mu or -mu LSB, each with probability 1/2.

    Args:
        mu: size of a perturbation, 1..127 LSB.
    """

    kind = constants.ZO_RADEMACHER

    def __init__(self, mu: int = 1) -> None:
        super().__init__(mu)


class SparseUniform(Distribution):
    """A weight stays with the given probability, else moves uniformly by -radius..radius LSB.

    Args:
        radius: largest perturbation, 1..127 LSB.
        zeros: the probability, 0..255/256, rounded to 1/256.
    """

    kind = constants.ZO_SPARSE_UNIFORM
    _p_zero_max = 255

    def __init__(self, radius: int, zeros: float = 0.0) -> None:
        if not 0.0 <= zeros <= 1.0:
            raise ValueError(f"`zeros` must be in 0..1. Received: {zeros}.")
        super().__init__(radius, min(255, round(zeros * 256)))

    def __repr__(self) -> str:
        return f"SparseUniform({self.mu}, {self.p_zero / 256:.3g})"


class Gaussian(Distribution):
    """Every weight moves by a quantized normal.

    Args:
        std: standard deviation, 0.0045..580 LSB, rounded to 127 / 3.5 / 4096 LSB.
    """

    kind = constants.ZO_GAUSSIAN
    _mu_max = 65535

    def __init__(self, std: float) -> None:
        mu = self._in_units(std)
        if not 0.5 <= mu < 65535.5:
            raise ValueError(f"`std` must be in 0.0045..580. Received: {std}.")
        super().__init__(round(mu))

    @staticmethod
    def _in_units(std: float) -> float:
        return std * 3.5 / 127 * 4096

    @property
    def std(self) -> float:
        """Standard deviation, LSB: the shortest number that gives this distribution."""
        exact = self.mu / 4096 * 127 / 3.5
        numbers = (float(f"{exact:.{digits}g}") for digits in range(1, 6))
        return next((std for std in numbers if round(self._in_units(std)) == self.mu), exact)

    def __repr__(self) -> str:
        return f"Gaussian({self.std:g})"


class Coordinate(Distribution):
    """One weight of each tensor moves by mu LSB: coordinate-wise estimation (DeepZero).

    Args:
        mu: size of a perturbation, 1..127 LSB.
    """

    kind = constants.ZO_COORDINATE

    def __init__(self, mu: int = 1) -> None:
        super().__init__(mu)


def query_seed(run_seed: int, step: int, query: int) -> int:
    """Returns the seed of a query in a step of a run; all numbers are 0..2^32-1."""
    numbers = unsigned("run_seed", run_seed), unsigned("step", step), unsigned("query", query)
    return int(library().zo_query_seed(*numbers))


def query_seeds(run_seed: int, first: int, steps: int, queries: int) -> NDArray[np.uint32]:
    """Returns the seeds of consecutive steps of a run, uint32 [steps, queries]; see `query_seed`."""
    seed, numbers = library().zo_query_seed, range(first, first + steps)
    seeds = [[seed(run_seed, step, query) for query in range(queries)] for step in numbers]
    return np.array(seeds, np.uint32).reshape(steps, queries)
