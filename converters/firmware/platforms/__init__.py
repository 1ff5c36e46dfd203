# SPDX-License-Identifier: Apache-2.0
"""Build glue: a layout of the same sources for each build system, one file each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from .cmake import cmake
from .project import Project

#: By name: lays out a project's files, text by path.
PLATFORMS: Final[dict[str, Callable[[Project], dict[str, str]]]] = {"cmake": cmake}

__all__ = ["PLATFORMS", "Project"]
