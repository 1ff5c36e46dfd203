# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""A distribution of the perturbation as people write it on the command line."""

from __future__ import annotations

from typing import Final

from ..core import Distribution
from ..training import SettingsError

__all__ = ["DISTRIBUTIONS", "parse_distribution"]

DISTRIBUTIONS: Final = "rademacher:LSB, sparse-uniform:LSB[:ZEROS], gaussian:LSB, coordinate:LSB"


def parse_distribution(text: str) -> Distribution:
    """Reads e.g. "rademacher:2", "sparse-uniform:3:0.5" (half of the weights stay), "gaussian:0.6" or
    "coordinate:4" (one weight of each layer).

    Raises:
        SettingsError: there is no such distribution (the message lists them), or a number is wrong.
    """
    name, *numbers = text.split(":")
    try:
        if name == "rademacher" and len(numbers) == 1:
            return Distribution.rademacher(int(numbers[0]))
        if name == "sparse-uniform" and len(numbers) in (1, 2):
            return Distribution.sparse_uniform(int(numbers[0]), *map(float, numbers[1:]))
        if name == "gaussian" and len(numbers) == 1:
            return Distribution.gaussian(float(numbers[0]))
        if name == "coordinate" and len(numbers) == 1:
            return Distribution.coordinate(int(numbers[0]))
    except ValueError as error:
        raise SettingsError(f"{text!r}: {error}") from None
    raise SettingsError(f"no {text!r}; there are {DISTRIBUTIONS}")
