# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""``tflm-zo replay``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ...converters import export_model, load_model
from ...seedlog import SeedLog
from ...training import replay_log
from ..failures import warn
from ..options import Force, Json, OutputModel, ZoModelFile
from ..output_file import check_different, check_output, write_output
from ..results import show

EXAMPLE = "tflm-zo replay model.zo.tflite run.zolog -o trained.tflite"


def replay(
    model: ZoModelFile,
    log: Annotated[
        Path, typer.Argument(metavar="LOG", help="What train wrote; or a checkpoint.", show_default=False)
    ],
    output: OutputModel,
    steps: Annotated[
        int | None, typer.Option(help="Weights after so many steps; default: all.", show_default=False)
    ] = None,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Rebuild the trained model from the ZO model and its seed log, without data or forward passes."""
    check_different({"MODEL": model, "LOG": log}, {"-o": output})
    check_output(output, force=force)
    base, read = load_model(model), SeedLog.read(log)
    if steps is not None:
        read = read.first(steps)
    if read.torn_bytes:
        warn(f"{log}: ends within a record; replayed up to its last whole step ({len(read.steps)})")
    weights, _ = replay_log(base, read)
    data = export_model(base, weights).to_bytes()
    write_output(output, data, force=force)
    result = {
        "output": str(output),
        "steps": len(read.steps),
        "steps_of_run": int(read.settings.steps),
        "torn_bytes": read.torn_bytes,
    }
    show(
        result,
        as_json=as_json,
        render=lambda console: console.print(
            f"{output}: after {result['steps']:,} of the run's {result['steps_of_run']:,} steps", markup=False
        ),
    )
