# SPDX-License-Identifier: Apache-2.0
"""The choice of some weights of a filter, which alone are trained (QZO-FF, sec. 3.4: sparse update)."""

from __future__ import annotations

import dataclasses
from typing import Final, Literal

import numpy as np
import numpy.typing as npt

from .errors import ConversionError, InjectError

SPARSE_FORMS: Final = '"top-k:NUMBER", "random:NUMBER" or "threshold:LSB"'
_NUMBER: Final = "have a NUMBER that is a share like 0.1 (0 < share <= 1.0, with a point) or a count like 100"


@dataclasses.dataclass(frozen=True)
class SparseRule:
    """A rule by which each layer's weights are chosen.

    Attributes:
        kind: "top-k" (the largest |weights|, of equal ones the first), "random", or "threshold" (all with at
            least so many LSB).
        number: number of weights (int), their share (float), or the threshold, 1..127 LSB.
    """

    kind: Literal["top-k", "random", "threshold"]
    number: int | float

    @classmethod
    def parse(cls, text: str) -> SparseRule:
        """Reads e.g. "top-k:0.1", "random:500" or "threshold:20".

        Raises:
            ConversionError: the text is no such rule, or its number is out of range; the message says what is
                possible.
        """
        kind, _, number = text.partition(":")
        if kind not in ("top-k", "random", "threshold") or not number:
            raise InjectError("sparse", f"be {SPARSE_FORMS}, or masks by filter tensor name", text)
        if number.isascii() and number.isdigit():
            count = int(number)
            if kind == "threshold" and not 1 <= count <= 127:
                raise InjectError("sparse", "have a threshold of 1..127 LSB", count)
            if count < 1:
                raise InjectError("sparse", _NUMBER, text)
            return cls(kind, count)  # type: ignore[arg-type] # checked above
        if kind == "threshold":
            raise InjectError("sparse", "have a threshold of 1..127 LSB", number)
        try:
            share = float(number)
        except ValueError:
            share = 0.0
        if not 0.0 < share <= 1.0:
            raise InjectError("sparse", _NUMBER, text)
        return cls(kind, share)  # type: ignore[arg-type] # checked above

    def select(self, values: npt.NDArray[np.int8], seed: int) -> npt.NDArray[np.bool_]:
        """Chooses the weights that are trained.

        Args:
            values: a filter's weights, int8, flat.
            seed: "random": of the choice, 0..2^64-1.

        Returns:
            bool, like ``values``.

        Raises:
            ConversionError: the rule would select no weight, or more weights than there are.
        """
        sizes = np.abs(values.astype(np.int16))
        if self.kind == "threshold":
            if sizes.max() < self.number:
                raise ConversionError(f"no weight reaches {self.number} LSB; the largest is {sizes.max()}")
            return sizes >= self.number
        count = self.number
        if isinstance(count, float):
            count = max(1, int(count * values.size + 0.5))
        elif count > values.size:
            raise ConversionError(f"it has {values.size} weights, not {count}")
        order = _shuffled(values.size, seed) if self.kind == "random" else np.argsort(-sizes, kind="stable")
        chosen = np.zeros(values.size, np.bool_)
        chosen[order[:count]] = True
        return chosen


def _shuffled(count: int, seed: int) -> npt.NDArray[np.int64]:
    """Returns 0..count-1, ordered by the seed alike in every release of NumPy (splitmix64)."""
    step, mask = 0x9E3779B97F4A7C15, 2**64 - 1
    state = np.uint64((seed * 0xBF58476D1CE4E5B9 + step) & mask)
    z = state + np.arange(count, dtype=np.uint64) * np.uint64(step)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.argsort(z ^ (z >> np.uint64(31)), kind="stable")
