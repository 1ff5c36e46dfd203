# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""The demo's table."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table

from .story import Adaptation, DemoResult

__all__ = ["print_report"]


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"


def _bytes(value: int) -> str:
    return f"{value:,} bytes"


def print_report(result: DemoResult, console: Console) -> None:
    """Prints what the demo found and the files it wrote."""
    rows = {
        f"accuracy, {result.new}": lambda a: _percent(a.accuracy),
        "forward equivalents": lambda a: f"{a.equivalents:,.0f}",
        "steps": lambda a: f"{a.steps:,}",
        "time": lambda a: f"{a.seconds:.1f} s",
        "trainable weights": lambda a: f"{a.weights:,}",
        "RAM on a Cortex-M4: arena": lambda a: _bytes(a.arena),
        "kept of a minibatch besides": lambda a: _bytes(a.workspace),
        "weights replayed from the log alone": lambda a: "identical" if a.replayed else "DIFFERENT",
        "the same run in TFLM": _in_tflm,
    }
    before = {
        f"accuracy, {result.new}": _percent(result.before),
        "RAM on a Cortex-M4: arena": _bytes(result.inference_arena),
    }
    table = Table(title=f"{result.title}: {_percent(result.upright)} {result.old}", title_justify="left")
    for column in "", "before", *(f"{name} perturbation" for name in result.adaptations):
        table.add_column(column, justify="right" if column else "left")
    for name, value in rows.items():
        table.add_row(name, before.get(name, ""), *map(value, result.adaptations.values()))
    console.print(table)
    console.print(
        f"Backpropagation in int8 needs {_bytes(result.backpropagation)} for the data of one sample alone.",
        highlight=False,
    )
    files = {"int8 model": result.model}
    for name, adaptation in result.adaptations.items():
        files |= {f"{kind} ({name})": path for kind, path in adaptation.files.items()}
    for kind, path in files.items():
        console.print(f"{kind:>28}  {path}", highlight=False)


def _in_tflm(adaptation: Adaptation) -> str:
    return {True: "bit-identical", False: "DIFFERENT", None: "not checked"}[adaptation.tflm_identical]
