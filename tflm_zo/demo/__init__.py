# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""The demo: the main job on real data, from one command."""

from __future__ import annotations

from .scenarios import SCENARIOS, Scenario
from .story import DemoResult, run_demo

__all__ = ["SCENARIOS", "DemoResult", "Scenario", "run_demo"]
