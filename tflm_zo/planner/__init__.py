"""Planner: estimates the memory and time that training needs on a device."""

from .boards import Board, Core, boards, cores
from .plan import SCHEMA, Cost, Plan, Target, plan

__all__ = ["SCHEMA", "Board", "Core", "Cost", "Plan", "Target", "boards", "cores", "plan"]
