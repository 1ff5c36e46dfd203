# SPDX-License-Identifier: Apache-2.0
"""The op pack's sources, as they are installed with the package."""

from __future__ import annotations

import sys
from importlib.util import find_spec
from pathlib import Path

from ..errors import ConversionError

#: Folders of the op pack that firmware compiles.
FOLDERS = ("core", "tflm", "device")


def op_pack_folder() -> Path:
    """Where the op pack's sources are.

    Raises:
        ConversionError: they are not installed.
    """
    package = __package__.partition(".")[0]
    spec = find_spec(package)
    folders = [Path(p) for p in (spec.submodule_search_locations or [])] if spec else []
    folders += [Path(entry) / package for entry in sys.path if entry]
    for folder in folders:
        if (folder / "_ops" / "core" / "zo_types.h").is_file():
            return folder / "_ops"
    raise ConversionError("the op pack's sources are not installed: install tflm_zo again")


def op_pack_sources() -> dict[str, str]:
    """Text of each source by its path in a firmware's folder."""
    root = op_pack_folder()
    return {
        f"ops/{folder}/{path.name}": path.read_text(encoding="utf-8")
        for folder in FOLDERS
        for path in sorted((root / folder).iterdir())
        if path.suffix in (".h", ".c", ".cc")
    }
