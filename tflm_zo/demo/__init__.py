"""The demo: the main job on real data, from one command."""

from .scenarios import SCENARIOS, Scenario
from .story import DemoResult, run_demo

__all__ = ["SCENARIOS", "DemoResult", "Scenario", "run_demo"]
