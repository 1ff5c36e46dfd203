"""The threshold of an anomaly (``ops/core/loss/zo_calibration.h``)."""

import ctypes
from typing import Final

import numpy as np
from numpy.typing import NDArray

from .loader import call, constants, library, structs

PERCENTILE_MAX: Final[int] = constants.ZO_PERCENTILE_MAX
"""The percentile 100; the unit is 0.01."""


def threshold_of(losses: NDArray[np.int32], percentile: int) -> int:
    """Returns a percentile, 1..`PERCENTILE_MAX`, of at least one normal sample's losses, in their unit."""
    largest = np.zeros(library().zo_calibration_room(len(losses), percentile), np.int32)
    calibration, threshold = structs.zo_calibration(largest.ctypes.data, len(largest), 0), ctypes.c_int32()
    for loss in losses.tolist():
        library().zo_calibration_add(calibration, loss)
    call("zo_calibration_threshold", calibration, percentile, ctypes.byref(threshold))
    return threshold.value
