# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""``tflm-zo replay``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from numpy.typing import NDArray

from ...converters import Model, export_model, load_model
from ...seedlog import LogError, SeedLog
from ...snapshot_log import SnapshotLog, is_snapshot_log
from ...training import replay_log, snapshot_weights
from ..failures import warn
from ..options import Force, Json, OutputModel, ZoModelFile
from ..output_file import check_different, check_output, write_output
from ..results import show

EXAMPLE = "tflm-zo replay model.zo.tflite run.zolog -o trained.tflite"

_Weights = dict[str, NDArray[np.int8]]


def replay(
    model: ZoModelFile,
    log: Annotated[
        Path, typer.Argument(metavar="LOG", help="What train wrote; or a checkpoint.", show_default=False)
    ],
    output: OutputModel,
    steps: Annotated[
        int | None, typer.Option(help="Weights after so many steps; default: all.", show_default=False)
    ] = None,
    batch: Annotated[int | None, typer.Option(help="Samples per invoke; default: the ZO model's.")] = None,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Rebuild the trained model from the ZO model and its log, without data or forward passes.

    The log of a run by weight perturbation has every step. That of a run by node perturbation has snapshots
    of the weights: the model is that of the last one, and the steps after it need the data (train --resume).
    """
    check_different({"MODEL": model, "LOG": log}, {"-o": output})
    check_output(output, force=force)
    base = load_model(model)
    read = _read_snapshot if is_snapshot_log(log) else _read_steps
    weights, result = read(base, log, steps)
    data = export_model(base, weights, batch=batch).to_bytes()
    write_output(output, data, force=force)
    result = {"output": str(output), **result}
    if result["torn_bytes"]:
        warn(f"{log}: ends within a record; replayed up to its last whole step ({result['steps']})")
    if result["steps_beyond"]:
        warn(
            f"{log}: {result['steps_beyond']:,} steps after its last snapshot ({result['steps']}) are not in "
            "the model: they need the data; train --resume repeats them"
        )
    show(
        result,
        as_json=as_json,
        render=lambda console: console.print(
            f"{output}: after {result['steps']:,} of the run's {result['steps_of_run']:,} steps", markup=False
        ),
    )


def _read_steps(base: Model, log: Path, steps: int | None) -> tuple[_Weights, dict[str, Any]]:
    for last in SeedLog.parts(log):
        whole = last.first_step + len(last.steps)
    weights, _ = replay_log(base, log if steps is None else SeedLog.read(log).first(steps))
    return weights, {
        "steps": whole if steps is None else steps,
        "steps_of_run": int(last.settings.steps),
        "steps_beyond": 0,
        "torn_bytes": last.torn_bytes if steps is None else 0,
    }


def _read_snapshot(base: Model, log: Path, steps: int | None) -> tuple[_Weights, dict[str, Any]]:
    read = SnapshotLog.read(log)
    weights, _ = snapshot_weights(base, read)
    at = 0 if read.snapshot is None else read.snapshot.step
    if steps is not None and steps != at:
        raise LogError(
            f"--steps: the log's last snapshot is that after {at} steps, got {steps}; other steps of node "
            "perturbation need the data"
        )
    return weights, {
        "steps": at,
        "steps_of_run": int(read.settings.steps),
        "steps_beyond": 0 if steps is not None else max(len(read.losses) - at, 0),
        "torn_bytes": 0,
    }
