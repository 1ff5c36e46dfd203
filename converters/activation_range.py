# SPDX-License-Identifier: Apache-2.0
"""The levels to which a fused activation function clamps an operator's output."""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from .model import Quantization

# Ranges, real values, of fused activations (ActivationFunctionType): NONE, RELU, RELU_N1_TO_1, RELU6.
RANGES: Final = {0: (-math.inf, math.inf), 1: (0.0, math.inf), 2: (-1.0, 1.0), 3: (0.0, 6.0)}


def activation_range(output: Quantization, activation: int) -> tuple[int | None, int | None]:
    """Returns the lowest and the highest int8 level of an output; None where the activation does not clamp.

    Args:
        output: quantization of the output.
        activation: number of the fused activation, a key of `RANGES`.
    """

    def level(real: float) -> int | None:
        if math.isinf(real):
            return None
        # As TFLite's kernels: a float32 quotient, half away from zero.
        steps = float(np.float32(real) / np.float32(output.scale))
        rounded = int(math.copysign(math.floor(abs(steps) + 0.5), steps))
        return min(127, max(-128, output.zero_point + rounded))

    low, high = RANGES[activation]
    return level(low), level(high)
