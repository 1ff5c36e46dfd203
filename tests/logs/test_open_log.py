# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""Logs of either kind, opened by what they begin with."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from helpers.models import MODELS
from tflm_zo import inject
from tflm_zo.core import CSettings, Control, Distribution, NodeControl, NodeLayer, NodeTask, TaskEntry
from tflm_zo.logs import LogError, SeedLogWriter, SnapshotLog, SnapshotLogWriter, fingerprint, open_log

SETTINGS = {"steps": 4, "samples": 10, "batch": 2, "parts": 1, "queries": 1, "rate": 65536, "clip": 1 << 16}
