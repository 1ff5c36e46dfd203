# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""Logs of training runs (``.zolog``): the seed log of weight perturbation and the snapshot log of
layer-wise runs.
"""

from __future__ import annotations

from .seed_log import MAGIC, IncompleteHeaderError, LogError, LogWarning, LogWriter, SeedLog, fingerprint
from .snapshot_log import Snapshot, SnapshotLog, SnapshotWriter, TaskEntry, data_checksum, is_snapshot_log

__all__ = [
    "IncompleteHeaderError",
    "LogError",
    "LogWarning",
    "LogWriter",
    "MAGIC",
    "SeedLog",
    "Snapshot",
    "SnapshotLog",
    "SnapshotWriter",
    "TaskEntry",
    "data_checksum",
    "fingerprint",
    "is_snapshot_log",
]
