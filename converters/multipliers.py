"""Factors of update steps, and the choice of the weights that are trained."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Final, Literal

import numpy as np
import numpy.typing as npt

from .errors import ConversionError, InjectError

#: Largest Q31 factor of an update step; stands for 1.
NEUTRAL: Final = 2**31 - 1


def quantization_aware_multipliers(
    filters: Sequence[tuple[npt.NDArray[np.float32], npt.NDArray[np.int8]]],
) -> list[npt.NDArray[np.int32]]:
    """Returns factors (s_min / s)^2 per channel, which make steps on integers steps on real weights.

    A weight of integer value q stands for w = s q. One step of gradient descent on w with rate eta,

        w <- w - eta dL/dw,   with   dL/dq = s dL/dw,   is   q <- q - (eta / s^2) dL/dq

    (Poor Man's Training, sec. 3.1.1: the learning rate of a layer scaled by 1 / s^2). A multiplier is at most
    1, so 1 / s^2 is taken relative to the finest channel: eta = rate * s_min^2, with the rate of the
    "gradient" rule in LSB^2 per nat, reaches every weight with the same real step.

    Args:
        filters: (scales, weights) of each trainable filter: float32 [channels], and int8 with the channels
            first. The scale of a channel of zeros means nothing, and is not counted as the finest one.

    Returns:
        Q31 factors of each filter, int32 [channels].
    """
    finest = min(
        (
            float(scale)
            for scales, weights in filters
            for scale, channel in zip(scales, weights, strict=True)
            if channel.any()
        ),
        default=1.0,
    )
    return [
        np.minimum(np.rint(2.0**31 * (finest / scales.astype(np.float64)) ** 2), NEUTRAL).astype(np.int32)
        for scales, _ in filters
    ]


def kernel_norm_multipliers(filters: Sequence[npt.NDArray[np.int8]]) -> list[int]:
    """Returns factors ||w|| / sqrt(d) of each layer's step, relative to the largest.

    Kernel-wise normalization (QZO-FF, eq. 9) moves layer i along z_i / ||z_i|| ||w_i||. The norm of a random
    direction is sqrt(d) standard deviations, within 1 / sqrt(2 d), so this is a factor of the layer: the root
    of the mean square of its weights, in LSB. It is that of the weights at injection, a constant; in the
    paper it follows the weights, which moves it little: by at most 5 % in 2 * 10^4 forward passes and 10 % in
    10^5 (LeNet-5 on rotated MNIST).

    Args:
        filters: the weights that are trained, LSB, a flat int8 array for each trainable filter.

    Returns:
        Q31 factors, 0..2^31-1. A layer of zeros gets 0, as the equation has it: it would not move. Where all
        are zeros, they count as equal.
    """
    sizes = [float(np.sqrt(np.mean(w.astype(np.float64) ** 2))) for w in filters]
    largest = max(sizes, default=0.0)
    if largest == 0.0:
        return [NEUTRAL] * len(sizes)
    return [min(round(2.0**31 * size / largest), NEUTRAL) for size in sizes]


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
