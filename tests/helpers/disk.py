# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""Disks that are full or fail."""

from __future__ import annotations

import errno
import io
import os
from typing import Any

import pytest


class Disk:
    """A disk on which a log may grow to `size` bytes; a write takes what there is room for, as write(2), and
    `at_once` bytes at most.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch, size: int, at_once: int | None = None) -> None:
        disk = self
        self.size = size

        class File(io.FileIO):
            def write(self, data: Any) -> int:
                room = disk.size - self.tell()
                if room <= 0:
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
                return super().write(data[:room][:at_once])

        monkeypatch.setattr(io, "FileIO", File)


def fail_to_sync(patch: pytest.MonkeyPatch, good: int, error: int) -> None:
    """Has fsync fail after `good` calls."""
    calls, real = [0], os.fsync

    def fsync(handle: int) -> None:
        calls[0] += 1
        if calls[0] > good:
            raise OSError(error, os.strerror(error))
        real(handle)

    patch.setattr(os, "fsync", fsync)
