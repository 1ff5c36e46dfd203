"""Factors of update steps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

#: Largest Q31 factor of an update step; stands for 1.
NEUTRAL: Final = 2**31 - 1


def quantization_aware_multipliers(
    filters: Sequence[tuple[npt.NDArray[np.float32], npt.NDArray[np.int8]]],
) -> list[npt.NDArray[np.int32]]:
    """Returns factors (s_min / s)^2 per channel, Q31, int32 [channels] of each filter, for equal steps on real weights.

    A weight of integer value q stands for w = s q. One step of gradient descent on w with rate eta,

        w <- w - eta dL/dw,   with   dL/dq = s dL/dw,   is   q <- q - (eta / s^2) dL/dq

    (Poor Man's Training, sec. 3.1.1). A multiplier is at most 1, so 1 / s^2 is taken relative to the finest channel.
    `filters` are (scales, weights): float32 [channels], and int8 with the channels first. The scale of a channel of
    zeros means nothing, and is not counted as the finest one.
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
