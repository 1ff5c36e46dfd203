# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""The demo's table."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table

from .story import DemoResult

__all__ = ["print_report"]


def _bytes(value: int | None) -> str:
    return "TFLM is not installed" if value is None else f"{value:,} bytes"


def print_report(result: DemoResult, console: Console) -> None:
    """Prints what the demo found and the files it wrote."""
    table = Table(title=result.title, show_header=False, title_justify="left")
    table.add_column()
    table.add_column(justify="right")
    for name, value in (
        ("accuracy on the data it was made for", f"{100 * result.upright:.1f} %"),
        ("accuracy after the shift, before adaptation", f"{100 * result.before:.1f} %"),
        ("accuracy after adaptation, forward passes only", f"{100 * result.after:.1f} %"),
        ("steps, forward passes", f"{result.steps:,}, {result.forwards:,}"),
        (
            "time",
            f"{result.seconds:.1f} s ({result.equivalents / result.seconds:,.0f} equivalents/s)",
        ),
        ("trainable weights", f"{result.weights:,}"),
        ("TFLM arena, inference", _bytes(result.inference_arena)),
        ("TFLM arena, training (16-bit update, batch 1)", _bytes(result.training_arena)),
        (
            "backpropagation, int8, one sample: data alone",
            f"{result.backpropagation:,} bytes",
        ),
        ("weights replayed from the log alone", "identical" if result.replayed else "DIFFERENT"),
        (
            "the same run in TFLM",
            {True: "bit-identical", False: "DIFFERENT", None: "not checked"}[result.tflm_identical],
        ),
    ):
        table.add_row(name, value)
    console.print(table)
    for kind, path in result.files.items():
        console.print(f"{kind:>20}  {path}", highlight=False)
