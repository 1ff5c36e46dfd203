# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""Training: settings, the control unit, the trainer and what watches it."""

from __future__ import annotations

from .algorithms import ALGORITHMS, Algorithm, algorithm, algorithm_of
from .block_choice import BlockChoice, BlockProbes, choose_block
from .callbacks import Callback, CSVLogger, EarlyStopping, ProgressBar
from .checkpoint import Checkpoint
from .history import History
from .node_settings import NodeSettings
from .settings import SettingsError, TrainSettings
from .snapshot_weights import snapshot_weights
from .trained_layers import TrainedLayers, trained_layers
from .trainer import Trainer
from .verify import RuntimeRun, compare_runtimes
from .weight_run import replay_log

__all__ = [
    "ALGORITHMS",
    "Algorithm",
    "BlockChoice",
    "BlockProbes",
    "CSVLogger",
    "Callback",
    "Checkpoint",
    "EarlyStopping",
    "History",
    "NodeSettings",
    "ProgressBar",
    "RuntimeRun",
    "SettingsError",
    "TrainSettings",
    "TrainedLayers",
    "Trainer",
    "algorithm",
    "algorithm_of",
    "choose_block",
    "compare_runtimes",
    "replay_log",
    "snapshot_weights",
    "trained_layers",
]
