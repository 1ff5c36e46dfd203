"""Recalibration: restores the mean and deviation of a model's channels on new data, without labels."""

from .drift import Drift, drift
from .moments import Moments
from .recalibrate import LayerChange, Recalibration, channel_statistics_of, recalibrate
from .running_moments import RunningMoments
from .walk import corrected_names

__all__ = [
    "Drift",
    "LayerChange",
    "Moments",
    "Recalibration",
    "RunningMoments",
    "channel_statistics_of",
    "corrected_names",
    "drift",
    "recalibrate",
]
