# SPDX-License-Identifier: Apache-2.0
"""What runs or reads the glue of build systems."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

yaml = pytest.importorskip("yaml", reason="PyYAML is not installed: manifests were not parsed")
needs_cmake = pytest.mark.skipif(shutil.which("cmake") is None, reason="NO cmake: NO GLUE WAS EXECUTED")


def run(*command: Any, folder: Path | None = None) -> str:
    """What a tool prints, which succeeds."""
    done = subprocess.run([str(c) for c in command], cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, f"{' '.join(map(str, command))}\n{done.stdout}\n{done.stderr}"
    return done.stdout
