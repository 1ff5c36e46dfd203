"""Selections of layers as values."""

from __future__ import annotations

import dataclasses
from typing import Final, Literal

from .errors import checked_integer

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
