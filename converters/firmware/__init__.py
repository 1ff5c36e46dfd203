# SPDX-License-Identifier: Apache-2.0
"""Firmware: a ZO model as a folder of C and C++ that is added to a build of TensorFlow Lite Micro."""

from .generate import Firmware, FirmwareSettings, generate
from .plan import NodeRunPlan, RunPlan, TaskPlan, WeightRunPlan
from .platforms import PLATFORMS
from .samples import SampleArrays

__all__ = [
    "PLATFORMS",
    "Firmware",
    "FirmwareSettings",
    "NodeRunPlan",
    "RunPlan",
    "SampleArrays",
    "TaskPlan",
    "WeightRunPlan",
    "generate",
]
