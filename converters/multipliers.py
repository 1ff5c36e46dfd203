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


def kernel_norm_multipliers(filters: Sequence[npt.NDArray[np.int8]]) -> list[int]:
    """Returns Q31 factors ||w|| / sqrt(d) of each layer's step, relative to the largest, from its trained weights, flat
    int8.

    Kernel-wise normalization (QZO-FF, eq. 9) moves layer i along z_i / ||z_i|| ||w_i||. The norm of a random direction
    is sqrt(d) standard deviations, within 1 / sqrt(2 d), so this is a factor of the layer. It is that of the weights at
    injection; in the paper it follows the weights, which moves it by at most 5 % in 2 * 10^4 forward passes and 10 % in
    10^5 (LeNet-5 on rotated MNIST). A layer of zeros gets 0: it would not move. Where all are zeros, they count as
    equal.
    """
    sizes = [float(np.sqrt(np.mean(w.astype(np.float64) ** 2))) for w in filters]
    largest = max(sizes, default=0.0)
    if largest == 0.0:
        return [NEUTRAL] * len(sizes)
    return [min(round(2.0**31 * size / largest), NEUTRAL) for size in sizes]
