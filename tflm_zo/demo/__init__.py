"""The demo: the main job on real data, from one command."""

from __future__ import annotations

from .scenarios import SCENARIOS, Scenario
from .story import DemoResult, run_demo

__all__ = ["SCENARIOS", "DemoResult", "Scenario", "run_demo"]
