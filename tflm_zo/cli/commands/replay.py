# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""``tflm-zo replay``."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from numpy.typing import NDArray

from ...converters import Model, export_model, load_model
from ...core import Measurement, best_of
from ...logs import LogError, SeedLog, SnapshotLog, open_log
from ...training import replay_log, snapshot_weights
from ..failures import warn
from ..options import Force, Json, OutputModel, ZoModelFile
from ..output_file import check_different, check_output, write_output
from ..results import show

EXAMPLE = "tflm-zo replay model.zo.tflite run.zolog -o trained.tflite"

_Weights = dict[str, NDArray[np.int8]]


Log = Annotated[
    Path,
    typer.Argument(metavar="LOG", help="A log or a checkpoint, as train writes them.", show_default=False),
]
Steps = Annotated[
    int | None,
    typer.Option(
        help="Number of the run's steps to replay (default: up to the best measured state, which train "
        "keeps, or all).",
        show_default=False,
    ),
]
Batch = Annotated[
    int | None,
    typer.Option(
        help="Samples per invoke of the trained model (default: as train exports it).",
        show_default=False,
        rich_help_panel="Output",
    ),
]
ReRange = Annotated[
    bool,
    typer.Option(
        "--re-range",
        help="Give the filters new scales, from the range of the trained weights.",
        rich_help_panel="Output",
    ),
]


def replay(
    model: ZoModelFile,
    log: Log,
    output: OutputModel,
    steps: Steps = None,
    batch: Batch = None,
    re_range: ReRange = False,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Rebuild the trained model from the ZO model and its log, without data or forward passes.

    The log of a run by weight perturbation has every step. The log of a run by node perturbation has
    snapshots of the weights, from which replay takes the best or the last; train --resume repeats the steps
    after the last snapshot, with the data.
    """
    check_different({"MODEL": model, "LOG": log}, {"-o": output})
    check_output(output, force=force)
    base = load_model(model)
    opened = open_log(log)
    if isinstance(opened, SnapshotLog):
        weights, fractions, result = _read_snapshot(base, opened, steps)
    else:
        weights, fractions, result = _read_steps(base, log, opened, steps)
    rest = fractions if re_range else None
    data = export_model(base, weights, batch=batch, fractions=rest, re_range=re_range).to_bytes()
    write_output(output, data, force=force)
    result = {"output": str(output), **result}
    if result["torn_bytes"]:
        warn(f"{log}: ends within a record; it is read up to its last whole step ({result['whole_steps']})")
    if result["steps_beyond"]:
        warn(
            f"{log}: {result['steps_beyond']:,} steps after its last snapshot ({result['whole_steps']}) are "
            "not in the model: they need the data; train --resume repeats them"
        )
    show(
        result,
        as_json=as_json,
        render=lambda console: console.print(
            f"{output}: after {result['steps']:,} of the run's {result['steps_of_run']:,} steps", markup=False
        ),
    )


def _read_steps(
    base: Model, log: Path, parts: Iterator[SeedLog], steps: int | None
) -> tuple[_Weights, _Weights, dict[str, Any]]:
    measurements: list[Measurement] = []
    for last in parts:
        whole = last.first_step + len(last.steps)
        measurements += last.measurements
    if steps is not None and not 0 <= steps <= whole:
        raise LogError(f"steps: the log has {whole} whole steps, got {steps}")
    best = best_of(measurements)
    kept = steps if steps is not None else whole if best is None else best.step
    weights, fractions = replay_log(base, log, kept)
    return (
        weights,
        fractions,
        {
            "steps": kept,
            "whole_steps": whole,
            "steps_of_run": int(last.settings.steps),
            "steps_beyond": 0,
            "torn_bytes": last.torn_bytes if steps is None else 0,
        },
    )


def _read_snapshot(
    base: Model, read: SnapshotLog, steps: int | None
) -> tuple[_Weights, _Weights, dict[str, Any]]:
    at = 0 if read.snapshot is None else read.snapshot.step
    best = read.best
    kept = steps if steps is not None else at if best is None else best.step
    if kept and read.after(kept) is None:
        there = sorted({s.step for s in (read.snapshot, read.best_slot) if s is not None})
        raise LogError(
            f"--steps: the log has snapshots after {' and '.join(map(str, there)) or 'no'} steps, got "
            f"{steps}; other steps of a layer-wise run need the data"
        )
    weights, fractions = snapshot_weights(base, read, kept)
    return (
        weights,
        fractions,
        {
            "steps": kept,
            "whole_steps": at,
            "steps_of_run": int(read.settings.steps),
            "steps_beyond": 0 if steps is not None else max(len(read.losses) - at, 0),
            "torn_bytes": 0,
        },
    )
