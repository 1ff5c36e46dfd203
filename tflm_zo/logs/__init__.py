# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""Logs of training runs (``.zolog``): the seed log of weight perturbation and the snapshot log of
layer-wise runs.
"""

from __future__ import annotations

from .beginning import MAGIC, fingerprint, is_snapshot_log
from .errors import IncompleteHeaderError, LogError, LogWarning
from .log import Log, data_checksum
from .replay import replay_log
from .seed_log_writer import SeedLogWriter
from .snapshot_log_writer import SnapshotLogWriter

__all__ = [
    "IncompleteHeaderError",
    "Log",
    "LogError",
    "LogWarning",
    "MAGIC",
    "SeedLogWriter",
    "SnapshotLogWriter",
    "data_checksum",
    "fingerprint",
    "is_snapshot_log",
    "replay_log",
]
