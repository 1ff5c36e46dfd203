"""What training would take of a device, foretold before there is any data or device."""

from __future__ import annotations

from .boards import Board, Core, boards, cores
from .plan import SCHEMA, Cost, Plan, Target, plan

__all__ = ["SCHEMA", "Board", "Core", "Cost", "Plan", "Target", "boards", "cores", "plan"]
