"""Selections of layers, and of the weights of a layer (QZO-FF, sec. 3.4: sparse update), as values."""

from __future__ import annotations

import dataclasses
from typing import Final, Literal

import numpy as np
import numpy.typing as npt

from .errors import ConversionError, InjectError, checked_integer

_MOST_LAYERS: Final = 2**16


@dataclasses.dataclass(frozen=True)
class Last:
    """The last layers.

    Attributes:
        n: number of layers, at least 1; others raise ConversionError.
    """

    n: int

    def __post_init__(self) -> None:
        """Checks the range."""
        object.__setattr__(self, "n", checked_integer("n", self.n, 1, _MOST_LAYERS))


@dataclasses.dataclass(frozen=True)
class ResidualBlocks:
    """The last residual blocks, and the layers that depend on them. A block lies between an ADD of two branches and the
    tensor that both come from.

    Attributes:
        n: number of blocks, at least 1; others raise ConversionError.
    """

    n: int = 1

    def __post_init__(self) -> None:
        """Checks the range."""
        object.__setattr__(self, "n", checked_integer("n", self.n, 1, _MOST_LAYERS))

    def __str__(self) -> str:
        return f"{self.n} blocks"


#: All layers that errors reach.
ALL: Final = "all"

TailChoice = int | ResidualBlocks | Literal["all"]
"""The layers that have exact gradients: a number of last layers, those of residual blocks, or all."""


@dataclasses.dataclass(frozen=True)
class _Number:
    number: int | float

    def __post_init__(self) -> None:
        """Checks the range."""
        number: object = self.number
        if isinstance(number, int | np.integer) and not isinstance(number, bool) and number >= 1:
            object.__setattr__(self, "number", int(number))
        elif isinstance(number, float | np.floating) and 0.0 < number <= 1.0:
            object.__setattr__(self, "number", float(number))
        else:
            raise InjectError("number", "be a share like 0.1 (at most 1.0) or a count like 100", number)

    def _first(self, order: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
        count, size = self.number, order.size
        if isinstance(count, float):
            count = max(1, int(count * size + 0.5))
        elif count > size:
            raise ConversionError(f"it has {size} weights, not {count}")
        chosen = np.zeros(size, np.bool_)
        chosen[order[:count]] = True
        return chosen


@dataclasses.dataclass(frozen=True)
class TopK(_Number):
    """The weights of largest magnitude; of equal weights the first.

    Attributes:
        number: share of a layer's weights (float, above 0, at most 1.0), or their number (int, at least 1); others
            raise ConversionError.
    """

    def select(self, values: npt.NDArray[np.int8], stream: int) -> npt.NDArray[np.bool_]:
        """Returns the choice among a filter's weights; see `Random.select`."""
        return self._first(np.argsort(-_sizes(values), kind="stable"))


@dataclasses.dataclass(frozen=True)
class Random(_Number):
    """Weights drawn at random.

    Attributes:
        number: as for `TopK`.
        seed: seed of the choice, 0..2^32-1; others raise ConversionError.
    """

    seed: int = 0

    def __post_init__(self) -> None:
        """Checks the ranges."""
        super().__post_init__()
        object.__setattr__(self, "seed", checked_integer("seed", self.seed, 0, 2**32 - 1))

    def select(self, values: npt.NDArray[np.int8], stream: int) -> npt.NDArray[np.bool_]:
        """Returns the weights that are trained, bool [weights], of a filter's flat int8 weights; `stream`, 0..65535, is
        the filter's number. Raises ConversionError where the filter has fewer weights, or none that is large enough.
        """
        return self._first(_shuffled(values.size, self.seed << 16 | stream))


@dataclasses.dataclass(frozen=True)
class Threshold:
    """All weights of at least a magnitude.

    Attributes:
        lsb: the magnitude, 1..127 LSB; others raise ConversionError.
    """

    lsb: int

    def __post_init__(self) -> None:
        """Checks the range."""
        object.__setattr__(self, "lsb", checked_integer("lsb", self.lsb, 1, 127))

    def select(self, values: npt.NDArray[np.int8], stream: int) -> npt.NDArray[np.bool_]:
        """Returns the choice among a filter's weights; see `Random.select`."""
        sizes = _sizes(values)
        if sizes.max() < self.lsb:
            raise ConversionError(f"no weight reaches {self.lsb} LSB; the largest is {sizes.max()}")
        return sizes >= self.lsb


Sparse = TopK | Random | Threshold
"""A choice of some weights of each layer."""


def _sizes(values: npt.NDArray[np.int8]) -> npt.NDArray[np.int16]:
    return np.abs(values.astype(np.int16))


def _shuffled(count: int, seed: int) -> npt.NDArray[np.int64]:
    """Returns 0..count-1, ordered by the seed alike in every release of NumPy (splitmix64)."""
    step, mask = 0x9E3779B97F4A7C15, 2**64 - 1
    state = np.uint64((seed * 0xBF58476D1CE4E5B9 + step) & mask)
    z = state + np.arange(count, dtype=np.uint64) * np.uint64(step)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.argsort(z ^ (z >> np.uint64(31)), kind="stable")
