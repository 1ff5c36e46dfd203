"""Firmware: a ZO model as a folder of C and C++ that is added to a build of TensorFlow Lite Micro."""

from .fit import Fitted, fit
from .folder import check_folder
from .generate import Firmware
from .planning import check_names, generate_firmware, name_of, plan_run
from .platforms import PLATFORMS
from .source_text import identifier, is_identifier

__all__ = [
    "Firmware",
    "Fitted",
    "PLATFORMS",
    "check_folder",
    "check_names",
    "fit",
    "generate_firmware",
    "identifier",
    "is_identifier",
    "name_of",
    "plan_run",
]
