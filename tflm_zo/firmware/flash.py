# SPDX-License-Identifier: Apache-2.0
"""The flash that training takes beyond inference.

Bytes of code, constants and initial values on a Cortex-M4 at -Os, rounded up from what was measured of
several networks (docs/costs.md). Tests link programs and hold them to it.
"""

from __future__ import annotations

from typing import Final

from ..core import TaskKind
from .plan import BlockRunPlan, NodeRunPlan, RunPlan, runs_of

__all__ = ["flash_of_training"]

_WEIGHTS: Final = 7_400
_NODES: Final = 15 * 1024
# What a run of nodes has besides: exact gradients; errors that are led back to more than the last layer; the
# choice of a block, and each block's tables.
_EXACT: Final = 2 * 1024
_TAIL: Final = 6_400
_CHOICE, _BLOCK = 1024, 640


def flash_of_training(plan: RunPlan) -> int:
    """Returns an upper bound of the bytes of flash that a run takes beyond what a program that infers has,
    without the model.
    """
    if not isinstance(plan, NodeRunPlan):
        return _WEIGHTS
    runs = runs_of(plan)
    tasks = [task.values for run in runs for task in run.tasks]
    total = _NODES
    if any(task["kind"] == TaskKind.NODES and not task["queries"] for task in tasks):
        total += _EXACT
    if any(run.backward is not None for run in runs):
        total += _TAIL
    return total + (_CHOICE + _BLOCK * len(runs) if isinstance(plan, BlockRunPlan) else 0)
