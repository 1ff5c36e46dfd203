# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""Logs of training runs (``.zolog``): the seed log of weight perturbation and the snapshot log of
layer-wise runs.
"""

from __future__ import annotations

from .beginning import MAGIC, fingerprint, is_snapshot_log
from .errors import IncompleteHeaderError, LogError, LogWarning
from .open_log import open_log
from .replay import replay_log
from .seed_log import SeedLog
from .seed_log_writer import SeedLogWriter
from .snapshot_log import SnapshotLog, data_checksum
from .snapshot_log_writer import SnapshotLogWriter

__all__ = [
    "IncompleteHeaderError",
    "LogError",
    "LogWarning",
    "MAGIC",
    "SeedLog",
    "SeedLogWriter",
    "SnapshotLog",
    "SnapshotLogWriter",
    "data_checksum",
    "fingerprint",
    "is_snapshot_log",
    "open_log",
    "replay_log",
]
