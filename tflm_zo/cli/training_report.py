# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""The result of a training run, for people."""

from __future__ import annotations

from typing import Any

from rich.console import Console

from ..converters.table import table
from .block_probes import choice_table

__all__ = ["render"]


def _values(measured: dict[str, Any]) -> str:
    accuracy = f"accuracy {measured['accuracy']:.2%}, " if "accuracy" in measured else ""
    return f"{accuracy}loss {measured['loss']:.4f}"


def render(console: Console, result: dict[str, Any]) -> None:
    """Prints what a run has come to: the loss before and after, the kept weights, costs and files."""
    if "loss" in result:
        before = "" if result["before"] is None else f"before: {_values(result['before'])}; after: "
        console.print(f"{before}{_values(result)} on {result['evaluated_on']}", markup=False)
    if result["measurements"]:
        console.print(
            f"kept: the weights after {result['kept_step']:,} of {result['steps']:,} steps, the best of "
            f"{len(result['measurements'])} measurements",
            markup=False,
        )
    if result["block_choice"] is not None:
        console.print(choice_table(result["block_choice"]))
    row = {
        "algorithm": result["algorithm"],
        "steps": result["steps"],
        "forward equivalents": round(result["equivalents"]),
        "weights": result["trainable_weights"],
        "buffer bytes": result["buffer_bytes"],
        "seconds": round(result["seconds"], 1),
        "equivalents/s": round(result["equivalents_per_second"]),
    }
    console.print(table("Training", list(row), [list(row.values())]))
    files = {"output": "trained model", "log": "log", "zo_model": "ZO model, which log and replay belong to"}
    for name, what in files.items():
        console.print(f"{result[name]}: {what}", markup=False)
