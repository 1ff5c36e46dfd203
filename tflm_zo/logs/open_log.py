# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""Logs of either kind."""

from __future__ import annotations

import os
from collections.abc import Iterator

from .beginning import is_snapshot_log
from .seed_log import SeedLog
from .snapshot_log import SnapshotLog

__all__ = ["open_log"]


def open_log(path: str | os.PathLike[str]) -> Iterator[SeedLog] | SnapshotLog:
    """Opens the log of a run by weight perturbation or of a layer-wise one.

    Returns:
        A `SnapshotLog`, or the parts of a `SeedLog`, whose first one is read when it is asked for.

    Raises:
        IncompleteHeaderError: a snapshot log ends before its first record.
        LogError: the file is a snapshot log with a damaged header, or with settings that no run has.
        OSError: the file cannot be read.
    """
    return SnapshotLog.read(path) if is_snapshot_log(path) else SeedLog.parts(path)
