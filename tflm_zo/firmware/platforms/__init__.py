"""Build glue: a layout of the same sources for each build system, one file each."""

from __future__ import annotations

from typing import Final

from ..resolver import EARLY_INT8
from .arduino import arduino
from .cmake import cmake
from .esp_idf import esp_idf
from .make import make
from .project import Layout, Platform, Project
from .zephyr import zephyr

#: By name.
PLATFORMS: Final[dict[str, Platform]] = {
    "cmake": Platform(cmake),
    "make": Platform(make),
    "arduino": Platform(arduino, static_memory=False, int8=EARLY_INT8),
    "zephyr": Platform(zephyr, static_memory=False),
    # Xtensa and RISC-V.
    "esp-idf": Platform(esp_idf, absent=frozenset({"__ARM_ARCH", "__ARM_NEON", "__thumb__", "__thumb2__"})),
}

__all__ = ["PLATFORMS", "Layout", "Platform", "Project"]
