# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""A distribution of the perturbation as people write it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from ..core import Coordinate, Distribution, Gaussian, Rademacher, SparseUniform
from .checks import SettingsError

__all__ = ["DISTRIBUTIONS", "parse_distribution", "written_distribution"]

DISTRIBUTIONS: Final = "rademacher:LSB, sparse-uniform:LSB[:ZEROS], gaussian:LSB, coordinate:LSB"

_FAMILIES: Final[Mapping[str, Callable[..., Distribution]]] = {
    "rademacher": Rademacher,
    "sparse-uniform": SparseUniform,
    "gaussian": Gaussian,
    "coordinate": Coordinate,
}


def parse_distribution(text: str, name: str = "perturbation") -> Distribution:
    """Reads e.g. "rademacher:2", "sparse-uniform:3:0.5" (half of the weights stay), "gaussian:0.6" or
    "coordinate:4" (one weight of each layer).

    Raises:
        SettingsError: no distribution has that name (the message lists them), or a number is wrong.
    """
    kind, *numbers = text.split(":")
    family = _FAMILIES.get(kind)
    if family is None or len(numbers) not in ((1, 2) if family is SparseUniform else (1,)):
        raise SettingsError(name, f"be one of {DISTRIBUTIONS}", text)
    size, *zeros = numbers
    try:
        return family(float(size) if family is Gaussian else int(size), *map(float, zeros))
    except ValueError as error:
        raise SettingsError(name, f"have numbers in range ({error})", text) from None


def written_distribution(z: Distribution) -> str:
    """A distribution as `parse_distribution` reads it."""
    name = next(name for name, family in _FAMILIES.items() if family is type(z))
    size = repr(z.std).removesuffix(".0") if isinstance(z, Gaussian) else str(z.mu)
    if not z.p_zero:
        return f"{name}:{size}"
    zeros = f"{z.p_zero / 256:.2g}"
    return f"{name}:{size}:{zeros if round(float(zeros) * 256) == z.p_zero else z.p_zero / 256}"
