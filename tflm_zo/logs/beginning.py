# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""The beginning of a log of either kind: magic bytes, version, and the fingerprint of its model."""

from __future__ import annotations

import hashlib
import os
from typing import Final

from ..converters import Model
from ..core import FINGERPRINT_BYTES
from .errors import LogError

__all__ = ["MAGIC", "SEED_LOG", "SNAPSHOT_LOG", "check_version", "ending", "fingerprint", "is_snapshot_log"]

MAGIC: Final = b"ZOLOG\r\n\x1a"
SEED_LOG: Final = MAGIC + b"\x03"
SNAPSHOT_LOG: Final = MAGIC + b"\x04"
_OLD_VERSIONS: Final = (1, 2)  # of either kind


def fingerprint(model: Model | bytes) -> bytes:
    """The first 16 bytes of the SHA-256 of a model's file."""
    data = model if isinstance(model, bytes) else model.to_bytes()
    return hashlib.sha256(data).digest()[:FINGERPRINT_BYTES]


def check_version(path: str | os.PathLike[str], data: bytes) -> None:
    """Raises LogError where a file is a log that an older version of this library wrote."""
    version = int.from_bytes(data[len(MAGIC) : len(MAGIC) + 1], "little")
    if data[: len(MAGIC)] == MAGIC and version in _OLD_VERSIONS:
        raise LogError(
            f"{path} is a log in format {version}, of an older version of tflm-zo, which this one does not "
            "read: read it with the version that wrote it, or repeat the run"
        )


def is_snapshot_log(path: str | os.PathLike[str]) -> bool:
    """Returns whether a file begins like a snapshot log."""
    with open(path, "rb") as file:
        return file.read(len(SNAPSHOT_LOG)) == SNAPSHOT_LOG


def ending(data: bytes) -> int:
    """The checksum that a header or record ends with, which the next one's continues."""
    return int.from_bytes(data[-4:], "little")
