# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""The demo: the main job on real data, from one command."""

from __future__ import annotations

from .story import DemoResult, run_demo
from .tasks import TASKS, Task

__all__ = ["TASKS", "DemoResult", "Task", "run_demo"]
