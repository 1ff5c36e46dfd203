# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""Whether adapting did harm, and how often measuring had to prevent it."""

from __future__ import annotations

from collections import defaultdict
from statistics import mean
from typing import Any

from rich.table import Table

__all__ = ["guard_table"]


def guard_table(rows: list[dict[str, Any]]) -> Table:
    """Makes a line for each task and method, and one for each method over all tasks.

    Args:
        rows: results of runs with a guard; accuracies in percent.
    """
    result = Table("task", "method", "budget", "runs", "before", "last", "kept", "ended worse", "kept < before")
    groups: dict[tuple[str, str, float], list[dict[str, Any]]] = defaultdict(list)
    for row in rows:
        for task in (row["task"], "all"):
            groups[task, row["method"], row["budget"]].append(row)
    for (task, method, budget), own in sorted(groups.items(), key=lambda item: (item[0][0] == "all", item[0])):
        result.add_row(
            task,
            method,
            f"{budget:.0e}".replace("e+0", "e"),
            str(len(own)),
            *(f"{mean(row[name] for row in own):.1f}" for name in ("before", "last", "test")),
            f"{sum(row['ended_worse'] for row in own):.0f}",
            str(sum(row["test"] < row["before"] for row in own)),
        )
    return result
