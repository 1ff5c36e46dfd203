# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""ElasticZO-INT8's update of perturbed weights (``ops/core/papers/zo_update_bits.h``), from Python."""

from __future__ import annotations

import ctypes
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from . import native
from .native import Distribution, NativeError

__all__ = ["update_bits"]


@lru_cache(maxsize=1)
def _function() -> Any:
    function = native.library().zo_update_bits_s8
    u32, i32 = ctypes.c_uint32, ctypes.c_int32
    function.restype = ctypes.c_int
    function.argtypes = [
        ctypes.POINTER(native._Tensor),
        native._Distribution,
        u32,
        i32,
        u32,
        ctypes.POINTER(u32),
    ]
    return function


def update_bits(
    weights: NDArray[np.int8],
    stream: int,
    limit: int,
    distribution: Distribution,
    seed: int,
    direction: int,
    bits: int,
) -> int:
    """Moves every weight against direction * z(seed), rounded to a few bits; see ``zo_update_bits_s8``.

    Args:
        weights: int8, every value within ±limit, changed in place.
        stream: number of the tensor.
        limit: 127 minus the head-room; weights are clipped to ±limit.
        distribution: by which the weights were perturbed.
        seed: of the direction, 0..2^32-1.
        direction: -1, 0 or +1, the sign of the loss difference L(w + z) - L(w - z).
        bits: of the largest update, 1..7.

    Returns:
        How many weights were clipped.

    Raises:
        NativeError: ARGUMENT, DISTRIBUTION, FACTOR.
    """
    tensor = native._make_tensor(weights, None, None, 1, 1, stream, limit)
    saturated = ctypes.c_uint32(0)
    status: int = _function()(
        ctypes.byref(tensor),
        distribution._c,
        native._unsigned("seed", seed),
        native._signed("direction", direction),
        native._unsigned("bits", bits),
        ctypes.byref(saturated),
    )
    if status != 0:
        raise NativeError("zo_update_bits_s8", status)
    return saturated.value
