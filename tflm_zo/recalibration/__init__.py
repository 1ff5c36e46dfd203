# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""Recalibration: a model's channels get back the means and deviations that they had, without labels."""

from .moments import Moments
from .recalibrate import LayerChange, Recalibration, channel_statistics_of, recalibrate
from .running_moments import RunningMoments
from .walk import corrected_names

__all__ = [
    "LayerChange",
    "Moments",
    "Recalibration",
    "RunningMoments",
    "channel_statistics_of",
    "corrected_names",
    "recalibrate",
]
