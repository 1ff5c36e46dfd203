# SPDX-License-Identifier: Apache-2.0
"""Firmware: a ZO model as a folder of C and C++ that is added to a build of TensorFlow Lite Micro."""

from .folder import check_folder
from .generate import Firmware, FirmwareSettings, generate
from .plan import BlockPlan, BlockRunPlan, NodeRunPlan, RunPlan, TaskPlan, WeightRunPlan
from .platforms import PLATFORMS
from .samples import SampleArrays
from .source_text import identifier, is_identifier

__all__ = [
    "PLATFORMS",
    "BlockPlan",
    "BlockRunPlan",
    "Firmware",
    "FirmwareSettings",
    "NodeRunPlan",
    "RunPlan",
    "SampleArrays",
    "TaskPlan",
    "WeightRunPlan",
    "check_folder",
    "generate",
    "identifier",
    "is_identifier",
]
