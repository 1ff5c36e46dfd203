# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""Probes of blocks of layers on the command line: a bar while they run, a table of what they found."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rich.table import Table

from ..io.table import table
from ..logs import IncompleteHeaderError
from ..training import BlockProbes
from .progress import counting_bar

__all__ = ["choice_table", "choose"]


def choose(probes: BlockProbes, log: Path | None) -> dict[str, Any]:
    """The block to train, with what the probes found.

    Args:
        probes: all is well with them.
        log: log of the run that is resumed; the block that it trains, if any, is chosen again.

    Returns:
        best (number of the block), layers (its names), blocks (a list of names each), equivalents (of the
        probes), probed (False: read off the log) and, where they were done now, held_out_samples, before and
        values (accuracy, 0..1, or mean loss) and gains (larger is better) of each block.

    Raises:
        LogError: the log is of another model, or of layers that make none of the blocks.
    """
    result: dict[str, Any] = {
        "blocks": [list(block) for block in probes.blocks],
        "equivalents": round(probes.equivalents, 3),
    }
    best = None
    if log is not None and log.is_file():
        try:
            best = probes.block_of(log)
        except IncompleteHeaderError:
            pass  # the run begins anew, and the trainer says so
    if best is not None:
        return {"best": best, "layers": list(probes.blocks[best]), "probed": False, **result}
    found = _run(probes)
    before, values = found.value(found.before), [found.value(score) for score in found.scores]
    sign = 1 if found.of_classes else -1
    return {
        "best": found.best,
        "layers": list(found.layers),
        "probed": True,
        **result,
        "held_out_samples": found.held_out,
        "measure": "accuracy" if found.of_classes else "loss",
        "before": before,
        "values": values,
        "gains": [sign * (value - before) for value in values],
    }


def _run(probes: BlockProbes) -> Any:
    with counting_bar() as bar:
        task = bar.add_task("probe of block 1", total=None)
        return probes.run(
            lambda block, done, total: bar.update(
                task, completed=done, total=total, description=f"probe of block {block + 1}"
            )
        )


def choice_table(choice: dict[str, Any]) -> Table:
    """Returns the result of `choose` as a table; blocks are counted from 1."""
    rows: list[list[Any]] = []
    for number, layers in enumerate(choice["blocks"]):
        row: list[Any] = [number + 1, ", ".join(layers)]
        if choice["probed"]:
            row += _written(choice["measure"], choice["values"][number], choice["gains"][number])
        rows.append([*row, "trained" if number == choice["best"] else ""])
    columns = ["block", "layers"]
    title = "Block, as the log has it"
    if choice["probed"]:
        columns += [f"held-out {choice['measure']}", "gain"]
        before = _written(choice["measure"], choice["before"], 0.0)[0]
        title = f"Probes: {before} before, {choice['held_out_samples']:,} samples held out"
    return table(f"{title}; {choice['equivalents']:,.0f} forward equivalents", [*columns, ""], rows)


def _written(measure: str, value: float, gain: float) -> list[str]:
    if measure == "accuracy":
        return [f"{value:.1%}", f"{100 * gain:+.1f} points"]
    return [f"{value:.5g}", f"{gain:+.5g}"]
