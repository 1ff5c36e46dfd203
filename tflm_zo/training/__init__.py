# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""Training: settings, the control unit, the trainer and what watches it."""

from __future__ import annotations

from .callbacks import Callback, CSVLogger, EarlyStopping, ProgressBar
from .checkpoint import Checkpoint
from .history import History
from .settings import SettingsError, TrainSettings
from .trainer import Trainer, replay_log
from .verify import RuntimeRun, compare_runtimes

__all__ = [
    "CSVLogger",
    "Callback",
    "Checkpoint",
    "EarlyStopping",
    "History",
    "ProgressBar",
    "RuntimeRun",
    "SettingsError",
    "TrainSettings",
    "Trainer",
    "compare_runtimes",
    "replay_log",
]
